"""A minimal frame of a library of its own, which hands out Arrow data and nothing else, as queries of databases do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest


class HeldFrame:
    """A frame that hands out Arrow data.

    Arguments:
        columns: name -> values, None where one is missing.
        categories: name -> categories, for columns of categorical type.
        rows: in how many rows at a time it is handed out.
    """

    def __init__(
        self, columns: Mapping[Any, Sequence[Any]], categories: Mapping[str, Sequence[str]] | None = None, rows: int = 7
    ) -> None:
        self._columns = columns
        self._categories = categories or {}
        self._rows = rows

    @property
    def columns(self) -> list[Any]:
        return list(self._columns)

    def __getitem__(self, name: str) -> Any:
        return object()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        arrow: Any = pytest.importorskip("pyarrow")
        arrays: list[Any] = []
        for name, values in self._columns.items():
            if known := list(self._categories.get(name, ())):
                codes = arrow.array([None if value is None else known.index(value) for value in values], arrow.int8())
                arrays.append(arrow.DictionaryArray.from_arrays(codes, known))
            else:
                arrays.append(arrow.array(values) if len(values) else arrow.array([], arrow.float64()))
        table = arrow.Table.from_arrays(arrays, [str(name) for name in self._columns])
        starts = range(0, max(table.num_rows, 1), self._rows)
        return arrow.concat_tables([table.slice(start, self._rows) for start in starts]).__arrow_c_stream__()
