"""The cells of the table of a plan."""

from __future__ import annotations

import math
from collections.abc import Sequence

from erasurehead.planning._forecasts import Forecast
from erasurehead.planning._planner import Plan
from erasurehead.planning._trials import Trial
from erasurehead.reports._units import NOTHING, Unit


def trial_range(item: Forecast, trial: Trial) -> tuple[float, float]:
    """Return the seconds that the shortest and the longest trial of a setting took; inf if one did not arrive."""
    low, high = (
        steps * item.seconds_per_step if math.isfinite(steps) else math.inf
        for steps in (min(trial.steps), max(trial.steps))
    )
    return low, high


def places_of(plan: Plan, items: Sequence[Forecast]) -> list[int]:
    """Return places among distinct settings, without gaps; settings that behave alike share a place."""
    place: dict[str, int] = {}
    ahead = 0
    alike = {item.behaviour: item for item in reversed(plan.ranked)}
    for item in plan.ranked:
        first = alike[item.behaviour]
        if first is item:
            ahead += 1
            place[item.setting] = ahead
        else:
            place[item.setting] = place[first.setting]
    return [place[item.setting] for item in items]


def factor_text(factor: float) -> str:
    """Return a speed-up."""
    if math.isnan(factor):
        return NOTHING
    return "never" if factor == 0.0 else "∞" if math.isinf(factor) else f"{factor:.3g}"


def time_text(unit: Unit, seconds: float | None, item: Forecast, trial: Trial | None) -> str:
    """Return the time of a setting's trials; of those that were ended, the time by which they were."""
    if seconds is None or trial is None:
        return ""
    return (
        f"> {value_text(unit, trial.ended_at * item.seconds_per_step)}"
        if trial.unfinished
        else value_text(unit, seconds)
    )


def value_text(unit: Unit, value: float) -> str:
    """Return a time in its unit."""
    return "never" if math.isinf(value) else NOTHING if math.isnan(value) else f"{value / unit.size:.4g}"


def band_text(unit: Unit, ends: tuple[float, float]) -> str:
    """Return the ends of a range of times in their unit."""
    low, high = ends
    if math.isinf(low):
        return NOTHING
    return f"{value_text(unit, low)} to {'?' if math.isinf(high) else value_text(unit, high)}"
