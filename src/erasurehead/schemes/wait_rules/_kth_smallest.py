"""The k-th smallest of each row of a large table, without ordering the rest."""

from __future__ import annotations

import time
from functools import cache

import numpy as np

from erasurehead._internal.arrays import Array, IntArray

_FEW = 64  # up to this many columns a sorting network is quicker; twice as quick up to 32
_MANY = 1 << 14  # elements from which it is worth loading
_SHORT = 300  # up to this many columns numpy's own selection is quicker everywhere
_PIECE = 1 << 15  # elements that numpy selects from at once: it copies them, and the copy stays in cache
_SAMPLE = 1024
_CACHED = 1 << 16  # elements examined at once: they stay in cache, and so do the masks over them
_SPREAD = 2.8  # standard errors on either side of the guess; rows whose answer lies outside are selected by numpy


def kth_smallest(times: Array, k: int) -> Array:
    """Return the k-th smallest value of each row.

    Arguments:
        times: values of at least 0, inf allowed, shape (rounds, n), C-contiguous or not.
        k: from 1 to n.

    Returns:
        Shape (rounds,).
    """
    n = times.shape[1]
    if n <= _FEW and times.size >= _MANY:
        return networked(times, k)
    return partitioned(times, k) if n <= _SHORT or _vectors_compress() else bracketed(times, k)


@cache
def _vectors_compress() -> bool:
    """Measure once whether numpy's selection is the quicker one on this machine.

    It rests on an instruction that packs the chosen elements of a vector: with a good one it is twice as quick as
    `bracketed`; some processors have none, or one that takes a hundred times as long.
    """
    times = np.random.default_rng(0).random((8, 4096))
    seconds = {partitioned: np.inf, bracketed: np.inf}
    for _ in range(5):
        for select in seconds:
            begin = time.perf_counter()
            select(times, 1638)
            seconds[select] = min(seconds[select], time.perf_counter() - begin)
    return seconds[partitioned] <= seconds[bracketed]


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


def bracketed(times: Array, k: int) -> Array:
    """Return what `kth_smallest` does, by a guess.

    Long rows are usually alike, so that a sample of the table tells between which two values all of their answers
    lie; then only the few elements between those are ordered. A row for which the guess was wrong is done by numpy.
    """
    rounds, n = times.shape
    low, high = _bracket(times, k)
    answers = np.full(rounds, np.nan)
    height = max(1, _CACHED // n)
    for first in range(0, rounds, height):
        rows = times[first : first + height]
        if n <= _CACHED:
            answers[first : first + height] = _between(rows, k, low, high)
        else:
            answers[first] = _between_in_long_row(rows[0], k, low, high)
    missed = np.flatnonzero(np.isnan(answers))
    if len(missed):
        answers[missed] = partitioned(times[missed], k)
    return answers


def _bracket(times: Array, k: int) -> tuple[float, float]:
    flat = times.reshape(-1)
    sample = np.sort(flat[:: (max(1, flat.size // _SAMPLE)) | 1])  # an odd stride samples every worker in turn
    share = k / times.shape[1]
    error = _SPREAD * np.sqrt(share * (1.0 - share) * (1.0 / len(sample) + 1.0 / times.shape[1]))
    reach = error + 1.5 / len(sample)
    low = int(np.floor((share - reach) * len(sample)))
    high = int(np.ceil((share + reach) * len(sample)))
    return (
        float(sample[low]) if low >= 0 else -np.inf,
        float(sample[high]) if high < len(sample) else np.inf,
    )


def _between(rows: Array, k: int, low: float, high: float) -> Array:
    """Return the k-th smallest of each row if it lies in [low, high), and NaN for the other rows."""
    count, n = rows.shape
    below = rows < low
    ranks = k - np.array([np.count_nonzero(row) for row in below])  # several times quicker than along an axis
    below ^= rows < high
    places = np.flatnonzero(below)
    edges: IntArray = np.arange(count + 1, dtype=np.int64) * n
    bounds: IntArray = np.searchsorted(places, edges)
    sizes: IntArray = np.diff(bounds)
    table = np.full((count, int(sizes.max()) + 1), np.inf)
    shift: IntArray = np.arange(count, dtype=np.int64) * table.shape[1] - bounds[:-1]
    table.reshape(-1)[np.arange(len(places)) + np.repeat(shift, sizes)] = rows.reshape(-1)[places]
    table.sort(axis=1)
    inside = (ranks >= 1) & (ranks <= sizes)
    return np.where(inside, table[np.arange(count), np.where(inside, ranks - 1, 0)], np.nan)


def _between_in_long_row(row: Array, k: int, low: float, high: float) -> float:
    rank, kept = k, list[Array]()
    for first in range(0, len(row), _CACHED):
        piece = row[first : first + _CACHED]
        below = piece < low
        rank -= int(np.count_nonzero(below))
        below ^= piece < high
        kept.append(piece[np.flatnonzero(below)])
    values = np.concatenate(kept)
    return float(np.partition(values, rank - 1)[rank - 1]) if 1 <= rank <= len(values) else np.nan
