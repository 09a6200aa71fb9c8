"""What is measured of a model while training goes on, so that the run may end by it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead.problems.base import Problem
from erasurehead.training.optimum import Optimum


@dataclass(frozen=True, eq=False)
class Metric:
    """A number that says how good a model is.

    Arguments:
        problem: what is minimised.
        name: `gap`, `objective`, or one that the problem measures on the test samples.
        optimum: what a gap is measured from; needed for nothing else.
    """

    problem: Problem
    name: str
    optimum: Optimum | None = None

    def value(self, x: Array) -> float:
        """Return the metric of a model; not finite of one that has run away."""
        with np.errstate(over="ignore", invalid="ignore"):
            return self._value(x)

    def _value(self, x: Array) -> float:
        if self.name == "gap":
            assert self.optimum is not None
            return self.optimum.gap(self.problem.objective(x))
        if self.name == "objective":
            return self.problem.objective(x)
        return float(self.problem.metrics(x)[self.name])


@dataclass(frozen=True)
class Measured:
    """A value of the metric that a run is to reach.

    Attributes:
        step: number of steps done.
        time: seconds of training until the model was there.
        value: of the metric.
        seconds: that measuring took, in real time. On engines of real workers they are part of the next step's time,
            unless it was done beside.
        beside: whether it was measured by a process of its own, while training went on.
    """

    step: int
    time: float
    value: float
    seconds: float
    beside: bool = False
