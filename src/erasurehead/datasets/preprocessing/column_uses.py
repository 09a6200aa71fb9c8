"""What becomes of each column of a table: for people who want to know before they train."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from erasurehead._internal.arrays import IntArray
from erasurehead.datasets.preprocessing.design import Numeric, OneHot
from erasurehead.datasets.readers.table import Numbers, Table

if TYPE_CHECKING:
    from erasurehead.datasets.preprocessing.table_encoding import TableEncoding

_FEWEST = 20  # rows from which on it can be said that values do not come again


@dataclass(frozen=True)
class ColumnUse:
    """What becomes of one column of a table, or of one combination of columns.

    Attributes:
        name: of the column; of a combination such as `"town x year"`.
        becomes: the label, a number, one column for each distinct value, or nothing.
        width: columns of the design matrix: for `one-hot` the number of levels, the distinct values of the training
            rows.
        missing: rows, of those for training and testing, that have no value; None where they were not counted.
        nearly_unique: whether most values come but once among the training rows, so that they say nothing of other
            rows: names, addresses, numbers of rows.
        warning: what may be wrong, and what would mend it, as a sentence without a full stop; empty if nothing is.
    """

    name: str
    becomes: Literal["label", "number", "one-hot", "left out"]
    width: int
    missing: int | None = None
    nearly_unique: bool = False
    warning: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "name": self.name, "becomes": self.becomes, "columns": self.width, "missing": self.missing,
            "nearly_unique": self.nearly_unique,
        }  # fmt: skip


def column_uses(
    encoding: TableEncoding, table: Table | None = None, rows: IntArray | None = None
) -> tuple[ColumnUse, ...]:
    """Return what becomes of each column of a table, and of the combinations of columns.

    Arguments:
        encoding: of the table.
        table: the raw columns, to count what is missing and what is nearly unique; None to leave that out.
        rows: those for training; None for all.
    """
    features = {feature.column if isinstance(feature, Numeric) else feature.label: feature
                for feature in encoding.features}  # fmt: skip
    labels = {encoding.target.name, *encoding.target.aliases}
    uses: list[ColumnUse] = []
    for name in dict.fromkeys((*encoding.columns, *features)):
        if name in labels:
            uses.append(ColumnUse(name, "label", 0, _missing(table, (name,))))
        elif name not in features:
            uses.append(ColumnUse(name, "left out", 0))
        else:
            uses.append(_used(encoding, features[name], table, rows))
    return tuple(uses)


def _used(encoding: TableEncoding, feature: Numeric | OneHot, table: Table | None, rows: IntArray | None) -> ColumnUse:
    if isinstance(feature, Numeric):
        name = feature.column
        numbered = table is not None and _numbers_rows(table, name, rows)
        warning = (
            f"{name}: every training row has a whole number of its own, as if rows were numbered; " if numbered else ""
        )
        return ColumnUse(name, "number", 1, _missing(table, (name,)), numbered, warning and warning + _remedy(name))
    width, (alone, there) = encoding.width(feature), _alone(encoding, feature, table, rows)
    unique = there >= _FEWEST and 2 * alone > there
    warning = ""
    if unique:
        warning = (
            f"{feature.label}: {alone:,} of {there:,} training rows have a value that no other row has, from which "
            f"nothing can be learned about other rows; {_remedy(*feature.columns)}"
        )
    return ColumnUse(feature.label, "one-hot", width, _missing(table, feature.columns), unique, warning)


def _remedy(name: str, *others: str) -> str:
    if others:
        return f"do not combine {' and '.join((name, *others))}"
    return f"leave the column out (--drop {shlex.quote(name)})"


def _missing(table: Table | None, names: tuple[str, ...]) -> int | None:
    if table is None or any(name not in table.columns for name in names):
        return None
    return int(np.count_nonzero(np.logical_or.reduce([table.column(name).missing() for name in names])))


def _numbers_rows(table: Table, name: str, rows: IntArray | None) -> bool:
    column = table.column(name)
    if not isinstance(column, Numbers):
        return False
    values = column.values if rows is None else column.values[rows]
    if len(values) < _FEWEST or bool((values != np.trunc(values)).any()):  # NaN is unequal to all
        return False
    return len(np.unique(values)) == len(values) and float(np.ptp(values)) < 2.0 * table.n_rows


def _alone(encoding: TableEncoding, feature: OneHot, table: Table | None, rows: IntArray | None) -> tuple[int, int]:
    """Return how many training rows have a value that no other has, and how many have one at all."""
    if table is None:
        return 0, 0
    codes = encoding.feature_codes(feature, table.take(np.arange(table.n_rows) if rows is None else rows))
    counts = np.bincount(codes[codes >= 0], minlength=1)
    return int(np.count_nonzero(counts == 1)), int(counts.sum())
