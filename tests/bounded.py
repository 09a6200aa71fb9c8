"""Bounds on what a test waits for: guards against waiting for ever, not measurements, however slow the machine."""

from __future__ import annotations

import signal
from collections.abc import Generator
from contextlib import contextmanager

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
