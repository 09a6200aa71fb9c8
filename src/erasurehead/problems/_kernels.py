"""Loops that numpy and scipy do not have: products with matrices of ones, logistic residuals, weighted sums.

There are two versions of each, which give the same bits: in `machine_code` for large arrays, and in numpy, here, for
small ones. Loading the former takes longer than a small problem, or a short run, takes in total, and every process
would pay for it: the coordinator, the command line, the server that workers are forked from, ranks and actors.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from erasurehead._internal.arrays import Array, IntArray, Places

if TYPE_CHECKING:
    from erasurehead._internal.arrays import SparseMatrix

_LARGE = 4096  # elements from which workers are given machine code
_ENOUGH = 2**25  # elements for which numpy takes about as long as loading machine code does
_EACH = 1024  # elements for which numpy takes as long as the overhead of its calls

_MACHINE_CODE = "erasurehead.problems._machine_code"
_NUMPY_ALONE = "erasurehead.problems._numpy_alone"
_MOST = 2**31 - 1  # elements that 32-bit indices count
_BLOCK = 512  # samples whose losses are one logarithm
_USUAL = 0.5  # of the rows, beyond which a column that is one in these is thought to be one in all


def modules_for(size: int) -> tuple[str, ...]:
    """Return the modules that a worker imports at its start to compute with arrays of up to some size.

    It never loads machine code within a step, which would make it a straggler.

    Arguments:
        size: number of elements of the longest array, of the model or of a shard.
    """
    return (__name__, _MACHINE_CODE if size >= _LARGE else _NUMPY_ALONE)


def load(size: int) -> None:
    """Load machine code before a clock starts, if arrays of up to `size` elements are worth it."""
    if size >= _LARGE:
        import_module(_MACHINE_CODE)


def load_with(preload: Sequence[str]) -> None:
    """Load machine code before a clock starts, if it is among the modules that workers import at their start.

    Arguments:
        preload: of a problem.
    """
    if _MACHINE_CODE in preload:
        import_module(_MACHINE_CODE)


class _Progress:
    """What numpy has computed in this process, in elements, how much is enough, and the module that is loaded then."""

    computed = 0
    enough: float = _ENOUGH
    code: Any = None


def numpy_alone() -> None:
    """Never load machine code in this process, however much is computed."""
    _Progress.enough = math.inf


def _machine_code(size: int) -> Any:
    """Return the module with machine code; None to compute with numpy.

    Processes that are not workers of a real engine load machine code once it is worth it.
    """
    if _Progress.code is None:
        if _MACHINE_CODE not in sys.modules:
            _Progress.computed += size + _EACH
            if _Progress.computed < _Progress.enough:
                return None
        _Progress.code = import_module(_MACHINE_CODE)  # waits if another thread is still importing it
    return _Progress.code


def pattern_product(
    first: NDArray[np.uint16],
    runs: NDArray[np.uint64],
    columns: NDArray[np.uint32],
    rows: NDArray[np.uint16],
    weights: Array,
    margins: Array,
) -> None:
    """Write the sum of the weights of each row's columns.

    Arguments:
        first, runs, columns, rows: the ones, as `PatternBlock` has them.
        weights: weight of each column, shape (n_columns,).
        margins: output, shape (n_rows + 1,); the last element takes what belongs to no row.
    """
    code = _machine_code(len(first) + len(rows))
    if code is not None:
        code.pattern_product(first, runs, columns, rows, weights, margins)
        return
    lengths = np.repeat(*runs.T.astype(np.int64))
    each = np.concatenate([weights, np.repeat(weights[columns], lengths)])
    margins[:] = np.bincount(np.concatenate([first, rows]), each, len(margins))  # which adds in order


def pattern_transposed(
    first: NDArray[np.uint16],
    runs: NDArray[np.uint64],
    columns: NDArray[np.uint32],
    rows: NDArray[np.uint16],
    residuals: Array,
    total: Array,
) -> None:
    """Write the sum of the residuals of each column's rows.

    Arguments:
        first, runs, columns, rows: the ones, as `PatternBlock` has them.
        residuals: residual of each row, shape (n_rows + 1,); the last is 0.
        total: output, shape (n_columns,).
    """
    code = _machine_code(len(first) + len(rows))
    if code is not None:
        code.pattern_transposed(first, runs, columns, rows, residuals, total)
        return
    lengths = np.repeat(*runs.T.astype(np.int64))
    within = np.arange(len(rows)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    lanes = np.where(within < np.repeat(lengths - lengths % 4, lengths), within % 4, 0)  # four sums, as there
    lanes += np.repeat(np.arange(0, 4 * len(lengths), 4), lengths)
    a, b, c, d = np.bincount(lanes, residuals[rows], 4 * len(lengths)).reshape(-1, 4).T
    total[:] = residuals[first]
    np.add.at(total, columns, (a + b) + (c + d))


def logistic_residuals(margins: Array, decays: Array, labels: Array, scale: float) -> float:
    """Replace the margins by the derivatives of `scale * log(1 + exp(-label * margin))`.

    The logarithms are taken of products of 512 factors: log(1 + e) = log(u) + (e - (u - 1)) / u, where u is 1 + e as
    rounded, so that an e below the rounding of 1 still counts. Rounding costs the sum about 1e-16 a sample. `decays`
    come from numpy, whose exponential works on eight numbers at once.

    Arguments:
        margins: shape (n_rows,); changed in place.
        decays: exp(-|margin|), shape (n_rows,).
        labels: -1 or +1, shape (n_rows,).
        scale: factor of the loss.

    Returns:
        The sum of the losses, times the scale.
    """
    code = _machine_code(len(margins))
    if code is not None:
        return code.logistic_residuals(margins, decays, labels, scale)
    signed = margins * labels
    rounded = 1.0 + decays
    inverse = 1.0 / rounded
    terms = (decays - (rounded - 1.0)) * inverse - np.minimum(signed, 0.0)
    margins[:] = -scale * labels * np.where(signed >= 0.0, inverse * decays, inverse)
    loss = 0.0
    for begin in range(0, len(terms), _BLOCK):  # sequentially, whereas numpy sums pairwise
        loss = float(np.add.accumulate(np.append(loss, terms[begin : begin + _BLOCK]))[-1])
        loss += math.log(np.multiply.accumulate(rounded[begin : begin + _BLOCK])[-1])
    return scale * loss


def take(vector: Array, places: Places, out: Array) -> None:
    """Copy the elements at the given places of a vector.

    Arguments:
        vector: the vector to read from.
        places: valid indices of the vector (not checked), shape (length,).
        out: output, shape (length,).
    """
    code = _machine_code(len(vector))
    if code is not None:
        code.take(vector, places, out)
    else:
        out[:] = vector[places]


def add_in_place(total: Array, places: Places, weight: float, values: Array) -> None:
    """Add weighted values at the given places of a vector.

    Arguments:
        total: the vector; changed in place.
        places: index of each value in the vector, shape (length,); -1 for padding, which is not read.
        weight: factor of the values.
        values: the values, shape (length,).
    """
    code = _machine_code(len(total))
    if code is not None:
        code.add_in_place(total, places, weight, values)
        return
    used = places >= 0
    np.add.at(total, places[used], weight * values[used])


def by_rows(
    n_rows: int,
    first: NDArray[np.uint16],
    columns: IntArray,
    starts: IntArray,
    ends: IntArray,
    rows: NDArray[np.uint16],
) -> tuple[IntArray, Places]:
    """Return ones that are stored column by column as the rows of a matrix in CSR format: `indptr`, and `indices`.

    Arguments:
        n_rows: number of rows; a row of this number is none.
        first: the first row of each column, or none.
        columns, starts, ends: stretches of further rows, ascending by column: of which, and where in `rows` they are.
        rows: further rows, ascending in each column.
    """
    code = _machine_code(len(first) + len(rows))
    if code is not None:
        counts = np.zeros(n_rows + 2, dtype=np.int64)  # after a 0; the last is that of no row
        code.count_in_rows(first, starts, ends, rows, counts[1:])
        begins = np.cumsum(counts[:-1])
        out = np.empty(begins[-1] + counts[-1], dtype=np.int32)
        code.sort_by_rows(first, columns, starts, ends, rows, begins.copy(), out)
        return begins, out[: begins[-1]]
    lengths: IntArray = ends - starts
    entries: IntArray = np.repeat(ends - np.cumsum(lengths), lengths) + np.arange(int(lengths.sum()))
    row = np.concatenate([first, rows[entries]])
    column = np.concatenate([np.arange(len(first)), np.repeat(columns, lengths)])
    order = np.lexsort((column, row))
    begins = np.searchsorted(row[order], np.arange(n_rows + 1))
    return begins, column[order][: begins[-1]].astype(np.int32)


def weighted_pairs(rows: SparseMatrix, weights: Array, sums: Array) -> None:
    """Write the upper triangle of `rows.T @ diag(weights) @ rows`.

    Columns that are one in most rows are taken to be one in all, and only what differs is paired: of one-hot columns of
    features that hardly vary, that is a small part.

    Arguments:
        rows: shape (n_rows, n_columns); its indices are sorted in place.
        weights: shape (n_rows,).
        sums: output, row by row, shape (n_columns * (n_columns + 1) / 2,).
    """
    rows.sort_indices()
    n_rows, side = rows.shape
    code, most, total = _machine_code(rows.nnz), _USUAL * n_rows, float(weights.sum())
    if code is not None and rows.nnz <= _MOST:
        starts, columns = (part.astype(np.int32, copy=False) for part in (rows.indptr, rows.indices))
        room = [np.empty(side + 1, dtype=kind) for kind in (np.int32, np.int32, np.float64)]
        code.weighted_pairs(starts, columns, rows.data, weights, most, total, *room, np.empty(side), sums)
        return
    usual = (np.bincount(rows.indices, rows.data == 1.0, side) > most).astype(np.float64)
    odd = rows - type(rows)(np.tile(usual, (n_rows, 1)))
    odd.eliminate_zeros()
    weighted = odd.copy()
    weighted.data *= np.repeat(weights, np.diff(odd.indptr))
    alone, whole = np.zeros(side), (odd.T @ weighted).toarray()
    np.add.at(alone, weighted.indices, weighted.data)
    whole += np.outer(usual, alone)
    whole += usual * (alone + total * usual)[:, np.newaxis]
    sums[:] = whole[np.triu_indices(side)]
