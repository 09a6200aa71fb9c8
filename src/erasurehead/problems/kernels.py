"""The loops that numpy and scipy have no words for: products with matrices of ones, and the logistic residual.

Importing this module loads the machine code (or compiles it, the first time). Indices are unsigned: numba then leaves
out the check for negative ones, which costs a fifth of a gather.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from erasurehead.arrays import Array
from erasurehead.problems.jit import FLOAT, NOTHING, compiled, reads, writes

_ONE = np.uint64(1)  # an unsigned and a signed integer would add up to a float
_FLUSH = 511  # a product of 512 numbers below 2 does not overflow


@compiled(NOTHING, reads("uint16", 2), reads("uint64"), reads("float64"), writes("float64"))
def add_slots_product(slots: NDArray[np.uint16], starts: NDArray[np.uint64], weights: Array, margins: Array) -> None:
    """Add to each row's margin the weights of its columns, one in each slot.

    Four slots at a time: their loads do not wait for each other, and a margin is loaded and stored once for four.

    Arguments:
        slots: column of each row in each slot, counted from the slot's start, shape (n_slots, n_rows).
        starts: first column of each slot, shape (n_slots,).
        weights: of the columns, shape (n_columns,).
        margins: shape (n_rows,); changed.
    """
    n_slots = slots.shape[0]
    n_rows = np.uint64(slots.shape[1])
    fours = n_slots - n_slots % 4
    for slot in range(0, fours, 4):
        a, b, c, d = slots[slot], slots[slot + 1], slots[slot + 2], slots[slot + 3]
        from_a, from_b = weights[starts[slot] :], weights[starts[slot + 1] :]
        from_c, from_d = weights[starts[slot + 2] :], weights[starts[slot + 3] :]
        for row in range(n_rows):
            margins[row] += (from_a[a[row]] + from_b[b[row]]) + (from_c[c[row]] + from_d[d[row]])
    for slot in range(fours, n_slots):
        a, from_a = slots[slot], weights[starts[slot] :]
        for row in range(n_rows):
            margins[row] += from_a[a[row]]


@compiled(NOTHING, reads("uint16", 2), reads("uint64"), reads("float64"), writes("float64"))
def add_slots_transposed(slots: NDArray[np.uint16], starts: NDArray[np.uint64], residuals: Array, total: Array) -> None:
    """Add each row's residual to the total of each of its columns, one in each slot.

    Arguments:
        slots: column of each row in each slot, counted from the slot's start, shape (n_slots, n_rows).
        starts: first column of each slot, shape (n_slots,).
        residuals: shape (n_rows,).
        total: shape (n_columns,); changed.
    """
    n_slots = slots.shape[0]
    n_rows = np.uint64(slots.shape[1])
    fours = n_slots - n_slots % 4
    for slot in range(0, fours, 4):
        a, b, c, d = slots[slot], slots[slot + 1], slots[slot + 2], slots[slot + 3]
        to_a, to_b = total[starts[slot] :], total[starts[slot + 1] :]
        to_c, to_d = total[starts[slot + 2] :], total[starts[slot + 3] :]
        for row in range(n_rows):
            residual = residuals[row]
            to_a[a[row]] += residual
            to_b[b[row]] += residual
            to_c[c[row]] += residual
            to_d[d[row]] += residual
    for slot in range(fours, n_slots):
        a, to_a = slots[slot], total[starts[slot] :]
        for row in range(n_rows):
            to_a[a[row]] += residuals[row]


@compiled(NOTHING, reads("uint64"), reads("uint32"), reads("float64"), writes("float64"))
def add_rows_product(edges: NDArray[np.uint64], columns: NDArray[np.uint32], weights: Array, margins: Array) -> None:
    """Add to each row's margin the weights of its columns.

    Arguments:
        edges: where each row begins in `columns`, and where the last ends, shape (n_rows + 1,).
        columns: of the entries, row by row, shape (n_entries,).
        weights: of the columns, shape (n_columns,).
        margins: shape (n_rows,); changed.
    """
    for row in range(np.uint64(margins.shape[0])):
        total = 0.0
        for entry in range(edges[row], edges[row + _ONE]):
            total += weights[columns[entry]]
        margins[row] += total


@compiled(NOTHING, reads("uint64"), reads("uint32"), reads("float64"), writes("float64"))
def add_rows_transposed(edges: NDArray[np.uint64], columns: NDArray[np.uint32], residuals: Array, total: Array) -> None:
    """Add each row's residual to the total of each of its columns.

    Arguments:
        edges: where each row begins in `columns`, and where the last ends, shape (n_rows + 1,).
        columns: of the entries, row by row, shape (n_entries,).
        residuals: shape (n_rows,).
        total: shape (n_columns,); changed.
    """
    for row in range(np.uint64(residuals.shape[0])):
        residual = residuals[row]
        for entry in range(edges[row], edges[row + _ONE]):
            total[columns[entry]] += residual


@compiled(FLOAT, writes("float64"), reads("float64"), reads("float64"), FLOAT)
def logistic_residuals(margins: Array, decays: Array, labels: Array, scale: float) -> float:
    """Put the derivatives of `scale * log(1 + exp(-label * margin))` in place of the margins.

    The logarithms are taken of products of 512 factors: log(1 + e) = log(u) + (e - (u - 1)) / u, where u is 1 + e as
    rounded, so that an e below the rounding of 1 still counts. `decays` come from numpy, whose exponential works on
    eight numbers at once.

    Arguments:
        margins: shape (n_rows,); changed.
        decays: exp(-|margin|), shape (n_rows,).
        labels: -1 or +1, shape (n_rows,).
        scale: of the loss.

    Returns:
        The sum of the losses, times the scale.
    """
    loss = 0.0
    product = 1.0
    for row in range(margins.shape[0]):
        signed = margins[row] * labels[row]
        decay = decays[row]
        rounded = 1.0 + decay
        inverse = 1.0 / rounded
        product *= rounded
        loss += (decay - (rounded - 1.0)) * inverse - min(signed, 0.0)
        chance = inverse * decay if signed >= 0.0 else inverse
        margins[row] = -scale * labels[row] * chance
        if row & _FLUSH == _FLUSH:
            loss += math.log(product)
            product = 1.0
    return scale * (loss + math.log(product))
