"""How a plan's advice holds in other conditions: worse delays, other accuracies, a longer trace."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import final

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead.delays import Delays
from erasurehead.planning._accuracy import NOISE, SORTED_NOISE, Accuracy
from erasurehead.planning._forecasts import GUESS, Forecast, forecast, mean_error, ratio, trace_rounds
from erasurehead.planning._planner import Plan, differences

_LOOKED_AT = 200  # steps from which the median delay is taken
_MATTERS = 0.05  # relative difference in time below which it does not matter which of two settings is used
_AGAIN = 8  # number of settings of the ranking, and about that of the Pareto front, that are forecast again

CASES: tuple[tuple[str, float], ...] = (("rows in random order", NOISE), ("rows sorted by label", SORTED_NOISE))
"""Kinds of data, each with its noise, the measure of how much tasks differ: see `Accuracy`."""

GAPS = (0.1, 0.01, 0.001)
"""Targets, as fractions of the initial gap of the objective."""


@final
@dataclass(frozen=True)
class Worse(Delays):
    """Delays whose excess over the median is multiplied by a factor.

    Arguments:
        model: the original delays.
        usual: their median, in seconds.
        factor: multiple of the excess, at least 1.
    """

    model: Delays
    usual: float
    factor: float

    def rows(
        self, first: int, count: int, n_workers: int, unit: int = 0, work: float | Array = 1.0, out: Array | None = None
    ) -> Array:
        values = self.model.rows(first, count, n_workers, unit, work, out)
        values += (self.factor - 1.0) * np.maximum(values - self.usual, 0.0)
        return values

    def check_workers(self, n_workers: int) -> None:
        self.model.check_workers(n_workers)

    def __str__(self) -> str:
        return f"{self.model}, with the excess over {self.usual:g} s multiplied by {self.factor:g}"


@dataclass(frozen=True)
class WhatIf:
    """The cost of following a plan's advice under worse delays.

    Attributes:
        advised: forecast of the advised setting under worse delays.
        best: forecast of the best setting under worse delays, among the first of the ranking and the Pareto front.
        factor: factor by which the excess of the delays over their median is multiplied.
    """

    advised: Forecast
    best: Forecast
    factor: float

    @property
    def regret(self) -> float:
        """Time to the target of the advised setting over that of the best under worse delays; at least 1.

        It is inf if only the best takes no time.
        """
        if math.isinf(self.best.seconds_to_target):
            return 1.0
        return ratio(self.advised.seconds_to_target, self.best.seconds_to_target)

    @property
    def holds(self) -> bool:
        """Whether the advised setting is still the best, or as fast as that."""
        return self.regret < 1.005

    @property
    def longer(self) -> str:
        """The regret in words, to be followed by "as" and the best setting."""
        if math.isinf(self.regret):
            return f"{self.advised.seconds_to_target:.4g} s, not 0 s"
        return f"{self.regret:.2f} times as long"


def if_worse(plan: Plan, factor: float = 2.0) -> WhatIf:
    """Return what a plan's advice costs if the excess of delays over their median is multiplied by a factor.

    Arguments:
        plan: the plan.
        factor: multiple of the excess, at least 1.
    """
    sample = plan.delays.rows(0, _LOOKED_AT, plan.n_workers)
    finite = sample[np.isfinite(sample)]
    worse = Worse(plan.delays, float(np.median(finite)) if len(finite) else 0.0, factor)
    front = plan.front
    some = (*plan.distinct[:_AGAIN], *front[:: max(1, len(front) // _AGAIN)])
    # What would be quicker even now, but may never get there, is not what to take if delays are worse, either.
    able = [item for item in some if item.seconds_to_target >= plan.best.seconds_to_target]
    tried = {item.setting: item for item in (plan.best, *able)}

    def again(item: Forecast) -> Forecast:
        steps = max(64, len(item.scores) // 4)
        redone = forecast(
            item.setting, plan.n_workers, worse, plan.seconds_per_task, None, steps, plan.late, plan.accuracy
        )
        # Fewer steps than the plan's, of the same draws: what these few are off by with the plan's delays is known.
        same = float(item.scores[: len(redone.scores)].mean())
        if math.isfinite(same) and same > 0.0:
            redone = replace(redone, seconds_per_step=redone.seconds_per_step * item.seconds_per_step / same)
        return redone.with_steps(item.steps, item.exact_steps)

    forecasts = {name: again(item) for name, item in tried.items()}
    best = min(forecasts.values(), key=lambda item: item.seconds_to_target)
    return WhatIf(forecasts[plan.best.setting], best, factor)


def by_case(plan: Plan) -> tuple[tuple[str, Accuracy, Forecast], ...]:
    """Return the best setting of a plan for each kind of data in `CASES` and each target in `GAPS`.

    Arguments:
        plan: the plan.

    Returns:
        For each case, the kind of data, the accuracy, and the forecast of the best setting, with steps relative to
        those of exact descent.
    """
    cases: list[tuple[str, Accuracy, Forecast]] = []
    for kind, noise in CASES:
        for gap in GAPS:
            accuracy = replace(plan.accuracy, gap=gap, noise=noise, noises=None)
            cases.append((kind, accuracy, plan.for_accuracy(accuracy).best))
    return tuple(cases)


def rounds_to_settle(plan: Plan) -> float | None:
    """Return how many rounds a trace needs to distinguish the best setting from its rivals.

    Differences in time of 5% and less need not be resolved.

    Arguments:
        plan: the plan.

    Returns:
        The total number of independent rounds, including those of the trace, at least `forecasts.GUESS`; None if the
        trace is already long enough, or there is no trace.
    """
    rounds = trace_rounds(plan.delays)
    best = plan.best
    if math.isinf(rounds) or math.isinf(best.seconds_to_target) or best.seconds_to_target == 0.0:
        return None
    most = 0.0
    for rival in plan.as_good():
        if rival is best or math.isinf(rival.seconds_to_target):
            continue
        difference = differences(best, rival)
        wanted = max(abs(float(difference.mean())), _MATTERS * best.seconds_to_target)
        error = mean_error(difference, plan.delays, plan.late)
        if math.isfinite(error):
            most = max(most, GUESS, rounds * (1.96 * error / wanted) ** 2)
    return most if most > rounds else None
