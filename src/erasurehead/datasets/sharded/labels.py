"""The labels of a stream: their distinct values are enough to tell what they are for."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from erasurehead.datasets.base import Task
from erasurehead.datasets.sharded.distinct import Distinct
from erasurehead.datasets.table import Column, Numbers, Texts
from erasurehead.datasets.target import MOST_CLASSES, Target, fit_target
from erasurehead.errors import DataError


class LabelValues:
    """Gathers the distinct labels of a file.

    Arguments:
        name: of the column; empty if labels come without one.
        task: what to train, or None to find out.
    """

    def __init__(self, name: str, task: Task | None) -> None:
        self._name = name
        self._task: Task | None = task
        self._values = Distinct()
        self._first: Callable[[int], str] | None = None

    def add(self, column: Column, place: Callable[[int], str]) -> None:
        """Take the labels of some rows.

        Raises:
            DataError: if one is missing; the message says where.
        """
        missing = column.missing()
        if missing.any():
            said = f"the label {self._name!r}" if self._name else "the label"
            raise DataError(f"{place(int(np.argmax(missing)))}: {said} is missing.")
        self._first = self._first or place
        if not (isinstance(column, Numbers) and self._enough()):
            self._values.codes(column)

    def _enough(self) -> bool:
        # Quantities may have as many values as there are rows; the first ones tell that they are quantities.
        return self._task in (None, "least_squares") and len(self._values) > MOST_CLASSES

    def target(self) -> Target:
        """Return how labels become numbers; see `fit_target`."""
        first = self._first
        assert first is not None
        column = self._values.column() or Texts(np.zeros(0, dtype=np.int32), ())
        return fit_target(column, self._name, self._task, lambda _: first(0))
