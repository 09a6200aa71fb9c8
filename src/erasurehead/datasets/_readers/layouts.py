"""How a text table is laid out: what stands before it, its delimiter, names, quotes and decimal marks."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any
from unicodedata import normalize

from erasurehead.datasets._readers.decimals import columns_of, decimal_mark, grouped_points
from erasurehead.datasets._readers.delimiters import guess_delimiter, separated
from erasurehead.datasets._readers.dialects import Decimal, Dialect, Quotes
from erasurehead.datasets._readers.fields import MISSING, Fields, absent, parse
from erasurehead.datasets._readers.files import text_lines
from erasurehead.datasets._readers.headers import HeaderVerdict, verdict
from erasurehead.datasets._readers.index_columns import named, unnamed
from erasurehead.errors import DataError, counted, invalid

_LETTERS, _LINES = 1 << 18, 20  # at least as much of a file is read to detect its layout, if there is as much
_ROWS, _FIELDS = 500, 50_000  # rows by whose values it is detected, but five at least, and how many fields they have
_MOST_TITLES = 20  # lines before the table
_DECLARED = re.compile(r"sep=(.)\s*", re.IGNORECASE)
"""The first line with which spreadsheets declare the delimiter."""
_NAME = re.compile(r"(?!units?\b)\D*[^\W\d]", re.IGNORECASE)
"""How a column's name in a comment begins: with a letter before any digit, and not as a line of units does."""
_ESCAPED = re.compile(r'\\(["\\])')
_AUTO = Dialect()


@dataclass(frozen=True)
class TableLayout:
    """How a text table is laid out.

    Arguments:
        names: the columns' names, in order.
        header: whether the file holds them.
        delimiter: one character; a space means any number of spaces and tabs.
        skip: number of lines before the first row of data.
        decimal: what stands before decimals.
        quotes: how quotes within quoted fields are written.
        missing: texts that stand for a missing value; see `absent`.
        notes: what was decided that a user may want otherwise.
    """

    names: tuple[str, ...]
    header: bool = True
    delimiter: str = ","
    skip: int = 0
    decimal: Decimal = "."
    quotes: Quotes = "doubled"
    missing: tuple[str, ...] = ()
    notes: tuple[str, ...] = field(default=(), compare=False)

    @property
    def absent(self) -> frozenset[str]:
        """All texts that stand for a missing value: the usual ones, too, unless the empty text was named."""
        return absent(self.missing)


def look(path: Path, dialect: Dialect = _AUTO, alike: Decimal | None = None) -> TableLayout:
    """Detect the layout of a text table from its beginning.

    - Before the table there may be a line such as `sep=;`, comments that begin with `#`, and titles: lines of fewer
      fields than all that follow.
    - Whether the first line holds names is decided by what only that line has: see `headers.verdict`. Without names the
      columns are called `1`, `2`, ... The first columns of a header may have no name: see `index_columns`. So may the
      last ones if they hold hardly anything, as behind a delimiter at the end of each line.
    - Decimal commas are seen in columns of numbers: see `decimals.decimal_mark`.

    Arguments:
        path: of the file.
        dialect: what need not be detected.
        alike: the decimal mark of the file that a model was trained on, where this one has no evidence of one.

    Raises:
        DataError: if the file is empty, or a column has no name or the same as another.
        InvalidArgument: if the names are not as many as the columns.
    """
    lines, whole = _beginning(path)
    if not any(line.strip() for line in lines):
        raise DataError(f"{path} is empty.")
    return _Look(path, dialect, lines, whole).layout(alike)


def n_fields(path: Path, dialect: Dialect) -> int:
    """Return how many fields the lines of a text table have.

    Raises:
        DataError: if the file is empty.
    """
    return len(look(path, replace(dialect, header=False, names=())).names)


def _prepared(lines: Iterable[str], layout: TableLayout) -> tuple[Iterable[str], str]:
    """Return lines for Python's CSV reader, and its delimiter."""
    if layout.quotes == "backslash":
        lines = map(_doubled, lines)
    return separated(lines, layout.delimiter, layout.quotes != "none")


def _doubled(line: str) -> str:
    return _ESCAPED.sub(lambda match: '""' if match[1] == '"' else "\\", line) if "\\" in line else line


def csv_reader(lines: Iterable[str], layout: TableLayout) -> Any:
    """Return Python's CSV reader of lines: an iterator over rows, with `line_num`."""
    text, mark = _prepared(lines, layout)
    quoting = csv.QUOTE_NONE if layout.quotes == "none" else csv.QUOTE_MINIMAL
    return csv.reader(text, delimiter=mark, skipinitialspace=True, strict=True, quoting=quoting)


def _beginning(path: Path) -> tuple[list[str], bool]:
    """Return the first lines of a file, and whether they are all."""
    beginning: list[str] = []
    size = 0
    with text_lines(path) as lines:
        for line in lines:
            beginning.append(line)
            size += len(line)
            if size > _LETTERS and len(beginning) >= _LINES:
                return beginning, False
    return beginning, True


@dataclass(frozen=True)
class _Rows:
    """Rows from some line on: their fields, the number of the line on which each ends, and whether all were read."""

    layout: TableLayout
    start: int
    fields: list[list[str]]
    ends: list[int]
    sound: bool

    @property
    def width(self) -> int:
        """The number of fields of all rows but the first; 0 if they differ."""
        widths = {len(row) for row in self.fields[1:] or self.fields}
        return widths.pop() if len(widths) == 1 else 0

    @property
    def even(self) -> bool:
        """Whether all rows have one width, but for a header without the name of an index, or a last delimiter."""
        first, more = self.fields[0], len(self.fields[0]) - self.width
        if not self.sound or not self.width or abs(more) > 1:
            return False
        if more < 0:
            return not any(row[-1].strip() for row in self.fields[1:]) or (
                _all_texts(first) and not _all_texts(self.fields[1])
            )
        return not more or not first[-1].strip()


class _Look:
    def __init__(self, path: Path, dialect: Dialect, lines: Sequence[str], whole: bool) -> None:
        self.path, self.dialect, self.lines, self.whole = path, dialect, lines, whole
        self.notes: list[str] = []

    def layout(self, alike: Decimal | None) -> TableLayout:
        start, declared = 0, self.dialect.delimiter
        if (declaration := _DECLARED.fullmatch(self.lines[0])) and len(self.lines) > 1:
            start, declared = 1, declared or declaration[1]
        start, comment = self._behind_comments(start, declared)
        rows = self._behind_titles(self._rows(start, declared), declared)
        if not declared and (note := guess_delimiter(self.lines[rows.start :], self.path)[1]):
            self.notes.append(note)
        if rows.fields == [[""]]:
            raise DataError(
                f"{self.path}, line {start + 1}: a quote ends within a field, if {rows.layout.delimiter!r} stands "
                "between fields; name another delimiter (--delimiter), or say that quotes are letters (--quotes none)."
            )
        first, below = [text.strip() for text in rows.fields[0]], rows.fields[1:]
        commented = self._names_in(comment, rows) if comment else []
        if commented:
            first, below = commented, rows.fields
        below = _of_width(below, rows.width or len(first))
        decision = self._verdict(first, below, bool(commented), rows.ends[0])
        first = _adjusted(first, below, decision.header)
        below = _of_width(below, len(first))
        data = below if decision.header else [first, *below]
        names = self._names(first, data, decision, rows.ends[0])
        decimal = self._decimal(data, alike)
        if decimal == "." and self.dialect.decimal is None and alike is None and rows.layout.delimiter in ";\t":
            self._refuse_grouped(names, data)
        skip = rows.ends[0] if decision.header and not commented else rows.start
        return TableLayout(
            names,
            decision.header,
            rows.layout.delimiter,
            skip,
            decimal,
            rows.layout.quotes,
            self.dialect.missing,
            tuple(self.notes),
        )

    def _behind_comments(self, start: int, delimiter: str | None) -> tuple[int, str]:
        """Return where the lines go on behind comments, and the last comment, which may hold the names."""
        place = start
        while place < len(self.lines) and (self.lines[place].startswith("#") or not self.lines[place].strip()):
            place += 1
        comments = [line for line in self.lines[start:place] if line.startswith("#")]
        if place == len(self.lines) or not comments:
            return start, ""
        rows = self._rows(place, delimiter)
        cells = len(_parse(comments, rows.layout, True)[0][0])
        if len(comments) == 1 and cells == len(rows.fields[0]) > 1 and not rows.even:
            return start, ""
        none = self.dialect.header is False or _holds_names(rows)
        naming = [] if none else [line for line in comments if self._names_in(line, rows)]
        passed = len(comments) - bool(naming)
        if passed:
            self.notes.append(f"{counted('line', passed)} of comments before the table left out")
        return place, naming[-1] if naming else ""

    def _names_in(self, comment: str, rows: _Rows) -> list[str]:
        """Return the names in a comment, if they are as many as there are columns and nothing but names."""
        names = [name.strip() for name in _parse([comment.lstrip("#")], rows.layout, True)[0][0]]
        below = _of_width(rows.fields, len(rows.fields[0]))
        alike = len(names) == len(rows.fields[0]) > 1 and all(map(_NAME.match, names[not names[0] :]))
        return names if alike and verdict(names, below).header else []

    def _rows(self, start: int, delimiter: str | None) -> _Rows:
        """Return the rows from a line on, with the quotes with which they can be read."""
        mark = guess_delimiter(self.lines[start:], self.path)[0] if delimiter is None else delimiter
        attempts: list[_Rows] = []
        for quotes in ("doubled", "backslash") if self.dialect.quotes is None else (self.dialect.quotes,):
            layout = TableLayout((), delimiter=mark, quotes=quotes)
            fields, ends, sound = _parse(self.lines[start:], layout, self.whole)
            attempts.append(_Rows(layout, start, fields, [start + end for end in ends], sound))
            if sound:
                return attempts[-1]
        return attempts[0]

    def _behind_titles(self, rows: _Rows, delimiter: str | None) -> _Rows:
        """Return the rows behind titles: lines of fewer fields than all that follow, or with nothing in others."""
        start = rows.start
        if rows.even and rows.width > 1 and not _is_title(rows.fields, rows.width):
            return rows
        filled = [place for place in range(start, len(self.lines)) if self.lines[place].strip()]
        for place in filled[1 : _MOST_TITLES + 1]:
            tried = self._rows(place, delimiter)
            width = tried.width
            if not tried.even or width < 2 or len(tried.fields) < 2 or _is_title(tried.fields, width, width - 1):
                continue
            if not any(text.strip() for text in tried.fields[0]):
                continue
            before = _parse([line for line in self.lines[start:place] if line.strip()], tried.layout, True)[0]
            titles = [row for row in before if any(text.strip() for text in row)]
            single = all(sum(map(bool, row)) == 1 for row in titles)
            alone = single and (width > 2 or self.dialect.header is not None)
            if titles and (alone or _holds_names(tried)) and all(_few(row, width) for row in titles):
                shown = " ".join(text.strip() for text in titles[0] if text.strip())
                self.notes.append(
                    f"{counted('line', len(titles))} before the table left out as "
                    f"{'a title' if len(titles) == 1 else 'titles'}: {shown[:60]!r}"
                )
                return tried
        return rows

    def _verdict(self, first: list[str], rows: list[list[str]], commented: bool, line: int) -> HeaderVerdict:
        if self.dialect.header is not None:
            return HeaderVerdict(self.dialect.header, "", True)
        if commented:
            self.notes.append("the columns' names are those of the comment before the table (--header no skips it)")
            return HeaderVerdict(True, "", True)
        if self._quoted_alone(line, len(first)):
            decision = HeaderVerdict(True, "only its fields are quoted")
        else:
            first = _adjusted(first, rows, True)
            decision = verdict(first, _of_width(rows, len(first)))
        if decision.header and not decision.obvious:
            self.notes.append(
                f"line {line} is taken for the header, as {decision.reason} (--header no reads it as data)"
            )
        return decision

    def _quoted_alone(self, line: int, count: int) -> bool:
        """Return whether all fields of a line are quoted, and none of any other."""
        return self.lines[line - 1].count('"') == 2 * count and not any('"' in text for text in self.lines[line:])

    def _names(self, first: list[str], rows: list[list[str]], decision: HeaderVerdict, line: int) -> tuple[str, ...]:
        given = self.dialect.names
        if given:
            if len(given) != len(first):
                raise invalid(
                    "names",
                    f"must name all {len(first)} columns of {self.path.name}",
                    list(given),
                    f"its first line is {', '.join(first)[:200]}",
                )
            if decision.reason and not decision.header:
                self.notes.append(f"line {line} is data, as {decision.reason} (--header yes leaves it out)")
            elif decision.reason and decision.obvious:
                self.notes.append(f"line {line} is taken for the header, as {decision.reason}; other names were given")
            return given
        behind = _empty_behind(rows, len(first), 0.5 if decision.header else 0.0)
        if not decision.header:
            names = tuple(unnamed(place) if place in behind else str(place + 1) for place in range(len(first)))
            reason = f" (line {line} is data, as {decision.reason}; --header yes takes it for their names)"
            self.notes.append(
                f"no header: the columns are called 1 to {len(names) - len(behind)}{reason if decision.reason else ''}"
            )
            return names
        names = named([normalize("NFC", name) for name in first])
        names = tuple(unnamed(place) if not name and place in behind else name for place, name in enumerate(names))
        earlier: set[str] = set()
        for place, name in enumerate(names):
            if name and name not in earlier:
                earlier.add(name)
            else:
                flaw = f"has the same name {name!r} as an earlier one" if name else "has no name"
                raise DataError(
                    f"{self.path}, line {line}: column {place + 1} {flaw}; name the columns yourself (--names), or, if "
                    "that line is data, say that there is no header (--header no)."
                )
        return names

    def _refuse_grouped(self, names: Sequence[str], rows: Fields) -> None:
        for name, column in zip(names, columns_of(rows), strict=False):  # without rows there are no columns
            if text := grouped_points(column):
                raise DataError(
                    f"{self.path}, column {name!r}: the point in {text!r} may stand before decimals or between "
                    "thousands, as other numbers of the column are whole and below 1000; write the numbers without "
                    "points between thousands, or say that points stand before decimals (--decimal .)."
                )

    def _decimal(self, rows: list[list[str]], alike: Decimal | None) -> Decimal:
        if self.dialect.decimal is not None and alike != ",":
            return self.dialect.decimal
        mark, seen = decimal_mark(columns_of(rows))
        if mark == "," or (not mark and alike == ","):
            if seen:
                self.notes.append(f"numbers have decimal commas, such as {seen!r} (--decimal . if they are none)")
            return ","
        return "."


def _of_width(rows: Fields, width: int) -> list[list[str]]:
    """Return the first rows that have so many fields."""
    alike = ([text.strip() for text in row] for row in rows if len(row) == width)
    return list(islice(alike, max(5, min(_ROWS, _FIELDS // max(1, width)))))


def _holds_names(rows: _Rows) -> bool:
    """Return whether the first row holds names, if nothing is known but the rows."""
    below = _of_width(rows.fields[1:], rows.width)
    first = _adjusted([text.strip() for text in rows.fields[0]], below, True)
    return verdict(first, _of_width(below, len(first))).header


def _is_title(rows: Fields, width: int, most: int = 1) -> bool:
    """Return whether the first row is a title above a header, as spreadsheets export it: most fields are empty."""
    if width < 2 or not rows[0][0].strip() or sum(bool(text.strip()) for text in rows[0]) > most:
        return False
    full = (row for row in rows[1:_MOST_TITLES] if len(row) == width and all(text.strip() for text in row))
    return _all_texts(next(full, [""]))


def _all_texts(row: Sequence[str]) -> bool:
    """Return whether no field is empty, or a number."""
    return all(text.strip() and parse(text) != parse(text) for text in row)


def _few(row: Sequence[str], width: int) -> bool:
    filled = [text for text in row if text.strip()]
    return len(filled) < width and (not filled or any(parse(text) != parse(text) for text in filled))


def _adjusted(first: list[str], rows: Fields, header: bool) -> list[str]:
    """Return the first line with as many fields as the others.

    A header may lack the name of the first column, as in files of R, or have a delimiter behind the last one.
    """
    width = len(rows[0]) if rows else len(first)
    if header and len(first) == width - 1 and not all(not row[-1] for row in rows):
        if _all_texts(first):
            return ["", *first]
    elif len(first) == width - 1 and rows:
        return [*first, ""]
    elif len(first) == width + 1 and not first[-1]:
        return first[:-1]
    return first


def _empty_behind(rows: Fields, width: int, most: float) -> set[int]:
    """Return the last columns of which at most a share of the values is there."""
    places: set[int] = set()
    for place in range(width - 1, 0, -1):
        filled = sum(row[place] not in MISSING for row in rows if len(row) == width)
        if not rows or filled > most * len(rows):
            break
        places.add(place)
    return places


def _parse(lines: Sequence[str], layout: TableLayout, whole: bool) -> tuple[list[list[str]], list[int], bool]:
    """Return the fields of rows that are not blank, the lines on which they end, and whether no quote was wrong."""
    reader = csv_reader(lines, layout)
    rows: list[list[str]] = []
    ends: list[int] = []
    try:
        for row in reader:
            if len(row) > 1 or (row and row[0].strip()):
                rows.append(row)
                ends.append(reader.line_num)
    except csv.Error:
        cut = not whole and reader.line_num >= len(lines)  # the sample ends within a quoted field
        return rows or [[""]], ends or [1], cut and bool(rows)
    return rows or [[""]], ends or [1], True
