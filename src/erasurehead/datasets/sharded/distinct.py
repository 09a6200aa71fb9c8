"""The distinct values of a column, and of combinations of columns, gathered block by block."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from erasurehead.arrays import IntArray
from erasurehead.datasets.table import Column, Numbers, Texts
from erasurehead.datasets.vocabulary import Codes, distinct

_HALF = 32  # bits of a code within a pair


class Distinct:
    """Distinct values of a column, each with a code: 0, 1, ... in the order in which they came."""

    def __init__(self) -> None:
        self._texts: dict[str, int] = {}
        self._numbers: dict[float, int] = {}

    def __len__(self) -> int:
        return len(self._texts) + len(self._numbers)

    def codes(self, column: Column) -> Codes:
        """Take the values of some rows, and return their codes, int32, shape (n_rows,); -1 where one is missing."""
        if isinstance(column, Numbers):
            values, codes = distinct(column.values)
            known = [self._numbers.setdefault(value, len(self)) for value in values.tolist()]
            return np.array([*known, -1], dtype=np.int32)[codes]
        own = np.full(len(column.values) + 1, -1, dtype=np.int32)
        used: list[int] = np.unique(column.codes[column.codes >= 0]).tolist()
        for code in used:
            own[code] = self._texts.setdefault(column.values[code], len(self))
        return own[column.codes]

    def column(self) -> Column | None:
        """Return a column with each value once, in the order of the codes; None if there is no value."""
        if self._texts:
            return Texts(np.arange(len(self._texts), dtype=np.int32), tuple(self._texts))
        return Numbers(np.array(list(self._numbers), dtype=np.float64)) if self._numbers else None


class Combinations:
    """Distinct combinations of the codes of several columns.

    Arguments:
        n_columns: how many columns are combined, at least 2.
    """

    def __init__(self, n_columns: int) -> None:
        self._pairs: list[dict[int, int]] = [{} for _ in range(n_columns - 1)]

    def add(self, columns: list[Codes]) -> None:
        """Take the codes of some rows, one array a column; a row in which one is missing has no combination."""
        whole = np.logical_and.reduce([codes >= 0 for codes in columns])
        joined: IntArray = columns[0][whole].astype(np.int64)
        for codes, known in zip(columns[1:], self._pairs, strict=True):
            pairs, inverse = np.unique(joined << _HALF | codes[whole], return_inverse=True)
            numbers = [known.setdefault(pair, len(known)) for pair in pairs.tolist()]
            joined = np.array(numbers, dtype=np.int64)[inverse]

    def rows(self) -> list[NDArray[np.int32]]:
        """Return the combinations, one array of codes a column."""
        columns: list[IntArray] = []
        last = np.array(list(self._pairs[-1]), dtype=np.int64)
        for known in reversed([None, *self._pairs[:-1]]):
            columns.append(last & ((1 << _HALF) - 1))
            before = last >> _HALF
            last = before if known is None else np.array(list(known), dtype=np.int64)[before]
        columns.append(last)
        return [codes.astype(np.int32) for codes in reversed(columns)]
