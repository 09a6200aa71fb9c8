"""Some rows of a design matrix, in the form that multiplies fastest: what a shard holds of its tasks.

Weights, margins, residuals and totals have one row for each output of the model: one, or one a class.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np
from numpy.typing import NDArray

from erasurehead.arrays import Array, IntArray

if TYPE_CHECKING:
    from erasurehead.arrays import SparseMatrix

MOST_ROWS = 2**16 - 1
"""Of a block: so that two bytes hold a row, and margins stay in a fast cache."""


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


@final
@dataclass(frozen=True, eq=False)
class DenseBlock(Block):
    """Rows with all their numbers: BLAS multiplies them.

    Arguments:
        rows: shape (n_rows, n_columns).
    """

    rows: Array

    def multiply(self, weights: Array, margins: Array) -> None:
        np.matmul(weights, self.rows.T, out=margins)

    def multiply_transposed(self, residuals: Array, total: Array) -> None:
        np.matmul(residuals, self.rows, out=total)


@final
@dataclass(frozen=True, eq=False)
class SparseBlock(Block):
    """Rows with their nonzero numbers: scipy multiplies them.

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


@final
@dataclass(frozen=True, eq=False)
class PatternBlock(Block):
    """Rows of zeros and ones, known by the places of the ones alone, column by column.

    Both products run over the columns in ascending order, so that weights and totals, which are long, stream past,
    while margins and residuals, which are short, stay in the fastest cache. Most columns of a one-hot shard have but
    one entry: these take one run without a branch. Further entries follow, grouped by how many a column has, so that
    the processor guesses the inner loops' ends. A row is two bytes.

    Arguments:
        n_rows: number of rows, at most `MOST_ROWS`.
        first: first row with a one in each column, `n_rows` where there is none, shape (n_columns,).
        runs: ascending numbers of further ones, and how many columns have that many, shape (n_runs, 2).
        columns: with further ones, run by run and ascending in each.
        rows: of the further ones of these columns, column by column.
    """

    n_rows: int
    first: NDArray[np.uint16]
    runs: NDArray[np.uint64]
    columns: NDArray[np.uint32]
    rows: NDArray[np.uint16]

    def multiply(self, weights: Array, margins: Array) -> None:
        from erasurehead.problems import kernels  # numba is loaded where something is computed, not where it is read

        padded = np.empty(self.n_rows + 1)
        for weight, margin in zip(weights, margins, strict=True):
            kernels.pattern_product(self.first, self.runs, self.columns, self.rows, weight, padded)
            margin[:] = padded[:-1]

    def multiply_transposed(self, residuals: Array, total: Array) -> None:
        from erasurehead.problems import kernels

        padded = np.zeros(self.n_rows + 1)
        for residual, part in zip(residuals, total, strict=True):
            padded[:-1] = residual
            kernels.pattern_transposed(self.first, self.runs, self.columns, self.rows, padded, part)


def pattern_block(matrix: SparseMatrix) -> PatternBlock:
    """Return the block of a matrix whose stored numbers all are ones, shape (n_rows, n_columns).

    Its columns are sorted in each row; it has at most `MOST_ROWS` rows. The numbers are not read.
    """
    by_column = matrix.tocsc()
    edges: IntArray = by_column.indptr.astype(np.int64)
    starts, counts = edges[:-1], np.diff(edges)
    first = np.full(matrix.shape[1], matrix.shape[0], dtype=np.uint16)
    first[counts > 0] = by_column.indices[starts[counts > 0]]
    columns = np.flatnonzero(counts > 1)
    columns = columns[np.argsort(counts[columns], kind="stable")]
    further = counts[columns] - 1
    ends = np.cumsum(further)
    # The entries of the columns in their new order: each column's range, one after the other.
    shifts = starts[columns] + 1 - (ends - further)
    entries = np.repeat(shifts, further) + np.arange(len(matrix.data) - np.count_nonzero(counts))
    runs = np.stack(np.unique(further, return_counts=True), axis=1)
    return PatternBlock(
        matrix.shape[0],
        first,
        runs.astype(np.uint64),
        columns.astype(np.uint32),
        by_column.indices[entries].astype(np.uint16),
    )
