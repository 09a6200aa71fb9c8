"""Waiting without a core: sleeps between two looks.

MPI has no wait that sleeps: a blocking receive spins, and thirty ranks that spin leave no core to whom they wait for.
Each look costs tens of microseconds, so that thirty ranks on few cores must look seldom; but whoever sleeps when its
order comes is late.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable

_FIRST = 50e-6  # seconds; a shorter sleep takes as long
_LONG_WAIT = 100  # in a long wait a sleep may be as long as one part in so many of it
_LONGEST = 0.05
_SAFE = 0.75  # of the usual interval is waited for in long sleeps
_SURE = 0.03  # the longest of these, in seconds
_CLOSE = 10  # looks in the time of a usual interval after that

IDLE = 0.005
"""Longest sleep between two looks of a rank in the first half second of a wait, in seconds; later it may be 1% of the
wait."""

ALERT = 1e-3
"""The same for the coordinator, which is only one, and has work to do as soon as a message is in."""

BUSY = 0.5e-3
"""The same while a vector is under way: what is sent in pieces moves on only when MPI is called."""


class Backoff:
    """Sleeps between two looks. Each is twice as long as the one before, until something has come.

    Arguments:
        idle: longest sleep as long as the wait is shorter than 100 times that, in seconds.
    """

    def __init__(self, idle: float = IDLE) -> None:
        self._idle = idle
        self._next = self._slept = 0.0

    def reset(self) -> None:
        """Something has come: the next look follows at once."""
        self._next = self._slept = 0.0

    def sleep(self, longest: float | None = None, sleep: Callable[[float], object] | None = None) -> None:
        """Sleep before the next look, at most for so many seconds, or do something else that takes no longer."""
        seconds = self._next if longest is None else min(self._next, longest)
        if seconds > 0:
            (sleep or time.sleep)(seconds)
            self._slept += seconds
        limit = min(max(self._idle, self._slept / _LONG_WAIT), _LONGEST)
        self._next = min(max(2 * self._next, _FIRST), limit)


class Rhythm:
    """Sleeps between two looks for an order, which come at about the same intervals.

    Most of the shortest of the last few intervals passes in few long sleeps; then the looks follow close upon each
    other, until it is clear that this interval is a longer one.
    """

    def __init__(self) -> None:
        self._intervals: deque[float] = deque(maxlen=4)
        self._last = -math.inf
        self._backoff = Backoff()

    def came(self) -> None:
        """An order has come. The first tells nothing yet: what passed before it was no step."""
        now = time.monotonic()
        if self._last > -math.inf:
            self._intervals.append(now - self._last)
        self._last = now
        self._backoff.reset()

    def sleep(self, longest: float | None = None) -> None:
        """Sleep before the next look, at most for so many seconds."""
        usual = min(self._intervals, default=0.0)
        waited = time.monotonic() - self._last
        if waited >= 2 * usual:
            self._backoff.sleep(longest)
            return
        seconds = max(min(_SAFE * usual - waited, _SURE), min(usual / _CLOSE, IDLE), _FIRST)
        seconds = seconds if longest is None else min(seconds, longest)
        if seconds > 0:
            time.sleep(seconds)
