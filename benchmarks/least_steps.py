"""How few whole gradients any method needs that only combines them: conjugate gradients, beside the default solver.

On least squares no method that moves within the span of its gradients, scaled by a fixed diagonal, is lower after so
many of them than conjugate gradients with that diagonal (Hestenes and Stiefel, 1952). KC Housing is such a problem:
what the solver takes from a gap of 1e-3 to 1e-6 is therefore a matter of its spectrum, as long as it keeps up with
them. It needs the real data: set ERASUREHEAD_DATA to their folder.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from common import report
from erasurehead._internal.arrays import Array
from erasurehead.optimizers import QuasiNewton
from erasurehead.training._stepper import Stepper, WholeProblem
from target_cells import optimum, problem_of

DATA = "kc_housing"
LEVELS = {"1e-1": 1e-1, "1e-2": 1e-2, "1e-3": 1e-3, "1e-6": 1e-6}
POWERS = (0.0, 0.5, 0.75, 1.0)
MOST = 600


def conjugate_gradients(power: float) -> Iterator[Array]:
    """Yield models, scaled by a power of the bound on the curvature along each parameter."""
    problem = problem_of(DATA)
    x = problem.initial()
    zero = np.zeros(len(x))
    flat = problem.gradient(zero) + problem.penalty_gradient(zero)
    penalty = problem.penalty_gradient(np.ones(len(x))) - problem.penalty_gradient(zero)
    scale = np.maximum(problem.curvature()[0] + penalty, 1e-300) ** power
    left = -(problem.gradient(x) + problem.penalty_gradient(x))
    scaled = left / scale
    direction, length = scaled.copy(), left @ scaled
    while True:
        bent = problem.gradient(direction) + problem.penalty_gradient(direction) - flat
        step = length / (direction @ bent)
        x, left = x + step * direction, left - step * bent
        scaled = left / scale
        before, length = length, left @ scaled
        direction = scaled + (length / before) * direction
        yield x


def ours() -> Iterator[Array]:
    """Yield the models of the default solver, from whole gradients."""
    problem = problem_of(DATA)
    optimizer = QuasiNewton(problem.initial())
    optimizer.begin(problem)
    stepper = Stepper(optimizer, WholeProblem(problem))
    while True:
        stepper.step()
        yield optimizer.best


def counted(models: Iterator[Array]) -> dict[str, int]:
    """Return how many gradients were taken to each level."""
    found: dict[str, int] = {}
    for count, x in zip(range(1, MOST + 1), models, strict=False):
        gap = optimum(DATA).gap(problem_of(DATA).objective(x))
        found |= {level: count for level, depth in LEVELS.items() if gap <= depth and level not in found}
        if len(found) == len(LEVELS):
            break
    return found


def main() -> None:
    least = {f"conjugate gradients, power {power:g}": counted(conjugate_gradients(power)) for power in POWERS}
    mine = counted(ours())
    for name, found in {**least, "QuasiNewton, from whole gradients": mine}.items():
        print(f"{name:<34}" + "".join(f"  {level} in {found.get(level, MOST):>3}" for level in LEVELS))
    ratios: dict[str, float] = {}
    for level in LEVELS:
        fewest = min(found.get(level, MOST) for found in least.values())
        ratios[f"gradients to {level}, over the fewest of conjugate gradients"] = mine[level] / fewest
    ratios["gradients to 1e-6 over those to 1e-3"] = mine["1e-6"] / mine["1e-3"]
    report("least_steps", ratios, {})


if __name__ == "__main__":
    main()
