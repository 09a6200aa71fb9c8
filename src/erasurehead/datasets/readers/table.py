"""A table: named columns of numbers or texts, as read from a file, before any encoding."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from erasurehead._internal.arrays import Array, IntArray
from erasurehead._internal.digits import in_groups
from erasurehead.errors import DataError

MISSING = ("", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "null", "NULL", "?")
"""Representations of missing values in text files, as written by R, spreadsheets, databases and pandas."""


@dataclass(frozen=True, eq=False)
class Numbers:
    """A column of numbers: float64, shape (n_rows,), NaN where a value is missing."""

    values: Array

    def take(self, rows: IntArray) -> Numbers:
        """Return the given rows."""
        return Numbers(self.values[rows])

    def missing(self) -> NDArray[np.bool_]:
        """Return which rows have no value, shape (n_rows,)."""
        return np.isnan(self.values)


@dataclass(frozen=True, eq=False)
class Texts:
    """A column of texts: `values[codes[row]]`, and -1 where a value is missing.

    Arguments:
        codes: int32, shape (n_rows,).
        values: the distinct texts, in the order of first occurrence.
    """

    codes: NDArray[np.int32]
    values: tuple[str, ...]

    def take(self, rows: IntArray) -> Texts:
        """Return the given rows; `values` may then contain texts that no row has."""
        return Texts(self.codes[rows], self.values)

    def missing(self) -> NDArray[np.bool_]:
        """Return which rows have no value, shape (n_rows,)."""
        return self.codes < 0


Column: TypeAlias = Numbers | Texts


@dataclass(frozen=True, eq=False)
class Table:
    """Columns of equal length.

    Arguments:
        source: the file, or another origin of the table, for messages.
        columns: the columns by name.
        n_rows: number of rows.
        place: returns where a row, counted from 0, is, such as `"train.csv, line 7"`.
        notes: the reader's notes.
        there: names of all columns of the file, if not all were read.
        categories: columns that the source itself declares as categorical.
    """

    source: str
    columns: Mapping[str, Column]
    n_rows: int
    place: Callable[[int], str]
    notes: tuple[str, ...] = ()
    there: tuple[str, ...] = ()
    categories: frozenset[str] = frozenset()

    def column(self, name: str) -> Column:
        """Return a column.

        Raises:
            DataError: if the table has no column of that name; the message lists those that it has.
        """
        if name not in self.columns:
            there = ", ".join(list(self.there or self.columns)[:30])
            raise DataError(f"{self.source} has no column {name!r}; its columns are {there or 'none'}.")
        return self.columns[name]

    def numbers(self, name: str) -> Array:
        """Return the values of a column of numbers, NaN where missing; texts that are numbers count as such.

        Raises:
            DataError: if the column is missing or holds another text; the message says where the first one is.
        """
        column = self.column(name)
        if isinstance(column, Numbers):
            return column.values
        parsed: Array = np.array([parse(known) for known in column.values] + [math.nan], dtype=np.float64)
        values: Array = parsed[column.codes]
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


def table_of_rows(rows: Sequence[Mapping[str, object]], source: str = "the given rows") -> Table:
    """Return a table of rows that are mappings from column name to a number, a text, or None for a missing value.

    A column is one of numbers if all its values are numbers; otherwise numbers are converted to text.

    >>> table_of_rows([{"age": 4, "town": "Ely"}, {"age": None, "town": "Rye"}]).numbers("age")
    array([ 4., nan])
    """
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = {name: column_of([row.get(name) for row in rows], name, source) for name in names}
    return Table(source, columns, len(rows), lambda row: f"{source}, row {row}")


def column_of(values: Sequence[object], name: str, source: str) -> Column:
    """Return the column of numbers or texts that holds the given values; None, NaN and missing marks are missing.

    Raises:
        DataError: if a number is infinite; the error names the column and the row.
    """
    absent = [_is_missing(value) for value in values]
    if any(isinstance(value, str) for value, none in zip(values, absent, strict=True) if not none):
        coder = TextCoder()
        codes = [-1 if none else coder[_text(value)] for value, none in zip(values, absent, strict=True)]
        return Texts(np.array(codes, dtype=np.int32), coder.texts())
    numbers = np.array([math.nan if none else _number(v) for v, none in zip(values, absent, strict=True)], np.float64)
    wrong = ~np.isfinite(numbers) & ~np.array(absent, dtype=bool)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise DataError(f"{source}, row {row}, column {name!r}: {values[row]!r} is not a finite number.")
    return Numbers(numbers)


class TextCoder(dict[str, int]):
    """Codes of texts: 0, 1, ... in the order of first occurrence, -1 if missing; outer spaces are ignored.

    It is a dictionary that fills itself, so that `map(coder.__getitem__, texts)` runs at the speed of C for all
    but new texts.
    """

    def __init__(self, missing: Sequence[str] = MISSING) -> None:
        super().__init__()
        self._codes: dict[str, int] = {}
        self._missing = frozenset(missing)

    def __missing__(self, raw: str) -> int:
        text = raw.strip()
        code = -1 if text in self._missing else self._codes.setdefault(text, len(self._codes))
        self[raw] = code
        return code

    def texts(self) -> tuple[str, ...]:
        """Return the distinct texts in the order of their codes."""
        return tuple(self._codes)


def _is_missing(value: object) -> bool:
    # frames represent a missing value by NaN, whatever the kind of the column
    return value is None or (value.strip() in MISSING if isinstance(value, str) else math.isnan(_number(value, 0.0)))


def _number(value: object, otherwise: float = math.nan) -> float:
    real = isinstance(value, int | float | np.integer | np.floating | np.bool_)
    return float(cast("float", value)) if real else otherwise


def _text(value: object) -> str:
    return str(value) if math.isnan(number := _number(value)) else plain(number)


def plain(value: float) -> str:
    """Return a number as people write it: without `.0` if it is an integer.

    >>> plain(3.0), plain(1.5)
    ('3', '1.5')
    """
    return str(int(value)) if value.is_integer() else repr(value)


_WRITTEN = re.compile(r"[-+]?[$€£]?\s?(\d{1,3}([,.'’ \u00a0\u202f]\d{3})+|\d+)([.,]\d+)?\s?[%$€£]?")
"""A number as people write it: with its thousands apart, a decimal comma, a currency, or per cent."""


def not_a_number(text: str, hint: str) -> str:
    """Return the end of a sentence about a text in a column of numbers.

    Arguments:
        text: the text.
        hint: what to do if the column's values are no numbers.
    """
    if _WRITTEN.fullmatch(text.strip()):
        hint = (
            "; write the column's numbers with nothing between their digits, with a decimal point, and without signs "
            "of currency or per cent"
        )
    return f"{text!r} is not a number{hint}"


def parse(text: str) -> float:
    """Return the number in a text; NaN if it is not a number, or has digits in groups as Python writes them (`1_000`).

    In data these are names, such as `2020_01`.
    """
    try:
        return math.nan if in_groups(text) else float(text)
    except ValueError:
        return math.nan
