"""How many steps a setting needs: how fast its estimates bring the objective down, and how far their noise lets it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from erasurehead.errors import invalid, real
from erasurehead.optimizers.base import Optimizer
from erasurehead.planning.convergence import Constants
from erasurehead.planning.task_weights import Counted
from erasurehead.planning.trainer import GAP, Trainer
from erasurehead.problems.base import Problem

NOISE = 0.01
"""Of data whose rows are in no order. Measured: 97 settings on 12 workers, to a gap of 0.01, are met by it."""

SORTED_NOISE = 0.3
"""Of data whose tasks differ as much as rows sorted by their label do."""

PACE = 0.05
"""About ninety exact steps to a gap of 0.01."""

_NOISY = 6  # runs that the noise is measured by


@dataclass(frozen=True)
class Accuracy:
    """What is to be reached, and what the data are like.

    Arguments:
        gap: the part of the first gap of the objective, f(x_0) - f*, that may remain, in (0, 1).
        noise: the part of it around which a run hovers whose every step sees the gradient of one random task alone:
            how much tasks differ. At least 0.
        pace: by how much an exact step lowers the logarithm of the gap, greater than 0.
    """

    gap: float = 0.01
    noise: float = NOISE
    pace: float = PACE

    def __post_init__(self) -> None:
        if not 0.0 < real(self.gap) < 1.0:
            raise invalid("gap", "must be a part of the first gap, between 0 and 1", self.gap)
        if not (math.isfinite(real(self.noise)) and self.noise >= 0.0):
            raise invalid("noise", "must be at least 0 and finite", self.noise)
        if not (math.isfinite(real(self.pace)) and self.pace > 0.0):
            raise invalid("pace", "must be greater than 0 and finite", self.pace)

    @classmethod
    def of(cls, constants: Constants, epsilon: float) -> Accuracy:
        """Return what the constants of an objective come to, for steps of size 1 / beta.

        Their `sigma` is the longest gradient of a task: a gradient of one task alone is off by so much at most.
        """
        kappa = min(constants.kappa, 1.0 - 1e-12)
        noise = constants.sigma**2 / (4.0 * constants.beta * constants.gap)
        return cls(min(epsilon / constants.gap, 1.0 - 1e-12), noise, -math.log1p(-kappa))

    def to(self, gap: float) -> Accuracy:
        """Return the same data with another gap to reach."""
        return replace(self, gap=gap)

    @property
    def exact_steps(self) -> float:
        """Steps that the exact gradient needs, not rounded."""
        return math.log(1.0 / self.gap) / self.pace

    def floor(self, counted: Counted) -> float:
        """Return the part of the first gap that the errors of a setting's estimates keep.

        Noise of variance s^2 leaves steps of size r hovering r s^2 / 4 above the minimum, whatever the curvature;
        a constant error b of the gradient, ||b||^2 / (2 curvature). With s^2 and b^2 in units of how far one task's
        gradient is off, and the curvature times r about half the pace, that is noise * (variance + 4 bias / pace).
        Errors of successive steps that are alike add up, until the pace has made them forgotten.
        """
        variance = counted.noise(math.exp(-0.5 * self.pace))
        return self.noise * (variance / max(counted.mean, 1e-300) + 4.0 * counted.bias / self.pace)

    def steps(self, counted: Counted) -> float:
        """Return the steps that a setting needs, not rounded; inf where its errors keep it from the gap.

        The gap falls by `pace * mean` a step towards the floor: 1 / (1 - missing) for an estimate that is left too
        short, and no slower than with the exact gradient for one that is rescaled, as long as the floor is far below.
        """
        floor = self.floor(counted)
        if counted.mean <= 0.0 or floor >= self.gap:
            return math.inf
        return math.log((1.0 - floor) / (self.gap - floor)) / (self.pace * min(counted.mean, 1.0))


def measured_accuracy(
    problem: Problem, optimizer: Callable[[], Optimizer], n_tasks: int, gap: float, max_steps: int
) -> Accuracy:
    """Measure how far noise keeps training from a gap, with the optimizer and the step size that are used.

    Momentum adds the noise of many steps up, so that tasks alone do not tell it: training is repeated with half of the
    tasks missing at random, and what that adds to the gap is the noise; divided by the variance of those estimates it
    holds for others. It adds up for a while, so that what counts is what has come by the time at which exact training
    has met the target, up to twice that time.

    Arguments:
        problem: with its penalty.
        optimizer: makes a new optimizer at its initial model.
        n_tasks: n, tasks of consecutive samples as in training.
        gap: to be reached.
        max_steps: steps that training has, at least 1.
    """
    trainer = Trainer(problem, optimizer, (GAP, gap), max_steps)
    exact = list(trainer.measures(None, n_tasks))
    needed = next((step for step, left in enumerate(exact, start=1) if left <= gap), len(exact))
    window = slice(min(needed, len(exact)) - 1, min(len(exact), 2 * needed))
    pace = math.log(1.0 / min(max(exact[needed - 1], 1e-12), 0.9)) / needed
    random = np.random.default_rng(0)
    added: list[float] = []
    spread: list[float] = []
    for _ in range(_NOISY):
        there = random.random((window.stop, n_tasks)) < 0.5
        there[np.flatnonzero(~there.any(axis=1)), 0] = True
        weights = there * (n_tasks / there.sum(axis=1, keepdims=True))
        spread.append(float(((weights - 1.0) ** 2).sum(axis=1).mean()) / n_tasks**2)
        path = list(trainer.measures(weights, n_tasks))
        if len(path) < window.stop or not math.isfinite(path[-1]):
            return Accuracy(gap, 1.0, pace)
        added.append(float(np.mean(path[window])) - float(np.mean(exact[window])))
    noise = max(0.0, float(np.mean(added))) / float(np.mean(spread))
    return Accuracy(gap, noise if math.isfinite(noise) else 1.0, pace)
