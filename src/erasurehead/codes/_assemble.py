"""Sparse encodings from supports, and small helpers that many families share."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from erasurehead._internal.arrays import Array, IntArray, ShortIntArray
from erasurehead._internal.foreign_arrays import freeze
from erasurehead._internal.rng import stream
from erasurehead.errors import InvalidArgument, check_count, check_size, invalid

if TYPE_CHECKING:
    from erasurehead._internal.arrays import SparseMatrix

AnyIntArray: TypeAlias = IntArray | ShortIntArray

MOST_DRAWS = 10_000
"""Sets of random coefficients that a code tries at most; the best of more is hardly better."""


def even_sizes(total: int, parts: int) -> IntArray:
    """Return `parts` sizes that add up to `total` and differ by at most one, the larger ones first.

    >>> even_sizes(11, 4).tolist()
    [3, 3, 3, 2]
    """
    sizes = np.full(parts, total // parts, dtype=np.int64)
    sizes[: total % parts] += 1
    return sizes


def blocks(total: int, parts: int) -> IntArray:
    """Return the part of each of `total` consecutive items, shape (total,): sizes as in `even_sizes`.

    >>> blocks(5, 2).tolist()
    [0, 0, 0, 1, 1]
    """
    return np.repeat(np.arange(parts, dtype=np.int64), even_sizes(total, parts))


def ranges(starts: IntArray, sizes: IntArray) -> IntArray:
    """Return the concatenated ranges `starts[i] .. starts[i] + sizes[i] - 1`.

    >>> ranges(np.array([0, 7]), np.array([2, 3])).tolist()
    [0, 1, 7, 8, 9]
    """
    ends = np.cumsum(sizes)
    within = np.arange(int(ends[-1]) if len(ends) else 0, dtype=np.int64) - np.repeat(ends - sizes, sizes)
    return np.repeat(starts, sizes) + within


def windows(n_workers: int, load: int) -> IntArray:
    """Return the tasks i, i+1, ... of each worker i, around the circle, shape (n_workers, load).

    >>> windows(3, 2).tolist()
    [[0, 1], [1, 2], [2, 0]]
    """
    return (np.arange(n_workers)[:, None] + np.arange(load)) % n_workers


def from_rows(columns: AnyIntArray, sizes: IntArray, n_columns: int, values: Array | None = None) -> SparseMatrix:
    """Return the settled matrix whose row i has the next `sizes[i]` entries; they are ones without values.

    Arguments:
        columns: column of every entry, row after row, shape (nonzeros,); int32 columns become the matrix's
            own, and read-only.
        sizes: number of entries of each row, shape (n_rows,).
        n_columns: number of columns.
        values: value of every entry, shape (nonzeros,); None for ones.
    """
    data: Array = np.ones(len(columns)) if values is None else np.array(values, dtype=np.float64)
    indptr = np.zeros(len(sizes) + 1, dtype=np.int64)
    np.cumsum(sizes, out=indptr[1:])
    if max(n_columns, len(columns)) < 2**31:
        indices, indptr = columns.astype(np.int32, copy=False), indptr.astype(np.int32)
    else:
        indices = columns.astype(np.int64)
    return settle(sparse.csr_array((data, indices, indptr), shape=(len(sizes), n_columns), dtype=np.float64))


def settle(matrix: SparseMatrix) -> SparseMatrix:
    """Return the matrix, changed in place: columns ascend in each row, no zero is stored, and it is read-only."""
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    for array in (matrix.data, matrix.indices, matrix.indptr):
        freeze(array)
    return matrix


def is_settled(matrix: SparseMatrix) -> bool:
    """Whether a matrix is as `settle` leaves it, so that it may be shared.

    That it is read-only does not suffice: so are matrices that were mapped from a file or from shared memory.
    """
    if matrix.format != "csr" or matrix.dtype != np.float64:
        return False
    if matrix.data.flags.writeable or matrix.indices.flags.writeable or matrix.indptr.flags.writeable:
        return False
    return bool(matrix.has_canonical_format and matrix.data.all())


def frozen(value: object) -> object:
    """Return the value; an array as a copy that is read-only, unless it is already."""
    if not isinstance(value, np.ndarray):
        return value
    array = cast("NDArray[np.generic]", value)
    return freeze(array.copy()) if array.flags.writeable else array


def generator_of(seed: int) -> np.random.Generator:
    """Return the random stream of a construction: the same numbers on every machine for the same seed."""
    return stream("construction", seed)


def workers_and_tasks(n_workers: int, n_tasks: int | None) -> tuple[int, int]:
    """Return the numbers of workers and of tasks, of which there are as many as workers if it is not given."""
    n_workers = check_size("n_workers", n_workers)
    return n_workers, n_workers if n_tasks is None else check_size("n_tasks", n_tasks)


def equal_shares(n_workers: int, load: int, n_tasks: int, why: str = "") -> int:
    """Return the number of workers of each task, or raise if it is not the same for all.

    Arguments:
        n_workers, load, n_tasks: as for the constructors.
        why: the reason for the rule, as the end of a clause.
    """
    if n_workers * load % n_tasks:
        step = n_tasks // math.gcd(n_workers, n_tasks)
        near = min(max(step, step * round(load / step)), n_tasks)
        rule = f"times {n_workers} workers must be a multiple of the {n_tasks} tasks{why}"
        raise invalid("load", rule, load, f"use load={near}")
    return n_workers * load // n_tasks


def stragglers_and_load(stragglers: int | None, load: int | None, n_workers: int) -> tuple[int, int]:
    """Return both numbers, of which one is given, for codes whose load is `stragglers + 1`.

    Raises:
        InvalidArgument: if neither or both are given, or the load would exceed the number of workers.
    """
    if (stragglers is None) == (load is None):
        raise InvalidArgument(
            "stragglers",
            "must be given, or load, and not both",
            stragglers,
            sentence=f"Give either stragglers or load (load = stragglers + 1), exactly one of them;"
            f" they came as stragglers={stragglers} and load={load}.",
        )
    if stragglers is None:
        assert load is not None
        load = check_count("load", load, at_least=1, at_most=n_workers)
        return load - 1, load
    stragglers = check_count("stragglers", stragglers, at_least=0, at_most=n_workers - 1)
    return stragglers, stragglers + 1
