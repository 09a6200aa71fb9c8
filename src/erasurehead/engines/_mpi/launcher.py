"""Ranks end with the launcher that started them: `mpiexec` may be killed, and then nobody else would end them."""

from __future__ import annotations

import os
import signal
import threading
import time
from functools import cache

from erasurehead.engines._end_with_parent import end_with_parent
from erasurehead.engines._mpi.start import launched, launcher_of
from erasurehead.engines._process_state import state_of

_LOOK = 1.0  # seconds between two looks at a launcher that is not our parent


@cache
def end_with_launcher() -> None:
    """See to it, once, that this process ends when its launcher does; nothing happens if it is no rank of a job.

    The coordinator is asked to end (SIGTERM), so that it can leave a run that can be resumed; the others are
    killed. Where a shell stands between, which outlives the launcher, a thread looks once a second.
    """
    place = launched()
    if place is None or place.size < 2:
        return
    number = signal.SIGTERM if place.number == 0 else signal.SIGKILL
    launcher = launcher_of(place)
    if launcher == os.getppid():
        end_with_parent(number)
        if os.getppid() != launcher:  # it has ended in between
            os.kill(os.getpid(), number)
    elif launcher > 1:
        threading.Thread(target=_look, args=(launcher, number), name="erasurehead-launcher", daemon=True).start()


def _look(launcher: int, number: signal.Signals) -> None:
    while state_of(launcher) not in ("", "Z", "X"):  # one that nobody has waited for yet has ended, too
        time.sleep(_LOOK)
    os.kill(os.getpid(), number)
