"""Waiting without a core: sleeps between two looks that grow while nothing comes.

MPI has no wait that sleeps: a blocking receive spins, and thirty ranks that spin leave no core to whom they wait for.
"""

from __future__ import annotations

import time

_FIRST = 50e-6  # seconds; a shorter sleep takes as long

IDLE = 0.01
"""Longest sleep between two looks, in seconds: a hundred looks a second cost a rank about 0.3% of a core."""

BUSY = 0.5e-3
"""The same while a vector is under way: what is sent in pieces moves on only when MPI is called."""


class Backoff:
    """Sleeps between two looks. Each is twice as long as the one before, until something has come."""

    def __init__(self) -> None:
        self._next = 0.0

    def reset(self) -> None:
        """Something has come: the next look follows at once."""
        self._next = 0.0

    def sleep(self, longest: float = IDLE, until: float | None = None) -> None:
        """Sleep before the next look.

        Arguments:
            longest: in seconds.
            until: on `time.monotonic`; the sleep ends there at the latest.
        """
        seconds = min(self._next, longest)
        self._next = min(max(2 * self._next, _FIRST), IDLE)
        if until is not None:
            seconds = min(seconds, until - time.monotonic())
        if seconds > 0:
            time.sleep(seconds)
