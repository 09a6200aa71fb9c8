"""Parquet files as tables, read batch by batch; needs pyarrow."""

from __future__ import annotations

import importlib
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead.datasets.readers.table import Column, Numbers, Table, TextCoder, Texts
from erasurehead.errors import DataError, MissingExtra


def parquet_columns(path: Path) -> tuple[str, ...]:
    """Return the names of a Parquet file's columns, in order.

    Raises:
        MissingExtra: if pyarrow is not installed.
        DataError: if the file is not a Parquet file.
    """
    return tuple(_open(path).schema_arrow.names)


def read_parquet(path: Path, wanted: Collection[str]) -> Table:
    """Read some columns of a Parquet file; columns that it does not have are left out.

    Numbers and booleans become columns of numbers, everything else columns of texts; null and NaN are missing.

    Raises:
        MissingExtra: if pyarrow is not installed.
        DataError: if the file is not a Parquet file or has no rows, or a number is infinite.
    """
    file = _open(path)
    names = [name for name in file.schema_arrow.names if name in wanted]
    parts: dict[str, list[Any]] = {name: [] for name in names}
    coders = {name: TextCoder() for name in names}
    n_rows = 0
    for batch in file.iter_batches(columns=names):
        for name, values in zip(names, batch.columns, strict=True):
            parts[name].append(_part(values, coders[name], path, name, n_rows))
        n_rows += batch.num_rows
    if not n_rows:
        raise DataError(f"{path} has no rows of data.")
    columns = {name: _column(parts[name], coders[name]) for name in names}
    there = tuple(file.schema_arrow.names)
    return Table(str(path), columns, n_rows, lambda row: f"{path}, row {row}", there=there)


def parquet_blocks(path: Path, wanted: Collection[str], rows: int) -> Iterator[Table]:
    """Yield some columns of a Parquet file as tables of at most `rows` rows each, read row group by row group.

    Raises:
        MissingExtra, DataError: as for `read_parquet`, when the block is reached.
    """
    file = _open(path)
    names = [name for name in file.schema_arrow.names if name in wanted]
    before = 0
    for batch in file.iter_batches(rows, columns=names):
        columns: dict[str, Column] = {}
        for name, values in zip(names, batch.columns, strict=True):
            coder = TextCoder()
            columns[name] = _column([_part(values, coder, path, name, before)], coder)
        yield Table(str(path), columns, batch.num_rows, lambda row, before=before: f"{path}, row {before + row}")
        before += batch.num_rows


def parquet_rows(path: Path) -> int:
    """Return the number of rows, from the file's footer."""
    return int(_open(path).metadata.num_rows)


def _open(path: Path) -> Any:
    try:
        parquet: Any = importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        raise MissingExtra("Reading Parquet needs pyarrow: pip install 'erasurehead[report]'.") from error
    try:
        return parquet.ParquetFile(path)
    except (OSError, ValueError) as error:  # pyarrow's own errors are subclasses of ValueError
        raise DataError(f"{path} is not a Parquet file ({error}).") from None


def _is_number(values: Any) -> bool:
    types: Any = importlib.import_module("pyarrow").types
    kind = values.type
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) or types.is_decimal(kind))


def _part(values: Any, coder: TextCoder, path: Path, name: str, before: int) -> Any:
    return _numbers(values, f"{path}, column {name!r}", before) if _is_number(values) else _codes(values, coder)


def _numbers(values: Any, said: str, before: int) -> Array:
    null = np.asarray(values.is_null().to_numpy(zero_copy_only=False), dtype=bool)
    numbers = np.array([float(value) for value in values.drop_null().to_pylist()], dtype=np.float64)
    filled = np.full(len(null), np.nan)
    filled[~null] = numbers
    wrong = np.isinf(filled)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise DataError(
            f"{said}, row {before + row}: {filled[row]} is not a finite number; write a missing value as null."
        )
    return filled


def _codes(values: Any, coder: TextCoder) -> Any:
    texts = ("" if value is None else str(value) for value in values.to_pylist())
    return np.fromiter(map(coder.__getitem__, texts), np.int32, len(values))


def _column(parts: list[Any], coder: TextCoder) -> Column:
    joined = np.concatenate(parts)
    return Texts(joined, coder.texts()) if joined.dtype == np.int32 else Numbers(joined)
