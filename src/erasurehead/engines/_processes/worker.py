"""A worker process: it serves orders, and ends with its parent."""

from __future__ import annotations

import os
import signal
import socket
import sys
from dataclasses import dataclass
from multiprocessing import forkserver
from types import FrameType
from typing import Any

import numpy as np

from erasurehead._internal.late_work import LateWork
from erasurehead._internal.signals import ENDING
from erasurehead.delays import Delays
from erasurehead.engines._base import Program, told
from erasurehead.engines._end_with_parent import end_with_parent
from erasurehead.engines._lane import CoordinatorGone, Ends, Pipes
from erasurehead.engines._packed_program import unpack
from erasurehead.engines._shared_memory import SharedBlock

_GRACE = 5.0  # seconds in which a coordinator that was told to end, too, ends its workers
_LARGEST_KEPT = 32 * 2**20  # bytes: the memory of larger arrays goes back to the system whenever they are freed


@dataclass(frozen=True)
class ProgramInSharedMemory:
    """A packed program, its large arrays in shared memory, where they are neither copied nor writable.

    Attributes:
        head: of the packed program.
        spans: first byte and end of each array in the block.
        block: the arrays.
    """

    head: bytes
    spans: tuple[tuple[int, int], ...]
    block: SharedBlock

    def open(self) -> tuple[Program, Delays | None]:
        """Return the program and its delays."""
        return unpack(self.head, [self.block.buffer[low:high] for low, high in self.spans])


def main(worker: int, packed: ProgramInSharedMemory, ends: Ends, late: LateWork) -> None:
    """Serve orders until the wake pipe is closed."""
    end_with_parent()
    _drop_lifeline()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole terminal; the coordinator ends us
    for number in ENDING[1:]:
        signal.signal(number, _end_later)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
    transport = Pipes(ends)
    try:
        opened = _open(packed, ends, transport)
        if opened is not None:
            transport.say("joined", socket.gethostname())
            for answer in transport.answers(worker, *opened, late):
                transport.send(answer)
    except CoordinatorGone:
        pass
    # Nothing is left to be tidied up, and interpreter shutdown would cost more than all of the above.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _open(packed: ProgramInSharedMemory, ends: Ends, transport: Pipes) -> tuple[Program, Delays | None] | None:
    try:
        import erasurehead.engines._processes.preload  # noqa: F401  # pyright: ignore[reportUnusedImport]

        opened = packed.open()
        _map_memory(packed.block, ends)
        return opened
    except Exception as error:
        transport.say("broken", told(error))
        return None


def _map_memory(data: SharedBlock, ends: Ends) -> None:
    """Have the memory mapped that the first order needs.

    If each page were mapped when it is first used, the first order would take several times as long as the next ones,
    and all workers of a machine would be at it at the same time.
    """
    data.touch()
    ends.order_buffer.touch()
    needed = 2 * ends.slots.touch()  # for models, and for what a message is computed from
    for _ in range(2):  # what is freed first goes back to the system, from which glibc learns to keep the next one
        np.ones(min(needed, _LARGEST_KEPT), dtype=np.uint8)


def _end_later(number: int, frame: FrameType | None) -> None:
    """End by a signal, unless the coordinator, which it may have gone to as well, ends us before."""

    def end(alarm: int, frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)

    signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, _GRACE)


def _drop_lifeline() -> None:
    """Close our copy of what keeps the server that forked us alive.

    The server ends when nobody holds its lifeline any more. Workers are handed a copy, in case they want to fork
    workers of their own; a stopped one would keep the server, and so itself, alive.
    """
    server: Any = getattr(forkserver, "_forkserver", None)
    lifeline = getattr(server, "_forkserver_alive_fd", None)
    if lifeline is not None:
        os.close(lifeline)
        server._forkserver_alive_fd = None
