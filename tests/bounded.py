"""Bounds on what a test waits for: guards against waiting for ever, not measurements, however slow the machine."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Collection, Generator
from contextlib import contextmanager
from pathlib import Path

PATIENCE = 300.0
"""Seconds after which something hangs: many times what it takes beside everything else on a slow machine."""

PROMPT = 30.0
"""Seconds within which something happens at once, where otherwise it never would, or after minutes."""


@contextmanager
def in_time(seconds: float = 2 * PROMPT) -> Generator[None]:
    """Fail where something waits for a pipe that nobody writes to, or reads a device without an end.

    Arguments:
        seconds: that it may take. No more than that: what is read of a device stays in memory.
    """

    def late(number: int, frame: object) -> None:
        raise TimeoutError("it does not come to an end")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def left_of(pids: Collection[int], seconds: float = PROMPT) -> list[int]:
    """Wait for processes to end, and return those that still run after so many seconds.

    A signal that kills is only on its way when it has been sent: on some machines a step is quicker than a death.
    """
    deadline = time.monotonic() + seconds
    while (left := [pid for pid in pids if _runs(pid)]) and time.monotonic() < deadline:
        time.sleep(0.01)
    return left


def _runs(pid: int) -> bool:
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # gone before, or while it was read
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False
