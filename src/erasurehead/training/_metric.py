"""A metric of the model that is measured during training, so that the run can end by it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead.problems import Problem
from erasurehead.training._optimum import Optimum


@dataclass(frozen=True, eq=False)
class Metric:
    """A number that says how good a model is.

    Arguments:
        problem: what is minimised.
        name: `gap`, `objective`, or a metric that the problem computes on the test samples.
        optimum: the minimum that a gap is measured from; only needed for gaps.
    """

    problem: Problem
    name: str
    optimum: Optimum | None = None

    def value(self, x: Array) -> float:
        """Return the metric of a model; not finite if the model has diverged."""
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
    """One measured value of the metric by which a run may end.

    Attributes:
        step: number of steps done.
        time: seconds of training until then.
        value: value of the metric.
        seconds: real seconds that measuring took. On engines of real workers they are part of the next step's time,
            unless another process measured.
        beside: whether another process measured, while training went on.
    """

    step: int
    time: float
    value: float
    seconds: float
    beside: bool = False
