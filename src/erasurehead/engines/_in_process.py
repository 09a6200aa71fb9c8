"""Workers in the coordinator's process, on the clock on the wall: for training that is over before processes start."""

from __future__ import annotations

import socket
from time import monotonic, sleep
from typing import ClassVar

from erasurehead._internal.late_work import LateWork
from erasurehead.delays import Delays
from erasurehead.engines._base import Engine
from erasurehead.engines._virtual import VirtualEngine


class InProcessEngine(VirtualEngine):
    """Workers in the coordinator's process: they compute one after the other, in real time.

    Nothing is started, and nothing is copied. It is the virtual engine with the clock on the wall: a message is
    computed when it is its turn to arrive, and waiting is sat out. One worker is enough, as several share one thread.

    Arguments:
        delays: added to each message's computing time, and sat out; None for none.
        late: what a worker does when a newer order is out while its injected delay still runs: as for `VirtualEngine`.
    """

    name: ClassVar[str] = "in_process"
    virtual, inside = False, True

    def __init__(self, delays: Delays | str | None = None, late: LateWork = "preempt") -> None:
        super().__init__(delays, late, hosts={socket.gethostname(): None})
        self._playback, self.late = None, late  # the rounds of a recorded run are played on a virtual clock only

    def now(self) -> float:
        return monotonic()

    def _advance(self, time: float) -> None:
        while (remaining := time - monotonic()) > 0:
            sleep(remaining)

    state = Engine.state  # its clock cannot be set back: a resumed run begins with the order after the checkpoint
    restore = Engine.restore
