"""CSV files as tables: one streaming pass in bounded chunks, and errors that name the line at fault."""

from __future__ import annotations

import csv
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from erasurehead._internal.arrays import Array
from erasurehead._internal.digits import in_groups
from erasurehead.datasets.readers.delimiters import guess_delimiter, separated
from erasurehead.datasets.readers.files import Lines, text_lines
from erasurehead.datasets.readers.index_columns import is_numbering, named
from erasurehead.datasets.readers.table import (
    EXACT,
    MISSING,
    TRUTHS,
    Column,
    Numbers,
    Table,
    TextCoder,
    Texts,
    is_rounded,
    not_a_number,
    truths,
)
from erasurehead.errors import DataError

Kind: TypeAlias = Literal["number", "text", "auto", "label"]
"""How a column is read; `auto` and `label` become `number` or `text`, by the first value that is not missing."""

_CATEGORIES = " as the values before it are; name the column in one_hot (--one-hot) if its values are categories"
_LABELS = " as the labels before it are; write all of them as numbers, or all as names"
_EMPTY = "leave the field empty if the value is missing"
_NO_ROW = "leave that row out, or fill it in, as every row needs its label"


def is_number(text: str) -> bool:
    """Return whether a text is a number, including infinity and NaN; `2020_01` is none, whatever Python makes of it."""
    try:
        float(text)
    except ValueError:
        return False
    return not in_groups(text)


class Fault(Exception):
    """A field that cannot be used: its row in the chunk, and what is wrong."""

    def __init__(self, row: int, message: str) -> None:
        super().__init__(message)
        self.row = row


class Builder(ABC):
    """Gathers one column, chunk by chunk."""

    @abstractmethod
    def add(self, fields: Sequence[str]) -> None:
        """Add the fields of a chunk."""

    @abstractmethod
    def finish(self) -> Column:
        """Return the column."""


class _NumberBuilder(Builder):
    def __init__(self, hint: str, missing: str = _EMPTY) -> None:
        self._parts: list[Array] = []
        self._hint = hint
        self._missing = missing
        self._rounded = False
        self._truths: bool | None = None

    def add(self, fields: Sequence[str]) -> None:
        try:
            part = None if in_groups(fields) else np.fromiter(map(float, fields), np.float64, len(fields))
        except ValueError:
            part = None
        if part is None or not np.isfinite(part).all():
            part = np.array([self._parse(row, field.strip()) for row, field in enumerate(fields)], dtype=np.float64)
        elif len(part):
            self._mix(0, fields[0].strip(), False)
        if len(large := np.flatnonzero(np.abs(part) >= EXACT)):
            self._rounded |= any(is_rounded(fields[row], float(part[row])) for row in large.tolist())
        self._parts.append(part)

    def _parse(self, row: int, field: str) -> float:
        if field in MISSING:
            return np.nan
        if field in TRUTHS:
            self._mix(row, field, True)
            return TRUTHS[field]
        if not is_number(field):
            raise Fault(row, not_a_number(field, self._hint))
        self._mix(row, field, False)
        value = float(field)
        if not np.isfinite(value):
            raise Fault(row, f"{field!r} is not a finite number; {self._missing}")
        return value

    def _mix(self, row: int, field: str, truth: bool) -> None:
        if self._truths is None:
            self._truths = truth
        elif self._truths != truth:
            kinds = ("a truth value", "numbers") if truth else ("a number", "truth values")
            raise Fault(row, f"{field!r} is {kinds[0]} among {kinds[1]}; write all of them as numbers, such as 0 and 1")

    def finish(self) -> Column:
        values = np.concatenate(self._parts)
        return truths(values) if self._truths else Numbers(values, self._rounded)


class _TextBuilder(Builder):
    def __init__(self) -> None:
        self._coder = TextCoder()
        self._parts: list[NDArray[np.int32]] = []

    def add(self, fields: Sequence[str]) -> None:
        self._parts.append(np.fromiter(map(self._coder.__getitem__, fields), np.int32, len(fields)))

    def finish(self) -> Column:
        return Texts(np.concatenate(self._parts), self._coder.texts())


class _AutoBuilder(Builder):
    """Counts missing values until there is a value, whose kind then becomes that of the column."""

    def __init__(self, label: bool) -> None:
        self._label = label
        self._missing = 0
        self._builder: Builder | None = None

    def add(self, fields: Sequence[str]) -> None:
        if self._builder is None:
            first = next((field for field in map(str.strip, fields) if field not in MISSING), None)
            if first is None:
                self._missing += len(fields)
                return
            self._builder = self._begin(is_number(first))
        self._builder.add(fields)

    def _begin(self, number: bool) -> Builder:
        numbers = _NumberBuilder(_LABELS, _NO_ROW) if self._label else _NumberBuilder(_CATEGORIES)
        builder = numbers if number else _TextBuilder()
        if self._missing:
            builder.add(("",) * self._missing)
        return builder

    def finish(self) -> Column:
        return (self._builder or self._begin(number=True)).finish()


def builder(kind: Kind, hint: str) -> Builder:
    """Return the builder of a column that is read in a certain way.

    Arguments:
        kind: how the column is read.
        hint: advice about a text in a column of numbers, as the end of a sentence.
    """
    if kind == "number":
        return _NumberBuilder(hint)
    return _TextBuilder() if kind == "text" else _AutoBuilder(kind == "label")


_CHUNK_FIELDS = 400_000  # fields held as Python strings at a time: about 25 MB


@dataclass(frozen=True)
class Layout:
    """How a CSV file is laid out.

    Arguments:
        names: the columns' names, in order.
        header: whether the first line holds them.
        delimiter: one character; a space means any number of spaces and tabs.
    """

    names: tuple[str, ...]
    header: bool = True
    delimiter: str = ","


def look(path: Path, delimiter: str | None = None) -> Layout:
    """Detect the layout of a CSV file from its first line.

    A first line of only numbers, of which some may be missing, is data, and so is one with a decimal fraction, which no
    column is named; the columns are then called `1`, `2`, ... The first columns of a header may have no name: see
    `index_columns`.

    Arguments:
        path: of the file.
        delimiter: as for `first_line`.

    Raises:
        DataError: if the file is empty, or a column has no name or the same as another.
    """
    delimiter, names = first_line(path, delimiter)
    if _are_data(names):
        return Layout(tuple(str(place + 1) for place in range(len(names))), False, delimiter)
    names = named(names)
    for place, name in enumerate(names):
        if not name or name in names[:place]:
            said = f"has the same name {name!r} as an earlier one" if name else "has no name"
            raise DataError(f"{path}, line 1: column {place + 1} {said}.")
    return Layout(names, True, delimiter)


def _are_data(names: Sequence[str]) -> bool:
    if is_numbering(names):
        return False
    numbers = [is_number(name) and name not in MISSING for name in names]
    if any(known and "." in name for known, name in zip(numbers, names, strict=True)):
        return True
    return any(numbers) and all(known or name in MISSING for known, name in zip(numbers, names, strict=True))


def first_line(path: Path, delimiter: str | None = None) -> tuple[str, tuple[str, ...]]:
    """Return the delimiter of a CSV file and the fields of its first line.

    Arguments:
        path: of the file.
        delimiter: as `check_delimiter` returns it; None to guess it from the line.

    Raises:
        DataError: if the file is empty.
    """
    with text_lines(path) as lines:
        first = next((line for line in lines if line.strip()), "")
    if not first:
        raise DataError(f"{path} is empty.")
    found = guess_delimiter(first, path) if delimiter is None else delimiter
    text, mark = separated([first], found)
    fields = next(csv.reader(text, delimiter=mark, skipinitialspace=True))
    return found, tuple(field.strip() for field in fields)


def read_csv(path: Path, layout: Layout, kind: Callable[[str], Kind | None], hint: str = "") -> Table:
    """Read a CSV file, compressed or not.

    Arguments:
        path: the file.
        layout: how it is laid out.
        kind: returns how to read a column, by its name; None leaves the column out.
        hint: advice about a text in a column of numbers, as the end of a sentence.

    Raises:
        DataError: if a line has more or fewer fields than there are columns, or a field of a column of numbers
            is neither a finite number nor missing; the message names the line and the column.
    """
    builders = _builders(layout, kind, hint)
    n_rows = 0
    with text_lines(path) as lines:
        for rows in _chunks(lines, layout, path):
            _fill(builders, rows, n_rows, layout, path)
            n_rows += len(rows)
        notes = _end_notes(lines, path)
    if n_rows == 0:
        raise DataError(f"{path} has no rows of data.")
    built = {name: builder.finish() for name, builder in builders.items()}
    return Table(str(path), built, n_rows, lambda row: _place(path, layout, row), notes, tuple(layout.names))


def csv_blocks(
    path: Path, layout: Layout, kind: Callable[[str], Kind | None], hint: str = "", notes: list[str] | None = None
) -> Iterator[Table]:
    """Yield a CSV file as tables of some rows each, so that it may be larger than memory.

    Arguments:
        path: the file.
        layout: how it is laid out.
        kind: as for `read_csv`; called again for each block, as `auto` is decided by the block alone.
        hint: as for `read_csv`.
        notes: a list to which notes are added at the end.

    Raises:
        DataError: as for `read_csv`, when the block is reached.
    """
    before = 0
    with text_lines(path) as lines:
        for rows in _chunks(lines, layout, path):
            builders = _builders(layout, kind, hint)
            _fill(builders, rows, before, layout, path)
            built = {name: builder.finish() for name, builder in builders.items()}
            yield Table(str(path), built, len(rows), lambda row, before=before: _place(path, layout, before + row))
            before += len(rows)
        if notes is not None:
            notes.extend(_end_notes(lines, path))


def count_rows(path: Path, layout: Layout) -> int:
    """Return the number of rows of data in a CSV file."""
    with text_lines(path) as lines:
        return sum(1 for _ in _rows(lines, layout, path))


def _end_notes(lines: Lines, path: Path) -> tuple[str, ...]:
    if not lines.last or lines.last.endswith(("\n", "\r")):
        return ()
    return (f"the last line of {path.name} ends without a newline: check that the file is complete",)


def _builders(layout: Layout, kind: Callable[[str], Kind | None], hint: str) -> dict[str, Builder]:
    return {name: builder(wanted, hint) for name in layout.names if (wanted := kind(name)) is not None}


def _fill(
    builders: Mapping[str, Builder], rows: Sequence[Sequence[str]], before: int, layout: Layout, path: Path
) -> None:
    """Add the fields of some rows to the columns; `before` rows were read before them."""
    _check_widths(rows, before, layout, path)
    columns = list(zip(*rows, strict=True))
    for name, fields in zip(layout.names, columns, strict=True):
        if name not in builders:
            continue
        try:
            builders[name].add(fields)
        except Fault as fault:
            raise DataError(f"{_place(path, layout, before + fault.row)}, column {name!r}: {fault}.") from None


def _rows(lines: Lines, layout: Layout, path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the number of the line on which each row of data ends, and its fields; blank lines are skipped."""
    text, mark = separated(lines, layout.delimiter)
    reader = csv.reader(text, delimiter=mark, skipinitialspace=True, strict=True)
    header, alone = layout.header, len(layout.names) == 1
    while True:
        first = reader.line_num + 1
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            opened = _open_quote(path, layout.delimiter, first, reader.line_num)
            if opened:
                raise DataError(f"{path}, line {opened}: a quote that opens here is never closed.") from None
            raise DataError(f"{path}, line {reader.line_num}: {error}.") from None
        if not row or not (alone or len(row) > 1 or row[0].strip()):
            continue
        if header:
            header = False
            continue
        yield reader.line_num, row


def _open_quote(path: Path, delimiter: str, first: int, last: int) -> int:
    """Return the line of the quote that opens within some lines and is not closed there; 0 if all are closed."""
    opened, begins, quoted = 0, True, False
    with text_lines(path) as lines:
        for number, line in enumerate(islice(lines, first - 1, last), start=first):
            for letter in line:
                if letter == '"' and (quoted or begins):
                    quoted, opened, begins = not quoted, number if not quoted else opened, quoted
                elif not quoted:
                    begins = letter in (delimiter, "\n", "\r") or (begins and letter == " ")
    return opened if quoted else 0


def _chunks(lines: Lines, layout: Layout, path: Path) -> Iterator[list[list[str]]]:
    size = max(1, _CHUNK_FIELDS // len(layout.names))
    rows = _rows(lines, layout, path)
    while chunk := [row for _, row in islice(rows, size)]:
        yield chunk


def _place(path: Path, layout: Layout, row: int) -> str:
    """Return where a row is. The file is read again: lines are not kept, and quoted fields may span several."""
    with text_lines(path) as lines:
        line, _ = next(islice(_rows(lines, layout, path), row, None))
    return f"{path}, line {line}"


def _check_widths(rows: Sequence[Sequence[str]], before: int, layout: Layout, path: Path) -> None:
    width = len(layout.names)
    if all(len(row) == width for row in rows):
        return
    row = next(place for place, fields in enumerate(rows) if len(fields) != width)
    raise DataError(
        f"{_place(path, layout, before + row)}: {len(rows[row])} fields instead of {width}; "
        f"the file is cut off there, or that line is wrong."
    )
