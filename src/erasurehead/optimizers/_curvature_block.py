"""A block of second derivatives between columns, with which L-BFGS begins in place of the diagonal there."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, final

import numpy as np

from erasurehead._internal.arrays import Array, IntArray, product
from erasurehead._internal.resumable import Resumable
from erasurehead.optimizers._order_kinds import BLOCK
from erasurehead.optimizers._sharp_steps import one_thread
from erasurehead.problems import Problem

_BYTES = 8  # times those of a gradient, that a block may take
_FEWEST = 20_000  # numbers that it may take in any case: 160 kB
_MOST_SIDE = 600  # rows of a matrix: to factorise it takes the coordinator some 10 ms
_NEAR = 2.0  # entries of a mean sample that must be in the block's columns
_PAIRED = 1.0 + 1e-9  # without which nothing lies between columns
_HELD = 0.8  # of all, that are in those of a block that gains much
_DAMPING = 1e-13  # of each curvature, at first
_HIDDEN, _SURELY = 1e-12, 1e-4  # of a column's curvature: less is mostly rounding; a pivot that leaves far more
_PAIR, _NUMBER = 0.25, 25.0  # work, in that of an entry of a gradient, of a pair of entries, and of a number of all
_SPARSE_PAIR, _SPARSE_NUMBER = 0.3, 4.0  # likewise, where most entries are 0
_SPARSE_ENTRY, _ELSEWHERE = 6.0, 2.5  # there, of an entry in the block's columns, and of one in any
_FLAT, _STEEP = 0.01, 10.0  # of the bound on the curvature, between which second derivatives must be in the mean
_CHANGED = 1.3  # times as much or as little, that the objective bends along a step as the block says

SURE = -1.0
"""Log of the odds that work takes time, up to which delays are taken to outweigh the price of a block."""


def most_numbers(problem: Problem) -> int:
    """Return how many second derivatives between columns an order may ask for; 0 if it may not ask for any."""
    if not problem.outputs or problem.stochastic or not problem.convex or problem.regularizer.sharp:
        return 0
    whole = _triangle(problem.n_parameters)
    most = max(_FEWEST, _BYTES * (problem.n_parameters + 1), problem.outputs)
    return min(most, whole if problem.n_parameters <= _MOST_SIDE else problem.outputs * _triangle(_MOST_SIDE))


@final
class CurvatureBlock(Resumable):
    """The second derivatives between the columns that matter most, as workers sum them.

    It has as many columns as eight gradients' bytes hold, or 160 kB, those with the greatest curvatures. Where that
    suffices for all parameters, they are all of the Hessian; for several outputs otherwise one matrix for each.

    Attributes:
        asked: whether an answer is awaited.
        places: the parameters that are in it, output by output, shape (n_places,); empty before they were chosen.
        least: the least curvature along one of them.
        holds_most: whether nearly all curvature is along them.
        off: whether it is of no use.
        work: what it costs a worker, in gradients.
    """

    checkpointed = ("asked", "least", "holds_most", "_columns", "work", "_sums", "off", "_spent")

    def __init__(self) -> None:
        self.asked = self.holds_most = False
        self.least = 1.0
        self._outputs, self._most, self._size, self._samples, self._fixed = 0, 0, 0, 1, False
        self._spent = 0  # gradients since it was asked for
        self._columns: IntArray | None = None
        self.work = 0.0
        self._sums: Array | None = None
        self.off = True
        self._matrices: list[Array] = []
        self._factors: list[tuple[Array, Array]] = []

    def begin(self, problem: Problem, lossy: bool) -> None:
        """Take note of what is minimised, and of whether messages lose digits: a block that did would mislead."""
        self._outputs, self._most, self._size = problem.outputs, most_numbers(problem), problem.n_parameters
        self._samples, self._fixed = problem.n_samples, problem.quadratic
        self.off = lossy or not self._most

    def spend(self) -> None:
        """Take note of a gradient of all data."""
        self._spent += 1

    def worth_asking(self, odds: float, ended: bool = False, ratio: float = 1.0) -> bool:
        """Return whether to ask for it beside the next gradient of all data.

        It is as soon as as much has been spent on gradients as it costs, or at once where delays outweigh that; and
        again, if second derivatives depend on the model, and those along the last step were others.

        Arguments:
            odds: that work takes time, as a log.
            ended: whether steps from few arrivals have just ended.
            ratio: what the objective bent along the last step, over what the block says of it.
        """
        if self.off or not self.chosen or (self.known and self._fixed):
            return False
        if self.known and not (ended or max(ratio, 1.0 / ratio) > _CHANGED):
            return False
        return (ended and odds < SURE) or self._spent >= self.price

    @property
    def chosen(self) -> bool:
        """Whether its columns have been chosen."""
        return self._columns is not None

    @property
    def coupled(self) -> bool:
        """Whether it has derivatives between parameters of different outputs."""
        return _triangle(self._size) <= self._most

    @property
    def known(self) -> bool:
        """Whether it is there."""
        return bool(self._factors)

    @property
    def n_columns(self) -> int:
        """How many columns it has."""
        return 0 if self._columns is None else len(self._columns)

    @property
    def places(self) -> IntArray:
        assert self._columns is not None
        within = self._size // self._outputs
        return (np.arange(self._outputs)[:, np.newaxis] * within + self._columns).ravel()

    @property
    def numbers(self) -> int:
        """How many numbers an order asks for."""
        side = self.n_columns
        return _triangle(self._outputs * side) if self.coupled else self._outputs * _triangle(side)

    @property
    def price(self) -> float:
        """What it costs, in gradients."""
        return max(self.numbers / (self._size + 1), self.work)

    def choose(self, curvature: Array, entries: float) -> None:
        """Choose its columns, or find that there are none that would tell more than their curvatures do.

        Arguments:
            curvature: along each parameter, shape (n_parameters,).
            entries: mean number of a sample's entries that are not 0.
        """
        own = curvature.reshape(self._outputs, -1)[0]
        most = _side(self._most // self._outputs)
        if self.coupled:
            most = len(own)
        most = min(most, _MOST_SIDE, np.count_nonzero(own > 0.0))
        columns = np.sort(np.argsort(-own, kind="stable")[:most])
        near = entries * float(own[columns].sum() / own.sum()) if most else 0.0
        self.off = not most or near < (_PAIRED if self.coupled else _NEAR)
        if not self.off:
            self._columns, self.least = columns, float(own[columns].min())
            self.holds_most = near >= _HELD * entries
            own = own * (entries / own.sum())  # of ones, the share of the samples that have them
            rare = np.minimum(own, 1.0 - own) if own.max() < 1.0 + 1e-9 else own  # see `kernels.weighted_pairs`
            each = self.numbers / self._samples
            if 2.0 * entries > len(own):
                work = _PAIR * near * near + _NUMBER * each
            else:
                pairs = float(rare[columns].sum()) ** 2
                work = _SPARSE_PAIR * pairs + _SPARSE_NUMBER * each + _SPARSE_ENTRY * near + _ELSEWHERE * entries
            self.work = work / max(1.0, entries)

    @property
    def marks(self) -> Array:
        """The second point of an order that asks for it."""
        marks = np.zeros(self._size)
        marks.reshape(self._outputs, -1)[:, self._columns] = np.arange(1, self.n_columns + 1)
        return marks

    @property
    def note(self) -> Mapping[str, Any]:
        """What an order that asks for it says of it."""
        return {BLOCK: {"numbers": self.numbers, "coupled": self.coupled, "work": self.work}}

    def take(self, sums: Array, bound: Array, penalty: Array, share: float = 1.0) -> None:
        """Take what workers have summed, unless the objective bends far less or more there than it will elsewhere.

        Arguments:
            sums: as `Shard.block` orders them, of all samples.
            bound: on the curvature along each parameter, shape (n_parameters,).
            penalty: its curvature along each parameter, shape (n_parameters,).
            share: the fraction of all samples that these are of. Columns that are rarer in them than in all bend the
                objective as the bound says, for the rest of the samples.
        """
        self._spent = 0
        numbers, places = np.array(sums[: self.numbers]), self.places
        side = len(places) if self.coupled else self.n_columns
        within = np.arange(side)
        diagonal = within * side - within * (within - 1) // 2
        matrices = numbers.reshape(-1, _triangle(side))
        own, usual = matrices[:, diagonal], bound[places]
        if np.isfinite(numbers).all() and _FLAT * usual.sum() < own.sum() < _STEEP * usual.sum():
            least = (1.0 - share) * own.sum() / usual.sum() * usual
            matrices[:, diagonal] = np.maximum(own, least.reshape(own.shape))
            self._sums = numbers
            self.factorize(penalty)

    def factorize(self, penalty: Array) -> None:
        """Compute what products with it and its inverse need."""
        from scipy.linalg import cholesky  # which not every run needs

        self._matrices, self._factors = [], []
        if self._sums is None:
            return
        places = self.places
        side = len(places) if self.coupled else self.n_columns
        upper = np.triu_indices(side)
        with one_thread():
            for sums, own in zip(self._sums.reshape(-1, len(upper[0])), penalty[places].reshape(-1, side), strict=True):
                matrix = np.zeros((side, side))
                matrix[upper] = sums
                matrix.T[upper] = sums
                matrix[np.diag_indices(side)] += own
                scale = np.sqrt(np.maximum(matrix.diagonal(), 0.0))
                scale[scale == 0.0] = 1.0
                scaled, damping = matrix / np.outer(scale, scale), _DAMPING
                while True:
                    try:
                        factor = cholesky(scaled + damping * np.eye(side), lower=True)
                        break
                    except np.linalg.LinAlgError:
                        damping *= 100.0
                self._matrices.append(matrix)
                self._factors.append((factor, scale))

    def hidden(self) -> Array | None:
        """Return the directions along which the objective bends so little that these sums do not tell how much.

        Columns that are nearly collinear make them. Each bends it by less than a millionth of a millionth of what it
        does along a column, scaled to bend it by one. None if there are none, or not all parameters are in it.
        """
        if not (self.coupled and self._factors) or self._factors[0][0].diagonal().min() > _SURELY:
            return None
        matrix, scale = self._matrices[0], self._factors[0][1]
        with one_thread():
            curvatures, directions = np.linalg.eigh(matrix / np.outer(scale, scale))
        found = np.zeros((np.count_nonzero(curvatures < _HIDDEN), self._size))
        found[:, self.places] = directions[:, : len(found)].T / scale
        return found if len(found) else None

    def times(self, vector: Array) -> Array:
        """Return its product with a vector, both shape (n_places,)."""
        parts = vector.reshape(len(self._matrices), -1)
        return np.concatenate([matrix @ part for matrix, part in zip(self._matrices, parts, strict=True)])

    def solve(self, vector: Array) -> Array:
        """Return the vector whose product with it is the given one, both shape (n_places,)."""
        from scipy.linalg import cho_solve

        parts = vector.reshape(len(self._factors), -1)
        return np.concatenate(
            [
                cho_solve((factor, True), part / scale, check_finite=False) / scale
                for (factor, scale), part in zip(self._factors, parts, strict=True)
            ]
        )


@final
class InitialMatrix:
    """What L-BFGS begins with: a diagonal, or a block and a diagonal for the other parameters.

    Arguments:
        diagonal: shape (n_parameters,); what it has at the block's places does not count.
        power: of the curvatures, that the diagonal is.
        factor: of the diagonal.
        block: None for a diagonal alone.

    Attributes:
        places: the block's, none without one.
    """

    def __init__(self, diagonal: Array, power: float, factor: float = 1.0, block: CurvatureBlock | None = None) -> None:
        self.diagonal, self.power, self.factor, self.block = diagonal, power, factor, block
        self.places = np.zeros(0, dtype=np.int64) if block is None else block.places

    def bent(self, step: Array) -> float:
        """Return the square of a step's length in it."""
        found = self.factor * product(step, self.diagonal * step)
        if self.block is not None:
            near = step[self.places]
            found += product(near, self.block.times(near) - self.factor * self.diagonal[self.places] * near)
        return found

    def solve(self, vector: Array) -> Array:
        """Return the vector whose product with it is the given one."""
        found = vector / self.diagonal
        if self.block is not None:
            found /= self.factor
            found[self.places] = self.block.solve(vector[self.places])
        return found


def spreads(step: Array, change: Array, metrics: list[InitialMatrix]) -> tuple[list[float], list[float]]:
    """Return the squared lengths of a step, and of the change of the gradient along it, in each metric.

    Their product is smallest where both point most nearly in the same direction.

    Arguments:
        step: between two models, shape (n_parameters,).
        change: of the gradient, shape (n_parameters,).
        metrics: diagonals alone, and then perhaps as many of the last ones of these beside a block.
    """
    alone = [one for one in metrics if one.block is None]
    lengths = [product(step, one.diagonal * step) for one in alone]
    turns = [product(change, change / one.diagonal) for one in alone]
    beside = metrics[len(alone) :]
    if beside and (block := beside[0].block):
        near, turned = step[beside[0].places], change[beside[0].places]
        bent, straightened = product(near, block.times(near)), product(turned, block.solve(turned))
        for place, one in enumerate(beside, start=len(alone) - len(beside)):
            within, factor = alone[place].diagonal[one.places], one.factor
            lengths.append(factor * max(0.0, lengths[place] - product(near, within * near)) + bent)
            turns.append(max(0.0, turns[place] - product(turned, turned / within)) / factor + straightened)
    return lengths, turns


def _triangle(side: int) -> int:
    return side * (side + 1) // 2


def _side(count: int) -> int:
    return (math.isqrt(8 * count + 1) - 1) // 2
