"""Frames of pandas, polars, pyarrow and others as tables, without requiring any of them.

A frame that gives each of its columns as a list (pandas, polars) is read so, column by column, whatever else is
installed; pyarrow's tables are read as Parquet files are. Others must hand out Arrow data, of which pyarrow makes a
table.
"""

from __future__ import annotations

import importlib
from collections.abc import Collection
from typing import Any, Protocol, TypeGuard, cast, runtime_checkable

import numpy as np

from erasurehead.datasets._readers.arrow import arrow_column, is_category
from erasurehead.datasets._readers.fields import MISSING
from erasurehead.datasets._readers.layouts import TableLayout
from erasurehead.datasets._readers.names import checked_names
from erasurehead.datasets._readers.table import Column, Table, TextColumn, as_texts, check_finite, joined, read_columns
from erasurehead.datasets._readers.values import column_of, numbers_of
from erasurehead.errors import DataError, MissingExtra


@runtime_checkable
class Frame(Protocol):
    """An object with Arrow data, such as a DataFrame of pandas or polars."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...


def is_frame(source: object) -> TypeGuard[Frame]:
    """Return whether an object is a frame."""
    speaks = hasattr(source, "__arrow_c_stream__") or hasattr(source, "to_dict")  # as in pandas before 2.2
    return speaks and hasattr(source, "columns") and not isinstance(source, type)


def frame_layout(frame: Frame) -> TableLayout:
    """Return the columns of a frame. They do not include its index.

    Raises:
        DataError: if there are none, or two have the same name.
    """
    return TableLayout(checked_names(tuple(map(str, _names(frame))), frame_name(frame)))


def frame_name(frame: Frame) -> str:
    """Return the name of a frame for messages, such as `"the pandas DataFrame"`."""
    kind = type(frame)
    return f"the {kind.__module__.partition('.')[0]} {kind.__name__}"


def read_frame(
    frame: Frame,
    wanted: Collection[str] | None = None,
    exact: Collection[str] = (),
    missing: Collection[str] = MISSING,
) -> Table:
    """Read some columns of a frame.

    Numbers become columns of numbers; truth values, texts, days and categories columns of texts. What the frame marks
    as missing is missing, and so are NaN and the texts that stand for a missing value in files.

    Arguments:
        frame: a frame of any library.
        wanted: names of the columns to read; None for all.
        exact: those whose values must be told apart however large they are: see `column_of`.
        missing: texts that stand for a missing value.

    Raises:
        DataError: if it has no rows, a column holds something else, or a number is infinite.
        MissingExtra: if the frame can only be read with pyarrow, which is not installed.
    """
    source, names = frame_name(frame), frame_layout(frame).names
    some = [name for name in names if wanted is None or name in wanted]
    series = _series(frame, some)
    if series is None:
        columns, categories, n_rows = _read_arrow(frame, some, exact, source, missing)
    else:
        columns, categories = _read_lists(series, exact, source, missing)
        n_rows = len(cast("Any", frame))
    if not n_rows:
        raise DataError(f"{source} has no rows.")
    for name, column in columns.items():
        check_finite(column, lambda row, name=name: f"{source}, row {row}, column {name!r}")
    index = [str(name) for name in getattr(getattr(frame, "index", None), "names", ()) if name is not None]
    notes = (f"the index {', '.join(map(repr, index))} is left out: reset_index() makes a column of it",)
    return Table(
        source,
        columns,
        n_rows,
        lambda row: f"{source}, row {row}",
        notes if index else (),
        names,
        frozenset(categories),
    )


def _lists_columns(frame: object) -> bool:
    # An instance of pandas has its columns as attributes, too, which may have any name.
    return hasattr(type(frame), "columns") and not hasattr(type(frame), "column_names")


def _names(frame: Any) -> list[Any]:
    if _lists_columns(frame):
        return list(frame.columns)
    return cast("list[Any]", _arrow(frame, None).column_names)


def _series(frame: Any, wanted: list[str]) -> dict[str, Any] | None:
    """Return some columns of a frame, each of which can be made a list, as in pandas and polars; None if not."""
    if not _lists_columns(frame):
        return None
    series = {str(name): frame[name] for name in frame.columns if str(name) in wanted}
    return series if all(hasattr(one, "to_list") for one in series.values()) else None


def _read_lists(
    series: dict[str, Any], exact: Collection[str], source: str, missing: Collection[str]
) -> tuple[dict[str, Column], set[str]]:
    kinds = {name: str(one.dtype).lower() for name, one in series.items()}
    categories = {name for name, kind in kinds.items() if kind.startswith(("categor", "enum", "dictionary"))}

    def column(name: str) -> Column:
        one, dtype = series[name], series[name].dtype
        if name in categories:
            return _category(one, name, source, missing)
        if type(dtype).__module__.startswith("numpy") and dtype.kind in "biuf":
            return numbers_of(one.to_numpy(), exact=name in exact)
        return column_of(one.to_list(), name, source, name in exact, missing)

    return read_columns(series, source, column), categories


def _category(series: Any, name: str, source: str, missing: Collection[str]) -> Column:
    codes = getattr(getattr(series, "cat", None), "codes", None)
    if codes is None:
        return as_texts(column_of(series.to_list(), name, source, True, missing))
    # The values of pandas' categories would be rounded where one is missing.
    categories = as_texts(column_of(series.cat.categories.to_list(), name, source, True, missing))
    return TextColumn(np.append(categories.codes, np.int32(-1))[codes.to_numpy()], categories.values)


def _read_arrow(
    frame: Any, wanted: list[str], exact: Collection[str], source: str, missing: Collection[str]
) -> tuple[dict[str, Column], set[str], int]:
    table = _arrow(frame, wanted)

    def column(name: str) -> Column:
        chunks = table.column(name).chunks
        return joined([arrow_column(one, name, source, name in exact, missing) for one in chunks])

    return (
        read_columns(wanted, source, column),
        {name for name in wanted if is_category(table.schema.field(name).type)},
        int(table.num_rows),
    )


def _arrow(frame: Any, names: list[str] | None) -> Any:
    """Return a frame as a table of pyarrow, of some of its columns; None for all."""
    try:
        arrow: Any = importlib.import_module("pyarrow")
    except ImportError as error:
        raise MissingExtra(
            f"Reading {frame_name(frame)} needs pyarrow: pip install 'erasurehead[report]'; or give a frame of pandas "
            "or polars."
        ) from error
    table = arrow.table(frame)
    return table if names is None else table.select(names)
