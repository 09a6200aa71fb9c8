"""Data as streams of rows: what must be known of all of them is gathered in one pass, and another one encodes them.

A source is a file or a frame. It is read in blocks, as often as needed; one that is kept whole has one block, which is
read once. `Source -> Table -> Encoding -> rows` is the same for both, so that a file and its shards have the same rows.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, TypedDict

from erasurehead._internal.documents import PlainData
from erasurehead._internal.user_files import StrPath
from erasurehead.datasets._preprocessing.columns import Columns, DateOrder
from erasurehead.datasets._readers.dialects import Decimal, Dialect, Quotes, check_dialect, given
from erasurehead.datasets._readers.forms import form, opened
from erasurehead.datasets._readers.frames import Frame, is_frame
from erasurehead.datasets._sources.arrays import array_source
from erasurehead.datasets._sources.rows import RowSource
from erasurehead.datasets._sources.tables import TableSource
from erasurehead.errors import invalid

_FRAMES = "collect() or to_frame() makes a frame of what is none yet; write arrays with numpy.save"


class Asked(TypedDict, total=False):
    """What a user says about columns, and about a text table: arguments of `read`."""

    drop: Sequence[str]
    one_hot: Sequence[str] | Literal["all"]
    categorical: bool
    interactions: Sequence[Sequence[str]]
    standardize: bool
    ordinal: Sequence[str]
    count: Sequence[str]
    text: Sequence[str]
    dates: DateOrder | None
    delimiter: str | None
    header: bool | Literal["yes", "no"] | None
    names: Sequence[str]
    decimal: Decimal | None
    quotes: Quotes | None
    missing: Sequence[str]


def asked(how: Asked) -> tuple[Columns, Dialect]:
    """Return what a user says about columns, and about a text table."""
    of_columns: PlainData = {**how}
    of_texts = {name: of_columns.pop(name) for name in Dialect.__dataclass_fields__ if name in how}
    return Columns(**of_columns), check_dialect(**of_texts)


def source_of(
    origin: StrPath | Frame,
    target: StrPath | None,
    columns: Columns,
    dialect: Dialect,
    whole: bool = False,
) -> RowSource[Any]:
    """Return the source of the rows of a file or a frame.

    Arguments:
        origin: the file, or the frame.
        target: what holds the labels, as for `read`.
        columns: what the user says about the columns of a table.
        dialect: what the user says about a text table.
        whole: whether all rows are read at once, and kept.

    Raises:
        InvalidArgument: if it is a matrix and options about columns are given, or it is not a text and those about
            texts are given.
        DataError: if it cannot be read.
    """
    setting = given(dialect)
    if is_frame(origin):
        if setting:
            raise invalid(setting[0], "is for CSV files", setting[1], "a frame has its columns")
        return TableSource(origin, None if target is None else str(target), columns, dialect, whole)
    if not isinstance(origin, str | os.PathLike):
        raise invalid("path", "must be a file, or a frame of pandas, polars or pyarrow", type(origin).__name__, _FRAMES)
    path, name = opened(origin), None if target is None else os.fspath(target)
    return (
        TableSource(path, name, columns, dialect, whole)
        if _is_table(path, columns, dialect)
        else array_source(path, name, whole)
    )


def _is_table(path: Path, columns: Columns, dialect: Dialect) -> bool:
    """Return whether a file is a table of named columns, as opposed to a matrix."""
    kind, setting = form(path, delimited=dialect.delimiter is not None), given(dialect)
    if setting and kind != "csv":
        raise invalid(setting[0], "is for CSV files", setting[1], f"{path.name} is none")
    if kind in ("csv", "parquet"):
        return True
    for name in Columns.__dataclass_fields__:
        if name != "standardize" and (value := getattr(columns, name)):
            raise invalid(
                name, "is for CSV and Parquet files", value, f"the columns of {path.name} are taken as they are"
            )
    return False
