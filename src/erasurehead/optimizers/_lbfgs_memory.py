"""The memory of L-BFGS: the last steps, how the gradient changed along each, and the matrix that follows from them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import final

import numpy as np

from erasurehead._internal.arrays import Array, product, squared_norm
from erasurehead._internal.resumable import Resumable
from erasurehead.optimizers._curvature_block import CurvatureBlock, InitialMatrix, spreads
from erasurehead.optimizers._lbfgs_matrix import LBFGSMatrix
from erasurehead.optimizers._part_memory import TINY
from erasurehead.optimizers._scaling import POWERS, scalings

_MOST_PAIRS = 100
_GAIN = math.log(1.4)  # by which a block must bring the squared cosine of a step and its change of the gradient nearer
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

    checkpointed = (
        "block",
        "bound",
        "chosen",
        "first_scale",
        "_steps",
        "_changes",
        "_bent",
        "_gain",
        "_serves",
        "_curvatures",
    )

    def __init__(self) -> None:
        self.block = CurvatureBlock()
        self.bound: tuple[Array, float] | None = None
        self.metrics: list[InitialMatrix] = []
        self.diagonals: list[Array] = []
        self.chosen = 0
        self.first_scale = 1.0
        self._steps: list[Array] = []
        self._changes: list[Array] = []
        self._bent: list[float] = []  # products of the two
        self._gain = (0, 0.0)  # pairs since there is a block, and by how much it was better than diagonals, as logs
        self._serves = True  # whether the block is in use: at first, until it is known what it gains
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
        return self.metrics[self.chosen].power if self.metrics else None

    @property
    def n_columns(self) -> int:
        """How many columns' second derivatives the matrix begins with."""
        return self.block.n_columns if self.metrics and self.metrics[self.chosen].block else 0

    @property
    def has_all(self) -> bool:
        """Whether it begins with second derivatives between all parameters."""
        return self.block.coupled and self.n_columns > 0

    def scale(self, bound: tuple[Array, float] | None, penalty: Array) -> None:
        """Compute the diagonals to choose from.

        Arguments:
            bound: on the curvature along each parameter, without the penalty, shape (n_parameters,), and the mean
                number of entries in a sample that are not 0; None if there is none.
            penalty: curvature of the penalty along each parameter, shape (n_parameters,).
        """
        self.bound = bound
        self._measure(penalty)
        self.join()

    def rebuild(self, penalty: Array) -> None:
        """Compute what is not in its state, and choose nothing anew.

        Arguments:
            penalty: as for `scale`.
        """
        self.block.factorize(penalty)
        self._measure(penalty)
        self._join()

    def _measure(self, penalty: Array) -> None:
        self.diagonals = [] if self.bound is None else scalings(*self.bound, penalty)

    def join(self, leads: bool = False) -> None:
        """Compute the metrics to choose from: diagonals, and, if there is a block, diagonals beside it.

        Arguments:
            leads: whether a block is chosen whatever the last pair says of it, which is of a step that others led to.
        """
        self._join()
        if self.block.known and leads and self._serves:
            self.chosen = len(self.metrics) - 1
        elif self.block.known and self._steps:
            lengths, turns = spreads(self._steps[-1], self._changes[-1], self.metrics)
            if min(*lengths, *turns) > 0.0:  # else too small to be told from 0
                self._prefer(lengths, turns)

    def _join(self) -> None:
        pairs = list(zip(self.diagonals, POWERS, strict=True)) if self.diagonals else []
        self.metrics = [InitialMatrix(*pair) for pair in pairs]
        if self.block.known:
            least = self.block.least
            self.metrics += [InitialMatrix(one, power, least ** (1.0 - power), self.block) for one, power in pairs[1:]]

    def _prefer(self, lengths: Sequence[float], turns: Sequence[float]) -> None:
        """Choose the metric in which a step and the change of the gradient along it are most nearly parallel.

        One with a block is taken for what it gained on average, and then for as long as it has not lost: once it has
        served, what is left lies where it says least.
        """
        apart = [math.log(one) + math.log(other) for one, other in zip(lengths, turns, strict=True)]
        n_diagonals = len(self.diagonals)
        self.chosen = int(np.argmin(apart[:n_diagonals]))
        if len(apart) > n_diagonals:
            count, gain = self._gain
            self._gain = count + 1, gain + min(apart[:n_diagonals]) - apart[-1]
            self._serves = self._gain[1] > (0.0 if self._serves else _GAIN * self._gain[0])
            if self._serves:
                self.chosen = len(apart) - 1

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
        lengths, turns = spreads(step, change, self.metrics)
        if not all(one > 0.0 for one in (length, turn, *lengths, *turns)):  # too small to be told from 0
            return False
        self._steps.append(step)
        self._changes.append(change)
        self._bent.append(bent)
        most = max(3, min(_MOST_PAIRS, _MOST_NUMBERS // max(1, len(step))))
        del self._steps[:-most], self._changes[:-most], self._bent[:-most]
        if self.diagonals:
            length = lengths[0]
            self._prefer(lengths, turns)
        self._curvatures = min(self._curvatures[0], bent / length), max(self._curvatures[1], bent / length)
        return True

    @property
    def flat(self) -> bool:
        """Whether the objective bent 1e8 times less along some step than along another, forgotten ones included.

        Curvatures are measured in the safest of the diagonals, in which all units of columns are alike: what is left
        are columns that are nearly collinear. Rounding along the others hides how directions bend that bend so little.
        """
        return self._curvatures[0] < _FLAT * self._curvatures[1]

    @property
    def bends(self) -> float:
        """How much the objective bent along the last step, over what the matrix that L-BFGS begins with says of it."""
        metric = self.metrics[self.chosen] if self.metrics else None
        if metric is None or not metric.block or not self._steps:
            return 1.0
        return self._bent[-1] / max(metric.bent(self._steps[-1]), TINY)

    def choose(self, chosen: int, scale: float) -> None:
        """Choose a diagonal, and what its inverse is multiplied by as long as there are no pairs."""
        self.chosen, self.first_scale = chosen, scale

    def forget(self) -> None:
        """Drop all pairs, and what was chosen by them; the diagonals remain."""
        self.first_scale = 1.0
        self._steps.clear()
        self._bent.clear()
        self._changes.clear()
        self.chosen = len(self.metrics) - 1 if self._serves else 0

    def downhill(self, gradient: Array) -> Array:
        """Return minus the inverse of the matrix times the gradient, by the two loops of Nocedal (1980).

        Arguments:
            gradient: shape (n_parameters,).
        """
        direction, factors = self.inner(gradient)
        metric = self.metrics[self.chosen] if self.metrics else None
        scale = 1.0 if metric is None else self.first_scale
        if self._steps:
            change = self._changes[-1]
            scaled = change if metric is None else metric.solve(change)
            scale = self._bent[-1] / product(change, scaled)
        direction *= scale
        if metric is not None:
            direction = metric.solve(direction)
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
