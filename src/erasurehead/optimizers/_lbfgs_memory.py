"""The memory of L-BFGS: the last steps, how the gradient changed along each, and the matrix that follows from them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import final

import numpy as np

from erasurehead._internal.arrays import Array, product, squared_norm
from erasurehead._internal.resumable import Resumable
from erasurehead.optimizers._lbfgs_matrix import LBFGSMatrix
from erasurehead.optimizers._scaling import POWERS, scalings, spreads

_MOST_PAIRS = 100
_FLAT = 1e-8  # of the greatest curvature: the square root of what float64 can tell apart
_MOST_PRODUCTS = 2**26  # of numbers, a product of all pairs with each other: then the matrix uses the newest ones only
_MOST_NUMBERS = 2**22  # of all steps that are kept: 32 MiB, and as much for the changes of the gradient


@final
class LBFGSMemory(Resumable):
    """Approximates the inverse of the Hessian by a diagonal, and the newest steps with their changes of the gradient.

    This is the method of Nocedal ("Updating quasi-Newton matrices with limited storage", 1980) with up to 100 pairs, or
    as many as fit into 64 MiB. The diagonal that it begins with is a power of a bound on the curvature along each
    parameter, if there is one: with every new pair, the power is chosen under which the step and the change of the
    gradient point most nearly in the same direction. Without a bound it is a multiple of the identity matrix.

    Attributes:
        bound: on the curvature along each parameter, as `scale` was given it; after `restore`, it must be again.
        diagonals: the diagonals to choose from, the safest first; empty without a bound.
        chosen: index of the chosen one, and of its power in `scaling.POWERS`.
        first_scale: what the inverse of the diagonal is multiplied by as long as there are no pairs.
    """

    checkpointed = ("bound", "chosen", "first_scale", "_steps", "_changes", "_bent", "_curvatures")

    def __init__(self) -> None:
        self.bound: tuple[Array, float] | None = None
        self.diagonals: list[Array] = []
        self.chosen = 0
        self.first_scale = 1.0
        self._steps: list[Array] = []
        self._changes: list[Array] = []
        self._bent: list[float] = []  # products of the two
        self._curvatures = (math.inf, 0.0)  # the least and the greatest along any step so far, see `flat`

    def __len__(self) -> int:
        """Return the number of pairs."""
        return len(self._steps)

    @property
    def informed(self) -> bool:
        """Whether it knows of any curvature, that of the data or of earlier steps."""
        return bool(self._steps or self.diagonals)

    @property
    def curvature(self) -> Array:
        """The bound on the curvature along each parameter, of all data; there must be one."""
        assert self.bound is not None
        return self.bound[0]

    @property
    def power(self) -> float | None:
        """The power of the curvatures that the diagonal is; None without a bound on them."""
        return POWERS[self.chosen] if self.diagonals else None

    def scale(self, bound: tuple[Array, float] | None, penalty: Array) -> None:
        """Compute the diagonals to choose from.

        Arguments:
            bound: on the curvature along each parameter, without the penalty, shape (n_parameters,), and the mean
                number of entries in a sample that are not 0; None if there is none.
            penalty: curvature of the penalty along each parameter, shape (n_parameters,).
        """
        self.bound = bound
        self.diagonals = [] if bound is None else scalings(*bound, penalty)

    def remember(self, step: Array, change: Array) -> bool:
        """Keep a pair and choose the diagonal that suits it best, unless the objective is not convex along the step.

        Returns:
            Whether it is kept.

        Arguments:
            step: between two models, shape (n_parameters,).
            change: of the gradient, shape (n_parameters,).
        """
        bent, length, turn = product(step, change), squared_norm(step), squared_norm(change)
        if not bent > 1e-12 * length**0.5 * turn**0.5:
            return False
        lengths, turns = spreads(step, change, self.diagonals)
        if not all(one > 0.0 for one in (length, turn, *lengths, *turns)):  # too small to be told from 0
            return False
        self._steps.append(step)
        self._changes.append(change)
        self._bent.append(bent)
        most = max(3, min(_MOST_PAIRS, _MOST_NUMBERS // max(1, len(step))))
        del self._steps[:-most], self._changes[:-most], self._bent[:-most]
        if self.diagonals:
            length = lengths[0]
            apart = [one * other for one, other in zip(lengths, turns, strict=True)]
            self.chosen = int(np.argmin(apart))  # where it is least, the cosine between both is greatest
        self._curvatures = min(self._curvatures[0], bent / length), max(self._curvatures[1], bent / length)
        return True

    @property
    def flat(self) -> bool:
        """Whether the objective bent 1e8 times less along some step than along another, forgotten ones included.

        Curvatures are measured in the safest of the diagonals, in which all units of columns are alike: what is left
        are columns that are nearly collinear. Rounding along the others hides how directions bend that bend so little.
        """
        return self._curvatures[0] < _FLAT * self._curvatures[1]

    def choose(self, chosen: int, scale: float) -> None:
        """Choose a diagonal, and what its inverse is multiplied by as long as there are no pairs."""
        self.chosen, self.first_scale = chosen, scale

    def forget(self) -> None:
        """Drop all pairs, and what was chosen by them; the diagonals remain."""
        self.first_scale = 1.0
        self._steps.clear()
        self._bent.clear()
        self._changes.clear()
        self.chosen = 0

    def downhill(self, gradient: Array) -> Array:
        """Return minus the inverse of the matrix times the gradient, by the two loops of Nocedal (1980).

        Arguments:
            gradient: shape (n_parameters,).
        """
        direction, factors = self.inner(gradient)
        diagonal = self.diagonals[self.chosen] if self.diagonals else None
        scale = 1.0 if diagonal is None else self.first_scale
        if self._steps:
            change = self._changes[-1]
            scaled = change if diagonal is None else change / diagonal
            scale = self._bent[-1] / product(change, scaled)
        direction *= scale
        if diagonal is not None:
            direction /= diagonal
        return self.outer(direction, factors)

    def inner(self, gradient: Array) -> tuple[Array, list[float]]:
        """Return what the inverse of the initial matrix is to be multiplied by: the first of the two loops.

        Arguments:
            gradient: shape (n_parameters,).

        Returns:
            A vector, shape (n_parameters,), and factors for `outer`.
        """
        direction = -gradient
        factors: list[float] = []
        for step, change, bent in zip(*map(reversed, (self._steps, self._changes, self._bent)), strict=True):
            factor = product(step, direction) / bent
            direction -= factor * change
            factors.append(factor)
        return direction, factors

    def outer(self, direction: Array, factors: Sequence[float]) -> Array:
        """Return the direction that follows from the product with the initial matrix: the second loop.

        Arguments:
            direction: that product, shape (n_parameters,); changed in place.
            factors: from the first loop, with the same pairs.
        """
        for step, change, bent, factor in zip(self._steps, self._changes, self._bent, reversed(factors), strict=True):
            direction += step * (factor - product(change, direction) / bent)
        return direction

    def matrix(self, n_parameters: int) -> LBFGSMatrix:
        """Return the matrix itself, of the newest pairs.

        The diagonal that it begins with is multiplied by the geometric mean of the two factors that make it bend as
        much as the objective did along the last step: one measured by the step, one by the change of the gradient. The
        latter alone, as in `downhill`, makes it too stiff where curvatures are missing, and what is sharp cannot move.
        """
        diagonal = self.diagonals[self.chosen] if self.diagonals else np.ones(n_parameters)
        if not self._steps:
            return LBFGSMatrix(diagonal, [], [], [])
        step, change = self._steps[-1], self._changes[-1]
        stiff = math.sqrt(product(change, change / diagonal) / product(step, step * diagonal))
        newest = slice(-max(3, math.isqrt(_MOST_PRODUCTS // n_parameters)), None)
        return LBFGSMatrix(stiff * diagonal, self._steps[newest], self._changes[newest], self._bent[newest])
