"""Ctrl-C waits while something is done that must be done whole."""

from __future__ import annotations

import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def uninterrupted() -> Generator[None]:
    """Put Ctrl-C off until the block is done, so that no half of it is ever seen. A second one is not put off.

    Only the main thread is ever interrupted; elsewhere this does nothing.
    """
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return
    caught: list[FrameType | None] = []

    def put_off(number: int, frame: FrameType | None) -> None:
        caught.append(frame)
        signal.signal(number, before)

    signal.signal(signal.SIGINT, put_off)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if caught:
        before(signal.SIGINT, caught[0])
