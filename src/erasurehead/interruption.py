"""Ctrl-C and SIGTERM end training in good order, and wait while something is done that must be done whole."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Any

_BOTH = (signal.SIGINT, signal.SIGTERM)


class Terminated(KeyboardInterrupt):
    """SIGTERM came: a batch job's time is up, say, and what is not done soon is not done at all."""


def stopped_by(error: KeyboardInterrupt) -> str:
    """Say what has stopped a run.

    >>> stopped_by(KeyboardInterrupt()), stopped_by(Terminated())
    ('stopped by Ctrl-C', 'stopped by SIGTERM')
    """
    return "stopped by SIGTERM" if isinstance(error, Terminated) else "stopped by Ctrl-C"


@contextmanager
def terminable() -> Generator[None]:
    """Have SIGTERM raise `Terminated` within the block, as Ctrl-C raises `KeyboardInterrupt`, and not end us at once.

    A handler that the program has set already is left alone, and so is everything outside the main thread.
    """
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


@contextmanager
def uninterrupted() -> Generator[None]:
    """Put Ctrl-C and SIGTERM off until the block is done, so that no half of it is ever seen. A second is not put off.

    Only the main thread is ever interrupted; elsewhere this does nothing, nor for a signal that has no handler.
    """
    before = {number: signal.getsignal(number) for number in _BOTH}
    handlers = {number: handler for number, handler in before.items() if callable(handler)}
    if threading.current_thread() is not threading.main_thread() or not handlers:
        yield
        return
    caught: list[tuple[int, FrameType | None]] = []

    def put_off(number: int, frame: FrameType | None) -> None:
        caught.append((number, frame))
        _set(handlers)

    _set(dict.fromkeys(handlers, put_off))
    try:
        yield
    finally:
        _set(handlers)
    for number, frame in caught:
        handlers[signal.Signals(number)](number, frame)


def _set(handlers: Mapping[signal.Signals, Callable[[int, FrameType | None], Any]]) -> None:
    for number, handler in handlers.items():
        signal.signal(number, handler)


def _terminate(number: int, frame: FrameType | None) -> None:
    raise Terminated
