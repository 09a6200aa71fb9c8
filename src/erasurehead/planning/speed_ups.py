"""How many times sooner a run is over with one setting than with another: the range that one run is likely to be in."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead.delays.bootstrap import Bootstrap
from erasurehead.planning.forecasts import Forecast, mean_error
from erasurehead.planning.planner import Plan
from erasurehead.planning.trials import Trial

_RUNS = 400  # that are drawn from simulated steps
_LONGEST = 500  # steps of a run that are drawn: the mean of more settles as the root of their number says
_SURE = (5.0, 95.0)  # percent


def speed_up_range(
    plan: Plan, item: Forecast, over: Forecast | None = None, trials: Sequence[Trial] = ()
) -> tuple[float, float]:
    """Return the range in which 90% of runs are expected to have the speed-up that `Plan.speed_up` expects.

    Runs of both settings are drawn from their simulated steps, each as long as it takes to the target; how many steps
    that is differs as it did between the trials of a setting; and how well the delays are known differs with the trace.
    A few slow rounds of delays with long tails may thus make it wide, and a speed-up of hundreds be one of tens.

    Arguments:
        plan: with both settings.
        item: the setting.
        over: what it is compared with; by default uncoded.
        trials: of the plan's settings on data, if any.

    Returns:
        The lowest and the highest; both 0 where the setting does not reach the target, and inf where only it does.
    """
    other = plan.uncoded if over is None else over
    middle = plan.speed_up(item, other)
    if item is other or not math.isfinite(middle) or middle == 0.0:
        return middle, middle
    random = np.random.default_rng(0)
    ratios = _totals(plan, other, trials, random) / _totals(plan, item, trials, random)
    n = min(len(item.scores), len(other.scores))
    if np.isfinite(item.scores[:n]).all() and np.isfinite(other.scores[:n]).all():
        # Both met the same delays: what these had too much or too little of concerns both.
        difference = item.scores[:n] / item.scores[:n].mean() - other.scores[:n] / other.scores[:n].mean()
        error = mean_error(difference, plan.delays, plan.late)
        ratios = ratios * np.exp(min(error, 1.0) * random.standard_normal(_RUNS))
    low, high = (float(end) for end in np.percentile(ratios, _SURE))
    return min(low, middle), max(high, middle)


def _totals(plan: Plan, item: Forecast, trials: Sequence[Trial], random: np.random.Generator) -> Array:
    """Return the seconds that runs of a setting take, shape (_RUNS,)."""
    found = next((trial.steps for trial in trials if trial.setting == item.setting), ())
    finite = [steps for steps in found if math.isfinite(steps)]
    steps = random.choice(finite, _RUNS) if finite else np.full(_RUNS, plan.steps_of(item))
    count = int(min(max(1.0, round(float(np.median(steps)))), _LONGEST))
    length = min(plan.delays.block, count) if isinstance(plan.delays, Bootstrap) else 1
    stretches = -(-count // length)
    begins = random.integers(len(item.scores), size=(_RUNS, stretches))
    places = (begins[:, :, None] + np.arange(length)) % len(item.scores)
    means = item.scores[places.reshape(_RUNS, -1)[:, :count]].mean(axis=1)
    settled = math.sqrt(count / max(count, float(np.median(steps))))
    usual = item.seconds_per_step
    return steps * (usual + settled * (means - usual))
