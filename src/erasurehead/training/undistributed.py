"""A whole problem on this machine: its objective from all samples, and an optimizer that minimises it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead.errors import InvalidArgument
from erasurehead.optimizers.base import Optimizer
from erasurehead.problems.base import CURVATURE, Problem


class OutOfReach(InvalidArgument):
    """Some samples are not on this machine, so that the objective cannot be computed here."""


@dataclass(frozen=True, eq=False)
class Point:
    """A point at which an optimizer asked for the gradient.

    Attributes:
        x: the point, shape (n_parameters,).
        objective: its objective, with the penalty; inf where it or its gradient is not finite.
        gradient: gradient of the objective there, shape (n_parameters,); None where it is not finite.
    """

    x: Array
    objective: float
    gradient: Array | None


def objective_and_gradient(problem: Problem, x: Array) -> tuple[float, Array]:
    """Return the objective at a model and its gradient, shape (n_parameters,), from all samples and with the penalty.

    Raises:
        OutOfReach: if samples are not on this machine.
    """
    (found,) = problem.exact([x])
    if found.n_samples < problem.n_samples:
        said = f"only {found.n_samples:,} of {problem.n_samples:,} samples are in reach of the coordinator"
        raise OutOfReach("problem", "must have all its samples in reach of the coordinator", sentence=said)
    return found.loss + problem.penalty(x), found.gradient + problem.penalty_gradient(x)


def minimized(problem: Problem, optimizer: Optimizer) -> Iterator[Point]:
    """Move an optimizer by full gradients, as the training loop does where no worker is late.

    Arguments:
        problem: what is minimised.
        optimizer: an optimizer after `begin`, which asks for one point at a time.

    Yields:
        Each point, after the optimizer has been told of it, endlessly: check `converged`.

    Raises:
        OutOfReach: as `objective_and_gradient`.
    """
    optimizer.exact = True
    while True:
        order = optimizer.ask()
        (x,) = order.points
        if order.kind == CURVATURE:
            optimizer.curvature = problem.curvature()
        value, gradient = objective_and_gradient(problem, x)
        overflowed = not (np.isfinite(value) and np.isfinite(gradient).all())  # the step was too long
        point = Point(x, np.inf, None) if overflowed else Point(x, value, gradient)
        optimizer.value = point.objective
        optimizer.tell(point.gradient)
        yield point
