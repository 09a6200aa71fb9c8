"""A whole problem on this machine, which answers orders from all samples."""

from __future__ import annotations

from typing import final

import numpy as np

from erasurehead._internal.arrays import finite
from erasurehead.engines import Order
from erasurehead.errors import InvalidArgument
from erasurehead.optimizers import Optimizer
from erasurehead.optimizers._order_kinds import asks_curvature
from erasurehead.problems import Problem
from erasurehead.training._stepper import Answered, Oracle, answer_of


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
        (exact,) = problem.exact(asked.points)
        if exact.n_samples < problem.n_samples:
            reach = f"only {exact.n_samples:,} of {problem.n_samples:,} samples are in reach of the coordinator"
            raise OutOfReach("problem", "must have all its samples in reach of the coordinator", sentence=reach)
        sums = np.append(exact.gradient, exact.loss)
        overflowed = not finite(sums)
        curvature = np.append(*problem.curvature()) if asks_curvature(asked) else None
        answer = answer_of(problem, asked, None if overflowed else sums, curvature, exact=True, overflowed=overflowed)
        return Answered(asked, answer)

    def record(self, answered: Answered, optimizer: Optimizer) -> Answered:
        return answered
