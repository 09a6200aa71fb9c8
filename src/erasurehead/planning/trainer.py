"""Training to a goal without workers, with given weights of the tasks in each step."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead.codes.base import GradientCode
from erasurehead.decoding.base import Decoding
from erasurehead.engines.base import Order
from erasurehead.errors import check_count, invalid
from erasurehead.optimizers.base import LATE_PARTS, Optimizer, PartialGradient, asks_curvature
from erasurehead.planning.constants import minimum
from erasurehead.planning.early_rounds import EarlyRounds
from erasurehead.problems.base import CURVATURE, EARLY, NEWTON, Problem, Shard, split_samples
from erasurehead.training.result import LOWER_IS_BETTER

_Said: TypeAlias = tuple[tuple[int, ...], float, Shard, Array, float]  # a message's content

GAP = "gap"
"""Name of the metric for targets that are a fraction of the initial gap of the objective."""

_ENOUGH = 300  # steps of L-BFGS, after which the objective is much closer to its minimum than any target


@dataclass(frozen=True)
class Goal:
    """The goal of a trial.

    Arguments:
        metric: `"gap"`, or a metric of the problem.
        value: value of the metric to reach; for `"gap"`, the fraction of the initial gap that may remain, in (0, 1).
        first: objective of the initial model; only for `"gap"`.
        lowest: minimum of the objective; only for `"gap"`.
    """

    metric: str
    value: float
    first: float = math.nan
    lowest: float = math.nan

    def measure(self, problem: Problem, x: Array) -> float:
        """Return the metric of a model.

        Arguments:
            problem: the problem.
            x: the model, shape (n_parameters,).

        Raises:
            InvalidArgument: if the problem has no such metric.
        """
        if self.metric == GAP:
            return (problem.objective(x) - self.lowest) / (self.first - self.lowest)
        found = problem.metrics(x)
        if self.metric not in found:
            known = ", ".join([GAP, *found]) if found else f"{GAP}: it has no test samples"
            raise invalid("goal", "must name a metric of the problem", self.metric, f"its metrics are {known}")
        return found[self.metric]

    def met(self, measured: float) -> bool:
        """Whether a value of the metric meets the goal."""
        lower = self.metric == GAP or self.metric in LOWER_IS_BETTER
        return measured <= self.value if lower else measured >= self.value


class Trainer:
    """Trains step by step as a run does, but without workers, with given weights of the tasks.

    Arguments:
        problem: the problem, with the user's data or a sample of them.
        optimizer: makes a new optimizer at its initial model for each run.
        goal: metric and value to reach: `("gap", 0.01)`, or a metric of the problem such as `("auc", 0.84)`.
        max_steps: number of steps after which a run is given up, at least 1.
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
                raise invalid("goal", "must be a fraction of the initial gap, between 0 and 1", value)
            x = optimizer().x
            first = problem.objective(x)
            self.goal = Goal(metric, value, first, min(minimum(problem, x, _ENOUGH), first - 1e-300))
        else:
            self.goal = Goal(metric, value)

    def run(self, weights: Array | None, n_tasks: int) -> tuple[float, float]:
        """Train until the goal is met, and return the number of steps and the metric at the end.

        Arguments:
            weights: weight of each task in each step, shape (steps, n_tasks); None for the exact gradient in up to
                `max_steps` steps.
            n_tasks: number of tasks of the code.

        Returns:
            The number of steps, inf if the goal was not met; and the metric after the last step.
        """
        measured = math.nan
        for step, measured in enumerate(self.measures(weights, n_tasks), start=1):
            if self.goal.met(measured):
                return float(step), measured
        return math.inf, measured

    def run_early(self, rounds: EarlyRounds) -> tuple[float, float]:
        """Train as in a run that begins with early orders, and return what `run` returns.

        Arguments:
            rounds: new rounds of the run, without any order yet.

        Returns:
            The number of steps including early ones, inf if the goal was not met; and the metric after the last step.
        """
        measured = math.nan
        for step, measured in enumerate(self.measures(None, rounds.scheme.code.n_tasks, rounds), start=1):
            if self.goal.met(measured):
                return float(step), measured
        return math.inf, measured

    @cached_property
    def asks_early(self) -> bool:
        """Whether the optimizer begins with early orders if it is allowed to."""
        optimizer = self._optimizer()
        optimizer.early = "preempt"
        optimizer.begin(self.problem)
        return optimizer.ask().kind == EARLY

    def measures(self, weights: Array | None, n_tasks: int, rounds: EarlyRounds | None = None) -> Iterator[float]:
        """Train, and yield the metric after each step; if the model is no longer finite, yield NaN and end.

        Arguments:
            weights, n_tasks: as in `run`.
            rounds: simulated rounds, which give the decoding of each order; training ends when they do. The optimizer
                gives early orders only if this is not None.
        """
        problem, optimizer = self.problem, self._optimizer()
        optimizer.early = "" if rounds is None else rounds.scheme.early(rounds.late)
        optimizer.begin(problem)
        shard = self._shards.get(n_tasks)
        if shard is None:
            shard = self._shards[n_tasks] = problem.shard(list(split_samples(problem.n_samples, n_tasks)))
        ones = np.ones(n_tasks)
        wanted: dict[int, Order] = {}  # orders whose late answers are wanted, by step
        most = self.max_steps if weights is None else len(weights)
        for step in range(most) if rounds is None else itertools.count():
            own = ones if weights is None else weights[step]
            order = optimizer.ask()
            optimizer.parts = optimizer.late_parts = ()
            if order.note.get(LATE_PARTS, False):
                wanted[order.step] = order
            found = None if rounds is None else rounds.answer(order)
            if rounds is not None and found is None:
                return
            if found is not None and rounds is not None:
                code = rounds.scheme.code
                late = [(row, wanted[number]) for number, row in sorted(found.late) if number in wanted]
                optimizer.late_parts = tuple(
                    self._part(code, row, 1.0 / code.coefficients(row)[:, 0], asked) for row, asked in late
                )
                optimizer.waited, optimizer.work_odds = found.waited, found.work_odds
            if found is not None and order.kind == NEWTON:
                self._tell_newton(optimizer, order, found.decoding)
            elif found is not None and order.kind == EARLY:
                self._tell_early(optimizer, order, found.decoding)
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
        """Return the gradient estimate for the optimizer, and the objective estimate; None for several points."""
        problem, step = self.problem, order.step
        gradient, value = np.zeros(problem.n_parameters), 0.0
        for point, factor in zip(order.points, order.coefficients or (1.0,), strict=True):
            found, loss = _combined(shard, point, lambda local, out: shard.combine(local, weights, step, out))
            gradient += factor * (found + problem.penalty_gradient(point))
            value += loss + problem.penalty(point)
        return gradient, None if order.coefficients else value

    def _tell_early(self, optimizer: Optimizer, order: Order, found: Decoding) -> None:
        """Give an optimizer the partial gradients of few arrivals, and the estimate made from all of them."""
        problem, point = self.problem, order.points[0]
        parts: list[PartialGradient] = []
        value, sum_of_weights = 0.0, 0.0
        for message, weights in _weighted(found):
            part = self._part(found.code, message, weights, order)
            parts.append(part)
            value, sum_of_weights = value + part.loss, sum_of_weights + float(weights.sum())
        optimizer.parts, optimizer.exact, optimizer.curvature = tuple(parts), found.exact, None
        if not parts:
            optimizer.value = None
            optimizer.tell(None)
            return
        scale = found.code.n_tasks / sum_of_weights
        estimate = scale * sum((part.gradient for part in parts), np.zeros(problem.n_parameters))
        if asks_curvature(order):
            bounds = (part.curvature for part in parts if part.curvature is not None)
            bound = scale * sum(bounds, np.zeros(problem.n_parameters))
            optimizer.curvature = bound, scale * sum(part.entries for part in parts)
        optimizer.value = scale * value + problem.penalty(point)
        optimizer.tell(estimate + problem.penalty_gradient(point))

    def _tell_newton(self, optimizer: Optimizer, order: Order, found: Decoding) -> None:
        """Give an optimizer the Newton steps of those that have answered."""
        optimizer.parts = tuple(
            self._newton_step(found.code, message, weights, order) for message, weights in _weighted(found)
        )
        optimizer.value, optimizer.exact, optimizer.curvature = None, False, None
        optimizer.tell(None)

    def _newton_step(self, code: GradientCode, message: int, weights: Array, order: Order) -> PartialGradient:
        """Return the Newton step of a message's tasks; arguments as for `_part`."""
        tasks, share, shard, *_ = self._held(code, message, weights, order.points[0])
        point, vector = map(shard.take, order.points)
        damping, iterations = order.note["damping"], order.note["iterations"]
        out = np.empty(len(point))
        shard.newton_step(point, vector, weights, damping, iterations, out)
        return PartialGradient(order.step, tasks, share, _spread(shard, out, self.problem.n_parameters), 0.0)

    def _part(self, code: GradientCode, message: int, weights: Array, order: Order) -> PartialGradient:
        """Return what a message says of its tasks.

        Arguments:
            code: the code.
            message: row of the message.
            weights: of its tasks, in their order.
            order: what it answers.
        """
        point = order.points[0]
        tasks, share, shard, bound, entries = self._held(code, message, weights, point)
        gradient, loss = _combined(shard, point, lambda local, out: shard.combine(local, weights, order.step, out))
        found = PartialGradient(order.step, tasks, share, gradient, loss)
        return replace(found, curvature=bound, entries=entries) if asks_curvature(order) else found

    def _held(self, code: GradientCode, message: int, weights: Array, point: Array) -> _Said:
        """Return what is always the same about a message: its tasks, their share, shard, curvature and entries."""
        problem = self.problem
        if self._said is None or self._said[0] is not code:  # keep only one code's shards
            self._said = code, {}
        said = self._said[1]
        if message not in said:
            tasks: tuple[int, ...] = tuple(code.tasks_of_message(message).tolist())
            ranges = list(split_samples(problem.n_samples, code.n_tasks))
            shard = problem.shard([ranges[task] for task in tasks])
            curvature = _combined(shard, point, lambda _, out: shard.curvature(weights, out))
            share = sum(problem.weight(ranges[task]) for task in tasks) / problem.n_samples
            said[message] = tasks, share, shard, *curvature
        return said[message]

    @cached_property
    def exact(self) -> tuple[float, float]:
        """Number of steps to the goal with the exact gradient, and the metric at the end: see `run`."""
        return self.run(None, 1)


def _combined(shard: Shard, point: Array, combine: Callable[[Array, Array], float]) -> tuple[Array, float]:
    """Return a sum over tasks as a vector of all parameters, and the number that `combine` returns with it."""
    local = shard.take(point)
    out = np.empty(len(local))
    value = combine(local, out)
    return _spread(shard, out, len(point)), value


def _spread(shard: Shard, local: Array, n_parameters: int) -> Array:
    """Return a vector on a shard's support as one of all parameters."""
    if shard.support is None:
        return local
    whole = np.zeros(n_parameters)
    whole[shard.support] = local
    return whole


def _weighted(found: Decoding) -> Iterator[tuple[int, Array]]:
    """Yield the messages that count, each with the weights of its tasks."""
    for place, message in enumerate(found.messages.tolist()):
        weights = found.weights[0, place] * found.code.coefficients(message)[:, 0]
        if weights.any():
            yield message, weights
