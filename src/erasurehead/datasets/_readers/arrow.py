"""Arrays of pyarrow as columns: those of Parquet files, of pyarrow's tables, and of frames that hand out Arrow data."""

from __future__ import annotations

import importlib
from collections.abc import Collection
from typing import Any

import numpy as np

from erasurehead.datasets._readers.table import Column, NumberColumn, TextColumn, Unreadable, as_texts
from erasurehead.datasets._readers.values import column_of, numbers_of


def arrow_column(array: Any, name: str, source: str, exact: bool, missing: Collection[str]) -> Column:
    """Return the column of an array.

    Integers and floating-point numbers, decimals, truth values, texts, days and moments can be read, and dictionaries
    of them, which become texts; so can an array of nothing but null, whatever its type.

    Arguments:
        array: one chunk of a column.
        name: name of the column, for messages.
        source: what it comes from, for messages.
        exact: as for `column_of`.
        missing: as for `column_of`.

    Raises:
        Unreadable: if its values have another type.
    """
    types: Any = importlib.import_module("pyarrow").types
    kind = array.type
    if types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind):
        none = array.is_null().to_numpy(zero_copy_only=False)
        values = array.fill_null(False if types.is_boolean(kind) else 0) if array.null_count else array
        return numbers_of(values.to_numpy(zero_copy_only=False), none, exact)
    if types.is_dictionary(kind):
        distinct = as_texts(arrow_column(array.dictionary, name, source, True, missing))
    elif array.null_count == len(array):
        return NumberColumn(np.full(len(array), np.nan))
    elif any(getattr(types, f"is_{one}", _never)(kind) for one in ("string", "large_string", "string_view")):
        array = array.dictionary_encode()
        distinct = column_of(array.dictionary.to_pylist(), name, source, exact, missing)
        if isinstance(distinct, NumberColumn):  # as nothing but marks for a missing value is there
            return NumberColumn(np.full(len(array), np.nan))
    elif types.is_decimal(kind) or types.is_date(kind) or types.is_timestamp(kind):
        return column_of(array.to_pylist(), name, source, exact, missing)
    else:
        raise Unreadable(str(kind))
    places = array.indices.cast("int64").fill_null(-1).to_numpy(zero_copy_only=False)
    return TextColumn(np.append(distinct.codes, np.int32(-1))[places], distinct.values)


def is_category(kind: Any) -> bool:
    """Return whether a type of pyarrow is that of categories."""
    return bool(importlib.import_module("pyarrow").types.is_dictionary(kind))


def _never(kind: Any) -> bool:
    # An older pyarrow does not know the type.
    return False
