"""Parquet files, and folders of them, as tables, read batch by batch; needs pyarrow."""

from __future__ import annotations

import importlib
import os
from collections.abc import Collection, Iterator
from contextlib import suppress
from functools import lru_cache
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

from erasurehead._internal.documents import PlainData
from erasurehead._internal.user_files import beginning
from erasurehead.datasets._readers.arrow import arrow_column, is_category
from erasurehead.datasets._readers.fields import MISSING
from erasurehead.datasets._readers.names import as_option, checked_names
from erasurehead.datasets._readers.table import Table, check_finite, joined, read_columns
from erasurehead.errors import DataError, MissingExtra


def parquet_columns(path: Path) -> tuple[str, ...]:
    """Return the names of the columns of a Parquet file, in order, but for the index of pandas, which comes first.

    Those of a folder are of its first file, behind them those that folders within it are named after (`year=2024`), and
    behind these those of later files alone, which can only be left out.

    Raises:
        MissingExtra: if pyarrow is not installed.
        DataError: if the file, or one of the folder, is not a Parquet file, has no columns, or two of the same name.
    """
    return checked_names(_names(_open(path)), str(path))


def read_parquet(
    path: Path, wanted: Collection[str], exact: Collection[str] = (), missing: Collection[str] = MISSING
) -> Table:
    """Read some columns of a Parquet file; columns that it does not have are left out.

    Numbers become columns of numbers, truth values and everything else columns of texts; null and NaN are missing.
    Columns of Arrow's dictionary type, which pandas and polars write for categories, are categories.

    Arguments:
        path: the file, or the folder.
        wanted: names of the columns to read.
        exact: those whose values must be told apart however large they are: see `column_of`.
        missing: texts that stand for a missing value.

    Raises:
        MissingExtra: if pyarrow is not installed.
        DataError: if the file is not a Parquet file or has no rows, a file of a folder lacks a column of another, a
            column is neither of numbers nor of texts, or a number is infinite.
    """
    blocks = list(parquet_blocks(path, wanted, exact=exact, missing=missing))
    n_rows = sum(block.n_rows for block in blocks)
    if not n_rows:
        raise DataError(f"{path} has no rows of data.")
    columns = {name: joined([block.columns[name] for block in blocks]) for name in blocks[0].columns}
    return Table(
        str(path), columns, n_rows, blocks[0].place, all_names=parquet_columns(path), categories=blocks[0].categories
    )


def parquet_blocks(
    path: Path,
    wanted: Collection[str],
    rows: int = 1 << 16,
    exact: Collection[str] = (),
    missing: Collection[str] = MISSING,
    span: tuple[int, int] | None = None,
) -> Iterator[Table]:
    """Yield some columns of a Parquet file as tables of at most `rows` rows each, read row group by row group.

    Arguments:
        path, wanted, exact, missing: as for `read_parquet`.
        rows: most rows of a table.
        span: the first row, and the one behind the last; None for all.

    Raises:
        MissingExtra, DataError: as for `read_parquet`, when the block is reached.
    """
    stored = _open(path) if span is None else _row_groups(path)[0]
    names = [name for name in _names(stored) if name in wanted]
    if path.is_dir() and span is None:
        _check_columns(path, stored, names)
    categories = frozenset(name for name in names if is_category(stored.schema.field(name).type))
    before = 0 if span is None else span[0]
    try:
        batches = (
            stored.to_batches(columns=names, batch_size=rows, batch_readahead=2, fragment_readahead=1)
            if span is None
            else _within(path, tuple(names), *span, rows)
        )
        for batch in batches:
            columns = read_columns(
                names,
                str(path),
                lambda name, batch=batch: arrow_column(batch.column(name), name, str(path), name in exact, missing),
            )
            for name in names:
                check_finite(
                    columns[name],
                    lambda row, where=f"{path}, column {name!r}", start=before: f"{where}, row {start + row}",
                )
            yield Table(
                str(path),
                columns,
                batch.num_rows,
                lambda row, before=before: f"{path}, row {before + row}",
                categories=categories,
            )
            before += batch.num_rows
    except (OSError, ValueError, NotImplementedError) as error:
        if isinstance(error, DataError):
            raise
        why = ", or its files differ in the types of their columns" if path.is_dir() else ""
        raise DataError(f"{path} is damaged after row {before}{why} ({error}).") from None


def _within(path: Path, names: tuple[str, ...], first: int, last: int, rows: int) -> Iterator[Any]:
    """Yield batches of some rows."""
    edges = _row_groups(path)[2]
    for number, (low, high) in enumerate(pairwise(edges)):
        if low < last and first < high:
            group = _row_group(path, number, names)
            yield from group.slice(max(0, first - low), min(high, last) - max(low, first)).to_batches(rows)


@lru_cache(maxsize=1)
def _row_groups(path: Path) -> tuple[Any, list[Any], list[int]]:
    """Return what is stored, its row groups, and the first row of each, with the end."""
    stored = _open(path)
    groups = [group for fragment in stored.get_fragments() for group in fragment.split_by_row_group()]
    return stored, groups, [0, *accumulate(group.row_groups[0].num_rows for group in groups)]


@lru_cache(maxsize=1)  # tasks are smaller than row groups, and read one after the other
def _row_group(path: Path, number: int, names: tuple[str, ...]) -> Any:
    stored, groups, _ = _row_groups(path)
    return groups[number].to_table(schema=stored.schema, columns=list(names))


def parquet_rows(path: Path) -> int:
    """Return the number of rows, from what files say at their ends."""
    return int(_open(path).count_rows())


def _names(stored: Any) -> list[str]:
    # pandas writes its index behind the columns, where labels are expected.
    about: PlainData = stored.schema.pandas_metadata or {"index_columns": []}
    index = about["index_columns"]
    names: list[str] = stored.schema.names
    return [*(name for name in names if name in index), *(name for name in names if name not in index)]


def _open(path: Path) -> Any:
    try:
        dataset: Any = importlib.import_module("pyarrow.dataset")
    except ImportError as error:
        raise MissingExtra("Reading Parquet needs pyarrow: pip install 'erasurehead[report]'.") from error
    try:
        if not path.is_dir():
            return dataset.dataset(str(path), format="parquet")
        stored = dataset.dataset(str(path), format="parquet", partitioning="hive")
        _check_folders(path, stored)
        common = _common(stored)
        if stored.schema.equals(common):
            return stored
        return dataset.dataset(str(path), common, format="parquet", partitioning="hive")
    except DataError:
        raise
    except TypeError as error:
        raise DataError(
            f"{path} has a column in its files that folders within it are named after, too, with values of another "
            f"type ({error}); leave it out of the files, or rename the folders."
        ) from None
    except (OSError, ValueError) as error:  # pyarrow's own errors are subclasses of ValueError
        other = next(filter(_is_other, sorted(path.rglob("*"))), None)
        if other is None or not path.is_dir():
            raise DataError(f"{path} is not a Parquet file ({error}).") from None
        raise DataError(
            f"{other} is not a Parquet file, as the others in {path} are; move it elsewhere, or let its name begin "
            "with an underscore to leave it out."
        ) from None


def _is_other(path: Path) -> bool:
    return not path.name.startswith((".", "_")) and path.is_file() and not beginning(path).startswith(b"PAR1")


def _check_folders(path: Path, stored: Any) -> None:
    """Raise if a file is in a folder within the folder that is not called `name=value`, such as one of older copies."""
    for fragment in stored.get_fragments():
        above = Path(os.path.relpath(fragment.path, path)).parts[:-1]
        if other := next((part for part in above if "=" not in part), ""):
            raise DataError(
                f"{fragment.path} is in a folder, {other!r}, that is not called name=value, as those in a folder of "
                "Parquet files are; move it elsewhere, or let its name begin with an underscore to leave it out."
            )


def _common(stored: Any) -> Any:
    """Return the schema of all files of a folder, with types that hold the numbers of each, where there are such."""
    arrow: Any = importlib.import_module("pyarrow")
    fields: dict[str, Any] = {field.name: field for field in stored.schema}
    for fragment in stored.get_fragments():
        for field in fragment.physical_schema:
            common = fields.setdefault(field.name, field)
            if common.type != field.type:
                with suppress(ValueError, TypeError):  # values of other kinds are cast to those of the first file
                    pair = [arrow.schema([common]), arrow.schema([field])]
                    fields[field.name] = arrow.unify_schemas(pair, promote_options="permissive").field(0)
    return arrow.schema(list(fields.values()), metadata=stored.schema.metadata)


def _check_columns(path: Path, stored: Any, names: list[str]) -> None:
    """Raise if a file of a folder does not have a column that another has, as its rows would seem to miss values."""
    fragments = list(stored.get_fragments())
    all_names = set[str]().union(*(fragment.physical_schema.names for fragment in fragments))
    for fragment in fragments:
        own: list[str] = fragment.physical_schema.names
        for name in names:
            if name in all_names and name not in own:
                raise DataError(
                    f"{fragment.path} has no column {name!r}, as other files in {path} have; its columns are "
                    f"{', '.join(own)}. Leave the column out (--drop {as_option(name)}), or write all files "
                    "with the same columns."
                )
