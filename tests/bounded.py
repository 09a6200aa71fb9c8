"""A bound on what a test waits for."""

from __future__ import annotations

import signal
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def in_time(seconds: int = 20) -> Generator[None]:
    """Fail where something waits for a pipe that nobody writes to, or reads a device without an end."""

    def late(number: int, frame: object) -> None:
        raise TimeoutError("it does not come to an end")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
