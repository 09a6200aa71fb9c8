"""Bounds on what a test waits for: guards against waiting for ever, not measurements, however slow the machine."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

PATIENCE = 300.0
"""Seconds after which something hangs: many times what it takes beside everything else on a slow machine."""

PROMPT = 30.0
"""Seconds within which something happens at once, where otherwise it never would, or after minutes."""


@contextmanager
def in_time(seconds: float = PATIENCE) -> Generator[None]:
    """Fail where something waits for a pipe that nobody writes to, or reads a device without an end."""

    def late(number: int, frame: object) -> None:
        raise TimeoutError("it does not come to an end")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def becomes(condition: Callable[[], bool], seconds: float = PATIENCE) -> bool:
    """Wait until something holds; return whether it did within so many seconds."""
    deadline = time.monotonic() + seconds
    while not (holds := condition()) and time.monotonic() < deadline:
        time.sleep(0.01)
    return holds
