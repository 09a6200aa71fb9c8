"""Waiting without a core: sleeps between two looks that grow while nothing comes.

MPI has no wait that sleeps: a blocking receive spins, and thirty ranks that spin leave no core to whom they wait for.
"""

from __future__ import annotations

import time

_FIRST = 50e-6  # seconds; a shorter sleep takes as long
_LONG_WAIT = 100  # in a long wait a sleep may be as long as one part in so many of it
_LONGEST = 0.05

IDLE = 0.01
"""Longest sleep between two looks in the first second of a wait, in seconds; later it may be 1% of the wait."""

BUSY = 0.5e-3
"""The same while a vector is under way: what is sent in pieces moves on only when MPI is called."""


class Backoff:
    """Sleeps between two looks. Each is twice as long as the one before, until something has come."""

    def __init__(self) -> None:
        self._next = self._slept = 0.0

    def reset(self) -> None:
        """Something has come: the next look follows at once."""
        self._next = self._slept = 0.0

    def sleep(self, longest: float | None = None, until: float | None = None) -> None:
        """Sleep before the next look.

        Arguments:
            longest: in seconds; by default as long as may be for the time waited.
            until: on `time.monotonic`; the sleep ends there at the latest.
        """
        seconds = self._next if longest is None else min(self._next, longest)
        if until is not None:
            seconds = min(seconds, until - time.monotonic())
        if seconds > 0:
            time.sleep(seconds)
            self._slept += seconds
        limit = min(max(IDLE, self._slept / _LONG_WAIT), _LONGEST)
        self._next = min(max(2 * self._next, _FIRST), limit)
