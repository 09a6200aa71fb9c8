"""The range in which the speed-up of one setting over another is likely to be in a single run."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead.delays import Bootstrap
from erasurehead.planning._forecasts import Forecast, mean_error
from erasurehead.planning._planner import Plan
from erasurehead.planning._trials import Trial

_RUNS = 400  # runs that are drawn from simulated steps
_LONGEST = 500  # most steps drawn for a run: the error of the mean of more falls with the root of their number
_SURE = (5.0, 95.0)  # percentiles at the ends of the range


def speed_up_range(
    plan: Plan, item: Forecast, over: Forecast | None = None, trials: Sequence[Trial] = ()
) -> tuple[float, float]:
    """Return the range in which 90% of runs are expected to have the speed-up that `Plan.speed_up` expects.

    Runs of both settings are drawn from their simulated steps, each as long as it takes to reach the target. The number
    of steps varies as it did between the trials of a setting, or without trials as it did between other data sets, and
    the uncertainty of delays from a trace is added.
    If delays have long tails, a few slow rounds may make the range wide, so that a speed-up of hundreds may turn out
    to be one of tens.

    Arguments:
        plan: the plan that contains both settings.
        item: forecast of the setting.
        over: forecast of the setting that it is compared with; by default uncoded.
        trials: trials of the plan's settings on data, if any.

    Returns:
        The lowest and the highest speed-up, as ratios of times; both are 0 if the setting does not reach the target,
        and inf if only the other does not, or if only the other takes any time. The highest is also inf if runs of the
        setting may take no time at all.
    """
    other = plan.uncoded if over is None else over
    middle = plan.speed_up(item, other)
    if item is other or not math.isfinite(middle) or middle == 0.0:
        return middle, middle
    random = np.random.default_rng(0)
    ratios = _ratios(_totals(plan, other, trials, random), _totals(plan, item, trials, random))
    n = min(len(item.scores), len(other.scores))
    if np.isfinite(item.scores[:n]).all() and np.isfinite(other.scores[:n]).all():
        # Both were simulated with the same delays, so that errors of the delays affect both alike.
        difference = item.scores[:n] / item.scores[:n].mean() - other.scores[:n] / other.scores[:n].mean()
        error = mean_error(difference, plan.delays, plan.late)
        ratios = ratios * np.exp(min(error, 1.0) * random.standard_normal(_RUNS))
    # Between a number and inf there is nothing to interpolate.
    low, high = np.percentile(ratios, _SURE, method="linear" if np.isfinite(ratios).all() else "nearest").tolist()
    return min(low, middle), max(high, middle)


def _ratios(times: Array, own: Array) -> Array:
    """Return the ratios of times; 1 where both are zero, and inf where only its own is."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(times == own, 1.0, times / own)


def _as_elsewhere(item: Forecast, random: np.random.Generator) -> Array:
    """Return the steps of runs over those of a forecast, drawn from the range of what other data took."""
    spread = [
        min(max(count / item.steps, 1e-3), 1e3) for count in (item.steps_range[0], item.steps, item.steps_range[1])
    ]
    return np.exp(np.interp(random.random(_RUNS), (0.05, 0.5, 0.95), np.log(spread)))


def _totals(plan: Plan, item: Forecast, trials: Sequence[Trial], random: np.random.Generator) -> Array:
    """Return the total seconds of runs of a setting, shape (_RUNS,)."""
    counts = next((trial.steps for trial in trials if trial.setting == item.setting), ())
    finite = [steps for steps in counts if math.isfinite(steps)]
    steps = random.choice(finite, _RUNS) if finite else plan.steps_of(item) * _as_elsewhere(item, random)
    count = int(min(max(1.0, round(float(np.median(steps)))), _LONGEST))
    length = min(plan.delays.block, count) if isinstance(plan.delays, Bootstrap) else 1
    stretches = -(-count // length)
    begins = random.integers(len(item.scores), size=(_RUNS, stretches))
    places = (begins[:, :, None] + np.arange(length)) % len(item.scores)
    usual = item.seconds_per_step
    means = item.scores[places.reshape(_RUNS, -1)[:, :count]].mean(axis=1)
    if math.isfinite(usual):
        means += usual - item.scores.mean()  # 0 but for what `common_draws` has corrected
    settled = math.sqrt(count / max(count, float(np.median(steps))))
    return steps * (usual + settled * (means - usual))
