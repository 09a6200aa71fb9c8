"""Selection by a sorting network: the same comparisons for every row, so that many rows are compared at once.

Batcher's odd-even merge sort (Knuth, The Art of Computer Programming 3, section 5.2.2, algorithm M) is a list of pairs
of places to be put in order, whatever the values; only those that can affect the wanted place are kept. It needs no
branch that a processor could guess wrong, and a vector instruction orders the same pair of several rows.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from erasurehead._internal.arrays import Array, IntArray
from erasurehead._internal.jit import compiled_when_called

LANES = 64
"""Rows that are ordered side by side."""


@lru_cache(maxsize=256)
def network(n: int, k: int) -> IntArray:
    """Return the pairs of places to put in order, one after the other, for the k-th smallest of n to reach its place.

    Arguments:
        n: at least 1.
        k: from 1 to n.

    Returns:
        Shape (n_pairs, 2), the smaller place first.
    """
    needed, kept = {k - 1}, list[tuple[int, int]]()
    for pair in reversed(_merge_sort(n)):
        if not needed.isdisjoint(pair):
            kept.append(pair)
            needed.update(pair)
    return np.array(kept[::-1], dtype=np.int64).reshape(len(kept), 2)


def _merge_sort(n: int) -> list[tuple[int, int]]:
    pairs: list[tuple[int, int]] = []
    widest = 1 << max(0, (n - 1).bit_length() - 1)
    size = widest
    while size:
        step, offset, distance = widest, 0, size
        while True:
            pairs.extend((place, place + distance) for place in range(n - distance) if place & size == offset)
            if step == size:
                break
            distance, step, offset = step - size, step // 2, size
        size //= 2
    return pairs


@compiled_when_called
def select(rows: Array, pairs: IntArray, place: int, answers: Array) -> None:
    """Apply the pairs of a network to a copy of every row, and read one place of each.

    Arguments:
        rows: values without NaN, shape (at least `LANES`, n).
        pairs: as `network` returns them.
        place: the place to read, counted from 0.
        answers: output, shape (rounds,). Every element is written.
    """
    rounds, n = rows.shape
    lanes = np.empty((n, LANES))
    for start in range(0, rounds, LANES):
        first = min(start, rounds - LANES)  # the last rows are ordered together with some of those before them
        some = rows[first : first + LANES]
        for worker in range(n):
            for lane in range(LANES):
                lanes[worker, lane] = some[lane, worker]
        for pair in range(pairs.shape[0]):
            low, high = lanes[pairs[pair, 0]], lanes[pairs[pair, 1]]
            for lane in range(LANES):
                one, other = low[lane], high[lane]
                low[lane] = min(one, other)
                high[lane] = max(one, other)
        for lane in range(LANES):
            answers[first + lane] = lanes[place, lane]
