"""Ctrl-C and the signals of batch systems end training in good order, and wait while what is done must be whole."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Any

_TERMINATING = (signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP)
"""What batch systems end jobs with; the second can be asked of them some time before the end; launchers pass it on. The
third comes when a terminal is closed."""


class Terminated(KeyboardInterrupt):
    """SIGTERM, SIGUSR1 or SIGHUP came: a batch job's time is up, say, and what is not done soon is not done at all.

    Arguments:
        number: of the signal.
    """

    def __init__(self, number: int = signal.SIGTERM) -> None:
        super().__init__()
        self.number = signal.Signals(number)


def stopped_by(error: KeyboardInterrupt) -> str:
    """Say what has stopped a run.

    >>> stopped_by(KeyboardInterrupt()), stopped_by(Terminated())
    ('stopped by Ctrl-C', 'stopped by SIGTERM')
    """
    return f"stopped by {error.number.name if isinstance(error, Terminated) else 'Ctrl-C'}"


@contextmanager
def terminable() -> Generator[None]:
    """Have SIGTERM, SIGUSR1 and SIGHUP raise `Terminated` within the block, as Ctrl-C does, and not end us at once.

    So whoever has started something ends it. A handler that the program has set already is left alone, as is a signal
    that is ignored (under `nohup`, SIGHUP is), and so is everything outside the main thread.
    """
    free = [number for number in _TERMINATING if signal.getsignal(number) == signal.SIG_DFL]
    if threading.current_thread() is not threading.main_thread():
        free = []
    _set(dict.fromkeys(free, _terminate))
    try:
        yield
    finally:
        _set(dict.fromkeys(free, signal.SIG_DFL))


def end_at_once() -> None:
    """Have these signals end us at once again: for whoever has nothing to put in order."""
    _set({number: signal.SIG_DFL for number in _TERMINATING if signal.getsignal(number) is _terminate})


@contextmanager
def uninterrupted() -> Generator[None]:
    """Put all these signals off until the block is done, so that no half of it is ever seen. A second is not put off.

    Only the main thread is ever interrupted; elsewhere this does nothing, nor for a signal that has no handler.
    """
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, *_TERMINATING)}
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


def _set(handlers: Mapping[signal.Signals, Callable[[int, FrameType | None], Any] | signal.Handlers]) -> None:
    for number, handler in handlers.items():
        signal.signal(number, handler)


def _terminate(number: int, frame: FrameType | None) -> None:
    raise Terminated(number)
