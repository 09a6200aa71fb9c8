"""How each column of a table is used, for people who want to know before they train."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

import numpy as np

from erasurehead._internal.arrays import Array, IntArray
from erasurehead._internal.documents import PlainData
from erasurehead.datasets._preprocessing.design import Feature, Numeric, OneHot, Words
from erasurehead.datasets._preprocessing.label_copies import LabelCopy
from erasurehead.datasets._readers.fields import EXACT
from erasurehead.datasets._readers.names import as_option
from erasurehead.datasets._readers.table import Column, NumberColumn, Table

if TYPE_CHECKING:
    from erasurehead.datasets._preprocessing.table_encoding import TableEncoding

_FEWEST = 20  # rows from which one can tell that values do not repeat


@dataclass(frozen=True)
class ColumnUse:
    """How one column of a table, or one combination of columns, is used.

    Attributes:
        name: name of the column, or of a combination such as `"town x year"`.
        becomes: the label, a number, one column for each distinct value, columns for its words, or nothing.
        width: number of columns of the design matrix: for `one-hot` the number of distinct values of the training
            rows.
        missing: number of training and test rows that have no value; None if they were not counted.
        nearly_unique: whether most values occur only once among the training rows, so that they say nothing about other
            rows: names, addresses, row numbers.
        warning: a possible problem, and what would help, as a sentence without a full stop; empty if there is none.
    """

    name: str
    becomes: Literal["label", "number", "one-hot", "words", "left out"]
    width: int
    missing: int | None = None
    nearly_unique: bool = False
    warning: str = ""

    def as_dict(self) -> PlainData:
        """Return the use as plain data."""
        return {
            "name": self.name,
            "becomes": self.becomes,
            "columns": self.width,
            "missing": self.missing,
            "nearly_unique": self.nearly_unique,
        }


def column_uses(
    encoding: TableEncoding,
    table: Table | None = None,
    rows: IntArray | None = None,
    copied: Mapping[str, str] = MappingProxyType({}),
) -> tuple[ColumnUse, ...]:
    """Return how each column of a table, and each combination of columns, is used.

    Arguments:
        encoding: encoding of the table.
        table: the raw columns, to count missing and nearly unique values; None not to count them.
        rows: the training rows; None for all.
        copied: what is to be said of columns that say what the label says; empty for others.
    """
    features = {
        feature.label if isinstance(feature, OneHot) else feature.column: feature for feature in encoding.features
    }
    labels = encoding.target.names
    uses: list[ColumnUse] = []
    names_by_source: dict[str, list[str]] = {}
    for one in encoding.derived:
        names_by_source.setdefault(one.source, []).append(one.name)
    names = [part for name in encoding.columns for part in names_by_source.get(name, [name])]
    for name in dict.fromkeys((*names, *features)):
        if name in labels:
            uses.append(ColumnUse(name, "label", 0, _missing(table, (name,))))
        elif name not in features:
            uses.append(ColumnUse(name, "left out", 0))
        else:
            uses.append(_used(encoding, features[name], table, rows, copied))
    return tuple(uses)


def _used(
    encoding: TableEncoding, feature: Feature, table: Table | None, rows: IntArray | None, copies: Mapping[str, str]
) -> ColumnUse:
    if isinstance(feature, Words):
        return ColumnUse(feature.column, "words", encoding.width(feature), _missing(table, (feature.column,)))
    name = feature.column if isinstance(feature, Numeric) else feature.label
    copied = copies.get(name, "")
    if isinstance(feature, Numeric):
        dated = any(name == one.name for one in encoding.derived)  # a row a day numbers no rows
        numbered = table is not None and not dated and _numbers_rows(table, name, rows)
        warning = copied
        if numbered and not copied:
            warning = numbered_warning(name)
        elif table is not None and not copied:
            warning = number_warning(name, table.column(name))
        return ColumnUse(name, "number", 1, _missing(table, (name,)), numbered, warning)
    width, (alone, filled) = encoding.width(feature), _alone(encoding, feature, table, rows)
    unique = filled >= _FEWEST and 2 * alone > filled
    warning = copied
    if unique and not copied:
        warning = (
            f"{feature.label}: {alone:,} of {filled:,} training rows have a value that no other row has, from which "
            f"nothing can be learned about other rows; {_remedy(*feature.columns)}"
        )
    return ColumnUse(feature.label, "one-hot", width, _missing(table, feature.columns), unique, warning)


def ends(values: Array) -> list[float]:
    """Return the first and the last value of a block of rows, if they rise like row numbers; NaN if they do not."""
    rise = bool((np.diff(values) > 0).all()) and bool((values == np.trunc(values)).all())  # False for NaN
    return values[[0, -1]].tolist() if rise else [math.nan]


def are_row_numbers(ends: Sequence[float], n_train: int, n_rows: int) -> bool:
    """Return whether blocks with such ends hold row numbers, given how many rows there are for training and in all."""
    return n_train >= _FEWEST and bool((np.diff(ends) >= 0).all()) and ends[-1] - ends[0] < 2.0 * n_rows


def are_shuffled_numbers(squares: float, n_rows: int) -> bool:
    """Return whether a column holds the row numbers 0..n-1 or 1..n in any order, by the sum of its values' squares.

    Values that have another meaning have another sum, to that many digits.
    """
    squared = [last * (last + 1) * (2 * last + 1) / 6 for last in (n_rows - 1, n_rows)]
    return n_rows >= _FEWEST and bool(np.isclose(squares, squared, rtol=1e-12).any())


def numbered_warning(name: str) -> str:
    """Return what is to be said of a column of row numbers."""
    return f"{name}: every training row has a whole number of its own, as if rows were numbered; {_remedy(name)}"


def number_warning(name: str, column: Column) -> str:
    """Return what is to be said of a column of whole numbers that were rounded, or have lost zeros; empty if not."""
    if not isinstance(column, NumberColumn) or not (column.rounded or column.code):
        return ""
    fact = f"{column.code!r} and others have lost the zeros before them, as they are read as numbers; if they are codes"
    if column.rounded:
        fact = f"whole numbers beyond {EXACT:,} are rounded; if they are names, as identifiers are"
    return f"{name}: {fact}, name the column in one_hot (--one-hot {as_option(name)}), or {_remedy(name)}"


def copy_warning(copy: LabelCopy, name: str, label: str) -> str:
    """Return what is to be said of a column that says what the label says; empty if it does not."""
    warning = copy.warning(name, label)
    return f"{warning}; unless it is known before the label is, {_remedy(name)}" if warning else ""


def _remedy(name: str, *others: str) -> str:
    if others:
        return f"do not combine {' and '.join((name, *others))}"
    return f"leave the column out (--drop {as_option(name)})"


def _missing(table: Table | None, names: tuple[str, ...]) -> int | None:
    if table is None or any(name not in table.columns for name in names):
        return None
    return int(np.count_nonzero(np.logical_or.reduce([table.column(name).missing() for name in names])))


def _numbers_rows(table: Table, name: str, rows: IntArray | None) -> bool:
    column = table.column(name)
    if not isinstance(column, NumberColumn):
        return False
    values = column.values if rows is None else column.values[rows]
    return are_row_numbers(ends(np.sort(values)), len(values), table.n_rows)


def _alone(encoding: TableEncoding, feature: OneHot, table: Table | None, rows: IntArray | None) -> tuple[int, int]:
    """Return how many training rows have a value that no other row has, and how many have a value at all."""
    if table is None:
        return 0, 0
    codes = encoding.feature_codes(feature, table)
    codes = codes if rows is None else codes[rows]
    counts = np.bincount(codes[codes >= 0], minlength=1)
    return int(np.count_nonzero(counts == 1)), int(counts.sum())
