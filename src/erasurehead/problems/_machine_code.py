"""The loops of `kernels` as machine code, for large arrays.

Importing this module loads numba and the machine code (or compiles it, the first time), which takes the better part of
a second. Indices are unsigned: numba then leaves out the check for negative ones, which costs a fifth of a gather.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from erasurehead._internal.arrays import Array, Places
from erasurehead._internal.jit import FLOAT, NOTHING, compiled, reads, writes

# An unsigned and a signed integer would add up to a float.
_ONE, _TWO, _THREE, _FOUR = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)
_FLUSH = 511  # a product of 512 numbers below 2 does not overflow

PATTERN = (reads("uint16"), reads("uint64", 2), reads("uint32"), reads("uint16"))


@compiled(NOTHING, *PATTERN, reads("float64"), writes("float64"))
def pattern_product(
    first: NDArray[np.uint16],
    runs: NDArray[np.uint64],
    columns: NDArray[np.uint32],
    rows: NDArray[np.uint16],
    weights: Array,
    margins: Array,
) -> None:
    """Write the sum of the weights of each row's columns; arguments as for `kernels.pattern_product`."""
    margins[:] = 0.0
    for column in range(np.uint64(len(first))):
        margins[first[column]] += weights[column]
    entry, stretch = np.uint64(0), np.uint64(0)
    for run in range(len(runs)):
        length = runs[run, 0]
        for _ in range(runs[run, 1]):
            weight = weights[columns[stretch]]
            for further in range(entry, entry + length):
                margins[rows[further]] += weight
            entry += length
            stretch += _ONE


@compiled(NOTHING, *PATTERN, reads("float64"), writes("float64"))
def pattern_transposed(
    first: NDArray[np.uint16],
    runs: NDArray[np.uint64],
    columns: NDArray[np.uint32],
    rows: NDArray[np.uint16],
    residuals: Array,
    total: Array,
) -> None:
    """Write the sum of the residuals of each column's rows; arguments as for `kernels.pattern_transposed`."""
    for column in range(np.uint64(len(first))):
        total[column] = residuals[first[column]]
    entry, stretch = np.uint64(0), np.uint64(0)
    for run in range(len(runs)):
        length = runs[run, 0]
        fours = length // _FOUR * _FOUR
        for _ in range(runs[run, 1]):
            # Four sums at a time: an addition does not have to wait for the one before it.
            a, b, c, d = 0.0, 0.0, 0.0, 0.0
            for further in range(entry, entry + fours, _FOUR):
                a += residuals[rows[further]]
                b += residuals[rows[further + _ONE]]
                c += residuals[rows[further + _TWO]]
                d += residuals[rows[further + _THREE]]
            for further in range(entry + fours, entry + length):
                a += residuals[rows[further]]
            total[columns[stretch]] += (a + b) + (c + d)
            entry += length
            stretch += _ONE


@compiled(FLOAT, writes("float64"), reads("float64"), reads("float64"), FLOAT)
def logistic_residuals(margins: Array, decays: Array, labels: Array, scale: float) -> float:
    """Replace the margins by derivatives, and return the loss; arguments as for `kernels.logistic_residuals`."""
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


@compiled(NOTHING, reads("float64"), reads("int32"), writes("float64"))
def take(vector: Array, places: Places, out: Array) -> None:
    """Copy the elements at the given places, in four fifths of the time of `numpy.take` with 64-bit indices."""
    for element in range(len(places)):
        out[element] = vector[np.uint64(places[element])]


@compiled(NOTHING, writes("float64"), reads("int32"), FLOAT, reads("float64"))
def add_in_place(total: Array, places: Places, weight: float, values: Array) -> None:
    """Add weighted values at the given places, in half the time of `numpy.add.at`, without temporary arrays."""
    for element in range(len(places)):
        place = places[element]
        if place >= 0:
            total[np.uint64(place)] += weight * values[element]
