"""When a step has waited long enough for gradients: one rule without a setting, by how long ranks have taken so far."""

from __future__ import annotations

import math
from collections.abc import Sequence

LEAST_SHARE = 0.5
"""A step never has fewer gradients than this share of the ranks."""

_TIE = 1e-3  # times that differ by less are equal: all who are equally fast are waited for


def time_left(durations: Sequence[float], elapsed: float) -> float:
    """Return how many seconds a rank is expected to need yet; 0 if nothing is known of it.

    Arguments:
        durations: what it needed for its last steps, in seconds.
        elapsed: for how long it has been at work on this one.
    """
    tie = _TIE * elapsed
    longer = [max(duration - elapsed, tie) for duration in durations if duration >= elapsed - tie]
    return sum(longer) / len(longer) if longer else elapsed if durations else 0.0


def ask_again(elapsed: float, came: int, left: Sequence[float]) -> float:
    """Return when to ask whether to close a step, in seconds since it opened; at most `elapsed` to close it now.

    It is closed when the next gradient is expected to take longer than those that are there took each.

    Arguments:
        elapsed: seconds since the step opened.
        came: number of gradients that are there.
        left: for each rank whose gradient is not, how long it is expected to take, as from `time_left`.
    """
    if not left:
        return elapsed
    if came < math.ceil(LEAST_SHARE * (came + len(left))) or not all(left):
        return math.inf
    following = 1.0 / sum(1.0 / seconds for seconds in left)
    return elapsed if following * came > elapsed else elapsed + max(following, elapsed / 16.0)
