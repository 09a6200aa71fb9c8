"""Some rows of a design matrix, in the form that multiplies fastest: shards are made of such blocks.

Weights, margins, residuals and totals have one row for each output of the model: one in all, or one per class.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from erasurehead._internal.arrays import Array, IntArray
from erasurehead.problems import _kernels as kernels

if TYPE_CHECKING:
    from erasurehead._internal.arrays import SparseMatrix

MOST_ROWS = 2**16 - 1
"""Most rows of a block: a row number fits into two bytes, and margins stay in a fast cache."""

_BAND = 2048  # rows whose margins, in float64, fill half of a first-level cache
_WORTH = 8  # ones per band from which the further ones of a column are taken band by band


class Block(ABC):
    """Rows of a design matrix over the columns of a shard. Plain arrays, so that it crosses to a worker cheaply."""

    @abstractmethod
    def multiply(self, weights: Array, margins: Array) -> None:
        """Write the margins of the rows.

        Arguments:
            weights: shape (n_outputs, n_columns), C-contiguous.
            margins: shape (n_outputs, n_rows), C-contiguous. Every element is written.
        """

    @abstractmethod
    def multiply_transposed(self, residuals: Array, total: Array) -> None:
        """Write `residuals @ rows`.

        Arguments:
            residuals: shape (n_outputs, n_rows), C-contiguous.
            total: shape (n_outputs, n_columns), C-contiguous. Every element is written.
        """

    @abstractmethod
    def add_squares(self, scales: Array, total: Array) -> None:
        """Add `scales @ rows**2`.

        Arguments:
            scales: shape (n_rows,).
            total: shape (n_columns,); changed in place.
        """

    @abstractmethod
    def entries(self) -> Array:
        """Return how many entries of each row are not 0, shape (n_rows,)."""

    @abstractmethod
    def among(self, columns: IntArray) -> Array | SparseMatrix:
        """Return some columns of the rows, ascending, shape (n_rows, len(columns))."""

    @abstractmethod
    def part(self, rows: slice) -> Block:
        """Return a block of some of the rows."""


@final
@dataclass(frozen=True, eq=False)
class DenseBlock(Block):
    """Dense rows: BLAS multiplies them.

    Arguments:
        rows: shape (n_rows, n_columns).
    """

    rows: Array

    def multiply(self, weights: Array, margins: Array) -> None:
        np.matmul(weights, self.rows.T, out=margins)

    def multiply_transposed(self, residuals: Array, total: Array) -> None:
        np.matmul(residuals, self.rows, out=total)

    def add_squares(self, scales: Array, total: Array) -> None:
        total += np.einsum("i,ij,ij->j", scales, self.rows, self.rows)

    def entries(self) -> Array:
        return np.count_nonzero(self.rows, axis=1).astype(np.float64)

    def among(self, columns: IntArray) -> Array:
        return self.rows if len(columns) == self.rows.shape[1] else self.rows[:, columns]

    def part(self, rows: slice) -> DenseBlock:
        return DenseBlock(self.rows[rows])


@final
@dataclass(frozen=True, eq=False)
class SparseBlock(Block):
    """Sparse rows, stored by their nonzero numbers: scipy multiplies them.

    Arguments:
        rows: shape (n_rows, n_columns).
    """

    rows: SparseMatrix

    def multiply(self, weights: Array, margins: Array) -> None:
        for output, weight in enumerate(weights):
            margins[output] = self.rows @ weight

    def multiply_transposed(self, residuals: Array, total: Array) -> None:
        columns = self.rows.T
        for output, residual in enumerate(residuals):
            total[output] = columns @ residual

    def add_squares(self, scales: Array, total: Array) -> None:
        total += self.rows.power(2).T @ scales

    def entries(self) -> Array:
        return np.diff(self.rows.indptr).astype(np.float64)

    def among(self, columns: IntArray) -> SparseMatrix:
        return self.rows[:, columns]

    def part(self, rows: slice) -> SparseBlock:
        return SparseBlock(self.rows[rows])


@final
@dataclass(frozen=True, eq=False)
class PatternBlock(Block):
    """Rows of zeros and ones, stored as the places of the ones only, column by column.

    Both products run over the columns in ascending order, so that weights and totals, which are long, stream past,
    while margins and residuals, which are short, stay in a fast cache. Most columns of a one-hot shard have but one
    entry: these take one run without a branch. Further entries follow in stretches, each of one column, grouped by
    their length, so that the processor predicts the inner loops' ends. A column of many entries has one stretch for
    each band of rows, and bands come one after the other, so that their rows stay in the fastest cache. A row is two
    bytes.

    Arguments:
        n_rows: number of rows, at most `MOST_ROWS`.
        first: first row with a one in each column, `n_rows` where there is none, shape (n_columns,).
        runs: lengths of stretches of further ones, and how many stretches in a row have that, shape (n_runs, 2).
        columns: column of each stretch.
        rows: row of each further one, stretch by stretch.
    """

    n_rows: int
    first: NDArray[np.uint16]
    runs: NDArray[np.uint64]
    columns: NDArray[np.uint32]
    rows: NDArray[np.uint16]

    def multiply(self, weights: Array, margins: Array) -> None:
        padded = np.empty(self.n_rows + 1)
        for weight, margin in zip(weights, margins, strict=True):
            kernels.pattern_product(self.first, self.runs, self.columns, self.rows, weight, padded)
            margin[:] = padded[:-1]

    def multiply_transposed(self, residuals: Array, total: Array) -> None:
        padded = np.zeros(self.n_rows + 1)
        for residual, part in zip(residuals, total, strict=True):
            padded[:-1] = residual
            kernels.pattern_transposed(self.first, self.runs, self.columns, self.rows, padded, part)

    def add_squares(self, scales: Array, total: Array) -> None:
        part = np.empty((1, len(self.first)))  # ones are their own squares
        self.multiply_transposed(scales[np.newaxis], part)
        total += part[0]

    def entries(self) -> Array:
        counts = np.empty((1, self.n_rows))
        self.multiply(np.ones((1, len(self.first))), counts)
        return counts[0]

    def among(self, columns: IntArray) -> SparseMatrix:
        places = np.full(len(self.first), -1)
        places[columns] = np.arange(len(columns))
        lengths = np.repeat(*self.runs.T.astype(np.int64))
        ends = np.cumsum(lengths)
        kept = np.flatnonzero(places[self.columns] >= 0)
        kept = kept[np.argsort(places[self.columns[kept]], kind="stable")]
        begins, taken = kernels.by_rows(
            self.n_rows,
            self.first[columns],
            places[self.columns[kept]],
            (ends - lengths)[kept],
            ends[kept],
            self.rows,
        )
        parts: Any = np.ones(len(taken)), taken, begins
        return sparse.csr_array(parts, shape=(self.n_rows, len(columns)))

    def part(self, rows: slice) -> PatternBlock:
        return pattern_block(self.among(np.arange(len(self.first)))[rows])


def gram(rows: Array | SparseMatrix, weights: Array, within: IntArray, sums: Array) -> None:
    """Write the upper triangle of `rows.T @ diag(weights) @ rows`; weights may be negative, as codes' coefficients are.

    Arguments:
        rows: shape (n_rows, n_columns).
        weights: shape (n_rows,).
        within: the columns among those of the whole matrix, ascending; 0 is what others add.
        sums: output, as `upper_triangle` orders it.
    """
    side = triangle_side(len(sums))
    if isinstance(rows, np.ndarray):
        whole = rows.T @ (weights[:, np.newaxis] * rows)
        if len(within) < side:
            own, whole = whole, np.zeros((side, side))
            whole[np.ix_(within, within)] = own
        sums[:] = whole.ravel()[upper_triangle(side)]
        return
    if len(within) < side:
        parts: Any = rows.data, within[rows.indices], rows.indptr
        rows = sparse.csr_array(parts, shape=(len(weights), side))
    kernels.weighted_pairs(rows, weights, sums)


@cache
def upper_triangle(side: int) -> IntArray:
    """Return the places of the upper triangle in the elements of a square matrix, row by row."""
    row, column = np.triu_indices(side)
    return row * side + column


def triangle_side(count: int) -> int:
    """Return the number of rows of a matrix whose upper triangle has so many elements."""
    return (math.isqrt(8 * count + 1) - 1) // 2


def pattern_block(matrix: SparseMatrix) -> PatternBlock:
    """Return the block of a matrix whose stored numbers are all ones, shape (n_rows, n_columns).

    Its columns must be sorted in each row, and it has at most `MOST_ROWS` rows. The numbers are not read.
    """
    n_rows, n_columns = matrix.shape
    by_column = matrix.tocsc()
    counts = np.diff(by_column.indptr)
    heads = by_column.indptr[:-1][counts > 0]
    first = np.full(n_columns, n_rows, dtype=np.uint16)
    first[counts > 0] = by_column.indices[heads]
    further = np.ones(len(by_column.indices), dtype=bool)
    further[heads] = False
    rows = by_column.indices.astype(np.uint16)[np.flatnonzero(further)]
    columns, starts, bands = _stretches(counts - 1, rows, -(-n_rows // _BAND))
    lengths = np.diff(starts, append=len(rows))
    order = _order(bands, lengths)
    starts, lengths = starts[order], lengths[order]
    runs = _changes(lengths, bands[order])
    widths = np.diff(runs, append=len(lengths))
    return PatternBlock(
        n_rows,
        first,
        np.stack([lengths[runs], widths], axis=1).astype(np.uint64),
        columns[order].astype(np.uint32),
        rows[_ranges(starts, lengths)],
    )


def _stretches(counts: IntArray, rows: NDArray[np.uint16], n_bands: int) -> tuple[IntArray, IntArray, IntArray]:
    """Return each stretch's column, its first entry, and its band of rows: 0 where a column is not cut into bands.

    Arguments:
        counts: how many further entries each column has; less than 1 for none.
        rows: their rows, column by column, ascending in each.
        n_bands: number of bands of rows.
    """
    columns = np.flatnonzero(counts > 0)
    lengths = counts[columns]
    starts: IntArray = np.cumsum(lengths) - lengths
    cut = (n_bands > 1) & (lengths >= _WORTH * n_bands)
    if not cut.any():
        return columns, starts, np.zeros(len(columns), dtype=np.int64)
    entries = _ranges(starts[cut], lengths[cut])
    within, of = 1 + rows[entries] // np.uint16(_BAND), np.repeat(np.arange(np.count_nonzero(cut)), lengths[cut])
    begins = _changes(of, within)
    few = np.flatnonzero(~cut)
    columns = np.concatenate([columns[few], columns[cut][of[begins]]])
    starts = np.concatenate([starts[few], entries[begins]])
    bands = np.zeros(len(columns), dtype=np.int64)
    bands[len(few) :] = within[begins]
    order = np.argsort(starts, kind="stable")  # which is quick where most are in order
    return columns[order], starts[order], bands[order]


def _order(bands: IntArray, lengths: IntArray) -> IntArray:
    """Return the order of stretches by band, then by length, otherwise as they are."""
    keys = bands * (lengths.max(initial=0) + 1) + lengths
    # Numbers of 16 bits, which suffice for nearly all blocks, are sorted many times as fast.
    return np.argsort(keys.astype(np.min_scalar_type(keys.max(initial=0))), kind="stable")


def _ranges(starts: IntArray, lengths: IntArray) -> IntArray:
    """Return the numbers of ranges, one range after the other."""
    shifts: IntArray = np.repeat(starts - (np.cumsum(lengths) - lengths), lengths)
    return shifts + np.arange(len(shifts))


def _changes(*keys: NDArray[np.integer]) -> IntArray:
    # Where a stretch of equal keys begins.
    changed = np.any([key[1:] != key[:-1] for key in keys], axis=0)
    return np.flatnonzero(np.concatenate([np.ones(min(1, len(keys[0])), dtype=bool), changed]))
