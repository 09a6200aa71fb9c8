"""CSV files as tables: one streaming pass in bounded chunks, and errors that name the line at fault."""

from __future__ import annotations

import csv
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np

from erasurehead._internal.arrays import Array, ShortIntArray
from erasurehead._internal.plain_text import in_groups
from erasurehead.datasets._readers.decimals import if_decimal, with_points
from erasurehead.datasets._readers.fields import (
    COMMA,
    EXACT,
    TRUTHS,
    Fields,
    first_code,
    is_rounded,
    not_a_number,
    padded,
    parse,
)
from erasurehead.datasets._readers.files import Lines, text_lines
from erasurehead.datasets._readers.layouts import TableLayout, csv_reader
from erasurehead.datasets._readers.mixed_columns import Tally
from erasurehead.datasets._readers.table import Column, NumberColumn, Table, TextColumn, truths
from erasurehead.datasets._readers.values import TextCoder
from erasurehead.errors import DataError, UndeclaredText, counted

Kind: TypeAlias = Literal["number", "text", "auto", "label"]
"""How a column is read; `auto` and `label` become `number` or `text`, by all values that are not missing."""

_EMPTY = "leave the field empty if the value is missing"
_NO_ROW = "leave that row out, or fill it in, as every row needs its label"
_LONGEST = 1 << 27
"""The longest field, in letters; longer ones are taken for a quote that nobody has closed."""


_PLAIN = '; if quotes are letters like any others in this file, say so (--quotes none, quotes="none")'


def is_number(text: str) -> bool:
    """Return whether a text is a number, including infinity and NaN; `2020_01` is none, whatever Python makes of it."""
    try:
        float(text)
    except ValueError:
        return False
    return not in_groups(text)


class FieldError(Exception):
    """A field that cannot be used.

    Arguments:
        row: its row in the chunk.
        message: what is wrong.
        text: whether it is a text where there should be a number.
    """

    def __init__(self, row: int, message: str, text: bool = False) -> None:
        super().__init__(message)
        self.row = row
        self.text = text


class Mixed(Exception):
    """Columns of which the first values are numbers, and later ones are not: all are to be read as texts.

    Arguments:
        names: of the columns.
    """

    def __init__(self, names: set[str]) -> None:
        super().__init__(names)
        self.names = names


class Builder(ABC):
    """Gathers one column, chunk by chunk."""

    @abstractmethod
    def add(self, fields: Sequence[str]) -> None:
        """Add the fields of a chunk."""

    @abstractmethod
    def finish(self) -> Column:
        """Return the column."""


class _NumberBuilder(Builder):
    def __init__(self, layout: TableLayout, hint: str, missing: str = _EMPTY) -> None:
        self._parts: list[Array] = []
        self._commas = layout.decimal == ","
        self._none = layout.absent
        self._codes = [value for value in map(parse, layout.missing) if np.isfinite(value)]
        self._hint = hint
        self._missing = missing
        self._rounded = False
        self._code = ""
        self._truths: bool | None = None

    def add(self, fields: Sequence[str]) -> None:
        texts = with_points(fields) if self._commas else fields
        try:
            if texts is None or in_groups(texts):
                raise ValueError
            part = np.fromiter(map(float, texts), np.float64, len(texts))
        except ValueError:
            part = None
        if part is None or not np.isfinite(part).all():
            part = np.array([self._parse(row, field.strip()) for row, field in enumerate(fields)], dtype=np.float64)
        elif len(part):
            self._mix(0, fields[0].strip(), False)
        if len(large := np.flatnonzero(np.abs(part) >= EXACT)):
            self._rounded |= any(is_rounded(fields[row], float(part[row])) for row in large.tolist())
        self._code = self._code or first_code(fields)
        for code in self._codes:
            part[part == code] = np.nan
        self._parts.append(part)

    def _parse(self, row: int, field: str) -> float:
        if field in self._none:
            return np.nan
        if field in TRUTHS:
            self._mix(row, field, True)
            return TRUTHS[field]
        text = field
        if self._commas and is_number(field) and "." in field:
            raise FieldError(
                row,
                f"{field!r} has a decimal point, but the numbers of this file have decimal commas; write "
                "it with a comma, or say --decimal . if no column has them",
            )
        if self._commas and COMMA.fullmatch(field):
            text = field.replace(",", ".")
        if not is_number(text):
            commas = if_decimal(field) if self._hint else ""
            raise FieldError(row, f"{not_a_number(field, self._hint)}{commas}", text=True)
        self._mix(row, field, False)
        value = float(text)
        if np.isinf(value):
            raise FieldError(row, f"{field!r} is not a finite number; {self._missing}")
        return value

    def _mix(self, row: int, field: str, truth: bool) -> None:
        if self._truths is None:
            self._truths = truth
        elif self._truths != truth:
            kinds = ("a truth value", "numbers") if truth else ("a number", "truth values")
            fault = f"{field!r} is {kinds[0]} among {kinds[1]}; write all of them as numbers, such as 0 and 1"
            raise FieldError(row, fault, text=True)

    def finish(self) -> Column:
        values = np.concatenate(self._parts)
        return truths(values) if self._truths else NumberColumn(values, self._rounded, self._code)


class _PointCoder(TextCoder):
    """Codes of texts in which numbers have decimal commas: they are written with points."""

    def __missing__(self, raw: str) -> int:
        text = raw.strip()
        if not COMMA.fullmatch(text):
            return super().__missing__(raw)
        code = self[text.replace(",", ".")]
        self[raw] = code
        return code


class _TextBuilder(Builder):
    def __init__(self, layout: TableLayout) -> None:
        self._coder = (_PointCoder if layout.decimal == "," else TextCoder)(layout.absent)
        self._parts: list[ShortIntArray] = []

    def add(self, fields: Sequence[str]) -> None:
        self._parts.append(np.fromiter(map(self._coder.__getitem__, fields), np.int32, len(fields)))

    def finish(self) -> Column:
        return TextColumn(np.concatenate(self._parts), self._coder.texts())


class _AutoBuilder(Builder):
    """Counts missing values until there is a value, whose kind is then taken for that of the column."""

    def __init__(self, layout: TableLayout, label: bool) -> None:
        self._layout = layout
        self._none = layout.absent
        self._label = label
        self._missing = 0
        self._builder: Builder | None = None

    def add(self, fields: Sequence[str]) -> None:
        if self._label and not isinstance(self._builder, _TextBuilder) and any(map(padded, fields)):
            if self._builder is not None:
                raise FieldError(0, "codes begin with a zero", text=True)
            self._builder = self._begin(number=False)
        if self._builder is None:
            first = next((field for field in map(str.strip, fields) if field not in self._none), None)
            if first is None:
                self._missing += len(fields)
                return
            commas = self._layout.decimal == ","
            self._builder = self._begin(is_number(first) or (commas and COMMA.fullmatch(first) is not None))
        self._builder.add(fields)

    def _begin(self, number: bool) -> Builder:
        numbers = _NumberBuilder(self._layout, "", _NO_ROW if self._label else _EMPTY)
        builder = numbers if number else _TextBuilder(self._layout)
        if self._missing:
            builder.add(("",) * self._missing)
        return builder

    def finish(self) -> Column:
        return (self._builder or self._begin(number=True)).finish()


def builder(kind: Kind, layout: TableLayout, hint: str) -> Builder:
    """Return the builder of a column that is read in a certain way.

    Arguments:
        kind: how the column is read.
        layout: how the file is laid out.
        hint: advice about a text in a column of numbers, as the end of a sentence.
    """
    if kind == "number":
        return _NumberBuilder(layout, hint)
    return _TextBuilder(layout) if kind == "text" else _AutoBuilder(layout, kind == "label")


_LOOKED_AT = 50  # first rows in which a column's first value is looked for
_CHUNK_FIELDS = 400_000  # fields held as Python strings at a time: about 25 MB


def read_csv(path: Path, layout: TableLayout, kind: Callable[[str], Kind | None]) -> Table:
    """Read a CSV file, compressed or not.

    Arguments:
        path: the file.
        layout: how it is laid out.
        kind: returns how to read a column, by its name; None leaves the column out.

    Raises:
        Mixed: as for `csv_blocks`.
        DataError: if a line has more or fewer fields than there are columns, or a field of a column of numbers
            is neither a finite number nor missing; the message names the line and the column.
    """
    notes = list(layout.notes)
    table = next(csv_blocks(path, layout, kind, notes=notes, whole=True), None)
    if table is None:
        raise DataError(f"{path} has no rows of data.")
    return replace(table, notes=tuple(notes), all_names=layout.names)


def csv_blocks(
    path: Path,
    layout: TableLayout,
    kind: Callable[[str], Kind | None],
    hint: str = "",
    notes: list[str] | None = None,
    whole: bool = False,
) -> Iterator[Table]:
    """Yield a CSV file as tables of some rows each, so that it may be larger than memory.

    Arguments:
        path: the file.
        layout: how it is laid out.
        kind: as for `read_csv`; called again for each block, as `auto` is decided by the block alone.
        hint: advice about a text in a column of numbers, as the end of a sentence.
        notes: a list to which notes are added at the end.
        whole: whether to yield one table of all rows, if there are any.

    Raises:
        DataError: as for `read_csv`, when the block is reached.
        Mixed: if the values of a column of kind `auto` begin with numbers within the block, and go on with texts.
    """
    before, n_rows, builders = 0, 0, dict[str, Builder]()

    def table() -> Table:
        columns = {name: builder.finish() for name, builder in builders.items()}
        return Table(str(path), columns, n_rows, lambda row, before=before: _place(path, layout, before + row))

    with text_lines(path) as lines:
        for rows in _chunks(lines, layout, path):
            if not (whole and builders):
                builders = {
                    name: builder(how, layout, hint) for name in layout.names if (how := kind(name)) is not None
                }
            _check_widths(rows, before + n_rows, layout, path)
            _fill(builders, rows, before + n_rows, layout, path, hint)
            n_rows += len(rows)
            if not whole:
                yield table()
                before, n_rows = before + n_rows, 0
        if notes is not None:
            notes.extend(_end_notes(lines, path))
    if n_rows:
        yield table()


def lines_of_table(path: Path, layout: TableLayout) -> Iterator[tuple[int, list[str]]]:
    """Yield the number of the line on which each row of a CSV file ends, and its fields, as they are written.

    Raises:
        DataError: if a row has more or fewer fields than the table has columns, or is no CSV.
    """
    with text_lines(path) as lines:
        for row, (line, fields) in enumerate(_rows(lines, layout, path, advice="")):
            _check_widths([fields], row, layout, path)
            yield line, fields


def first_values(path: Path, layout: TableLayout) -> dict[str, str]:
    """Return the first text of each column that is not missing, among the first rows of a CSV file."""
    values: dict[str, str] = {}
    with text_lines(path) as lines:
        for _, row in islice(_rows(lines, layout, path), _LOOKED_AT):
            for name, field in zip(layout.names, row, strict=False):
                if name not in values and (text := field.strip()) not in layout.absent:
                    values[name] = text
    return values


def count_rows(path: Path, layout: TableLayout) -> int:
    """Return the number of rows of data in a CSV file."""
    with text_lines(path) as lines:
        return sum(1 for _ in _rows(lines, layout, path))


def _end_notes(lines: Lines, path: Path) -> tuple[str, ...]:
    notes: list[str] = []
    if lines.n_empty:
        notes.append(f"{counted('row', lines.n_empty)} at the end of {path.name} left out, as nothing is in any field")
    if lines.last and not lines.last.endswith(("\n", "\r")):
        notes.append(f"the last line of {path.name} ends without a newline: check that the file is complete")
    return tuple(notes)


def _fill(
    builders: Mapping[str, Builder],
    rows: Fields,
    before: int,
    layout: TableLayout,
    path: Path,
    hint: str,
) -> None:
    """Add the fields of some rows to the columns; `before` rows were read before them."""
    columns = list(zip(*rows, strict=True))
    mixed: set[str] = set()
    for name, fields in zip(layout.names, columns, strict=True):
        if name not in builders:
            continue
        try:
            builders[name].add(fields)
        except FieldError as fault:
            if fault.text and isinstance(builders[name], _AutoBuilder):
                mixed.add(name)
                continue
            complaint = f"{_place(path, layout, before + fault.row)}, column {name!r}: {fault}."
            if fault.text:
                among = _among_numbers(path, layout, name, not hint)
                raise (UndeclaredText if hint else DataError)(among or complaint) from None
            raise DataError(complaint) from None
    if mixed:
        raise Mixed(mixed)


def _among_numbers(path: Path, layout: TableLayout, name: str, model: bool) -> str:
    """Return what to say of a column of numbers with a few texts; empty if it holds more of them, or the file ends."""
    tally = Tally()
    try:
        for block in csv_blocks(path, layout, lambda other: "text" if other == name else None):
            tally.add(block, name)
    except DataError:
        return ""
    return tally.refusal(name, True, model) if tally.mostly_numbers else ""


def _rows(lines: Lines, layout: TableLayout, path: Path, advice: str = _PLAIN) -> Iterator[tuple[int, list[str]]]:
    """Yield the number of the line on which each row of data ends, and its fields; blank lines are skipped.

    So are rows at the end with nothing in any of several fields, as spreadsheets export them.
    """
    for _ in islice(lines, layout.skip):
        pass
    if csv.field_size_limit() < _LONGEST:
        csv.field_size_limit(_LONGEST)  # Python has one limit for all readers; its default refuses texts of some pages
    reader = csv_reader(lines, layout)
    width = len(layout.names)
    empty: list[tuple[int, list[str]]] = []
    while True:
        first = layout.skip + reader.line_num + 1
        try:
            row = next(reader)
        except StopIteration:
            lines.n_empty = len(empty)
            return
        except csv.Error as error:
            raise _unreadable(path, layout, first, layout.skip + reader.line_num, error, advice) from None
        if len(row) != width:
            if not row or (len(row) == 1 and not row[0].strip()):
                continue
            while len(row) > width and not row[-1].strip():
                row.pop()  # a delimiter at the end of the line
        if len(row) > 1 and not row[0].strip() and not any(map(str.strip, row)):
            empty.append((layout.skip + reader.line_num, row))
            continue
        if empty:
            yield from empty
            empty = []
        yield layout.skip + reader.line_num, row


def _unreadable(path: Path, layout: TableLayout, first: int, last: int, error: csv.Error, advice: str) -> DataError:
    """Return the error for a row, on some lines, that Python's CSV reader refuses."""
    with text_lines(path) as lines:
        row = list(islice(lines, first - 1, last))
    if opened := _open_quote(row, layout.delimiter):
        return DataError(f"{path}, line {first + opened - 1}: a quote that opens here is never closed{advice}.")
    if sum(map(len, row)) > _LONGEST:
        return DataError(f"{path}, line {first}: a field has more than {_LONGEST:,} letters{advice}.")
    if any('"' in line for line in row):
        return DataError(
            f"{path}, line {last}: a quote within a quoted field is neither written twice nor the field's end; if such "
            f"quotes stand behind a backslash, say so (--quotes backslash){advice}."
        )
    return DataError(f"{path}, line {last}: {error}.")


def _open_quote(lines: Sequence[str], delimiter: str) -> int:
    """Return the number of the line, from 1, with a quote that opens there and is never closed; 0 if all are closed."""
    opened, begins, quoted = 0, True, False
    for number, line in enumerate(lines, start=1):
        for letter in line:
            if letter == '"' and (quoted or begins):
                quoted, opened, begins = not quoted, number if not quoted else opened, quoted
            elif not quoted:
                begins = letter in (delimiter, "\n", "\r") or (begins and letter == " ")
    return opened if quoted else 0


def _chunks(lines: Lines, layout: TableLayout, path: Path) -> Iterator[list[list[str]]]:
    size = max(1, _CHUNK_FIELDS // len(layout.names))
    rows = _rows(lines, layout, path)
    while chunk := [row for _, row in islice(rows, size)]:
        yield chunk


def _place(path: Path, layout: TableLayout, row: int) -> str:
    """Return where a row is. The file is read again: lines are not kept, and quoted fields may span several."""
    with text_lines(path) as lines:
        line, _ = next(islice(_rows(lines, layout, path), row, None))
    return f"{path}, line {line}"


def _check_widths(rows: Fields, before: int, layout: TableLayout, path: Path) -> None:
    width = len(layout.names)
    if all(len(row) == width for row in rows):
        return
    row = next(place for place, fields in enumerate(rows) if len(fields) != width)
    comment = rows[row][0].startswith("#")
    why = "comments may only stand before the table" if comment else "the file is cut off there, or that line is wrong"
    if len(rows[row]) > width and layout.delimiter == "," and not comment:
        why += ", or its numbers have commas where points should be"
    raise DataError(f"{_place(path, layout, before + row)}: {len(rows[row])} fields instead of {width}; {why}.")
