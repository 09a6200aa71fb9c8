"""Delimiters of CSV files: one character, or any number of blanks."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from erasurehead.datasets.readers.files import suffix
from erasurehead.errors import invalid

BLANKS = " "
"""The delimiter of files whose fields are separated by any number of spaces and tabs."""

_GUESSED = (",", ";", "\t", "|")
_NAMED = {
    "comma": ",", "semicolon": ";", "tab": "\t", r"\t": "\t", "bar": "|", "pipe": "|", "blank": BLANKS,
    "blanks": BLANKS, "space": BLANKS, "spaces": BLANKS, "whitespace": BLANKS,
}  # fmt: skip
_FIELD = re.compile(r'"(?:[^"]|"")*"|\S+')


def check_delimiter(delimiter: str | None) -> str | None:
    """Return a delimiter, given as a character or by name, as one character; None to detect it.

    >>> check_delimiter("tab"), check_delimiter(":")
    ('\\t', ':')

    Raises:
        InvalidArgument: if it cannot separate fields.
    """
    if delimiter is None:
        return None
    found = _NAMED.get(delimiter.lower(), delimiter)
    if len(found) != 1 or found.isalnum() or found in '".+-\r\n':
        raise invalid(
            "delimiter",
            "must be one character that stands between fields, or one of comma, semicolon, tab, bar, blanks",
            delimiter,
        )
    return found


def guess_delimiter(line: str, path: Path) -> str:
    """Guess the delimiter of a line: comma, semicolon, tab or bar, whichever occurs most often.

    It is blanks if the line has none of these, or only tabs behind columns that are aligned by spaces.
    """
    found = max(_GUESSED, key=line.count)
    aligned = found == "\t" and suffix(path) != ".tsv" and "  " in line.strip()
    return BLANKS if (not line.count(found) or aligned) and len(line.split()) > 1 else found


def separated(lines: Iterable[str], delimiter: str) -> tuple[Iterable[str], str]:
    """Return lines for Python's CSV reader, and its delimiter; any number of blanks is one delimiter."""
    return (map(_tabbed, lines), "\t") if delimiter == BLANKS else (lines, delimiter)


def _tabbed(line: str) -> str:
    """Return a line with one tab between its fields; quoted ones may hold blanks."""
    return "\t".join(_FIELD.findall(line) if '"' in line else line.split()) + "\n"
