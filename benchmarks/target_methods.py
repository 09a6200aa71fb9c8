"""What `adaptive` is compared with in `time_to_target.py`: settings to tune, of two kinds.

`published` are the methods as their papers have them: each scheme with gradient descent and with Nesterov's method.
`scaled` are the same with the solver's diagonal scaling, which no paper of them has, and L-BFGS on exact coded
gradients: against these, what is left is the waiting's work. They are given the diagonal, which the solver's first
order has to ask the workers for; as they are told which power of it is best.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from erasurehead import delays, engines, optimizers
from erasurehead._internal.arrays import Array
from erasurehead.optimizers import _base
from erasurehead.optimizers._scaling import penalty_curvature, scalings
from erasurehead.problems import Problem
from erasurehead.runs._config.parts import safe_rate
from target_cells import WORKERS, Reached, experiment, problem_of, timed

KINDS = ("published", "scaled")
LBFGS = "L-BFGS"
_WAITS = (1, 2, 3, 5, 8, 11, 15)
_MOVES = ("nesterov", "gradient_descent")
_POWERS = {"": 0.0, "scaled ": 1.0, "half scaled ": 0.5}  # of the bound on the curvature along each parameter


@dataclass(frozen=True)
class Method:
    """A scheme with an optimizer, whose rate is to be found."""

    scheme: str
    optimizer: str

    @property
    def label(self) -> str:
        return f"{self.scheme}, {self.optimizer}"

    @property
    def has_rate(self) -> bool:
        return self.optimizer != LBFGS


@dataclass(frozen=True)
class Setting(Method):
    """A method with its rate, as multiple of one over the largest curvature."""

    rate: float = 1.0

    @property
    def label(self) -> str:
        return f"{super().label}, {self.rate:g}x" if self.has_rate else super().label


def at_rate(method: Method, rate: float) -> Setting:
    return Setting(method.scheme, method.optimizer, rate)


def methods(kind: str, late: str) -> Iterator[Method]:
    """Yield the methods of a kind that are to be tuned, likely winners first."""
    if kind == "scaled":
        for scheme in ("exact(load=3)", "exact(load=2)", "exact(load=3, code='cyclic')", "uncoded()"):
            yield Method(scheme, LBFGS)
    scalings = [name for name, power in _POWERS.items() if (power > 0.0) == (kind == "scaled")]
    for scheme in _schemes(late):
        for scaling in scalings:
            for move in _MOVES:
                yield Method(scheme, scaling + move)


def _schemes(late: str) -> Iterator[str]:
    """Yield the published schemes, Rennala aside: it is `ignore_stragglers` by another name."""
    for wait in _WAITS[:3]:
        yield f"ignore_stragglers(wait_for={wait})"
        yield f"erasurehead(load=3, wait_for={wait})"
    if late == "carry":
        yield from ("asynchronous()", "ringmaster(threshold=30)", "ringmaster(threshold=90)")
    yield from ("exact(load=3)", "exact(load=2)")
    for wait in _WAITS[3:]:
        yield f"erasurehead(load=3, wait_for={wait})"
        yield f"ignore_stragglers(wait_for={wait})"
    for wait in _WAITS:
        yield f"erasurehead(load=2, wait_for={wait})"
    yield from ("exact(load=3, code='cyclic')", "exact(load=2, code='cyclic')", "uncoded()")
    for load in (3, 2):
        for wait in _WAITS:
            straggling = f"{1.0 - wait / WORKERS:.4f}"
            code = f"stochastic_gradient(replication={load}, straggling={straggling})"
            yield f"custom(code='{code}', wait='first({wait})')"


def of_setting(
    data: str, late: str, model: delays.Delays, setting: Setting, limits: Mapping[str, float], own: bool = False
) -> Reached:
    """Train with a setting until nothing more can come of it, and return when each level was reached."""
    problem = problem_of(data)
    if setting.optimizer == LBFGS:
        problem = copy.copy(problem)
        problem.curved = False  # nothing is known of it, so that nothing is scaled
    return timed(data, late, model, setting.scheme, optimizer_of(data, setting), limits, own, problem)


def optimizer_of(data: str, setting: Setting) -> optimizers.Optimizer:
    """Return the optimizer of a setting, at the first model."""
    x = problem_of(data).initial()
    if setting.optimizer == LBFGS:
        return optimizers.QuasiNewton(x)
    scaling, move = next(
        (name, setting.optimizer[len(name) :]) for name in reversed(_POWERS) if setting.optimizer.startswith(name)
    )
    made = optimizers.Nesterov if move == "nesterov" else optimizers.GradientDescent
    power = _POWERS[scaling]
    rate = setting.rate * _safe_rate(data, power)
    return Scaled(made(x, rate), _units(data, power)) if power else made(x, rate)


class Scaled(optimizers.Optimizer):
    """A first-order method in other units: what it moves is the model over them.

    Arguments:
        method: at the first model, over the units.
        units: of each parameter, shape (n_parameters,).
    """

    def __init__(self, method: optimizers.FirstOrder, units: Array) -> None:
        super().__init__(units * method.x)
        self._method, self._units = method, units

    def ask(self) -> engines.Order:
        asked = self._method.ask()
        return replace(asked, points=tuple(self._units * point for point in asked.points))

    def tell(self, answer: _base.Answer) -> None:
        estimate = None if answer.estimate is None else self._units * answer.estimate
        self._method.tell(replace(answer, estimate=estimate))
        self.x, self.step = self._units * self._method.x, self._method.step


@cache
def _units(data: str, power: float) -> Array:
    """Return the units that make the curvatures along the parameters alike, as far as a power of their bounds does."""
    problem = problem_of(data)
    sums, entries = problem.curvature()
    diagonals = scalings(sums, entries, penalty_curvature(problem.regularizer, len(sums)))
    return (diagonals[1] if power == 1.0 else diagonals[3]) ** -0.5


@cache
def _safe_rate(data: str, power: float) -> float:
    """Return one over the largest curvature of the objective, in the units of a power.

    In units it is found by power iteration at zero, where the objectives of all three data sets are as curved as
    anywhere.
    """
    if not power:
        found = experiment(data)
        return safe_rate(found.data, str(found.config.problem.loss), found.problem.l2)
    problem, units = problem_of(data), _units(data, power)
    zero = np.zeros(problem.n_parameters)
    level = _gradient(problem, zero)
    vector = np.random.default_rng(0).standard_normal(problem.n_parameters)
    size = float(np.linalg.norm(vector))
    for _ in range(40):
        nearby = 1e-6 * units * vector / size
        vector = units * (_gradient(problem, nearby) - level) / 1e-6
        size = float(np.linalg.norm(vector))
    return float(f"{1.0 / (1.1 * size):.3g}")


def _gradient(problem: Problem, x: Array) -> Array:
    return problem.gradient(x) + problem.penalty_gradient(x)
