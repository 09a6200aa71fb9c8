"""A minimal frame that speaks the dataframe interchange protocol, in the dialects that pandas and polars write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


class Held:
    """A buffer of the protocol."""

    def __init__(self, values: NDArray[Any]) -> None:
        self.values = np.ascontiguousarray(values)
        self.ptr, self.bufsize = self.values.ctypes.data, self.values.nbytes


class HeldColumn:
    """A column of the protocol; missing values are NaN, a byte mask, or the code -1, as pandas has them."""

    def __init__(self, values: Sequence[Any], categories: Sequence[str] | None = None) -> None:
        self._values = list(values)
        self._categories = categories
        self.offset = 0
        if categories is not None:
            self._data = np.array([-1 if v is None else list(categories).index(v) for v in values], dtype=np.int8)
            self.dtype, self.describe_null = (23, 8, "c", "="), (2, -1)
        elif any(isinstance(value, str) for value in values):
            self.dtype, self.describe_null = (21, 8, "u", "="), (4, 0)
        elif all(isinstance(value, bool) for value in values):
            self._data = np.array(values, dtype=np.bool_)
            self.dtype, self.describe_null = (20, 8, "b", "="), (0, None)
        elif all(isinstance(value, int) for value in values):
            self._data = np.array(values, dtype=np.int64)
            self.dtype, self.describe_null = (0, 64, "l", "="), (0, None)
        elif all(value is None or isinstance(value, int | float) for value in values):
            self._data = np.array([np.nan if value is None else value for value in values], dtype=np.float64)
            self.dtype, self.describe_null = (2, 64, "g", "="), (1, None)
        else:
            self._data = np.array(values, dtype="datetime64[ns]").view(np.int64)
            self.dtype, self.describe_null = (22, 64, "tsn:", "="), (2, np.iinfo(np.int64).min)

    @property
    def describe_categorical(self) -> Mapping[str, Any]:
        assert self._categories is not None
        return {"is_ordered": False, "is_dictionary": True, "categories": HeldColumn(self._categories)}

    def size(self) -> int:
        return len(self._values)

    def get_buffers(self) -> Mapping[str, Any]:
        if self.dtype[0] != 21:
            kind = (0, 8, "c", "=") if self.dtype[0] == 23 else self.dtype
            return {"data": (Held(self._data), kind), "validity": None, "offsets": None}
        texts = [b"" if value is None else value.encode() for value in self._values]
        ends = np.cumsum([0, *map(len, texts)], dtype=np.int64)
        there = np.array([value is not None for value in self._values], dtype=np.uint8)
        return {
            "data": (Held(np.frombuffer(b"".join(texts), dtype=np.uint8)), (1, 8, "C", "=")),
            "validity": (Held(there), (20, 8, "b", "=")),
            "offsets": (Held(ends), (0, 64, "l", "=")),
        }


class HeldFrame:
    """A frame of the protocol.

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

    def __dataframe__(self, nan_as_null: bool = False, allow_copy: bool = True) -> HeldFrame:
        return self

    def column_names(self) -> list[Any]:
        return list(self._columns)

    def get_column(self, place: int) -> HeldColumn:
        name = list(self._columns)[place]
        return HeldColumn(self._columns[name], self._categories.get(name))

    def get_column_by_name(self, name: str) -> HeldColumn:
        return HeldColumn(self._columns[name], self._categories.get(name))

    def select_columns_by_name(self, names: Sequence[str]) -> HeldFrame:
        return HeldFrame({name: self._columns[name] for name in names}, self._categories, self._rows)

    def get_chunks(self, n_chunks: int | None = None) -> list[HeldFrame]:
        n_rows = len(next(iter(self._columns.values()), []))
        return [
            HeldFrame(
                {name: values[start : start + self._rows] for name, values in self._columns.items()}, self._categories
            )
            for start in range(0, n_rows, self._rows)
        ]
