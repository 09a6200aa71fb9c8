"""The minimum of an objective, found on this machine and off the clock: gaps are measured from it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from erasurehead._internal.arrays import Array, squared_norm
from erasurehead.engines import Order
from erasurehead.errors import Diverged, InvalidArgument
from erasurehead.optimizers import QuasiNewton
from erasurehead.optimizers._scaling import penalty_curvature
from erasurehead.problems import Problem
from erasurehead.training._stepper import OutOfReach, Stepper, WholeProblem

TIGHT = 1e-9
"""Norm of the gradient, relative to that at the first model, up to which a minimum counts as found."""

_PATIENCE = 100  # steps within which the gradient must have become shorter
_MOST_ROUNDS = 40  # each with a memory of its own


@dataclass(frozen=True)
class Optimum:
    """The minimum of an objective.

    Attributes:
        objective: objective at the minimum, f*.
        first_objective: objective at the first model, f(x0).
        gradient_left: norm of the gradient at the minimum, relative to that at the first model; where the problem tells
            curvatures, both in units in which those along all parameters are alike.
    """

    objective: float
    first_objective: float
    gradient_left: float

    def gap(self, objective: float) -> float:
        """Return (f(x) - f*) / (f(x0) - f*): 1 at the first model, 0 at the minimum."""
        return max(0.0, objective - self.objective) / (self.first_objective - self.objective)


def find_optimum(problem: Problem, first: Array) -> Optimum:
    """Find the minimum of the full objective, penalty included, by the default solver from the first model.

    Gradients are measured in units in which the bound on the curvature along each parameter is 1, where the problem
    tells these (`Problem.curved`): a gradient that is short in the units of the data may be all that is left to gain
    along columns of small numbers.

    Arguments:
        problem: what is minimised; all of its samples must be in reach here.
        first: the first model, shape (n_parameters,).

    Raises:
        InvalidArgument: if it is not found: samples are out of reach, the objective has no minimum, the solver does not
            come to it, or the first model is the minimum.
    """
    if problem.regularizer.sharp:
        raise _refused(f"the penalty {problem.regularizer} is not smooth, so that no gradient tells how far it is")
    if not problem.convex:
        raise _refused("the objective may not be convex, so a minimum that is found may not be the global one")

    x = np.asarray(first, dtype=np.float64)
    try:
        answer = WholeProblem(problem).answer(Order(0, (x,)), tried=True).answer
    except OutOfReach as error:
        raise _refused(str(error)) from None
    start, gradient = answer.value, answer.estimate
    if start is None or gradient is None or not (np.isfinite(start) and np.isfinite(squared_norm(gradient))):
        raise _refused("the objective of the first model is not finite")
    units = _units(problem)
    size = squared_norm(units * gradient) ** 0.5
    best, left = start, 1.0
    with np.errstate(over="ignore", invalid="ignore"):
        for _ in range(_MOST_ROUNDS if size else 0):
            x, value, length = _nearer(problem, x, units, TIGHT * size)
            moved, best, left = value < best, min(best, value), length / size
            if left <= TIGHT or not moved:
                break
    if size and not left <= TIGHT:
        raise _refused(
            f"the solver ended where the gradient is still {left:.2g} of what it was at the first model; a penalty "
            "(l2) gives an objective a minimum, and columns of similar scales make it easier to find"
        )
    if not best < start:
        raise _refused("the first model is the minimum already")
    return Optimum(best, start, left)


def _units(problem: Problem) -> Array:
    """Return the units in which each parameter's bound on the curvature is 1; all 1 where none are known."""
    if not problem.curved:
        return np.ones(problem.n_parameters)
    with np.errstate(over="ignore", invalid="ignore"):
        own = problem.curvature()[0] + penalty_curvature(problem.regularizer, problem.n_parameters)
    positive = np.isfinite(own) & (own > 0.0)
    return np.where(positive, own, 1.0) ** -0.5


def _nearer(problem: Problem, x: Array, units: Array, short: float) -> tuple[Array, float, float]:
    """Go down from a model by the solver, which compares slopes where objectives are too close.

    Arguments:
        problem: what is minimised.
        x: the model.
        units: that gradients are measured in, shape (n_parameters,).
        short: norm of the gradient that is small enough.

    Returns:
        The point of the smallest gradient: the model, its objective, and that norm.
    """
    optimizer = QuasiNewton(x)
    optimizer.begin(problem)
    nearest, since = (x, math.inf, math.inf), 0
    stepper = Stepper(optimizer, WholeProblem(problem))
    while True:
        try:
            answered = stepper.step()
        except Diverged:
            break
        gradient, value = answered.answer.estimate, answered.answer.value
        length = math.inf if gradient is None else squared_norm(units * gradient) ** 0.5
        since += 1
        if value is not None and length < nearest[2]:
            nearest, since = (answered.order.points[0], value, length), 0
        if nearest[2] <= short or since >= _PATIENCE:
            break
    return nearest


def _refused(why: str) -> InvalidArgument:
    return InvalidArgument(
        "until",
        "must not be a gap where the minimum of the objective cannot be found",
        sentence=f"until 'gap ...' needs the minimum of the objective, which cannot be found: {why}. Another "
        "target, such as 'objective < 0.3', needs none.",
    )
