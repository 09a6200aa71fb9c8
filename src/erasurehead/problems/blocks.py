"""Some rows of a design matrix, in the form that multiplies fastest: what a shard holds of its tasks.

Weights, margins, residuals and totals have one row for each output of the model: one, or one a class.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np
from numpy.typing import NDArray

from erasurehead.arrays import Array

if TYPE_CHECKING:
    from erasurehead.arrays import SparseMatrix


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
    def add_transposed(self, residuals: Array, total: Array) -> None:
        """Add `residuals @ rows` to the total.

        Arguments:
            residuals: shape (n_outputs, n_rows), C-contiguous.
            total: shape (n_outputs, n_columns), C-contiguous; changed.
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

    def add_transposed(self, residuals: Array, total: Array) -> None:
        total += residuals @ self.rows


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

    def add_transposed(self, residuals: Array, total: Array) -> None:
        columns = self.rows.T
        for output, residual in enumerate(residuals):
            total[output] += columns @ residual


@final
@dataclass(frozen=True, eq=False)
class PatternBlock(Block):
    """Rows of ones, known by their places alone: there are no values to stream.

    Arguments:
        edges: where each row begins in `columns`, and where the last ends, shape (n_rows + 1,).
        columns: of the ones, row by row, shape (n_ones,).
    """

    edges: NDArray[np.uint64]
    columns: NDArray[np.uint32]

    def multiply(self, weights: Array, margins: Array) -> None:
        from erasurehead.problems import kernels  # numba is loaded where something is computed, not where it is read

        margins[:] = 0.0
        for weight, margin in zip(weights, margins, strict=True):
            kernels.add_rows_product(self.edges, self.columns, weight, margin)

    def add_transposed(self, residuals: Array, total: Array) -> None:
        from erasurehead.problems import kernels

        for residual, part in zip(residuals, total, strict=True):
            kernels.add_rows_transposed(self.edges, self.columns, residual, part)


@final
@dataclass(frozen=True, eq=False)
class OneHotBlock(Block):
    """Rows of ones, equally many in each: the first of each row makes up slot 0, the second slot 1, and so on.

    In a one-hot matrix a slot is an encoded feature, whose columns lie side by side. So a column is two bytes, counted
    from the slot's start, and while a slot is worked on, the weights that it needs stay in the fastest cache.

    Arguments:
        slots: column of each row in each slot, counted from the slot's start, shape (n_slots, n_rows).
        starts: first column of each slot, shape (n_slots,).
    """

    slots: NDArray[np.uint16]
    starts: NDArray[np.uint64]

    def multiply(self, weights: Array, margins: Array) -> None:
        from erasurehead.problems import kernels

        margins[:] = 0.0
        for weight, margin in zip(weights, margins, strict=True):
            kernels.add_slots_product(self.slots, self.starts, weight, margin)

    def add_transposed(self, residuals: Array, total: Array) -> None:
        from erasurehead.problems import kernels

        for residual, part in zip(residuals, total, strict=True):
            kernels.add_slots_transposed(self.slots, self.starts, residual, part)
