"""The design matrix of a problem: dense, sparse, or stored as a pattern of ones; and how blocks are cut out of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, final

import numpy as np
from scipy import sparse

from erasurehead._internal.arrays import Array, IntArray
from erasurehead.problems._blocks import Block, DenseBlock, SparseBlock, pattern_block

if TYPE_CHECKING:
    from erasurehead._internal.arrays import SparseMatrix


class Design(ABC):
    """A matrix of samples x features whose numbers are all finite.

    Arguments:
        n_rows: number of samples.
        n_columns: number of features.
    """

    joins: ClassVar[bool]
    """Whether several ranges of rows are joined into one block."""

    def __init__(self, n_rows: int, n_columns: int) -> None:
        self.n_rows = n_rows
        self.n_columns = n_columns

    @abstractmethod
    def margins(self, weights: Array) -> Array:
        """Return the margins of all rows, summed in the order of the columns: equal rows have equal margins.

        Arguments:
            weights: shape (n_outputs, n_columns).

        Returns:
            Shape (n_outputs, n_rows).
        """

    @property
    def n_ones(self) -> int:
        """Number of ones that its blocks store by their places."""
        return 0

    @abstractmethod
    def column_squares(self) -> Array:
        """Return the sum of the squares of each column, shape (n_columns,)."""

    @abstractmethod
    def extremes(self, rows: IntArray, columns: IntArray) -> tuple[Array, Array]:
        """Return the least and the greatest number of some rows, at least one, in each of some columns."""

    @abstractmethod
    def support(self, ranges: Sequence[slice]) -> IntArray | None:
        """Return the columns that the given ranges of rows touch, ascending; None if they touch all."""

    @abstractmethod
    def block(self, ranges: Sequence[slice], support: IntArray | None) -> Block:
        """Return the rows of some ranges, one after the other, restricted to the columns of the support, if any.

        Arguments:
            ranges: one range, or several if `joins`; at most `MOST_ROWS` rows in total.
            support: columns, ascending, including all that the rows touch.
        """


@final
class DenseDesign(Design):
    """A dense matrix.

    Arguments:
        matrix: shape (n_rows, n_columns), C-contiguous.
    """

    joins = False  # a range is a view of the matrix; joining would copy

    def __init__(self, matrix: Array) -> None:
        super().__init__(*matrix.shape)
        self.matrix = matrix

    def margins(self, weights: Array) -> Array:
        return weights @ self.matrix.T

    def column_squares(self) -> Array:
        return np.einsum("ij,ij->j", self.matrix, self.matrix)

    def extremes(self, rows: IntArray, columns: IntArray) -> tuple[Array, Array]:
        part = self.matrix[rows][:, columns]
        return part.min(axis=0), part.max(axis=0)

    def support(self, ranges: Sequence[slice]) -> IntArray | None:
        return None

    def block(self, ranges: Sequence[slice], support: IntArray | None) -> Block:
        (rows,) = ranges
        return DenseBlock(self.matrix[rows])


class CompressedDesign(Design):
    """A matrix that stores only its nonzero numbers.

    Arguments:
        matrix: shape (n_rows, n_columns), with sorted columns, without duplicates and stored zeros.
    """

    joins = True

    def __init__(self, matrix: SparseMatrix) -> None:
        super().__init__(*matrix.shape)
        self.matrix = matrix

    def margins(self, weights: Array) -> Array:
        return np.stack([self.matrix @ weight for weight in weights])

    def column_squares(self) -> Array:
        return np.bincount(self.matrix.indices, self.matrix.data**2, minlength=self.n_columns).astype(np.float64)

    def extremes(self, rows: IntArray, columns: IntArray) -> tuple[Array, Array]:
        part: Any = self.matrix[rows]
        return part.min(axis=0).toarray().ravel()[columns], part.max(axis=0).toarray().ravel()[columns]

    def support(self, ranges: Sequence[slice]) -> IntArray | None:
        edges, columns = self.matrix.indptr, self.matrix.indices
        touched = np.zeros(self.n_columns, dtype=bool)
        for rows in ranges:
            touched[columns[edges[rows.start] : edges[rows.stop]]] = True
        support = np.flatnonzero(touched)
        return None if len(support) == self.n_columns else support

    def _rows(self, ranges: Sequence[slice], support: IntArray | None) -> SparseMatrix:
        rows = self._selected(ranges)
        if support is None:
            return rows
        positions = np.empty(self.n_columns, dtype=np.int32)
        positions[support] = np.arange(len(support), dtype=np.int32)
        shape = (rows.shape[0], len(support))
        return sparse.csr_array((rows.data, positions[rows.indices], rows.indptr), shape=shape, dtype=np.float64)

    def _selected(self, ranges: Sequence[slice]) -> SparseMatrix:
        if all(one.stop == other.start for one, other in pairwise(ranges)):  # as the tasks of a worker often are
            return self.matrix[ranges[0].start : ranges[-1].stop]
        return sparse.vstack([self.matrix[rows] for rows in ranges], format="csr")


@final
class SparseDesign(CompressedDesign):
    """A sparse matrix."""

    def block(self, ranges: Sequence[slice], support: IntArray | None) -> Block:
        return SparseBlock(self._rows(ranges, support))


@final
class PatternDesign(CompressedDesign):
    """A matrix of zeros and ones: its blocks store only the places of the ones."""

    @property
    def n_ones(self) -> int:
        return len(self.matrix.indices)

    def column_squares(self) -> Array:
        return np.bincount(self.matrix.indices, minlength=self.n_columns).astype(np.float64)

    def block(self, ranges: Sequence[slice], support: IntArray | None) -> Block:
        return pattern_block(self._rows(ranges, support))
