"""What the advice would be worth in other conditions: worse delays, other accuracies, a longer trace."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead.delays.base import Delays
from erasurehead.planning.accuracy import NOISE, SORTED_NOISE, Accuracy
from erasurehead.planning.forecasts import GUESS, Forecast, forecast, mean_error, trace_rounds
from erasurehead.planning.planner import Plan

_LOOKED_AT = 200  # steps from which the usual delay is taken
_MATTERS = 0.05  # a difference in time below which it does not matter which of two settings is taken
_AGAIN = 8  # settings that are forecast anew

CASES: tuple[tuple[str, float], ...] = (("rows in no order", NOISE), ("rows sorted by label", SORTED_NOISE))
"""What data may be like, with how much tasks differ then: see `Accuracy`."""

GAPS = (0.1, 0.01, 0.001)
"""How deep targets may be: parts of the first gap of the objective."""


@final
@dataclass(frozen=True)
class Worse(Delays):
    """Delays of which the part beyond the usual is so many times as long.

    Arguments:
        model: the delays.
        usual: their median, in seconds.
        factor: of what is beyond it, at least 1.
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
        return f"{self.model}, of which what exceeds {self.usual:g} s is {self.factor:g} times as long"


@dataclass(frozen=True)
class WhatIf:
    """What the advice would cost in worse conditions.

    Attributes:
        advised: the forecast of the advised setting there.
        best: that of the setting that would be the best there, of the first of the ranking and the Pareto front.
        factor: how many times as long the excess of the delays is.
    """

    advised: Forecast
    best: Forecast
    factor: float

    @property
    def regret(self) -> float:
        """How many times as long the advised setting takes to the target there as the best; at least 1."""
        if math.isinf(self.best.seconds_to_target) or self.best.seconds_to_target == 0.0:
            return 1.0
        return self.advised.seconds_to_target / self.best.seconds_to_target


def if_worse(plan: Plan, factor: float = 2.0) -> WhatIf:
    """Return what a plan's advice costs if what exceeds the usual delay becomes so many times as long.

    Arguments:
        plan: the plan.
        factor: at least 1.
    """
    sample = plan.delays.rows(0, _LOOKED_AT, plan.n_workers)
    finite = sample[np.isfinite(sample)]
    worse = Worse(plan.delays, float(np.median(finite)) if len(finite) else 0.0, factor)
    front = plan.front
    some = front[:: max(1, len(front) // _AGAIN)]
    tried = {item.setting: item for item in (plan.best, *plan.distinct[:_AGAIN], *some)}

    def again(item: Forecast) -> Forecast:
        steps = max(64, len(item.scores) // 4)
        found = forecast(
            item.setting, plan.n_workers, worse, plan.seconds_per_task, None, steps, plan.late, plan.accuracy
        )
        return found.with_steps(item.steps, item.exact_steps)

    found = {name: again(item) for name, item in tried.items()}
    best = min(found.values(), key=lambda item: item.seconds_to_target)
    return WhatIf(found[plan.best.setting], best, factor)


def nothing_said(plan: Plan) -> tuple[Forecast, float]:
    """Return what is known without data of `adaptive`, which `erasurehead train` takes where nothing is said.

    Returns:
        Its forecast, with the steps of exact descent; and the share of these steps that its own optimizer may need
        for it to be as quick as the plan's first setting, 0 if no share is small enough.
    """
    steps = len(plan.best.scores)
    item = forecast(
        "adaptive()", plan.n_workers, plan.delays, plan.seconds_per_task, plan.target, steps, plan.late, plan.accuracy
    )
    seconds = item.seconds_to_target
    return item, plan.best.seconds_to_target / seconds if math.isfinite(seconds) and seconds > 0.0 else 0.0


def by_case(plan: Plan) -> tuple[tuple[str, Accuracy, Forecast], ...]:
    """Return the best setting for each kind of data and each depth of the target that a plan may be for.

    Returns:
        What the data are like, what is to be reached, and the forecast of the best setting; its steps are relative to
        those of exact descent.
    """
    found: list[tuple[str, Accuracy, Forecast]] = []
    for kind, noise in CASES:
        for gap in GAPS:
            accuracy = Accuracy(gap, noise, plan.accuracy.pace)
            found.append((kind, accuracy, plan.for_accuracy(accuracy).best))
    return tuple(found)


def rounds_to_settle(plan: Plan) -> float | None:
    """Return how many rounds a trace needs to tell the best setting from all that would take over 5% longer, or less.

    Returns:
        In all, those that are there included, and no fewer than advice can go by (`forecasts.GUESS`); None where the
        trace settles it already, or there is no trace.
    """
    rounds = trace_rounds(plan.delays)
    best = plan.best
    if math.isinf(rounds) or math.isinf(best.seconds_to_target) or best.seconds_to_target == 0.0:
        return None
    most = 0.0
    for rival in plan.as_good():
        if rival is best or math.isinf(rival.seconds_to_target):
            continue
        n = min(len(best.scores), len(rival.scores))
        difference = best.scores[:n] * best.steps - rival.scores[:n] * rival.steps
        wanted = max(abs(float(difference.mean())), _MATTERS * best.seconds_to_target)
        error = mean_error(difference, plan.delays)
        if math.isfinite(error):
            most = max(most, GUESS, rounds * (1.96 * error / wanted) ** 2)
    return most if most > rounds else None
