"""Steps, one at a time, whoever answers the orders: ask the optimizer, have the order answered, tell the optimizer.

`train` takes its steps with the workers of an engine (`WorkerOracle`). A problem as a whole on this machine
(`WholeProblem`), which finds minima, and the planner's simulated arrivals are stepped through in the same way.

A step whose objective or model is not finite (NaN or infinite) raises `Diverged`; where it is the gradient estimate,
`RoundRunner` does.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Generic, TypeVar, final

import numpy as np

from erasurehead._internal.arrays import Array, finite
from erasurehead._internal.foreign_arrays import freeze
from erasurehead._internal.signals import uninterrupted
from erasurehead.engines import Order
from erasurehead.errors import Diverged, InvalidArgument, invalid
from erasurehead.optimizers import Optimizer
from erasurehead.optimizers._base import Answer
from erasurehead.optimizers._order_kinds import asks_curvature, block_of, models_of
from erasurehead.problems import Problem


def diverged(step: int, what: str) -> Diverged:
    """Return the error for something that is not finite before a step moves the model."""
    first = "the model has not moved yet, so that the cause is the first model, the data or the problem"
    return Diverged(f"step {step}: the {what} not finite: {'the model has diverged' if step else first}")


@dataclass(frozen=True, eq=False)
class Answered:
    """An order with its answer.

    Attributes:
        order: the order, as it was answered: `WorkerOracle` numbers and dates it.
        answer: the answer, with the penalty.
    """

    order: Order
    answer: Answer


A = TypeVar("A", bound=Answered)
R = TypeVar("R")


class Oracle(ABC, Generic[A, R]):
    """Answers orders, and records the steps that are made of them."""

    @abstractmethod
    def answer(self, asked: Order, tried: bool) -> A:
        """Return the answer to an order.

        Arguments:
            asked: what the optimizer asks for.
            tried: whether its point is only tried: if vectors are not finite there, the answer says so.
        """

    @abstractmethod
    def record(self, answered: A, optimizer: Optimizer) -> R:
        """Record a step that is done, and return the record.

        Arguments:
            answered: what the optimizer was told.
            optimizer: the optimizer, after it has moved.
        """


class Stepper(Generic[A, R]):
    """Takes one step at a time.

    Arguments:
        optimizer: asked for orders, and told their answers; after `begin`.
        oracle: answers them.
    """

    def __init__(self, optimizer: Optimizer, oracle: Oracle[A, R]) -> None:
        self._optimizer, self._oracle = optimizer, oracle

    def step(self) -> R:
        """Take one step.

        Returns:
            The oracle's record of it.

        Raises:
            Diverged: if the objective, or the model that the step leads to, is not finite; or as the oracle raises it.
        """
        optimizer = self._optimizer
        tried, shape, order = optimizer.trying, optimizer.x.shape, optimizer.ask()
        if not isinstance(order, Order):  # pyright: ignore[reportUnnecessaryIsInstance]  # of somebody's own optimizer
            raise invalid("optimizer", "must return an order when it is asked", order)
        for point in (optimizer.x, *order.points):  # what is of somebody's own might change them in place
            freeze(point)
        answered = self._oracle.answer(order, tried)
        value, step = answered.answer.value, answered.order.step
        if value is not None and not math.isfinite(value) and not tried:  # gradients may be finite there
            raise diverged(step, "objective is")
        with uninterrupted():  # once the model has moved, the step must be recorded
            taken = optimizer.step
            _tell(optimizer, answered.answer)
            if optimizer.step != taken + 1:
                hint = "tell ends with self.step += 1"
                raise invalid("optimizer", "must count each answer as a step", optimizer.step - taken, hint)
            if not isinstance(optimizer.x, np.ndarray) or optimizer.x.shape != shape:  # pyright: ignore[reportUnnecessaryIsInstance]
                raise invalid("optimizer", f"must leave a model of shape {shape} in x", optimizer.x)
            if not finite(optimizer.x):
                raise Diverged(f"step {step}: the model that it ends with is not finite: the model has diverged")
            for model in (optimizer.x, optimizer.best):
                freeze(model)
            return self._oracle.record(answered, optimizer)


def _tell(optimizer: Optimizer, answer: Answer) -> None:
    try:
        optimizer.tell(answer)
    except ValueError as error:
        if type(error) is ValueError:  # of NumPy, probably
            hint = "write self.x = self.x - step, not self.x -= step"
            error.add_note(f"The model of an optimizer, and what it is told, cannot be changed in place: {hint}.")
        raise


def answer_of(
    problem: Problem,
    order: Order,
    sums: Array | None,
    curvature: Array | None = None,
    block: Array | None = None,
    *,
    exact: bool = False,
    overflowed: bool = False,
) -> Answer:
    """Return the answer that is made of what came of an order: with the penalty, and the objective beside it.

    Arguments:
        problem: what is minimised.
        order: the order.
        sums: what its messages add up to: gradient, then loss, shape (n_parameters + 1,); None if nothing is known.
        curvature: likewise: bounds on the curvature along each parameter, then the mean number of a sample's entries
            that are not 0; None if they were not asked for.
        block: likewise: second derivatives between columns.
        exact: as in the answer.
        overflowed: whether nothing is known because vectors were not finite at a point that was only tried.
    """
    gradient: Array | None = None
    value = math.inf if overflowed else None
    if sums is not None:
        gradient = sums[:-1]
        if problem.regularizer.smooth:
            for point, factor in zip(models_of(order), order.coefficients or (1.0,), strict=True):
                penalty = problem.penalty_gradient(point)
                if factor != 1.0:
                    penalty *= factor
                penalty += gradient  # in place: another array of a large model would not stay in cache
                gradient = penalty
        if not order.coefficients:  # the loss of a combination of points is none
            value = float(sums[-1]) + problem.penalty(order.points[0])
        freeze(gradient)  # the step's row is made of it, after the optimizer has had it
    bound = None if curvature is None else (curvature[:-1], float(curvature[-1]))
    return Answer(gradient, value, exact, bound, block)


class OutOfReach(InvalidArgument):
    """Some samples are not on this machine, so that the objective cannot be computed here."""


@final
class WholeProblem(Oracle[Answered, Answered]):
    """Answers orders of one point by full gradients, as workers do of whom none is late.

    Where the objective or its gradient is not finite, the answer has no estimate, and its value is inf.

    Arguments:
        problem: what is minimised; all of its samples must be in reach here.
    """

    def __init__(self, problem: Problem) -> None:
        self._problem = problem

    def answer(self, asked: Order, tried: bool) -> Answered:
        """Return the answer to an order.

        Raises:
            OutOfReach: if samples are not on this machine.
        """
        problem = self._problem
        (exact,) = problem.exact(models_of(asked))
        if exact.n_samples < problem.n_samples:
            reach = f"only {exact.n_samples:,} of {problem.n_samples:,} samples are in reach of the coordinator"
            raise OutOfReach("problem", "must have all its samples in reach of the coordinator", sentence=reach)
        sums = np.append(exact.gradient, exact.loss)
        overflowed = not finite(sums)
        curvature = np.append(*problem.curvature()) if asks_curvature(asked) else None
        block = None
        if wanted := block_of(asked):
            block = np.empty(int(wanted["numbers"]))
            x, marks = asked.points
            problem.block(x, marks, bool(wanted["coupled"]), block)
        sums = None if overflowed else sums
        answer = answer_of(problem, asked, sums, curvature, block, exact=True, overflowed=overflowed)
        return Answered(asked, answer)

    def record(self, answered: Answered, optimizer: Optimizer) -> Answered:
        return answered
