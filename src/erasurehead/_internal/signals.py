"""Ctrl-C and the signals of batch systems end training cleanly, never in the middle of an update.

Commands are `terminable`: the first signal raises, and what was begun is ended. Where that would tear apart what
belongs together, it is put off until that is done (`uninterrupted`), or the work asks for it and ends by itself
(`noted`); a second signal is never put off.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Any

_TERMINATING = (signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP)
"""Signals with which batch systems end jobs. SIGUSR1 can be requested some time before the end, and launchers pass it
on; SIGHUP comes when a terminal is closed."""

ENDING = (signal.SIGINT, *_TERMINATING)
"""All signals that end a run. Where a whole group of processes gets one, the coordinator obeys, and ends the others."""

_EXIT_TIMEOUT = 10.0
"""Seconds after the end of its command in which a process must have ended; a signal then ends it at once."""

_put_off: list[tuple[float, int, FrameType | None]] | None = None  # since when; None outside `uninterrupted` blocks
_exits = False  # whether the process ends when its `terminable` block is done
_exit_deadline = 0.0


class Terminated(KeyboardInterrupt):
    """SIGTERM, SIGUSR1 or SIGHUP was received, for example because a batch job's time is up: end soon.

    Arguments:
        number: number of the signal.
    """

    def __init__(self, number: int = signal.SIGTERM) -> None:
        super().__init__()
        self.number = signal.Signals(number)


def stopped_by(error: KeyboardInterrupt) -> str:
    """Return what has stopped a run, in words: those of the error, if it has any, as of a run within another.

    >>> stopped_by(KeyboardInterrupt()), stopped_by(Terminated())
    ('stopped by Ctrl-C', 'stopped by SIGTERM')
    >>> stopped_by(KeyboardInterrupt("stopped by SIGTERM"))
    'stopped by SIGTERM'
    """
    return str(error) or f"stopped by {error.number.name if isinstance(error, Terminated) else 'Ctrl-C'}"


@contextmanager
def terminable() -> Generator[None]:
    """Make SIGTERM, SIGUSR1 and SIGHUP raise `Terminated` within the block, like Ctrl-C, and not end the process.

    So everything that was started is ended properly. A handler that the program has set itself is kept, as is a signal
    that is ignored (under `nohup`, SIGHUP is), and so is everything outside the main thread. Afterwards these signals
    are handled as before, or ignored after `exit_afterwards`.
    """
    free = [number for number in _ours(signal.SIG_DFL) if number != signal.SIGINT]
    interrupting = [number for number in _ours(signal.default_int_handler) if number == signal.SIGINT]
    _set(dict.fromkeys(free, _terminate))
    try:
        yield
    finally:
        if free and _exits:
            _ignore_until_exit([*interrupting, *free])
        else:
            _set(dict.fromkeys(free, signal.SIG_DFL))


def exit_afterwards() -> None:
    """Let the process end with the exit code of its command, as it is about to when a `terminable` block is done.

    Then nothing is left that signals could end, and they are ignored, unless the process takes too long to end.
    """
    global _exits
    if not _exits:
        _exits = True
        # Handlers of Python are removed while the interpreter ends, which takes no time once exit functions have run.
        atexit.register(lambda: _set(dict.fromkeys(_ours(_ignore), signal.SIG_IGN)))


def _ignore_until_exit(numbers: list[signal.Signals]) -> None:
    global _exit_deadline
    ignored = False
    while not ignored:
        with contextlib.suppress(KeyboardInterrupt):  # one more, meanwhile
            _exit_deadline = time.monotonic() + _EXIT_TIMEOUT
            _set(dict.fromkeys(numbers, _ignore))
            ignored = True


def _ignore(number: int, frame: FrameType | None) -> None:
    if time.monotonic() > _exit_deadline:
        os._exit(128 + signal.SIGINT)


def _ours(*handlers: object) -> list[signal.Signals]:
    """Return which of these signals have one of these handlers."""
    return [number for number, handler in _handlers().items() if handler in handlers]


def _handlers() -> dict[signal.Signals, Any]:
    """Return the handlers of these signals; none outside the main thread, the only one that is ever interrupted."""
    if threading.current_thread() is not threading.main_thread():
        return {}
    return {number: signal.getsignal(number) for number in ENDING}


def end_at_once() -> None:
    """Make these signals end the process at once again, when nothing needs to be cleaned up."""
    _set(dict.fromkeys(_ours(_terminate), signal.SIG_DFL))


@contextmanager
def uninterrupted() -> Generator[None]:
    """Defer all these signals until the block is done, so that it is never half done. A second one is not deferred.

    Only the main thread is ever interrupted; in other threads, and for signals without a handler, this does nothing.
    """
    global _put_off
    within = _put_off == []  # of another such block, which defers the first one as well
    handlers = {} if within else {number: handler for number, handler in _handlers().items() if callable(handler)}
    if not handlers:
        yield
        return
    outer, _put_off = _put_off, []
    caught = _put_off

    def put_off(number: int, frame: FrameType | None) -> None:
        caught.append((time.monotonic(), number, frame))
        _set(handlers)

    _set(dict.fromkeys(handlers, put_off))
    try:
        yield
    finally:
        _put_off = outer
        _set(handlers)
    for _, number, frame in caught:
        handlers[signal.Signals(number)](number, frame)


def overdue(seconds: float) -> None:
    """Let a signal take effect here, within an `uninterrupted` block, that has been put off for longer than that."""
    if _put_off and time.monotonic() - _put_off[0][0] > seconds:
        _, number, frame = _put_off.pop()
        handler: Any = signal.getsignal(number)
        handler(number, frame)


@contextmanager
def noted() -> Generator[Callable[[], str]]:
    """Note the first of these signals, for work that can end only where it asks for them; a second one raises.

    A handler that the program has set itself is kept, as is a signal that is ignored; outside the main thread nothing
    is noted. If nobody has asked since the signal came, it takes effect when the block is done.

    Yields:
        A function that returns what has stopped the work, as `stopped_by` does; empty if nothing has.
    """
    ours = (signal.default_int_handler, signal.SIG_DFL, _terminate)
    before = {number: handler for number, handler in _handlers().items() if handler in ours}
    caught: list[KeyboardInterrupt] = []
    asked = False

    def note(number: int, frame: FrameType | None) -> None:
        error = KeyboardInterrupt() if number == signal.SIGINT else Terminated(number)
        if caught:
            raise error
        caught.append(error)

    def reason() -> str:
        nonlocal asked
        asked = bool(caught)
        return stopped_by(caught[0]) if caught else ""

    _set(dict.fromkeys(before, note))
    try:
        yield reason
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if caught and not asked:
        raise caught[0]


def _set(handlers: Mapping[signal.Signals, Callable[[int, FrameType | None], Any] | signal.Handlers]) -> None:
    for number, handler in handlers.items():
        signal.signal(number, handler)


def _terminate(number: int, frame: FrameType | None) -> None:
    raise Terminated(number)
