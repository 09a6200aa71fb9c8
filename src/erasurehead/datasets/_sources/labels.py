"""The labels of all rows, gathered block by block: which distinct ones there are, and which class each row has."""

from __future__ import annotations

import numpy as np

from erasurehead.datasets._encoded import Task
from erasurehead.datasets._preprocessing.feature_fit import DistinctValues
from erasurehead.datasets._preprocessing.target import MOST_CLASSES, Target, check_all_there, fit_target, quantity
from erasurehead.datasets._preprocessing.vocabulary import Codes
from erasurehead.datasets._readers.table import Column, NumberColumn, Place, TextColumn

_AT_ONCE = 1 << 16
"""Rows after which it is asked whether labels are quantities, whose values need not be remembered."""


class LabelValues:
    """Collects the distinct labels of a source.

    Arguments:
        name: name of the column; empty if labels have none.
        task: what to train; None to choose it from the labels.
    """

    def __init__(self, name: str, task: Task | None) -> None:
        self._name = name
        self._task: Task | None = task
        self._values = DistinctValues()
        self._codes: list[Codes] = []
        self._first: Place | None = None

    def add(self, column: Column, place: Place) -> None:
        """Add the labels of some rows.

        Raises:
            DataError: if one is missing, or not a number where one is needed; the message says where.
        """
        check_all_there(column, self._name, place)
        if self._task == "least_squares":
            quantity(column, self._name, place)
        self._first = self._first or place
        n_rows = len(column.missing())
        for start in range(0, n_rows, _AT_ONCE):
            if isinstance(column, NumberColumn) and self._enough():
                self._codes.clear()  # they are quantities
            else:
                self._codes.append(self._values.codes(column.take(np.arange(start, min(start + _AT_ONCE, n_rows)))))

    def _enough(self) -> bool:
        # Quantities may have as many values as there are rows; the first ones suffice to tell that.
        return self._task in (None, "least_squares") and len(self._values) > MOST_CLASSES

    def target(self) -> Target:
        """Return how labels become numbers; see `fit_target`."""
        first = self._first
        assert first is not None
        column = self._values.column() or TextColumn(np.zeros(0, dtype=np.int32), ())
        return fit_target(column, self._name, self._task, lambda _: first(0))

    def classes(self, target: Target) -> Codes | None:
        """Return the code of each row's class, shape (n_rows,); None if labels are no classes."""
        column = self._values.column()
        if target.classes is None or column is None:
            return None
        return target.classes.codes(column)[np.concatenate(self._codes)]
