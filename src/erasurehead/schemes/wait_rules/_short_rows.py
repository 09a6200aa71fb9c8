"""The least of neighbours and the greatest of a row, of many short rows: as machine code, several rows at once."""

from __future__ import annotations

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead._internal.jit import compiled_when_called

LANES = 64
"""Rows that are compared side by side."""


@compiled_when_called
def least_of_neighbours(values: Array, size: int, least: Array) -> None:
    """Write the least of each group of neighbours.

    Loops whose steps are written out become vector instructions; a loop over the neighbours would not.

    Arguments:
        values: without NaN, shape (n_groups * size,).
        size: number of neighbours in a group, from 2 to 5.
        least: output, shape (n_groups,). Every element is written.
    """
    if size == 2:
        for group in range(len(least)):
            least[group] = min(values[2 * group], values[2 * group + 1])
    elif size == 3:
        for group in range(len(least)):
            least[group] = min(min(values[3 * group], values[3 * group + 1]), values[3 * group + 2])
    elif size == 4:
        for group in range(len(least)):
            one = min(values[4 * group], values[4 * group + 1])
            least[group] = min(one, min(values[4 * group + 2], values[4 * group + 3]))
    else:
        for group in range(len(least)):
            one = min(values[5 * group], values[5 * group + 1])
            other = min(values[5 * group + 2], values[5 * group + 3])
            least[group] = min(min(one, other), values[5 * group + 4])


@compiled_when_called
def greatest(rows: Array, answers: Array) -> None:
    """Write the greatest value of each row.

    Arguments:
        rows: values without NaN, shape (at least `LANES`, n).
        answers: output, shape (rounds,). Every element is written.
    """
    rounds = len(rows)
    last = np.empty(LANES)
    for start in range(0, rounds, LANES):
        first = min(start, rounds - LANES)  # the last rows are compared together with some of those before them
        for lane in range(LANES):
            last[lane] = rows[first + lane, 0]
        for place in range(1, rows.shape[1]):
            for lane in range(LANES):
                last[lane] = max(last[lane], rows[first + lane, place])
        for lane in range(LANES):
            answers[first + lane] = last[lane]
