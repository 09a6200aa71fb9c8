"""Design matrices of numbers and one-hot codes: their features, and their construction in one pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, cast

import numpy as np
from scipy import sparse

from erasurehead._internal.arrays import Array, BoolArray, IntArray, ShortIntArray
from erasurehead._internal.storage.sealed import Unfit
from erasurehead._internal.typed import FINITE, KEY, NUMBERS, POSITIVE, STEPS
from erasurehead.datasets._matrices import MAX_INDEX, csr
from erasurehead.errors import DataError

if TYPE_CHECKING:
    from erasurehead._internal.arrays import SparseMatrix


@dataclass(frozen=True)
class Numeric:
    """One column of numbers: `(value - mean) / scale`; a missing value is replaced by `fill`."""

    column: str = field(metadata={KEY: "number"})
    mean: Annotated[float, FINITE]
    scale: Annotated[float, POSITIVE]
    fill: Annotated[float, FINITE]


@dataclass(frozen=True, eq=False)
class OneHot:
    """Columns of zeros and ones, one for each distinct value, or combination of values, that was seen.

    Arguments:
        columns: the table's columns: one, or several that are combined.
        keys: the combinations seen, ascending, as `joint_keys` numbers them; None for a single column, all of whose
            values were seen.
    """

    columns: tuple[str, ...] = field(metadata={KEY: "one_hot"})
    keys: Annotated[IntArray, STEPS] | None = None

    def __post_init__(self) -> None:
        if not self.columns or (self.keys is None) != (len(self.columns) == 1):
            raise Unfit("one_hot must name a column, or several with keys")

    @property
    def label(self) -> str:
        """Its name in reports."""
        return " x ".join(self.columns)


@dataclass(frozen=True, eq=False)
class Words:
    """Columns for the words of a text, hashed: how often each occurs times its weight, in rows of length 1.

    Arguments:
        column: the table's column.
        weights: how rare the words of each column are, shape (n_buckets,).
        names: the commonest word of each.
    """

    column: str = field(metadata={KEY: "words"})
    weights: Annotated[Array, NUMBERS]
    names: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(self.weights) != len(self.names):
            raise Unfit("names must have a name for each weight")

    @property
    def label(self) -> str:
        """Its name in reports."""
        return self.column


Feature: TypeAlias = Numeric | OneHot | Words


_MAX_KEY = 2**62


@dataclass(frozen=True, eq=False)
class CodeBlock:
    """Columns with at most one 1 per row.

    Arguments:
        codes: int32, shape (n_rows,): the column of each row's 1; -1 for none.
        width: number of columns.
    """

    codes: ShortIntArray
    width: int


@dataclass(frozen=True, eq=False)
class NumberBlock:
    """One column of numbers, shape (n_rows,), all finite."""

    values: Array
    width: int = 1


@dataclass(frozen=True, eq=False)
class WordBlock:
    """The rows of a matrix, each of which may stand for several rows of a design.

    Arguments:
        matrix: the rows.
        codes: which of them each row of the design is, shape (n_rows,).
    """

    matrix: SparseMatrix
    codes: IntArray

    @property
    def width(self) -> int:
        """Number of columns."""
        return int(self.matrix.shape[1])


def joint_keys(codes: Sequence[ShortIntArray], sizes: Sequence[int]) -> IntArray:
    """Return one integer for each row's combination of codes; -1 if one of the codes is -1.

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
    """Return the codes of each column, given keys from `joint_keys`, none of which may be -1."""
    codes: list[IntArray] = []
    for size in reversed(sizes):
        codes.append(keys % size)
        keys = keys // size
    return codes[::-1]


def design(
    blocks: Sequence[CodeBlock | NumberBlock | WordBlock], rows: IntArray | None, constant: bool, n_rows: int
) -> SparseMatrix | Array:
    """Put blocks side by side, with a last column of ones if there is a constant.

    Arguments:
        blocks: from left to right, each of n_rows rows; those of words come last.
        rows: the rows of the matrix, in its order; None for all.
        constant: whether to add the column of ones.
        n_rows: number of rows of the blocks.

    Returns:
        A dense array if all blocks are numbers, otherwise CSR with float64 values and ascending int32 indices.
    """
    chosen = np.arange(n_rows) if rows is None else rows
    numbers = [block.values[chosen] for block in blocks if isinstance(block, NumberBlock)]
    if len(numbers) == len(blocks):
        ones = [np.ones(len(chosen))] if constant else []
        return np.column_stack([*numbers, *ones])
    words = [block.matrix[block.codes[chosen]] for block in blocks if isinstance(block, WordBlock)]
    others = [block for block in blocks if not isinstance(block, WordBlock)]
    if not words:
        return _sparse(others, chosen, constant)
    parts = [*([_sparse(others, chosen, False)] if others else []), *words]
    return beside([*parts, *([_sparse([], chosen, True)] if constant else [])])


def beside(parts: Sequence[Any]) -> SparseMatrix:
    """Return sparse matrices side by side, with the indices that designs have."""
    whole: Any = cast("Any", sparse).hstack(parts, format="csr")
    return csr(whole.data, whole.indices.astype(np.int32), whole.indptr.astype(np.int32), whole.shape)


def _sparse(blocks: Sequence[CodeBlock | NumberBlock], rows: IntArray, constant: bool) -> SparseMatrix:
    n_columns = sum(block.width for block in blocks) + constant
    per_row = len(blocks) + constant
    if n_columns > MAX_INDEX or len(rows) * per_row > MAX_INDEX:
        raise DataError(f"{len(rows)} x {n_columns} with {per_row} entries a row is more than 32-bit indices can hold.")
    indices = np.empty((len(rows), per_row), dtype=np.int32)
    data = np.ones(indices.shape)
    absent: BoolArray | None = None
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
