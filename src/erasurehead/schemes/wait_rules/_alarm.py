"""When a rule wants to be asked again although nothing has arrived: kept independent of a clock's rounding."""

from __future__ import annotations

import math

from erasurehead.errors import invalid, real
from erasurehead.schemes.wait_rules._base import WaitRule
from erasurehead.schemes.wait_rules._view import View

_MOST_RINGS = 100
"""Wake-ups without a move of the clock after which a rule that keeps asking for a slightly later time has to wait."""


class Alarm:
    """The times in one round at which a wait rule is asked although nothing has arrived.

    A clock that should read `begin + wake` may read slightly less, because of rounding; a rule that compares
    `view.elapsed` with its own number would then ask for the same time for ever. So after a wake-up the view shows at
    least the time asked for. A rule that still waits then, such as one that compares with `>`, is asked once more, a
    moment later; after that the time counts as past, and only an arrival can change what the rule says.

    Arguments:
        rule: the wait rule of the round.
    """

    def __init__(self, rule: WaitRule) -> None:
        self._rule = rule
        self._names_times = type(rule).wake is not WaitRule.wake
        self._reached = 0.0  # the time that has come, whatever the clock reads
        self._twice = False  # the rule has been asked at that time, and a moment later
        self._clock = -math.inf
        self._rings = 0  # since the clock has moved, or something has happened

    def elapsed(self, clock: float) -> float:
        """Return the elapsed seconds for the view to show, given those of the clock."""
        if clock > self._clock:
            self._clock, self._rings = clock, 0
        return max(clock, self._reached)

    def next(self, view: View) -> float | None:
        """Return the elapsed seconds at which to ask the rule again, or None if only an arrival can matter.

        Raises:
            InvalidArgument: if the rule names no time.
        """
        wake = self._rule.wake(view) if self._names_times else None
        if wake is None or wake == math.inf:
            return None
        if math.isnan(real(wake)):
            raise invalid(f"wake(view) of the wait rule {self._rule}", "must be a number of seconds, or None", wake)
        if self._rings >= _MOST_RINGS:
            return None
        if wake > view.elapsed:
            self._twice = False
            return wake
        if self._twice or wake < self._reached or self._reached == 0.0:
            return None
        self._twice = True
        return math.nextafter(view.elapsed, math.inf)

    def ring(self, wake: float) -> None:
        """Record that the time has come."""
        self._reached = max(self._reached, wake)
        self._rings += 1

    def stop(self) -> None:
        """Record that something has happened, so that the rule is asked afresh."""
        self._twice, self._rings = False, 0
