"""Texts from data, without what steers a terminal or leads its reader astray."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Categories of Unicode: controls, formats (bidirectional overrides, zero widths, tags), surrogates, separators."""

_BYTES = range(0xDC80, 0xDD00)  # what stands for bytes of a file's name that are not UTF-8


def visible(text: str, keep: str = "\n") -> str:
    r"""Return a text in which every character can be seen: others are written as escapes.

    Arguments:
        text: any text, such as the name of a column.
        keep: characters that are left as they are.

    >>> print(visible("a\x1b[31m\u202eb"))
    a\x1b[31m\u202eb
    """
    if text.isprintable():
        return text
    return "".join(_escape(letter) if invisible(letter) and letter not in keep else letter for letter in text)


def invisible(letter: str) -> bool:
    """Return whether a character cannot be seen, but may do something."""
    return unicodedata.category(letter) in _INVISIBLE


def _escape(letter: str) -> str:
    if ord(letter) in _BYTES:
        return f"\\x{ord(letter) - 0xDC00:02x}"
    return letter.encode("unicode_escape").decode("ascii")


def in_groups(texts: Iterable[str]) -> bool:
    """Return whether any of some texts has digits in groups, as only Python writes numbers: see `float`.

    In a data file, what Python reads as `202001` may be a name: `2020_01`.

    >>> in_groups(["1000", "2020_01"]), float("2020_01")
    (True, 202001.0)
    """
    return "_" in "".join(texts)
