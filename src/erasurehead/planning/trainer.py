"""Training without workers: given weights of the tasks in each step, to a goal, as a run would."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead.codes.base import GradientCode
from erasurehead.decoding.base import Decoding
from erasurehead.engines.base import Order
from erasurehead.errors import check_count, invalid
from erasurehead.optimizers.base import Optimizer, PartialGradient
from erasurehead.planning.constants import minimum
from erasurehead.planning.early_rounds import EarlyRounds
from erasurehead.problems.base import CURVATURE, EARLY, Problem, Shard, split_samples
from erasurehead.training.result import LOWER_IS_BETTER

_Said: TypeAlias = tuple[tuple[int, ...], float, Shard, Array, float]  # of a message: its tasks, and what they are

GAP = "gap"
"""The metric of a target that is a part of the first gap of the objective."""

_ENOUGH = 300  # steps of L-BFGS, after which the objective is far closer to its minimum than a target is


@dataclass(frozen=True)
class Goal:
    """What a trial is to reach.

    Arguments:
        metric: `"gap"`, or a metric of the problem.
        value: of the metric; of a gap, the part of the first gap of the objective that may remain.
        first: the objective at the first model.
        lowest: the smallest that it can be.
    """

    metric: str
    value: float
    first: float = math.nan
    lowest: float = math.nan

    def measure(self, problem: Problem, x: Array) -> float:
        """Return the metric of a model."""
        if self.metric == GAP:
            return (problem.objective(x) - self.lowest) / (self.first - self.lowest)
        found = problem.metrics(x)
        if self.metric not in found:
            known = ", ".join([GAP, *found]) if found else f"{GAP}: it has no test samples"
            raise invalid("goal", "must name a metric of the problem", self.metric, f"its metrics are {known}")
        return found[self.metric]

    def met(self, measured: float) -> bool:
        """Whether a value of the metric is good enough."""
        lower = self.metric == GAP or self.metric in LOWER_IS_BETTER
        return measured <= self.value if lower else measured >= self.value


class Trainer:
    """Trains with given weights of the tasks, step by step: what a run does, without its workers.

    Arguments:
        problem: the user's data, or a sample of them.
        optimizer: makes a new optimizer at its initial model, for each run.
        goal: metric and value to reach: `("gap", 0.01)`, or a metric of the problem such as `("auc", 0.84)`.
        max_steps: steps after which a run gives up, at least 1.
    """

    def __init__(
        self, problem: Problem, optimizer: Callable[[], Optimizer], goal: tuple[str, float], max_steps: int
    ) -> None:
        self.problem, self._optimizer = problem, optimizer
        self.max_steps = check_count("max_steps", max_steps)
        self._shards: dict[int, Shard] = {}
        self._said: tuple[GradientCode, dict[int, _Said]] | None = None
        metric, value = goal
        if metric == GAP:
            if not 0.0 < value < 1.0:
                raise invalid("goal", "must be a gap between 0 and 1, a part of the first", value)
            x = optimizer().x
            first = problem.objective(x)
            self.goal = Goal(metric, value, first, min(minimum(problem, x, _ENOUGH), first - 1e-300))
        else:
            self.goal = Goal(metric, value)

    def run(self, weights: Array | None, n_tasks: int) -> tuple[float, float]:
        """Train until the goal is met, and return the steps (inf if it is not) and the metric at the end.

        Arguments:
            weights: how much each task counts in each step, shape (steps, n_tasks); None for the exact gradient in
                as many steps as are allowed.
            n_tasks: of the code.
        """
        measured = math.nan
        for step, measured in enumerate(self.measures(weights, n_tasks), start=1):
            if self.goal.met(measured):
                return float(step), measured
        return math.inf, measured

    def run_early(self, rounds: EarlyRounds) -> tuple[float, float]:
        """Train as a run does that begins with few arrivals, and return what `run` does; early steps count, too.

        Arguments:
            rounds: of the run, in which nothing has been asked yet.
        """
        measured = math.nan
        for step, measured in enumerate(self.measures(None, rounds.scheme.code.n_tasks, rounds), start=1):
            if self.goal.met(measured):
                return float(step), measured
        return math.inf, measured

    @cached_property
    def asks_early(self) -> bool:
        """Whether the optimizer begins with orders that a few arrivals answer, if it may."""
        optimizer = self._optimizer()
        optimizer.early = True
        optimizer.begin(self.problem)
        return optimizer.ask().kind == EARLY

    def measures(self, weights: Array | None, n_tasks: int, rounds: EarlyRounds | None = None) -> Iterator[float]:
        """Train, and yield the metric after each step; NaN, and no more, once the model is no number any more.

        Arguments:
            weights, n_tasks: as of `run`.
            rounds: which say who has answered each order, of whatever kind; training ends when they do. Only with them
                does the optimizer ask for early orders.
        """
        problem, optimizer = self.problem, self._optimizer()
        optimizer.early = rounds is not None
        optimizer.begin(problem)
        shard = self._shards.get(n_tasks)
        if shard is None:
            shard = self._shards[n_tasks] = problem.shard(list(split_samples(problem.n_samples, n_tasks)))
        ones = np.ones(n_tasks)
        for step in range(self.max_steps if weights is None else len(weights)):
            own = ones if weights is None else weights[step]
            order = optimizer.ask()
            optimizer.parts = ()
            found = None if rounds is None else rounds.answer(order)
            if rounds is not None and found is None:
                return
            if found is not None and order.kind == EARLY:
                self._tell_early(optimizer, order, found)
            elif own.any():
                if order.kind == CURVATURE:
                    sums, point = shard.curvature, order.points[0]
                    optimizer.curvature = _combined(shard, point, lambda _, out, sums=sums, own=own: sums(own, out))
                estimate, value = self._estimate(shard, order, own)
                optimizer.value, optimizer.exact = value, bool((own == 1.0).all())
                optimizer.tell(estimate)
            else:
                optimizer.tell(None)
            if not np.isfinite(optimizer.x).all():
                yield math.nan
                return
            yield self.goal.measure(problem, optimizer.best)
            if optimizer.converged:
                return

    def _estimate(self, shard: Shard, order: Order, weights: Array) -> tuple[Array, float | None]:
        """Return what an optimizer is told, and the value that comes with it."""
        problem, step = self.problem, order.step
        gradient, value = np.zeros(problem.n_parameters), 0.0
        for point, factor in zip(order.points, order.coefficients or (1.0,), strict=True):
            found, loss = _combined(shard, point, lambda local, out: shard.combine(local, weights, step, out))
            gradient += factor * (found + problem.penalty_gradient(point))
            value += loss + problem.penalty(point)
        return gradient, None if order.coefficients else value

    def _tell_early(self, optimizer: Optimizer, order: Order, found: Decoding) -> None:
        """Tell an optimizer what few arrivals say, each by itself, and the estimate that they come to together."""
        problem, point = self.problem, order.points[0]
        if self._said is None or self._said[0] is not found.code:  # shards of one code only: each holds all data
            self._said = found.code, {}
        said, ranges = self._said[1], list(split_samples(problem.n_samples, found.code.n_tasks))
        parts: list[PartialGradient] = []
        value, sum_of_weights = 0.0, 0.0
        for place, message in enumerate(found.messages.tolist()):
            weights = found.weights[0, place] * found.code.coefficients(message)[:, 0]
            if not weights.any():
                continue
            if message not in said:
                tasks: tuple[int, ...] = tuple(found.code.tasks_of_message(message).tolist())
                shard = problem.shard([ranges[task] for task in tasks])
                curvature = _combined(shard, point, lambda _, out, shard=shard, w=weights: shard.curvature(w, out))
                share = sum(problem.weight(ranges[task]) for task in tasks) / problem.n_samples
                said[message] = tasks, share, shard, *curvature
            tasks, share, shard, bound, entries = said[message]
            gradient, loss = _combined(
                shard, point, lambda local, out, shard=shard, w=weights: shard.combine(local, w, order.step, out)
            )
            parts.append(PartialGradient(tasks, share, gradient, bound, entries))
            value, sum_of_weights = value + loss, sum_of_weights + float(weights.sum())
        scale = found.code.n_tasks / sum_of_weights
        estimate = scale * sum((part.gradient for part in parts), np.zeros(problem.n_parameters))
        bound = scale * sum((part.curvature for part in parts), np.zeros(problem.n_parameters))
        optimizer.parts, optimizer.exact = tuple(parts), found.exact
        optimizer.curvature = bound, scale * sum(part.entries for part in parts)
        optimizer.value = scale * value + problem.penalty(point)
        optimizer.tell(estimate + problem.penalty_gradient(point))

    @cached_property
    def exact(self) -> tuple[float, float]:
        """Steps of the exact gradient to the goal, and the metric at the end."""
        return self.run(None, 1)


def _combined(shard: Shard, point: Array, combine: Callable[[Array, Array], float]) -> tuple[Array, float]:
    """Return a sum over tasks as a vector of all parameters, and the number that came with it."""
    local = shard.take(point)
    out = np.empty(len(local))
    value = combine(local, out)
    if shard.support is None:
        return out, value
    whole = np.zeros(len(point))
    whole[shard.support] = out
    return whole, value
