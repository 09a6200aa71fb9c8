"""Columns of Python values and of arrays: numbers, texts, decimals, dates, and what libraries mark as missing."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from datetime import date
from decimal import Decimal
from functools import cache
from typing import cast
from unicodedata import normalize

import numpy as np

from erasurehead._internal.arrays import AnyArray, BoolArray
from erasurehead.datasets._readers.fields import (
    EXACT,
    FINITE,
    MISSING,
    plain,
)
from erasurehead.datasets._readers.table import (
    Column,
    NumberColumn,
    Table,
    TextColumn,
    Unreadable,
    coded,
    read_columns,
    truths,
)
from erasurehead.errors import DataError, shown


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
        raise DataError(f"{source}, row {row}, column {name!r}: {shown(values[row])} is not a finite number; {FINITE}.")
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
        return coded(values, none, str)
    numbers = values.astype(np.float64)
    numbers[none] = np.nan
    if values.dtype.kind == "f":
        return NumberColumn(numbers)
    large = np.abs(numbers) >= EXACT  # False for NaN
    return NumberColumn(
        numbers, any(int(number) != int(own) for number, own in zip(numbers[large], values[large], strict=True))
    )


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
