"""A table: named columns of numbers or texts, as read from a file, before any encoding."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal, InvalidOperation
from functools import cache
from typing import Any, TypeAlias, cast
from unicodedata import normalize

import numpy as np

from erasurehead._internal.arrays import AnyArray, Array, BoolArray, IntArray, ShortIntArray
from erasurehead._internal.plain_text import in_groups
from erasurehead.errors import DataError, shown

Place: TypeAlias = Callable[[int], str]
"""Returns where a row is, such as `"train.csv, line 7"`, for messages."""

Fields: TypeAlias = Sequence[Sequence[str]]
"""The fields of rows, or of columns, as they are in a text."""

MISSING = (
    "",
    "NA",
    "N/A",
    "n/a",
    "#N/A",
    "#NA",
    "#N/A N/A",
    "<NA>",
    "NaN",
    "nan",
    "NAN",
    "-nan",
    "-NaN",
    "nan(ind)",
    "-nan(ind)",
    "1.#IND",
    "-1.#IND",
    "1.#QNAN",
    "-1.#QNAN",
    "null",
    "NULL",
    "\\N",
    "None",
    "?",
)
"""Representations of missing values in text files, as written by R, spreadsheets, databases, pandas, Python and C."""

_FINITE = "replace it, or make the value missing (NaN, null)"

TRUTHS: Mapping[str, float] = {
    spelling: value
    for value, word in ((0.0, "False"), (1.0, "True"))
    for spelling in (word, word.lower(), word.upper())
}
"""Texts that are truth values. A column of nothing else is one of numbers, 1 for true, whatever it was read from."""

EXACT = 2**53
"""Whole numbers up to here are exact in float64; beyond, many are rounded to the same number."""


COMMA = re.compile(r"[-+]?(?:\d+,\d*|,\d+)(?:[eE][-+]?\d+)?")
"""A number with a decimal comma; or one with a comma between thousands, as in `1,234`."""


class Unreadable(Exception):
    """Raised for a column whose type, as named by the argument, is neither of numbers nor of texts."""


def absent(missing: Collection[str]) -> frozenset[str]:
    """Return all texts that stand for a missing value, if a user names some: no others if the empty one is named."""
    return frozenset(missing if "" in missing else (*MISSING, *missing))


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
            f"into numbers or texts, or leave them out (drop, --drop {shlex.quote(','.join(wrong))})."
        )
    return columns


@dataclass(frozen=True, eq=False)
class NumberColumn:
    """A column of numbers.

    Arguments:
        values: float64, shape (n_rows,), NaN where a value is missing.
        rounded: whether it held whole numbers that float64 cannot represent, so that equal values may have differed.
    """

    values: Array
    rounded: bool = False

    def take(self, rows: IntArray) -> NumberColumn:
        """Return the given rows."""
        return NumberColumn(self.values[rows], self.rounded)

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


def padded(text: str) -> bool:
    """Return whether a text is a number with a zero before its digits: it may be a code, such as `01` or `007`.

    >>> padded("01"), padded("0.5"), padded("10")
    (True, False, False)
    """
    return text[:1] == "0" and text[1:2].isdigit()


def with_numbers(table: Table, texts: Collection[str] = (), label: str = "") -> tuple[Table, tuple[str, ...]]:
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
    return _coded(column.values, column.missing(), plain)


def written_out(column: Column) -> list[str]:
    """Return the values of a column as texts, row by row; empty where one is missing."""
    texts = as_texts(column)
    return np.array([*texts.values, ""], dtype=object)[texts.codes].tolist()


def _coded(values: AnyArray, none: BoolArray, text: Callable[[Any], str]) -> TextColumn:
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


def checked_names(names: Sequence[str], source: str) -> tuple[str, ...]:
    """Return the names of a table's columns.

    Raises:
        DataError: if there are none, or two have the same name.
    """
    twice = next((name for place, name in enumerate(names) if name in names[:place]), None)
    if twice is not None or not names:
        fault = "no columns" if twice is None else f"two columns with the name {twice!r}; rename one of them"
        raise DataError(f"{source} has {fault}.")
    return tuple(names)


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
            names = ", ".join(list(self.all_names or self.columns)[:30])
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


def table_of_rows(
    rows: Sequence[Mapping[str, object]],
    source: str = "the list of rows",
    wanted: Collection[str] | None = None,
    exact: Collection[str] = (),
    missing: Collection[str] = MISSING,
) -> Table:
    """Return a table of rows that are mappings from column name to a number, a text, or None for a missing value.

    Arguments:
        rows: the rows.
        source: what they come from, for messages.
        wanted: names of the columns to read; None for all.
        exact: those whose values must be told apart however large they are: see `column_of`.
        missing: texts that stand for a missing value.

    Raises:
        DataError: if there are no rows, or one is no mapping; or as for `column_of`.

    >>> table_of_rows([{"age": 4, "town": "Ely"}, {"age": None, "town": "Rye"}]).numbers("age")
    array([ 4., nan])
    """
    if not rows:
        raise DataError(f"{source} is empty; there must be at least one row, such as {{'age': 4, 'town': 'Ely'}}.")
    for place, row in enumerate(cast("Sequence[object]", rows)):
        if not isinstance(row, Mapping):
            raise DataError(
                f"{source}, row {place}: each row must be a mapping from column names to values, such as {{'age': 4, "
                f"'town': 'Ely'}}, but this is {shown(row)}."
            )
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = read_columns(
        [name for name in names if wanted is None or name in wanted],
        source,
        lambda name: column_of([row.get(name) for row in rows], name, source, name in exact, missing),
    )
    return Table(source, columns, len(rows), lambda row: f"{source}, row {row}", all_names=tuple(map(str, names)))


def column_of(
    values: Sequence[object], name: str, source: str, exact: bool = False, missing: Collection[str] = MISSING
) -> Column:
    """Return the column of numbers or texts that holds the given values; None, NaN and missing marks are missing.

    It is one of texts if a value is a text, a day or a moment, or all are truth values.

    Arguments:
        values: numbers, truth values, texts, `Decimal`s or `date`s; those that a library has for a missing value.
        name: name of the column, for messages.
        source: what it comes from, for messages.
        exact: whether values are told apart however large they are: then whole numbers and decimals become texts.
        missing: texts that stand for a missing value.

    Raises:
        DataError: if a number is infinite; the error names the column.
        Unreadable: if a value is something else.
    """
    types = set(map(type, values))
    if types in ({int}, {float}):
        array: AnyArray = np.array(values)
        if array.dtype.kind in "iu" or (types == {float} and not np.isinf(array).any()):
            return numbers_of(array, exact=exact)
    kinds = {_kind(one) for one in types}
    if "other" in kinds:
        raise Unreadable(next(one.__name__ for one in types if _kind(one) == "other"))
    if "text" in kinds and all(value.strip() in missing for value in values if isinstance(value, str)):
        kinds.discard("text")
    kinds.discard("none")
    if kinds & {"text", "day"} or kinds == {"truth"} or (exact and kinds and "real" not in kinds):
        coder = TextCoder(missing)
        codes = np.fromiter((coder[_text(value)] for value in values), np.int32, len(values))
        return TextColumn(codes, coder.texts())
    return _numbers(values, name, source)


def _numbers(values: Sequence[object], name: str, source: str) -> NumberColumn:
    numbers = np.array([_number(value) for value in values], dtype=np.float64)
    for row in np.flatnonzero(np.isinf(numbers)).tolist():
        raise DataError(
            f"{source}, row {row}, column {name!r}: {shown(values[row])} is not a finite number; {_FINITE}."
        )
    large = np.flatnonzero(np.abs(numbers) >= EXACT).tolist()
    return NumberColumn(numbers, any(values[row] != int(numbers[row]) for row in large))


def numbers_of(values: AnyArray, absent: BoolArray | None = None, exact: bool = False) -> Column:
    """Return the column of an array of numbers or truth values.

    Arguments:
        values: shape (n_rows,), of any type of numbers.
        absent: which rows have no value, shape (n_rows,); None for none. NaN is missing, too.
        exact: as for `column_of`.
    """
    none = np.zeros(len(values), dtype=bool) if absent is None else absent
    if values.dtype.kind == "b":
        return truths(np.where(none, np.nan, values))
    if exact and values.dtype.kind in "iu":
        return _coded(values, none, str)
    numbers = values.astype(np.float64)
    numbers[none] = np.nan
    if values.dtype.kind == "f":
        return NumberColumn(numbers)
    large = np.abs(numbers) >= EXACT  # False for NaN
    return NumberColumn(
        numbers, any(int(number) != int(own) for number, own in zip(numbers[large], values[large], strict=True))
    )


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
        raise DataError(f"{place(row)}: {column.values[row]} is not a finite number; {_FINITE}.")


class TextCoder(dict[str, int]):
    """Codes of texts: 0, 1, ... in the order of first occurrence, -1 if missing; outer spaces are ignored.

    Texts that Unicode can write in several ways, such as letters with accents, are composed, as the same text may come
    from another system in the other way.

    It is a dictionary that fills itself, so that `map(coder.__getitem__, texts)` runs at the speed of C for all
    but new texts.
    """

    def __init__(self, missing: Collection[str] = MISSING) -> None:
        super().__init__()
        self._codes: dict[str, int] = {}
        self._missing = frozenset(missing)

    def __missing__(self, raw: str) -> int:
        text = raw.strip() if raw.isascii() else normalize("NFC", raw).strip()
        code = -1 if text in self._missing else self._codes.setdefault(text, len(self._codes))
        self[raw] = code
        return code

    def texts(self) -> tuple[str, ...]:
        """Return the distinct texts in the order of their codes."""
        return tuple(self._codes)


_KINDS: tuple[tuple[type | tuple[type, ...], str], ...] = (
    (str, "text"),
    ((bool, np.bool_), "truth"),
    ((int, np.integer), "whole"),
    (Decimal, "whole"),
    ((float, np.floating), "real"),
    (date, "day"),
)


@cache
def _kind(of: type) -> str:
    """Return what the values of a type are."""
    # pandas' marks for a missing value are told by their names, as pandas need not be there
    if of is type(None) or of.__name__ in ("NAType", "NaTType"):
        return "none"
    return next((kind for base, kind in _KINDS if issubclass(of, base)), "other")


def _number(value: object) -> float:
    """Return a number as float64: NaN for what is missing, and infinity for what is too large."""
    if _kind(type(value)) in ("none", "text"):
        return math.nan
    try:
        return float(cast("float", value))
    except OverflowError:
        return math.inf


def _text(value: object) -> str:
    """Return a value as it stands in a file; empty if it is missing."""
    kind = _kind(type(value))
    if kind == "none":
        return ""
    if kind == "truth":
        return str(bool(value))
    if isinstance(value, Decimal):
        return format(value, "f")
    number = _number(value) if kind == "real" else math.nan
    return plain(number) if math.isfinite(number) else str(value)


def plain(value: float) -> str:
    """Return a number as people write it: without `.0` if it is an integer.

    >>> plain(3.0), plain(1.5)
    ('3', '1.5')
    """
    return str(int(value)) if value.is_integer() else repr(value)


_WRITTEN = re.compile(r"[-+]?[$€£]?\s?(\d{1,3}([,.'’ \u00a0\u202f]\d{3})+|\d+)([.,]\d+)?\s?[%$€£]?")
"""A number as people write it: with its thousands apart, a decimal comma, a currency, or per cent."""


def written(text: str) -> bool:
    """Return whether a text is a number as people write it, which `float` does not read.

    >>> written("1,234.5"), written("5 %"), written("12 kg")
    (True, True, False)
    """
    return _WRITTEN.fullmatch(text.strip()) is not None


def not_a_number(text: str, hint: str) -> str:
    """Return the end of a sentence about a text in a column of numbers.

    Arguments:
        text: the text.
        hint: what to do if the column's values are no numbers.
    """
    if written(text):
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


def number(text: str) -> float:
    """Return the number in a text, with a decimal point or a decimal comma, 1 for true; NaN if it is none."""
    value = TRUTHS.get(text, parse(text))
    return parse(text.replace(",", ".")) if value != value and COMMA.fullmatch(text) else value


def is_rounded(text: str, value: float) -> bool:
    """Return whether a text is a whole number, but not this one."""
    try:
        return int(text) != int(value)
    except ValueError:
        return False


def identified(text: str) -> float:
    """Return the number in a text, 1 for true; NaN if it is none, or has more digits than tell float64s apart.

    >>> identified("9007199254740992"), identified("9007199254740993"), identified("true")
    (9007199254740992.0, nan, 1.0)
    """
    value = TRUTHS.get(text, parse(text))
    if len(text) <= _TOLD_APART or not math.isfinite(value):
        return value
    try:
        return value if Decimal(text) in (Decimal(value), Decimal(repr(value))) else math.nan
    except InvalidOperation:
        return math.nan


_TOLD_APART = 15  # decimal digits that float64 never merges
