"""Columns that say what the label says: the label itself, another name for each of its values, or another unit."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from erasurehead._internal.arrays import Array, BoolArray
from erasurehead.datasets.readers.table import Column, Numbers, are_numbers

_FEWEST = 10  # rows from which a column that goes with the label does hardly do so by chance
_FIRST = 1 << 10  # rows that are compared before all others
_MOST = 1 << 14  # different values of a column that are remembered
_ALIKE = 1e-9  # of the largest label, for numbers in another unit


class LabelCopy:
    """Compares a column with the label, block by block; rows without a value in the column do not count."""

    def __init__(self) -> None:
        self._rows = self._missing = 0
        self._equal = True
        self._labels: dict[Any, Any] = {}  # of each value
        self._values: dict[Any, Any] = {}  # of each label
        self._relabelled = True
        self._line: tuple[float, float, float] | None = None  # a value, its label, and labels per value
        self._linear = True

    def add(self, column: Column, label: Column) -> None:
        """Add some rows."""
        for part in (slice(_FIRST), slice(_FIRST, None)):  # most columns differ from the label soon
            if self._equal or self._relabelled or self._linear:
                rows = np.arange(len(label.missing()))[part]
                self._compare(column.take(rows), label.take(rows))

    def _compare(self, column: Column, label: Column) -> None:
        there: BoolArray = ~(column.missing() | label.missing())
        self._missing += int(np.count_nonzero(~there))
        self._rows += int(np.count_nonzero(there))
        if not there.any():
            return
        x, y = _comparable(column, there), _comparable(label, there)
        self._equal = self._equal and x.dtype.kind == y.dtype.kind and bool((x == y).all())
        self._relabelled = self._relabelled and self._pair(x, y)
        self._linear = self._linear and x.dtype.kind == y.dtype.kind == "f" and self._fits(x, y)

    def warning(self, name: str, label: str) -> str:
        """Return what is to be said of the column, as a sentence without a full stop; empty if it is no copy."""
        if self._rows < _FEWEST or self._rows < self._missing:
            return ""
        if self._equal and self._varies:
            return f"{name}: equals the label {label!r} in every row that has a value"
        repeated = self._relabelled and self._varies and 2 * len(self._labels) <= self._rows
        if repeated or (self._linear and self._line is not None):
            return f"{name}: says what the label {label!r} says in other words or units, in every row that has a value"
        return ""

    @property
    def _varies(self) -> bool:
        return not self._relabelled or len(self._labels) > 1

    def _pair(self, x: NDArray[Any], y: NDArray[Any]) -> bool:
        """Return whether each value still has one label, and each label one value."""
        values, places = np.unique(x, return_inverse=True)
        labels, numbers = np.unique(y, return_inverse=True)
        pairs = np.unique(places.astype(np.int64) * len(labels) + numbers)
        if not len(values) == len(labels) == len(pairs) or len(self._labels) > _MOST:
            return False
        for pair in pairs.tolist():
            value, known = values[pair // len(labels)].item(), labels[pair % len(labels)].item()
            if self._labels.setdefault(value, known) != known or self._values.setdefault(known, value) != value:
                return False
        return True

    def _fits(self, x: Array, y: Array) -> bool:
        """Return whether the labels are still the values times a number, plus another."""
        if self._line is None:
            low, high = int(np.argmin(x)), int(np.argmax(x))
            if x[low] == x[high]:
                return bool((y == y[0]).all())
            self._line = (float(x[low]), float(y[low]), float((y[high] - y[low]) / (x[high] - x[low])))
        value, label, slope = self._line
        off = np.abs(y - (label + slope * (x - value)))
        return slope != 0.0 and bool((off <= _ALIKE * np.abs(y).max()).all())


def _comparable(column: Column, there: BoolArray) -> NDArray[Any]:
    if isinstance(column, Numbers):
        return column.values[there]
    if are_numbers(column):
        return column.numbers()[there]
    codes, places = np.unique(column.codes[there], return_inverse=True)
    return np.array([column.values[code] for code in codes.tolist()], dtype=np.str_)[places]
