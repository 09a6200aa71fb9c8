"""Design matrices of codes and numbers, built at once: no value is touched one by one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from erasurehead.arrays import Array, IntArray
from erasurehead.datasets.matrices import MAX_INDEX, csr
from erasurehead.errors import DataError

if TYPE_CHECKING:
    from erasurehead.arrays import SparseMatrix

_MAX_KEY = 2**62


@dataclass(frozen=True, eq=False)
class CodeBlock:
    """Columns of which each row has a 1 in one, or in none.

    Arguments:
        codes: int32, shape (n_rows,): in which column the row's 1 is; -1 for none.
        width: number of columns.
    """

    codes: NDArray[np.int32]
    width: int


@dataclass(frozen=True, eq=False)
class NumberBlock:
    """One column of numbers, shape (n_rows,), all finite."""

    values: Array
    width: int = 1


def joint_keys(codes: Sequence[NDArray[np.int32]], sizes: Sequence[int]) -> IntArray:
    """Return one whole number for each row's combination of codes; -1 if one of them is.

    Arguments:
        codes: for each column the codes of the rows, shape (n_rows,), in -1..size-1.
        sizes: number of values of each column.

    Raises:
        DataError: if there are more possible combinations than 64 bits can number.
    """
    total = 1
    for size in sizes:
        total *= size
    if total > _MAX_KEY:
        raise DataError(f"{total:.3g} combinations of {len(sizes)} columns are too many; combine fewer columns.")
    keys = np.zeros(len(codes[0]), dtype=np.int64)
    absent = np.zeros(len(keys), dtype=bool)
    for column, size in zip(codes, sizes, strict=True):
        keys *= size
        keys += column
        absent |= column < 0
    keys[absent] = -1
    return keys


def split_keys(keys: IntArray, sizes: Sequence[int]) -> list[IntArray]:
    """Return the codes of each column of which `joint_keys` made keys; none of them may be -1."""
    codes: list[IntArray] = []
    for size in reversed(sizes):
        codes.append(keys % size)
        keys = keys // size
    return codes[::-1]


def design(
    blocks: Sequence[CodeBlock | NumberBlock], rows: IntArray | None, constant: bool, n_rows: int
) -> SparseMatrix | Array:
    """Put blocks side by side, with a last column of ones if there is a constant.

    Arguments:
        blocks: from left to right, each of n_rows rows.
        rows: which rows the matrix has, in its order; None for all.
        constant: whether to add the column of ones.
        n_rows: number of rows of the blocks.

    Returns:
        A dense array if all blocks are numbers, else CSR with float64 values and ascending int32 indices.
    """
    chosen = np.arange(n_rows) if rows is None else rows
    numbers = [block.values[chosen] for block in blocks if isinstance(block, NumberBlock)]
    if len(numbers) == len(blocks):
        ones = [np.ones(len(chosen))] if constant else []
        return np.column_stack([*numbers, *ones])
    return _sparse(blocks, chosen, constant)


def _sparse(blocks: Sequence[CodeBlock | NumberBlock], rows: IntArray, constant: bool) -> SparseMatrix:
    n_columns = sum(block.width for block in blocks) + constant
    per_row = len(blocks) + constant
    if n_columns > MAX_INDEX or len(rows) * per_row > MAX_INDEX:
        raise DataError(f"{len(rows)} x {n_columns} with {per_row} entries a row is more than 32-bit indices can hold.")
    indices = np.empty((len(rows), per_row), dtype=np.int32)
    data = np.ones(indices.shape)
    absent: NDArray[np.bool_] | None = None
    start = 0
    for place, block in enumerate(blocks):
        if isinstance(block, CodeBlock):
            codes = block.codes[rows]
            indices[:, place] = codes + start
            if len(codes) and codes.min() < 0:
                absent = np.zeros(indices.shape, dtype=bool) if absent is None else absent
                absent[:, place] = codes < 0
        else:
            indices[:, place] = start
            data[:, place] = block.values[rows]
        start += block.width
    if constant:
        indices[:, -1] = start
    shape = (len(rows), n_columns)
    if absent is None:
        ends = np.arange(0, indices.size + 1, per_row, dtype=np.int32)
        return csr(data.ravel(), indices.ravel(), ends, shape)
    present = ~absent
    ends = np.concatenate(([0], np.cumsum(present.sum(axis=1)))).astype(np.int32)
    return csr(data[present], indices[present], ends, shape)
