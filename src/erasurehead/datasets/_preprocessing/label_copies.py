"""Columns that say what the label says: the label itself, another name for each of its values, or another unit."""

from __future__ import annotations

from typing import Any

import numpy as np

from erasurehead._internal.arrays import AnyArray, Array, BoolArray
from erasurehead.datasets._readers.table import Column, TextColumn, are_numbers

_FEWEST = 10  # rows from which a column that goes with the label does hardly do so by chance
_FIRST = 1 << 10  # rows that are compared before all others, as most columns differ from the label soon
_MOST = 1 << 14  # different values of a column that are remembered
_ALIKE = 1e-9  # of the range of labels, for numbers in another unit
_ROUNDING = 1e-14  # of the largest label


class LabelCopy:
    """Compares a column with the label, block by block; rows without a value in the column do not count."""

    def __init__(self) -> None:
        self._rows = self._missing = 0
        self._labels: dict[Any, Any] | None = {}  # of each value; None if a value has two, or two values have one
        self._line: tuple[float, float, float] | None = None  # a value, its label, and labels per value
        self._linear = True

    def add(self, column: Column, label: Column) -> None:
        """Add some rows."""
        for rows in np.split(np.arange(len(label.missing())), [_FIRST]):
            if self._labels is None and not self._linear:
                return
            values, labels = column.take(rows), label.take(rows)
            present = ~(values.missing() | labels.missing())
            self._rows += int(np.count_nonzero(present))
            self._missing += int(np.count_nonzero(~present))
            if present.any():
                x, y = _comparable(values, present), _comparable(labels, present)
                self._linear = self._linear and x.dtype.kind == y.dtype.kind == "f" and self._fits(x, y)
                self._pair(x, y)

    def warning(self, name: str, label: str) -> str:
        """Return what is to be said of the column, as a sentence without a full stop; empty if it is no copy."""
        pairs, line = self._labels or {}, self._line
        named = len(pairs) > 1 and len(set(pairs.values())) == len(pairs) and 2 * len(pairs) <= self._rows
        united = self._linear and line is not None and line[2] != 0.0
        if self._rows < max(_FEWEST, self._missing) or not (named or united):
            return ""
        same = all(value == paired for value, paired in pairs.items()) and (line is None or line[1:] == (line[0], 1.0))
        what = f"equals the label {label!r}" if same else f"says what the label {label!r} says in other words or units"
        return f"{name}: {what} in every row that has a value"

    def _pair(self, x: AnyArray, y: AnyArray) -> None:
        """Remember the label of each value, as long as each value has one of its own."""
        values, places = np.unique(x, return_inverse=True)
        labels, numbers = np.unique(y, return_inverse=True)
        pairs = np.unique(places.astype(np.int64) * len(labels) + numbers)
        earlier = self._labels
        if earlier is None or not len(values) == len(labels) == len(pairs) or len(earlier) > _MOST:
            self._labels = None
            return
        added = dict(zip(values.tolist(), labels[pairs % len(labels)].tolist(), strict=True))
        self._labels = added | earlier if all(earlier.get(one, added[one]) == added[one] for one in added) else None

    def _fits(self, x: Array, y: Array) -> bool:
        """Return whether the labels are still the values times a number, plus another."""
        value, label, slope = self._line or (float(x[0]), float(y[0]), 0.0)
        far = int(np.argmax(np.abs(x - value)))
        if slope == 0.0 and x[far] != value:
            slope = float((y[far] - label) / (x[far] - value))
        self._line = value, label, slope
        off = np.abs(y - (label + slope * (x - value)))
        alike = _ALIKE * np.abs(y - label).max() + _ROUNDING * np.abs(y).max()
        return (slope != 0.0 or x[far] == value) and bool((off <= alike).all())


def _comparable(column: Column, present: BoolArray) -> AnyArray:
    if are_numbers(column):
        return column.numbers()[present]
    assert isinstance(column, TextColumn)
    codes, places = np.unique(column.codes[present], return_inverse=True)
    return np.array([column.values[code] for code in codes.tolist()], dtype=np.str_)[places]
