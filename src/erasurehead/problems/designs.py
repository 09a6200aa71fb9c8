"""The design matrix of a problem: dense, sparse, or known by its pattern alone; and how blocks are cut out of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from erasurehead.arrays import Array, IntArray
from erasurehead.problems.blocks import Block, DenseBlock, OneHotBlock, PatternBlock, SparseBlock

if TYPE_CHECKING:
    from erasurehead.arrays import SparseMatrix

_WIDEST_SLOT = 2**16 - 1  # the greatest column, counted from its slot's start, that two bytes hold


class Design(ABC):
    """A matrix of samples x features whose numbers are all finite.

    Arguments:
        n_rows: number of samples.
        n_columns: number of features.
    """

    def __init__(self, n_rows: int, n_columns: int) -> None:
        self.n_rows = n_rows
        self.n_columns = n_columns

    @abstractmethod
    def support(self, ranges: Sequence[slice]) -> IntArray | None:
        """Return the columns that the given ranges of rows touch, ascending; None if they touch all."""

    @abstractmethod
    def block(self, rows: slice, support: IntArray | None = None) -> Block:
        """Return the rows of a range; over the columns of the support alone, if there is one."""


@final
class DenseDesign(Design):
    """A matrix with all its numbers.

    Arguments:
        matrix: shape (n_rows, n_columns), C-contiguous.
    """

    def __init__(self, matrix: Array) -> None:
        super().__init__(*matrix.shape)
        self.matrix = matrix

    def support(self, ranges: Sequence[slice]) -> IntArray | None:
        return None

    def block(self, rows: slice, support: IntArray | None = None) -> Block:
        return DenseBlock(self.matrix[rows])


@final
class SparseDesign(Design):
    """A matrix with its nonzero numbers.

    Arguments:
        matrix: shape (n_rows, n_columns), with sorted columns, without doubles.
    """

    def __init__(self, matrix: SparseMatrix) -> None:
        super().__init__(*matrix.shape)
        self.matrix = matrix

    def support(self, ranges: Sequence[slice]) -> IntArray | None:
        return _touched(self.n_columns, self.matrix.indices, self.matrix.indptr, ranges)

    def block(self, rows: slice, support: IntArray | None = None) -> Block:
        part = self.matrix[rows]
        if support is None:
            return SparseBlock(part)
        columns = _positions(support, self.n_columns)[part.indices]
        shape = (part.shape[0], len(support))
        return SparseBlock(sparse.csr_array((part.data, columns, part.indptr), shape=shape, dtype=np.float64))


@final
class PatternDesign(Design):
    """A matrix of zeros and ones, known by the places of the ones alone.

    Arguments:
        edges: where each row begins in `columns`, and where the last ends, shape (n_rows + 1,).
        columns: of the ones, row by row and sorted in each, shape (n_ones,).
        n_columns: number of features.
    """

    def __init__(self, edges: IntArray, columns: NDArray[np.uint32], n_columns: int) -> None:
        super().__init__(len(edges) - 1, n_columns)
        self.edges = edges
        self.columns = columns

    def support(self, ranges: Sequence[slice]) -> IntArray | None:
        return _touched(self.n_columns, self.columns, self.edges, ranges)

    def block(self, rows: slice, support: IntArray | None = None) -> Block:
        edges = self.edges[rows.start : rows.stop + 1]
        columns = self.columns[edges[0] : edges[-1]]
        if support is not None:
            columns = _positions(support, self.n_columns)[columns].view(np.uint32)
        lengths = np.diff(edges)
        if lengths.min() == lengths.max():
            slots = columns.reshape(len(lengths), int(lengths[0])).T
            starts = slots.min(axis=1)
            slots = slots - starts[:, None]
            if slots.max(initial=0) <= _WIDEST_SLOT:
                return OneHotBlock(np.ascontiguousarray(slots, np.uint16), starts.astype(np.uint64))
        return PatternBlock((edges - edges[0]).astype(np.uint64), columns)


def _touched(
    n_columns: int, columns: NDArray[np.integer], edges: NDArray[np.integer], ranges: Sequence[slice]
) -> IntArray | None:
    touched = np.zeros(n_columns, dtype=bool)
    for rows in ranges:
        touched[columns[edges[rows.start] : edges[rows.stop]]] = True
    support = np.flatnonzero(touched)
    return None if len(support) == n_columns else support


def _positions(support: IntArray, n_columns: int) -> NDArray[np.int32]:
    # Where each column lies in the support; anything for the columns that are not in it.
    positions = np.empty(n_columns, dtype=np.int32)
    positions[support] = np.arange(len(support), dtype=np.int32)
    return positions
