"""How many steps a setting needs, from the convergence rate of its estimates and the floor that their noise sets."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from erasurehead.errors import check_not_negative, check_positive, invalid, real
from erasurehead.optimizers import Optimizer
from erasurehead.planning._convergence import Constants
from erasurehead.planning._stand_in import SolverPath
from erasurehead.planning._task_weights import Counted
from erasurehead.planning._trainer import GAP, Trainer
from erasurehead.problems import Problem

NOISE = 0.01
"""Noise of data whose rows are in no order; it fits measurements of 97 settings on 12 workers to a gap of 0.01."""

NOISES = (0.17, 0.011, 0.022, 0.041, 0.11, 0.47, 0.3, 0.0, 0.24, 0.065)
"""The noises of the data sets of `benchmarks/plan_steps.py`, without those on which Nesterov's method does not get
anywhere, each split into thirty tasks: with fewer, tasks have more rows, and differ as much less."""

SOLVER_STEPS = {
    0.1: (0.19, 0.066, 0.11, 0.2, 0.45, 0.048, 0.057, 0.021, 0.0094, 0.075),
    0.01: (0.073, 0.052, 0.056, 0.12, 0.17, 0.027, 0.039, 0.00075, 0.0052, 0.043),
    0.001: (0.057, 0.086, 0.048, 0.06, 0.088, 0.014, 0.024, 0.0019, 0.0026, 0.046),
}
"""By gap, how long `adaptive` took on each of these data over the steps of Nesterov's method with exact gradients, as a
multiple of what it took on the stand-in (`_stand_in.py`)."""

_SPLIT = 30  # tasks of those data

SORTED_NOISE = 0.3
"""Noise of data whose tasks differ as much as those of rows sorted by label."""

PACE = 0.05
"""Pace at which about ninety exact steps reach a gap of 0.01."""

_NOISY = 6  # runs from which the noise is measured


@dataclass(frozen=True)
class Accuracy:
    """The target of training, and how the data behave.

    Arguments:
        gap: fraction of the initial gap of the objective, f(x_0) - f*, that may remain, in (0, 1).
        noise: fraction of the initial gap around which a run hovers if each step sees the gradient of only one random
            task: a measure of how much tasks differ. At least 0.
        pace: decrease of the logarithm of the gap in an exact step, greater than 0.
        noises: those of other data in thirty tasks, where the noise is assumed; None where it was given, or measured.
        solver: whether `adaptive` is assumed to take fewer steps than exact descent, as it did on other data.
    """

    gap: float = 0.01
    noise: float = NOISE
    pace: float = PACE
    noises: tuple[float, ...] | None = NOISES
    solver: bool = True

    def __post_init__(self) -> None:
        if not 0.0 < real(self.gap) < 1.0:
            raise invalid("gap", "must be a fraction of the initial gap, between 0 and 1", self.gap)
        check_not_negative("noise", self.noise)
        check_positive("pace", self.pace)

    @classmethod
    def of(cls, constants: Constants, epsilon: float) -> Accuracy:
        """Return the accuracy that follows from the constants of an objective, for steps of size 1 / beta.

        `constants.sigma`, the largest gradient norm of a task, bounds the error of the gradient of a single task.

        Arguments:
            constants: constants of the objective and its gradients.
            epsilon: error f - f* to reach, greater than 0.
        """
        kappa = min(constants.kappa, 1.0 - 1e-12)
        noise = constants.sigma**2 / (4.0 * constants.beta * constants.gap)
        return cls(min(epsilon / constants.gap, 1.0 - 1e-12), noise, -math.log1p(-kappa), None, solver=False)

    def to(self, gap: float) -> Accuracy:
        """Return a copy with another gap to reach, in (0, 1)."""
        return replace(self, gap=gap)

    @property
    def exact_steps(self) -> float:
        """Number of steps that training with the exact gradient needs, not rounded."""
        return math.log(1.0 / self.gap) / self.pace

    def solver_steps(self, paths: Sequence[SolverPath]) -> tuple[float, ...]:
        """Return how long `adaptive` takes on each of the other data, relative to the steps of exact descent.

        Arguments:
            paths: how it went on the stand-in; if there are none, nothing is assumed of other data.
        """
        if not (self.solver and paths):
            return ()
        own_steps = float(np.mean([path.to(self.gap) for path in paths]))
        gaps = sorted(SOLVER_STEPS)
        columns = zip(*(SOLVER_STEPS[gap] for gap in gaps), strict=True)
        return tuple(own_steps * float(np.interp(math.log(self.gap), np.log(gaps), column)) for column in columns)

    def relative_steps(self, counted: Counted) -> tuple[float, tuple[float, ...]]:
        """Return the steps of a setting over those of exact descent: as expected, and with each of the other noises.

        Arguments:
            counted: how much tasks count in the setting's estimates.
        """
        noises = (noise * len(counted.shares) / _SPLIT for noise in self.noises or ())
        usual, *others = (
            replace(self, noise=noise).steps(counted) / self.exact_steps for noise in (self.noise, *noises)
        )
        return usual, tuple(others)

    def floor(self, counted: Counted) -> float:
        """Return the fraction of the initial gap below which the errors of a setting's estimates keep it.

        With gradient noise of variance s^2, steps of size r hover r s^2 / 4 above the minimum, whatever the curvature;
        with a constant error b of the gradient, ||b||^2 / (2 curvature) above it. With s^2 and b^2 in units of the
        squared error of a single task's gradient, and the curvature times r about half the pace, that is
        noise * (variance + 4 bias / pace). Correlated errors of successive steps add up, but decay with the pace.

        Arguments:
            counted: how much tasks count in the setting's estimates.
        """
        variance = counted.noise(math.exp(-0.5 * self.pace))
        return self.noise * (variance / max(counted.mean, 1e-300) + 4.0 * counted.bias / self.pace)

    def steps(self, counted: Counted) -> float:
        """Return the number of steps that a setting needs, not rounded; inf if its errors keep it above the gap.

        The logarithm of the gap falls by `pace * mean` a step, down to the floor. An estimate that is not rescaled
        needs 1 / (1 - missing) times the exact steps; one that is rescaled needs as many as the exact gradient, as
        long as the floor is far below.

        Arguments:
            counted: how much tasks count in the setting's estimates.
        """
        floor = self.floor(counted)
        if counted.mean <= 0.0 or floor >= self.gap:
            return math.inf
        return math.log((1.0 - floor) / (self.gap - floor)) / (self.pace * min(counted.mean, 1.0))


def measured_accuracy(
    problem: Problem, optimizer: Callable[[], Optimizer], n_tasks: int, gap: float, max_steps: int
) -> Accuracy:
    """Measure noise and pace of training with the optimizer and the step size that are used.

    Momentum accumulates the noise of many steps, so that the gradients of tasks alone do not determine it. Training is
    repeated with half of the tasks missing at random; what that adds to the gap, divided by the variance of those
    estimates, is the noise. As noise accumulates over steps, it is measured from the step at which exact training
    reaches the target up to twice that step.

    Arguments:
        problem: the problem, with its penalty.
        optimizer: makes a new optimizer at its initial model.
        n_tasks: number of tasks, of consecutive samples as in training.
        gap: fraction of the initial gap to reach, in (0, 1).
        max_steps: largest number of training steps, at least 1.

    Returns:
        The accuracy with this gap, and with measured noise and pace; its noise is 1 if training with missing tasks
        diverged.
    """
    trainer = Trainer(problem, optimizer, (GAP, gap), max_steps)
    exact = list(trainer.measures(trainer.weighted(None, n_tasks)))
    needed = next((step for step, left in enumerate(exact, start=1) if left <= gap), len(exact))
    window = slice(min(needed, len(exact)) - 1, min(len(exact), 2 * needed))
    pace = math.log(1.0 / min(max(exact[needed - 1], 1e-12), 0.9)) / needed
    random = np.random.default_rng(0)
    added: list[float] = []
    spread: list[float] = []
    for _ in range(_NOISY):
        arrived = random.random((window.stop, n_tasks)) < 0.5
        arrived[np.flatnonzero(~arrived.any(axis=1)), 0] = True
        weights = arrived * (n_tasks / arrived.sum(axis=1, keepdims=True))
        spread.append(float(((weights - 1.0) ** 2).sum(axis=1).mean()) / n_tasks**2)
        path = list(trainer.measures(trainer.weighted(weights, n_tasks)))
        if len(path) < window.stop or not math.isfinite(path[-1]):
            return Accuracy(gap, 1.0, pace, None, solver=False)
        added.append(float(np.mean(path[window])) - float(np.mean(exact[window])))
    noise = max(0.0, float(np.mean(added))) / float(np.mean(spread))
    return Accuracy(gap, noise if math.isfinite(noise) else 1.0, pace, None, solver=False)
