"""The loops that numpy and scipy have no words for: products with matrices of ones, logistic residuals, weighted sums.

There are two of each, which give the same bits: in `machine_code` for what is large, and in numpy, here, for what is
small. Loading the former takes longer than a small problem computes in a whole run, and every process pays for it:
the coordinator, the command line, the server that workers are forked from, ranks and actors.
"""

from __future__ import annotations

import math
import sys
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from erasurehead._internal.arrays import Array, Places

LARGE = 4096
"""Elements from which on machine code is loaded. Where it is there already, it takes what is small, too."""

_MACHINE_CODE = "erasurehead.problems.machine_code"
_BLOCK = 512  # samples whose losses are one logarithm


def modules_for(size: int) -> tuple[str, ...]:
    """Return the modules to be imported before the clock starts, by those who compute with arrays of up to some size.

    Arguments:
        size: elements of the longest array, of a model or of what a shard holds.
    """
    return (__name__, _MACHINE_CODE) if size >= LARGE else (__name__,)


def load(size: int) -> None:
    """Import what arrays of up to some size are computed with."""
    for module in modules_for(size):
        import_module(module)


def _machine_code(size: int) -> Any:
    """Return the module to leave a computation to; None if it is done here."""
    return import_module(_MACHINE_CODE) if size >= LARGE or _MACHINE_CODE in sys.modules else None


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
        weights: of the columns, shape (n_columns,).
        margins: shape (n_rows + 1,); the last element takes what belongs to no row.
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
        residuals: of the rows, shape (n_rows + 1,); the last is 0.
        total: shape (n_columns,).
    """
    code = _machine_code(len(first) + len(rows))
    if code is not None:
        code.pattern_transposed(first, runs, columns, rows, residuals, total)
        return
    total[:] = residuals[first]
    entry = stretch = 0
    for length, count in runs.tolist():
        held = residuals[rows[entry : entry + length * count]].reshape(count, length)
        sums, fours = np.zeros((count, 4)), length - length % 4
        for further in range(0, fours, 4):
            sums += held[:, further : further + 4]
        for further in range(fours, length):
            sums[:, 0] += held[:, further]
        a, b, c, d = sums.T
        np.add.at(total, columns[stretch : stretch + count], (a + b) + (c + d))
        entry += length * count
        stretch += count


def logistic_residuals(margins: Array, decays: Array, labels: Array, scale: float) -> float:
    """Put the derivatives of `scale * log(1 + exp(-label * margin))` in place of the margins.

    The logarithms are taken of products of 512 factors: log(1 + e) = log(u) + (e - (u - 1)) / u, where u is 1 + e as
    rounded, so that an e below the rounding of 1 still counts. Rounding costs the sum about 1e-16 a sample. `decays`
    come from numpy, whose exponential works on eight numbers at once.

    Arguments:
        margins: shape (n_rows,); changed.
        decays: exp(-|margin|), shape (n_rows,).
        labels: -1 or +1, shape (n_rows,).
        scale: of the loss.

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
    for begin in range(0, len(terms), _BLOCK):  # one after the other, where a sum of numpy's goes by pairs
        loss = float(np.add.accumulate(np.append(loss, terms[begin : begin + _BLOCK]))[-1])
        loss += math.log(np.multiply.accumulate(rounded[begin : begin + _BLOCK])[-1])
    return scale * loss


def take(vector: Array, places: Places, out: Array) -> None:
    """Write the elements at some places of a vector.

    Arguments:
        vector: what is read.
        places: within the vector, which is not checked; shape (length,).
        out: filled, shape (length,).
    """
    code = _machine_code(len(vector))
    if code is not None:
        code.take(vector, places, out)
    else:
        out[:] = vector[places]


def add_in_place(total: Array, places: Places, weight: float, values: Array) -> None:
    """Add weighted values to the places that they belong to.

    Arguments:
        total: changed.
        places: of the values in it; -1 for padding, which is not read. Shape (length,).
        weight: of the values.
        values: shape (length,).
    """
    code = _machine_code(len(total))
    if code is not None:
        code.add_in_place(total, places, weight, values)
        return
    there = places >= 0
    np.add.at(total, places[there], weight * values[there])
