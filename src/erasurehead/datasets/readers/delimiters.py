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
_QUOTED = re.compile(r'"[^"]*"')
_DECIMAL = re.compile(r"(?<=\d),(?=\d)")


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
    """Guess the delimiter of a line: comma, semicolon, tab or bar, whichever occurs most often outside quotes.

    It is blanks if the line has none of these, or only tabs behind columns that are aligned by spaces. Commas between
    digits do not count where another one occurs: they are decimal commas.
    """
    bare = _QUOTED.sub("", line)
    others = any(bare.count(mark) for mark in _GUESSED[1:])
    found = max(_GUESSED, key=(_DECIMAL.sub("", bare) if others else bare).count)
    aligned = found == "\t" and suffix(path) != ".tsv" and "  " in line.strip()
    return BLANKS if (not bare.count(found) or aligned) and len(line.split()) > 1 else found


def separated(lines: Iterable[str], delimiter: str, quoted: bool = True) -> tuple[Iterable[str], str]:
    """Return lines for Python's CSV reader, and its delimiter; any number of blanks is one delimiter.

    Arguments:
        lines: of the file.
        delimiter: as `check_delimiter` returns it.
        quoted: whether fields may be quoted.
    """
    return (map(_tabbed if quoted else _split, lines), "\t") if delimiter == BLANKS else (lines, delimiter)


def _split(line: str) -> str:
    return "\t".join(line.split()) + "\n"


def _tabbed(line: str) -> str:
    """Return a line with one tab between its fields; quoted ones may hold blanks."""
    return "\t".join(_FIELD.findall(line) if '"' in line else line.split()) + "\n"
