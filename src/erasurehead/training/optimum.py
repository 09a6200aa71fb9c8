"""The minimum of an objective, found on this machine and off the clock: gaps are measured from it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from erasurehead._internal.arrays import Array, squared_norm
from erasurehead.errors import InvalidArgument
from erasurehead.optimizers.quasi_newton import QuasiNewton
from erasurehead.problems.base import Problem
from erasurehead.training.undistributed import OutOfReach, minimized, objective_and_gradient

TIGHT = 1e-9
"""Norm of the gradient, relative to that at the first model, up to which a minimum counts as found."""

_PATIENCE = 100  # steps within which the gradient must have become shorter
_MOST_ROUNDS = 40
_PASSES = 2_000  # of L-BFGS per round; it restarts where its line search ends at rounding


@dataclass(frozen=True)
class Optimum:
    """The minimum of an objective.

    Attributes:
        objective: objective at the minimum, f*.
        first_objective: objective at the first model, f(x0).
        gradient_left: norm of the gradient at the minimum, relative to that at the first model.
    """

    objective: float
    first_objective: float
    gradient_left: float

    def gap(self, objective: float) -> float:
        """Return (f(x) - f*) / (f(x0) - f*): 1 at the first model, 0 at the minimum."""
        return max(0.0, objective - self.objective) / (self.first_objective - self.objective)


def find_optimum(problem: Problem, first: Array) -> Optimum:
    """Find the minimum of the full objective, penalty included, by L-BFGS from the first model.

    Arguments:
        problem: what is minimised; all of its samples must be in reach here.
        first: the first model, shape (n_parameters,).

    Raises:
            InvalidArgument: if it is not found: samples are out of reach, the objective has no minimum, L-BFGS does not
                converge to it, or the first model is the minimum.
    """
    from scipy import optimize

    if problem.regularizer.sharp:
        raise _refused(f"the penalty {problem.regularizer} is not smooth, which L-BFGS needs")
    if not problem.convex:
        raise _refused("the objective may not be convex, so a minimum that is found may not be the global one")

    def both(x: Array) -> tuple[float, Array]:
        try:
            return objective_and_gradient(problem, x)
        except OutOfReach as error:
            raise _refused(str(error)) from None

    minimize: Any = optimize.minimize  # its stubs know neither these options nor their results
    x = np.asarray(first, dtype=np.float64)
    start, gradient = both(x)
    size = squared_norm(gradient) ** 0.5
    if not (np.isfinite(start) and np.isfinite(size)):
        raise _refused("the objective of the first model is not finite")
    best, left = start, 1.0
    with np.errstate(over="ignore", invalid="ignore"):
        for _ in range(_MOST_ROUNDS if size else 0):
            options = {"maxiter": _PASSES, "maxfun": 4 * _PASSES, "maxcor": 20, "ftol": 0.0, "gtol": 0.0}
            found = minimize(both, x, jac=True, method="L-BFGS-B", options=options)
            value, gradient = both(np.asarray(found.x))
            moved = value < best or bool((found.x != x).any())
            x, best, left = np.asarray(found.x), min(best, value), squared_norm(gradient) ** 0.5 / size
            if left <= 1e-3 * TIGHT or not moved:
                break
        if size and not left <= TIGHT:  # L-BFGS-B compares objectives only, which drown in rounding before that
            x, value, left = _polished(problem, x, TIGHT * size)
            best, left = min(best, value), left / size
    if size and not left <= TIGHT:
        raise _refused(
            f"L-BFGS ended where the gradient is still {left:.2g} of what it was at the first model; a penalty (l2) "
            "gives an objective a minimum, and columns of similar scales make it easier to find"
        )
    if not best < start:
        raise _refused("the first model is the minimum already")
    return Optimum(best, start, left)


def _polished(problem: Problem, x: Array, short: float) -> tuple[Array, float, float]:
    """Continue with a method that compares slopes where objectives are too close; return model, value and norm.

    Arguments:
        problem: what is minimised.
        x: a model near the minimum.
        short: norm of the gradient that is small enough.
    """
    optimizer = QuasiNewton(x)
    optimizer.begin(problem)
    found, since = (x, math.inf, math.inf), 0
    for point in minimized(problem, optimizer):
        length = math.inf if point.gradient is None else squared_norm(point.gradient) ** 0.5
        since += 1
        if length < found[2]:
            found, since = (point.x, point.objective, length), 0
        if found[2] <= short or since >= _PATIENCE:
            break
    return found


def _refused(why: str) -> InvalidArgument:
    return InvalidArgument(
        "until", "must not be a gap where the minimum of the objective cannot be found",
        sentence=f"until 'gap ...' needs the minimum of the objective, which cannot be found: {why}. Another "
        "target, such as 'objective < 0.3', needs none.",
    )  # fmt: skip
