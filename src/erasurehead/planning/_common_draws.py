"""Means over few simulated steps, corrected by settings that were simulated for longer with the same delays."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead._internal.late_work import LateWork
from erasurehead.delays import Delays
from erasurehead.planning._forecasts import Forecast, mean_error

_ALIKE = 0.3  # correlation of two settings' steps from which one says something of the other


def corrected(items: Sequence[Forecast], delays: Delays, late: LateWork) -> list[Forecast]:
    """Return forecasts whose means depend less on how many steps were simulated, in the same order.

    All settings meet the same delays, and codes that are costly to decode meet fewer of them: by chance these may be
    better ones than most. What the few are off by is known from settings that met all, and is subtracted (control
    variates: Lavenberg and Welch, "A perspective on the use of control variables to increase the efficiency of Monte
    Carlo simulations", 1981): of these, from the one whose steps are most nearly proportional. Two settings whose steps
    are the same are forecast alike, however many of them were simulated.

    Arguments:
        items: forecasts with the same delays, from their first step on.
        delays: these.
        late: what a worker does with old work when the next order is given.
    """
    most = max((len(item.scores) for item in items), default=0)
    longest = [item for item in items if len(item.scores) == most and np.isfinite(item.scores).all()]
    return [_corrected(item, longest, delays, late) if len(item.scores) < most else item for item in items]


def _corrected(item: Forecast, longest: Sequence[Forecast], delays: Delays, late: LateWork) -> Forecast:
    few = len(item.scores)
    if not np.isfinite(item.scores).all() or few < 2:
        return item
    alike, place = max(
        ((_correlation(item.scores, other.scores[:few]), place) for place, other in enumerate(longest)),
        default=(0.0, 0),
    )
    if alike < _ALIKE:
        return item
    control = longest[place]
    same = control.scores[:few]
    slope = alike * float(item.scores.std()) / float(same.std())
    seconds = item.seconds_per_step - slope * (float(same.mean()) - control.seconds_per_step)
    if not seconds > 0.0:
        return item
    own = mean_error(item.scores - slope * same, delays, late)  # of what the other does not explain
    return replace(item, seconds_per_step=seconds, error=min(item.error, math.hypot(own, slope * control.error)))


def _correlation(one: Array, other: Array) -> float:
    """Return the correlation of two settings' steps, from -1 to 1; 0 where one of them does not vary."""
    apart, others = one - one.mean(), other - other.mean()
    lengths = float(np.linalg.norm(apart) * np.linalg.norm(others))
    return float(apart @ others) / lengths if lengths > 0.0 else 0.0
