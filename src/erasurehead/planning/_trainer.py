"""Training to a goal without workers: the steps of a run, whose orders are answered from simulated arrivals."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from erasurehead._internal.arrays import Array, BoolArray, dtype_of, finite
from erasurehead._internal.partition import split_samples
from erasurehead.engines import Order
from erasurehead.errors import Diverged, EngineError, Unreachable, check_count, invalid
from erasurehead.optimizers import Optimizer
from erasurehead.optimizers._base import Early
from erasurehead.optimizers._order_kinds import asks_curvature, block_of, kind_of, models_of
from erasurehead.planning._constants import minimum
from erasurehead.problems import Problem, Shard
from erasurehead.schemes import Scheme
from erasurehead.schemes._aggregation import Vectors
from erasurehead.training._programs import as_asked
from erasurehead.training._result import LOWER_IS_BETTER
from erasurehead.training._round import cut, estimated
from erasurehead.training._stepped_run import Programs, in_pieces, laid_out
from erasurehead.training._stepper import Answered, Oracle, Stepper, answer_of

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
        metrics = problem.metrics(x)
        if self.metric not in metrics:
            names = ", ".join([GAP, *metrics]) if metrics else f"{GAP}: it has no test samples"
            raise invalid("goal", "must name a metric of the problem", self.metric, f"its metrics are {names}")
        return metrics[self.metric]

    def met(self, measured: float) -> bool:
        """Whether a value of the metric meets the goal."""
        lower = self.metric == GAP or self.metric in LOWER_IS_BETTER
        return measured <= self.value if lower else measured >= self.value


class Trainer:
    """Trains step by step as a run does, but without workers.

    Arguments:
        problem: the problem, with the user's data or a sample of them.
        optimizer: makes a new optimizer at its initial model for each run.
        goal: metric and value to reach: `("gap", 0.01)`, or a metric of the problem such as `("auc", 0.84)`.
        max_steps: number of steps after which a run is given up, at least 1.
    """

    def __init__(
        self, problem: Problem, optimizer: Callable[[], Optimizer], goal: tuple[str, float], max_steps: int
    ) -> None:
        self.problem, self.optimizer = problem, optimizer
        self.max_steps = check_count("max_steps", max_steps)
        metric, value = goal
        if metric == GAP:
            if not 0.0 < value < 1.0:
                raise invalid("goal", "must be a fraction of the initial gap, between 0 and 1", value)
            x = optimizer().x
            first = problem.objective(x)
            self.goal = Goal(metric, value, first, min(minimum(problem, x, _ENOUGH), first - 1e-300))
        else:
            self.goal = Goal(metric, value)
        self._whole: dict[int, Shard] = {}
        self._laid_out: tuple[Scheme, bool, tuple[Scheme, Programs]] | None = None  # what was trained with last

    def run(self, oracle: Oracle[Any, Any], early: Early = "") -> tuple[float, float]:
        """Train until the goal is met, and return the number of steps and the metric at the end.

        Arguments:
            oracle, early: as in `measures`.

        Returns:
            The number of steps, inf if the goal was not met; and the metric after the last step.
        """
        measured = math.nan
        for step, measured in enumerate(self.measures(oracle, early), start=1):
            if self.goal.met(measured):
                return float(step), measured
        return math.inf, measured

    def measures(self, oracle: Oracle[Any, Any], early: Early = "") -> Iterator[float]:
        """Train, and yield the metric after each step; if the model is no longer finite, yield NaN and end.

        Arguments:
            oracle: answers the orders, anew for each run; training ends when it raises `Unreachable`.
            early: what the optimizer is told of early orders.
        """
        optimizer = self.optimizer()
        optimizer.begin(self.problem, early=early)
        stepper = Stepper(optimizer, oracle)
        while not optimizer.converged:
            try:
                stepper.step()
            except Diverged:
                yield math.nan
                return
            except (Unreachable, EngineError):
                return
            yield self.goal.measure(self.problem, optimizer.best)

    def weighted(self, weights: Array | None, n_tasks: int) -> WeightedTasks:
        """Return what answers orders with given weights of the tasks.

        Arguments:
            weights: weight of each task in each step, shape (steps, n_tasks); None for the exact gradient in up to
                `max_steps` steps.
            n_tasks: number of tasks.
        """
        if n_tasks not in self._whole:
            self._whole[n_tasks] = self.problem.shard(list(split_samples(self.problem.n_samples, n_tasks)))
        rows = np.broadcast_to(1.0, (self.max_steps, n_tasks)) if weights is None else weights
        return WeightedTasks(self.problem, self._whole[n_tasks], rows)

    def laid_out(self, scheme: Scheme, early: bool) -> tuple[Scheme, Programs]:
        """Return a scheme as a run has it, and its programs; those of one scheme alone are kept.

        Arguments:
            scheme: the scheme.
            early: whether steps may stop early; its tasks are cut into pieces then.
        """
        if self._laid_out is None or self._laid_out[0] is not scheme or self._laid_out[1] != early:
            form = partial(laid_out, problem=self.problem, optimizer=self.optimizer(), shards={}, by_task=True)
            layout = in_pieces(scheme, self.problem, form) if early else (scheme, form(scheme))
            self._laid_out = scheme, early, layout
        return self._laid_out[2]

    @cached_property
    def asks_early(self) -> bool:
        """Whether the optimizer begins with early orders if it is allowed to."""
        optimizer = self.optimizer()
        optimizer.begin(self.problem, early="preempt")
        return kind_of(optimizer.ask().kind).few

    @cached_property
    def exact(self) -> tuple[float, float]:
        """Number of steps to the goal with the exact gradient, and the metric at the end: see `run`."""
        return self.run(self.weighted(None, 1))


class WeightedTasks(Oracle[Answered, Answered]):
    """Answers each order by the sum of all tasks' gradients, each with the weight that it has in that step.

    Arguments:
        problem: the problem.
        shard: it holds all tasks.
        weights: of each task in each step, shape (steps, n_tasks).
    """

    def __init__(self, problem: Problem, shard: Shard, weights: Array) -> None:
        self._problem, self._shard, self._weights = problem, shard, weights

    def answer(self, asked: Order, tried: bool) -> Answered:
        if asked.step >= len(self._weights):
            raise Unreachable("The steps of a trial are used up.")
        problem, shard, weights = self._problem, self._shard, self._weights[asked.step]
        if not weights.any():
            return _answered(problem, asked, None, exact=False)
        sums = np.zeros(problem.n_parameters + 1)
        for point, factor in zip(models_of(asked), asked.coefficients or (1.0,), strict=True):
            local = shard.take(point)
            out = np.empty(len(local) + 1)
            out[-1] = shard.combine(local, factor * weights, asked.step, out[:-1])
            sums += _spread(shard, out, problem.n_parameters)
        if asks_curvature(asked):
            out = np.empty(len(shard.take(asked.points[0])) + 1)
            out[-1] = shard.curvature(weights, out[:-1])
            sums = np.append(sums, _spread(shard, out, problem.n_parameters))
        if wanted := block_of(asked):
            out = np.empty(int(wanted["numbers"]))
            local, marks = map(shard.take, asked.points)
            shard.block(local, marks, weights, bool(wanted["coupled"]), out)
            sums = np.append(sums, out)
        return _answered(problem, asked, sums, exact=bool((weights == 1.0).all()))

    def record(self, answered: Answered, optimizer: Optimizer) -> Answered:
        return answered


class DecodedMessages(Oracle[Answered, Answered]):
    """Answers each order by what is decoded of the messages that had arrived in that step, to the bit as in a run.

    Arguments:
        problem: the problem.
        scheme: its code, decoder and aggregation, which remembers nothing.
        programs: those of its workers, laid out.
        arrived: for each step and message of the code, whether it has arrived, shape (steps, n_messages).
    """

    def __init__(self, problem: Problem, scheme: Scheme, programs: Programs, arrived: BoolArray) -> None:
        self._problem, self._scheme, self._arrived = problem, scheme, arrived
        senders, self._layout, _ = programs
        self._senders = {spec.message: (program, spec) for program in senders for spec in program.sent(by_task=False)}

    def answer(self, asked: Order, tried: bool) -> Answered:
        if asked.step >= len(self._arrived):
            raise Unreachable("The steps of a trial are used up.")
        messages: list[int] = np.flatnonzero(self._arrived[asked.step]).tolist()
        vectors: dict[int | None, Array] = {}  # by content: replicas send the same
        arrived: dict[int, Array] = {}
        for message in messages:
            program, spec = self._senders[message]
            if spec.content is None or spec.content not in vectors:
                wanted = as_asked(spec, asked, self._scheme.code.n_pieces)
                vectors[spec.content] = np.empty(wanted.length, dtype_of(wanted.dtype))
                program.compute(wanted, program.take(asked), vectors[spec.content])
            arrived[message] = vectors[spec.content]
        if not messages:
            return _answered(self._problem, asked, None, exact=False)
        aggregation, decoding = self._scheme.aggregation, self._scheme.decoder.decode(messages)
        used = Vectors([arrived[message] for message in decoding.messages.tolist()], arrived)
        sums = estimated(aggregation, decoding, used, self._layout, asked)
        return _answered(self._problem, asked, sums, exact=aggregation.faithful and decoding.exact)

    def record(self, answered: Answered, optimizer: Optimizer) -> Answered:
        return answered


def _answered(problem: Problem, order: Order, sums: Array | None, exact: bool) -> Answered:
    """Return an order with its answer.

    Arguments:
        problem: the problem.
        order: the order.
        sums: gradient and loss, followed by what else it asks for; None if nothing is known.
        exact: whether they are those of all tasks.
    """
    if sums is None:
        return Answered(order, answer_of(problem, order, None))
    if not finite(sums):
        return Answered(order, answer_of(problem, order, None, overflowed=True))
    parts = cut(order, sums, problem.n_parameters + 1)
    return Answered(order, answer_of(problem, order, *parts, exact=exact))


def _spread(shard: Shard, local: Array, n_parameters: int) -> Array:
    """Return a vector on a shard's support, and the number behind it, as one of all parameters."""
    if shard.support is None:
        return local
    whole = np.zeros(n_parameters + 1)
    whole[shard.support], whole[-1] = local[:-1], local[-1]
    return whole
