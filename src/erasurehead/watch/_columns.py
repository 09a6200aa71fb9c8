"""What is kept of rows while they are read: columns of numbers, and for each row a set of workers as bits."""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np

from erasurehead._internal.arrays import Array, IntArray
from erasurehead._internal.documents import Entries
from erasurehead.errors import DataError

MOST_WORKERS = 1 << 17
"""Workers have smaller numbers, or the file is none of ours."""

_FIRST_ROWS = 1024
_BITS_AT_ONCE = 1 << 26


def number(row: Entries, name: str) -> float:
    """Return a number of a row; NaN if there is none."""
    value = row.get(name)
    return float(value) if isinstance(value, int | float) and abs(value) < 1e300 else math.nan


def numbers(row: Entries, name: str) -> IntArray:
    """Return the numbers of workers in a row, of a field that is a list of them; empty if there is none.

    Raises:
        DataError: if the field is something else.
    """
    try:
        found = np.asarray(row.get(name) or (), dtype=np.int64)
    except (TypeError, ValueError, OverflowError):
        found = np.array([-1])
    if found.ndim != 1 or np.any((found < 0) | (found >= MOST_WORKERS)):
        raise DataError(f"{name!r} must be a list of numbers of workers; a run writes nothing else.")
    return found


def newest(column: Array) -> float:
    """Return the last number of a column; NaN if there is none."""
    known = column[np.isfinite(column)]
    return float(known[-1]) if len(known) else math.nan


def entries(value: Any) -> Entries:
    """Return what should be an object with keys; none if it is something else."""
    return cast("Entries", value) if isinstance(value, dict) else {}


class GrowingColumns:
    """Columns of numbers that grow.

    Arguments:
        names: of the columns.
    """

    def __init__(self, *names: str) -> None:
        self.names = names
        self._data: Array = np.zeros((len(names), _FIRST_ROWS))
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, name: str) -> Array:
        return self._data[self.names.index(name), : self._size]

    def add(self, row: Entries) -> None:
        """Add what a row says of the columns."""
        if self._size == self._data.shape[1]:
            self._data = np.pad(self._data, ((0, 0), (0, self._size)))
        self._data[:, self._size] = [number(row, name) for name in self.names]
        self._size += 1


class WorkerSets:
    """For each row a set of workers, in a bit each."""

    def __init__(self) -> None:
        self._data = np.zeros((_FIRST_ROWS, 8), dtype=np.uint8)
        self._size = 0

    def add(self, workers: IntArray) -> None:
        """Add the set of another row."""
        rows, width = self._data.shape
        wanted = int(workers.max(initial=0)) // 8 + 1
        if self._size == rows or wanted > width:
            self._data = np.pad(self._data, ((0, rows), (0, max(0, 2 * wanted - width))))
        flags = np.zeros(8 * self._data.shape[1], dtype=np.uint8)
        flags[workers] = 1
        self._data[self._size] = np.packbits(flags)
        self._size += 1

    def counts(self, first: int, last: int, n_workers: int) -> IntArray:
        """Return for each worker in how many rows it is, from the row `first` to before `last`."""
        total, rows = np.zeros(MOST_WORKERS, dtype=np.int64), max(1, _BITS_AT_ONCE // (8 * self._data.shape[1]))
        for begin in range(max(0, first), last, rows):
            chosen = np.unpackbits(self._data[begin : min(last, begin + rows)], axis=1)
            total[: chosen.shape[1]] += chosen.sum(axis=0, dtype=np.int64)
        return total[:n_workers]


def curve(times: Array, values: Array, window: tuple[float, float], points: int) -> dict[str, list[float]]:
    """Return a curve in a window of time, with one point on each side: `t` and `v`, and around these `low` and `high`.

    Of more points than are asked for, each of so many groups keeps its mean, with the smallest and the largest value.

    Arguments:
        times: ascending.
        values: as many; those that are not finite are left out.
        window: the seconds to show.
        points: the most points to return.
    """
    known = np.isfinite(values) & np.isfinite(times)
    times, values = times[known], values[known]
    first, last = np.searchsorted(times, window)
    times, values = times[max(0, first - 1) : last + 1], values[max(0, first - 1) : last + 1]
    starts = np.linspace(0, len(times), min(points, len(times)), endpoint=False).astype(int)
    sizes = np.diff(starts, append=len(times))
    return {
        "t": times[starts + sizes - 1].tolist(),
        "v": (np.add.reduceat(values, starts) / sizes).tolist(),
        "low": np.minimum.reduceat(values, starts).tolist(),
        "high": np.maximum.reduceat(values, starts).tolist(),
    }
