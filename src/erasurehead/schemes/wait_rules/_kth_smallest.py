"""The k-th smallest of each row of a large table, without ordering the rest."""

from __future__ import annotations

import numpy as np

from erasurehead._internal.arrays import Array

_FEW = 64  # up to this many columns a sorting network is quicker; twice as quick up to 32
_MANY = 1 << 14  # elements from which it is worth loading
_PIECE = 1 << 15  # elements that numpy selects from at once: it copies them, and the copy stays in cache


def kth_smallest(times: Array, k: int) -> Array:
    """Return the k-th smallest value of each row.

    Arguments:
        times: values of at least 0, inf allowed, shape (rounds, n), C-contiguous or not.
        k: from 1 to n.

    Returns:
        Shape (rounds,).
    """
    quick = times.shape[1] <= _FEW and times.size >= _MANY
    return networked(times, k) if quick else partitioned(times, k)


def networked(times: Array, k: int) -> Array:
    """Return what `kth_smallest` does, by a sorting network; of short rows, many at once.

    Arguments:
        times: as for `kth_smallest`, with at least `networks.LANES` rounds.
        k: from 1 to n.
    """
    from erasurehead.schemes.wait_rules._sorting_networks import network, select

    answers = np.empty(len(times))
    select(np.ascontiguousarray(times), network(times.shape[1], k), k - 1, answers)
    return answers


def partitioned(times: Array, k: int) -> Array:
    """Return what `kth_smallest` does, by numpy's selection."""
    rounds, n = times.shape
    answers = np.empty(rounds)
    height = max(1, _PIECE // n)
    for first in range(0, rounds, height):
        # Floats of at least 0 are ordered as their bits are, and integers are selected quicker.
        bits = np.ascontiguousarray(times[first : first + height]).view(np.int64)
        answers[first : first + height] = np.partition(bits, k - 1, axis=1)[:, k - 1].view(np.float64)
    return answers
