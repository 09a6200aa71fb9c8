"""How the columns of a user's table are to be read, and what becomes of them: numbers, or categories."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from erasurehead.datasets.csvcolumns import Kind
from erasurehead.datasets.csvfile import Layout
from erasurehead.datasets.table import Numbers, Table, Texts
from erasurehead.errors import DataError, invalid

HINT = "; name the column in one_hot (--one-hot), or use categorical (--categorical), if its values are categories"
"""What to do about a text in a column of numbers."""


@dataclass(frozen=True)
class Columns:
    """How the columns of a table are to be read.

    Arguments:
        one_hot: columns whose distinct values become columns, or `"all"`.
        categorical: whether columns that hold texts are one-hot encoded without being named, instead of refused. A
            column holds texts if its first value that is not missing is no number.
        interactions: combinations of columns, each a sequence of names, whose distinct combinations become columns.
        standardize: whether columns of numbers are shifted and scaled to mean 0 and standard deviation 1 over the
            training rows; without it gradient descent needs a step size that fits the largest of them.
    """

    one_hot: Sequence[str] | Literal["all"] = ()
    categorical: bool = False
    interactions: Sequence[Sequence[str]] = ()
    standardize: bool = True

    def is_named(self, name: str) -> bool:
        """Say whether a column is to be one-hot encoded whatever it holds."""
        return self.one_hot == "all" or name in self.one_hot

    @property
    def combined(self) -> frozenset[str]:
        """Columns that some combination has."""
        return frozenset(name for group in self.interactions for name in group)


def check_names(layout: Layout, label: str, columns: Columns, path: Path) -> None:
    """Raise unless the columns that the arguments name are there.

    Raises:
        InvalidArgument: naming the argument.
        DataError: if there is but one column.
    """
    wanted: list[tuple[str, str]] = [("target", label)]
    if columns.one_hot != "all":
        if isinstance(columns.one_hot, str):
            raise invalid("one_hot", 'must be a list of column names, or "all"', columns.one_hot)
        wanted += [("one_hot", name) for name in columns.one_hot]
    for group in columns.interactions:
        if isinstance(group, str) or len(set(group)) != len(group) or len(group) < 2:
            raise invalid("interactions", "must combine two or more different columns each", group)
        wanted += [("interactions", name) for name in group]
    for argument, name in wanted:
        if name not in layout.names:
            there = ", ".join(layout.names[:30])
            raise invalid(argument, f"must name columns of {path.name}", name, f"they are {there}")
        if argument != "target" and name == label:
            raise invalid(argument, "must not name the column of the labels", name)
    if len(layout.names) < 2:
        raise DataError(f"{path} has one column only; there must be a target and at least one other.")


def csv_kinds(layout: Layout, label: str, columns: Columns) -> Callable[[str], Kind]:
    """Return how each column of a CSV file is to be read."""
    categories = set(layout.names if columns.one_hot == "all" else columns.one_hot)
    combined = columns.combined

    def kind(name: str) -> Kind:
        if name == label:
            return "label"
        if name in categories:
            return "text"
        if columns.categorical or name in combined:
            return "auto"
        return "number"

    return kind


def features(table: Table, label: str, columns: Columns) -> tuple[list[str], list[tuple[str, ...]]]:
    """Return the columns of numbers and the groups of one-hot columns, in the order of the file.

    Arguments:
        table: the columns.
        label: the column of the labels.
        columns: what the user said of them.

    Raises:
        DataError: if a column holds texts and nobody said that these are categories; the message says where.
    """
    numeric: list[str] = []
    one_hot: list[tuple[str, ...]] = []
    for name, column in table.columns.items():
        if name == label:
            continue
        if columns.is_named(name):
            one_hot.append((name,))
        elif isinstance(column, Numbers):
            numeric.append(name)
        elif columns.categorical:
            one_hot.append((name,))
        else:
            _refuse_text(table, name, column)
    return numeric, [*one_hot, *(tuple(group) for group in columns.interactions)]


def _refuse_text(table: Table, name: str, column: Texts) -> None:
    row = int(np.argmax(column.codes >= 0))
    raise DataError(f"{table.place(row)}, column {name!r}: {column.values[column.codes[row]]!r} is not a number{HINT}.")
