"""A table: named columns of numbers or texts, as read from a file, before any encoding."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from erasurehead._internal.arrays import AnyArray, Array, BoolArray, IntArray, ShortIntArray
from erasurehead.datasets._readers.fields import (
    EXACT,
    FINITE,
    TRUTHS,
    is_rounded,
    padded,
    parse,
    plain,
)
from erasurehead.datasets._readers.names import as_option, listed
from erasurehead.errors import DataError

Place: TypeAlias = Callable[[int], str]
"""Returns where a row is, such as `"train.csv, line 7"`, for messages."""


class Unreadable(Exception):
    """Raised for a column whose type, as named by the argument, is neither of numbers nor of texts."""


def read_columns(names: Iterable[str], source: str, read: Callable[[str], Column]) -> dict[str, Column]:
    """Read columns one by one.

    Arguments:
        names: the columns.
        source: what they come from, for messages.
        read: returns a column.

    Raises:
        DataError: if some have types that cannot be read; the message names all of them.
    """
    columns: dict[str, Column] = {}
    wrong: dict[str, str] = {}
    for name in names:
        try:
            columns[name] = read(name)
        except Unreadable as error:
            wrong[name] = str(error)
    if len(wrong) == 1:
        ((name, kind),) = wrong.items()
        raise DataError(
            f"{source}, column {name!r} cannot be read: its type ({kind}) is neither of numbers nor of texts; turn it "
            "into numbers or texts, or leave it out (drop, --drop)."
        )
    if wrong:
        types = ", ".join(f"{name!r} ({kind})" for name, kind in wrong.items())
        raise DataError(
            f"{source}, columns {types} cannot be read: their types are neither of numbers nor of texts; turn them "
            f"into numbers or texts, or leave them out (drop, --drop {as_option(*wrong)})."
        )
    return columns


@dataclass(frozen=True, eq=False)
class NumberColumn:
    """A column of numbers.

    Arguments:
        values: float64, shape (n_rows,), NaN where a value is missing.
        rounded: whether it held whole numbers that float64 cannot represent, so that equal values may have differed.
        code: a text that it held, with zeros before a whole number; empty if there was none.
    """

    values: Array
    rounded: bool = False
    code: str = ""

    def take(self, rows: IntArray) -> NumberColumn:
        """Return the given rows."""
        return NumberColumn(self.values[rows], self.rounded, self.code)

    def numbers(self) -> Array:
        """Return the values."""
        return self.values

    def missing(self) -> BoolArray:
        """Return which rows have no value, shape (n_rows,)."""
        return np.isnan(self.values)


@dataclass(frozen=True, eq=False)
class TextColumn:
    """A column of texts: `values[codes[row]]`, and -1 where a value is missing.

    Arguments:
        codes: int32, shape (n_rows,).
        values: distinct texts.
    """

    codes: ShortIntArray
    values: tuple[str, ...]

    def take(self, rows: IntArray) -> TextColumn:
        """Return the given rows; `values` may then contain texts that no row has."""
        return TextColumn(self.codes[rows], self.values)

    def missing(self) -> BoolArray:
        """Return which rows have no value, shape (n_rows,)."""
        return self.codes < 0

    def used(self) -> list[str]:
        """Return the texts that some row has."""
        return [text for text, count in zip(self.values, self.counts(), strict=True) if count]

    def counts(self) -> IntArray:
        """Return how many rows have each text, shape (len(values),)."""
        return np.bincount(self.codes[self.codes >= 0], minlength=len(self.values))

    def numbers(self) -> Array:
        """Return the numbers that the texts stand for, 1 for true; NaN where a text is none, or missing."""
        numbers = [TRUTHS.get(text, parse(text)) for text in self.values]
        return np.array([*numbers, math.nan], dtype=np.float64)[self.codes]


Column: TypeAlias = NumberColumn | TextColumn


def are_numbers(column: Column) -> bool:
    """Return whether a column is one of numbers: also of truth values alone, or with no value at all."""
    return isinstance(column, NumberColumn) or TRUTHS.keys() >= set(column.used())


def with_numbers(table: Table, texts: Collection[str], label: str) -> tuple[Table, tuple[str, ...]]:
    """Return a table in which columns of texts that all are numbers are columns of numbers, as in a CSV file.

    Arguments:
        table: from a source in which columns have types.
        texts: names of columns that stay as they are, besides those that the source declares as categorical.
        label: name of the column to predict, which stays as it is where numbers begin with a zero.

    Returns:
        The table, and the names of these columns.

    Raises:
        DataError: if one of the numbers is infinite.
    """
    kept = {*texts, *table.categories}
    converted: dict[str, Column] = {
        name: numbers
        for name, column in table.columns.items()
        if isinstance(column, TextColumn)
        and not (name in kept or (name == label and any(map(padded, column.used()))))
        and (numbers := _numbers_in(column)) is not None
    }
    for name, column in converted.items():
        check_finite(column, lambda row, name=name: f"{table.place(row)}, column {name!r}")
    return replace(table, columns={**table.columns, **converted}) if converted else table, tuple(converted)


def _numbers_in(column: TextColumn) -> NumberColumn | None:
    numbers, rounded = np.full(len(column.values) + 1, np.nan), False
    counts = column.counts()
    for code, text in enumerate(column.values):
        if not counts[code]:
            continue
        numbers[code] = value = parse(text)
        if math.isnan(value):
            return None
        rounded |= abs(value) >= EXACT and is_rounded(text, value)
    return NumberColumn(numbers[column.codes], rounded)


def truths(values: Array) -> TextColumn:
    """Return the column of truth values: 1 for true, 0 for false, NaN where one is missing."""
    return TextColumn(np.where(np.isnan(values), -1, values).astype(np.int32), ("False", "True"))


def as_texts(column: Column) -> TextColumn:
    """Return a column as one of texts: numbers as people write them."""
    if isinstance(column, TextColumn):
        return column
    return coded(column.values, column.missing(), plain)


def written_out(column: Column) -> list[str]:
    """Return the values of a column as texts, row by row; empty where one is missing."""
    texts = as_texts(column)
    return np.array([*texts.values, ""], dtype=object)[texts.codes].tolist()


def coded(values: AnyArray, none: BoolArray, text: Callable[[Any], str]) -> TextColumn:
    """Return a column of what `text` makes of values; `none` says where one is missing."""
    unique, inverse = np.unique(values[~none], return_inverse=True)
    codes = np.full(len(none), -1, dtype=np.int32)
    codes[~none] = inverse
    return TextColumn(codes, tuple(map(text, unique.tolist())))


def joined(parts: Sequence[Column]) -> Column:
    """Return one column of the rows of several, of texts if one of them has a text."""
    numbers = [part for part in parts if isinstance(part, NumberColumn)]
    if all(isinstance(part, NumberColumn) or not part.values for part in parts):
        values = [part.numbers() for part in parts]
        return NumberColumn(np.concatenate(values) if values else np.zeros(0), any(part.rounded for part in numbers))
    code_of: dict[str, int] = {}
    codes: list[ShortIntArray] = []
    for part in map(as_texts, parts):
        own = [code_of.setdefault(text, len(code_of)) for text in part.values]
        codes.append(np.array([*own, -1], dtype=np.int32)[part.codes])
    return TextColumn(np.concatenate(codes), tuple(code_of))


@dataclass(frozen=True, eq=False)
class Table:
    """Columns of equal length.

    Arguments:
        source: the file, or another origin of the table, for messages.
        columns: the columns by name.
        n_rows: number of rows.
        place: returns where a row, counted from 0, is, such as `"train.csv, line 7"`.
        notes: the reader's notes.
        all_names: names of all columns of the file, if not all were read.
        categories: columns that the source itself declares as categorical.
    """

    source: str
    columns: Mapping[str, Column]
    n_rows: int
    place: Place
    notes: tuple[str, ...] = ()
    all_names: tuple[str, ...] = ()
    categories: frozenset[str] = frozenset()

    def column(self, name: str) -> Column:
        """Return a column.

        Raises:
            DataError: if the table has no column of that name; the message lists those that it has.
        """
        if name not in self.columns:
            names = listed(list(self.all_names or self.columns)[:30])
            raise DataError(f"{self.source} has no column {name!r}; its columns are {names or 'none'}.")
        return self.columns[name]

    def numbers(self, name: str) -> Array:
        """Return the values of a column of numbers, NaN where missing; texts that are numbers count as such.

        Raises:
            DataError: if the column is missing or holds another text; the message says where the first one is.
        """
        column = self.column(name)
        values = column.numbers()
        if isinstance(column, NumberColumn):
            return values
        wrong = ~np.isfinite(values) & ~column.missing()
        if wrong.any():
            row = int(np.argmax(wrong))
            raise DataError(
                f"{self.place(row)}, column {name!r}: {column.values[column.codes[row]]!r} is not a finite number."
            )
        return values

    def take(self, rows: IntArray) -> Table:
        """Return the given rows as a table."""
        columns = {name: column.take(rows) for name, column in self.columns.items()}

        def place(row: int) -> str:
            return self.place(int(rows[row]))

        return replace(self, columns=columns, n_rows=len(rows), place=place)


def check_finite(column: Column, place: Place) -> None:
    """Raise if a number is infinite.

    Arguments:
        column: of numbers, or of texts.
        place: returns where a row is, for the message.

    Raises:
        DataError: that names the row.
    """
    if isinstance(column, NumberColumn) and bool(np.isinf(column.values).any()):
        row = int(np.argmax(np.isinf(column.values)))
        raise DataError(f"{place(row)}: {column.values[row]} is not a finite number; {FINITE}.")
