"""Reading and writing traces: CSV and Parquet files, with standard or other columns, and the arrivals of runs."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import math
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any, cast, final

import numpy as np

from erasurehead._internal.documents import Entries
from erasurehead._internal.plain_text import in_groups
from erasurehead._internal.storage.folders import Folder
from erasurehead._internal.user_files import StrPath, beginning, readable
from erasurehead.datasets._readers.csv import lines_of_table
from erasurehead.datasets._readers.delimiters import guess_delimiter
from erasurehead.datasets._readers.files import text_lines
from erasurehead.datasets._readers.layouts import TableLayout, csv_reader
from erasurehead.datasets._readers.names import checked_names
from erasurehead.delays._base import MOST_SECONDS
from erasurehead.delays._run_traces import read_arrivals
from erasurehead.delays._trace import Trace
from erasurehead.errors import DataError, MissingExtra, check_choice, invalid

COLUMNS = ("worker", "step", "seconds", "load", "censored")
"""The columns of a trace file; `load` (by default 1) and `censored` (by default no) may be missing."""

_REQUIRED = COLUMNS[:3]
_UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
_FINER = re.compile(r"(?:^|[^a-z])[mun]s\)?$|milli|micro|nano", re.IGNORECASE)
"""Names of columns that are probably not in seconds."""
_TRUE, _FALSE = ("1", "true", "yes", "1.0"), ("0", "false", "no", "0.0", "", "none")


def read_trace(
    path: StrPath,
    columns: Mapping[str, str] | None,
    where: Mapping[str, str | float] | None,
    unit: str,
) -> Trace:
    """Read a trace: what `Trace.read` does."""
    path, columns, where = Path(path), dict(columns or {}), dict(where or {})
    for name in columns:
        if name not in COLUMNS:
            raise invalid("columns", f"must map some of {', '.join(COLUMNS)}", name)
    check_choice("unit", unit, _UNITS)
    path = readable(path)
    if path.suffix == ".jsonl":
        rows: Iterator[tuple[int, Entries]] = read_arrivals(path)
    elif path.suffix == ".parquet" or beginning(path, 4) == b"PAR1":
        rows = _parquet(path)
    else:
        rows = _csv(path)
    trace = _collect(path, rows, columns, where, _UNITS[unit])
    seconds = columns.get("seconds", "seconds")
    if unit == "s" and _FINER.search(seconds):
        warnings.warn(
            f"{path}: {seconds!r} is taken for seconds; if it is not, say its unit (--unit ms).", stacklevel=3
        )
    for remark in trace.remarks():
        warnings.warn(remark, stacklevel=3)
    return trace


def write_trace(trace: Trace, path: StrPath) -> None:
    """Write a trace: what `Trace.write` does.

    The file is written atomically, and only its owner can read a new one: a trace may reveal much about a cluster.
    """
    path = Path(path)
    names = np.array(trace.names)[trace.worker]
    table: dict[str, Sequence[object]] = {
        "worker": names.tolist(),
        "step": trace.step.tolist(),
        "seconds": trace.seconds.tolist(),
        "load": trace.load.tolist(),
        "censored": trace.censored.tolist(),
    }
    if path.suffix == ".parquet":
        arrow, parquet = _pyarrow()
        buffer = io.BytesIO()
        parquet.write_table(arrow.table(table), buffer)
        data = buffer.getvalue()
    else:
        text = io.StringIO(newline="")
        writer = csv.writer(text)
        writer.writerow(COLUMNS)
        writer.writerows(
            (worker, step, repr(seconds), f"{load:g}", int(cast("bool", censored)))
            for worker, step, seconds, load, censored in zip(*table.values(), strict=True)
        )
        data = _PACKED.get(path.suffix, bytes)(text.getvalue().encode())
    with Folder.open(path.parent) as folder:
        folder.write_whole(path.name, [data])


_PACKED: Mapping[str, Callable[[bytes], bytes]] = {".gz": gzip.compress, ".bz2": bz2.compress}


def _csv(path: Path) -> Iterator[tuple[int, Entries]]:
    with text_lines(path) as lines:
        header = next(lines, "")
    layout = TableLayout((), delimiter=guess_delimiter([header], path)[0], skip=1)
    names = [name.strip() for name in next(csv_reader([header], layout), ())]
    checked_names([name for name in names if name], str(path))
    for line, fields in lines_of_table(path, replace(layout, names=tuple(names))):
        yield line, {name: field.strip() for name, field in zip(names, fields, strict=True)}


def _pyarrow() -> tuple[Any, Any]:
    try:
        return import_module("pyarrow"), import_module("pyarrow.parquet")  # it has no type stubs
    except ImportError:
        raise MissingExtra("Parquet files need pyarrow: pip install 'erasurehead[report]'.") from None


def _parquet(path: Path) -> Iterator[tuple[int, Entries]]:
    try:
        table = _pyarrow()[1].read_table(path)
    except (OSError, ValueError) as error:  # pyarrow's own errors are subclasses of ValueError
        raise DataError(f"{path} is not a Parquet file ({error}).") from None
    names = checked_names(cast("list[str]", table.column_names), str(path))
    values = [cast("list[object]", column.to_pylist()) for column in table.columns]
    for number, row in enumerate(zip(*values, strict=True), start=1):
        yield number, dict(zip(names, row, strict=True))


def _collect(
    path: Path,
    rows: Iterator[tuple[int, Entries]],
    columns: Mapping[str, str],
    where: Mapping[str, str | float],
    scale: float,
) -> Trace:
    theirs = {name: columns.get(name, name) for name in COLUMNS}
    kept: list[tuple[object, float, float, float, bool]] = []
    lines: list[int] = []
    for number, row in rows:
        if not kept:
            _check_columns(path, row, theirs, columns, where)
        if all(_same(row[column], value) for column, value in where.items()):
            lines.append(number)
            read = _Row(f"{path}, line {number}", row)
            kept.append(
                (
                    read.worker(theirs["worker"]),
                    read.number(theirs["step"], whole=True),
                    read.seconds(theirs["seconds"], scale),
                    read.number(theirs["load"]) if theirs["load"] in row else 1.0,
                    read.flag(theirs["censored"]) if theirs["censored"] in row else False,
                )
            )
    if not kept:
        rest = f" where {', '.join(f'{column} is {value}' for column, value in where.items())}" if where else ""
        raise DataError(f"{path} holds no samples{rest}.")
    worker, step, seconds, load, censored = zip(*kept, strict=True)
    computed = np.array(load)
    labels = [str(label) for label in worker]
    names = sorted(set(labels), key=_natural)
    position = {name: index for index, name in enumerate(names)}
    trace = Trace(
        np.unique(np.array(step), return_inverse=True)[1].astype(np.int64),
        np.array([position[label] for label in labels], dtype=np.int64),
        np.array(seconds),
        np.where(computed > 0.0, computed, 1.0),  # delays of idle workers, where they were selected, cannot be scaled
        np.array(censored),
        tuple(names),
        str(path),
    )
    if theirs["load"] not in where and not computed.all():
        trace.table()  # several blocks in one file are a more likely mistake
        column = theirs["load"]
        raise DataError(
            f"{path}, line {lines[int(np.argmin(computed))]}: {column} must be above 0, but it is 0; select the rows "
            f"that are meant (where={{{column!r}: ...}}, or --where {column}=... on the command line)."
        )
    return trace


def _check_columns(
    path: Path,
    row: Entries,
    theirs: Mapping[str, str],
    columns: Mapping[str, str],
    where: Mapping[str, str | float],
) -> None:
    names = ", ".join(map(str, row))
    lacking = [name for name in _REQUIRED if theirs[name] not in row]
    if lacking:
        called = [f"{theirs[name]!r}" + f" for {name!r}" * (theirs[name] != name) for name in lacking]
        python = ", ".join(f"{name!r}: ..." for name in lacking)
        options = " ".join(f"--column {name}=..." for name in lacking)
        raise DataError(
            f"{path} has no column {', '.join(called)}; it has {names}. "
            f"Say which is which: columns={{{python}}}, or {options} on the command line."
        )
    for column in [*columns.values(), *where]:
        if column not in row:
            raise DataError(f"{path} has no column {column!r}; it has {names}.")


def _same(value: object, wanted: str | float) -> bool:
    if str(value) == str(wanted):
        return True
    try:
        return float(cast("str", value)) == float(wanted)
    except (TypeError, ValueError):
        return False


@final
@dataclass(frozen=True)
class _Row:
    """A row of a file, whose values are read by the names of their columns.

    Arguments:
        place: the file and the line, for errors.
        values: the fields by column.
    """

    place: str
    values: Entries

    def wrong(self, column: str, rule: str) -> DataError:
        """Return the error for a value that breaks a rule."""
        return DataError(f"{self.place}: {column} {rule}.")

    def worker(self, column: str) -> object:
        """Return the label of a worker: a name, or a number from 0."""
        label = self.values[column]
        try:
            number = float(label)
        except (TypeError, ValueError):
            if label is None or not str(label).strip():
                raise self.wrong(column, "must be a name or a number; there is none") from None
            return label
        if not (number >= 0.0 and number.is_integer()):
            raise self.wrong(column, f"must be a name, or a whole number of at least 0, but it is {label!r}")
        return label

    def number(self, column: str, whole: bool = False) -> float:
        """Return a finite number of at least 0."""
        given = self.values[column]
        try:
            value = float(given)
        except (TypeError, ValueError):
            value = None
        if value is None or in_groups(str(given)):
            point = "; decimals need a point" * (re.fullmatch(r"\s*\d+,\d+\s*", str(given)) is not None)
            remedy = "; number the rounds 0, 1, 2 and so on" if whole else point
            raise self.wrong(column, f"must be a number, but it is {given!r}{remedy}") from None
        if whole and math.isfinite(value) and not value.is_integer():
            raise self.wrong(column, f"must be a whole number, but it is {given!r}")
        if not (math.isfinite(value) and value >= 0.0):
            remedy = (
                "; of a worker that did not answer, leave the row out (--absent says what is taken of it), or write "
                "how long it was waited for, with censored=1"
                if value == math.inf
                else ""
            )
            raise self.wrong(column, f"must be a finite number of at least 0, but it is {value}{remedy}")
        return value

    def seconds(self, column: str, scale: float) -> float:
        """Return a time in seconds, given the length of its unit."""
        value = scale * self.number(column)
        if value > MOST_SECONDS:
            raise self.wrong(column, f"must be at most {MOST_SECONDS:g} s, but it is {self.values[column]!r}")
        return value

    def flag(self, column: str) -> bool:
        """Return a value that is 0 or 1."""
        text = str(self.values[column]).strip().lower()
        if text in _TRUE or text in _FALSE:
            return text in _TRUE
        raise self.wrong(column, f"must be 0 or 1, but it is {self.values[column]!r}")


def _natural(label: str) -> tuple[int, float, str]:
    try:
        return 0, float(label), label
    except ValueError:
        return 1, 0.0, label
