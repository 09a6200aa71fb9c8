"""Delimiters of CSV files: one character, or any number of blanks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from erasurehead.datasets._readers.files import suffix
from erasurehead.errors import invalid

BLANKS = " "
"""The delimiter of files whose fields are separated by any number of spaces and tabs."""

_NAMES = {"\t": "tabs", ";": "semicolons", "|": "bars", ",": "commas"}
_SAMPLED = 20  # lines from which the delimiter is guessed
_NAMED = {
    "comma": ",",
    "semicolon": ";",
    "tab": "\t",
    r"\t": "\t",
    "bar": "|",
    "pipe": "|",
    "blank": BLANKS,
    "blanks": BLANKS,
    "space": BLANKS,
    "spaces": BLANKS,
    "whitespace": BLANKS,
}
_FIELD = re.compile(r'"(?:[^"]|"")*"|\S+')
_QUOTED = re.compile(r'"[^"]*"')
_AT_QUOTES = re.compile(r'(?<=")[,;\t|]|[,;\t|](?= *")')
_DECIMAL = re.compile(r"(?<=\d),(?=\d+(?![\d.]))")
_OF_TEXTS = re.compile(rf"{_DECIMAL.pattern}|,(?=\s)")


def check_delimiter(delimiter: str | None) -> str | None:
    """Return a delimiter, given as a character or by name, as one character; None to detect it.

    >>> check_delimiter("tab"), check_delimiter(":")
    ('\\t', ':')

    Raises:
        InvalidArgument: if it cannot separate fields.
    """
    if delimiter is None:
        return None
    mark = _NAMED.get(delimiter.lower(), delimiter)
    if len(mark) != 1 or mark.isalnum() or mark in '".+-\r\n':
        raise invalid(
            "delimiter",
            "must be one character that stands between fields, or one of comma, semicolon, tab, bar, blanks",
            delimiter,
        )
    return mark


def guess_delimiter(lines: Sequence[str], path: Path) -> tuple[str, str]:
    """Guess the delimiter of lines, and return what to say if another would do as well.

    Marks that are in all lines, outside quotes, and equally often, come before others; of several, those at quotes, a
    tab, which texts hardly hold, and then the one that occurs most often in the first line. Where there is another
    mark, commas before decimals or a blank do not count: they are decimal commas, or those of texts. It is blanks if
    there is no mark, or only tabs, either behind columns that are aligned by spaces, or more of them in some lines, of
    as many fields.
    """
    bare = [_QUOTED.sub('""', line).strip(" \r\n") for line in lines if line.strip()][:_SAMPLED] or [""]
    alike = [mark for mark in _NAMES if len({line.count(mark) for line in bare}) == 1 and mark in bare[0]]
    alike = [mark for mark in alike if mark in _AT_QUOTES.findall(bare[0])] or alike
    marks = [mark for mark in alike or _NAMES if mark in bare[0]]
    named = suffix(path) == ".tsv"
    if not marks:
        return (BLANKS if len(bare[0].split()) > 1 else ","), ""
    text = (_OF_TEXTS if alike else _DECIMAL).sub("", bare[0]) if len(marks) > 1 else bare[0]
    best = max(marks, key=lambda mark: (mark == "\t" and (named or bool(alike)), text.count(mark)))
    if best == "\t" and not named:
        aligned = all("  " in line for line in bare)
        if aligned or (not alike and len({len(line.split()) for line in bare}) == 1):
            return BLANKS, ""
    other = next((mark for mark in alike if mark != best and mark in _DECIMAL.sub("", bare[0])), None)
    if other is None:
        return best, ""
    return best, (
        f"fields are taken to stand between {_NAMES[best]}, though all lines have as many {_NAMES[other]}, too "
        f"(--delimiter {_NAMES[other].removesuffix('s')} takes these)"
    )


def separated(lines: Iterable[str], delimiter: str, quoted: bool) -> tuple[Iterable[str], str]:
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
