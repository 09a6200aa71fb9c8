"""Decimal commas: whether the numbers of a text have them, and what may be mistaken for one."""

from __future__ import annotations

import re
from collections.abc import Sequence

from erasurehead.datasets._readers.fields import COMMA, MISSING, Fields, number, parse

_THOUSANDS = re.compile(r"[-+]?[1-9]\d{0,2}([.,]\d{3})+")
"""What may be thousands apart as well as a decimal fraction of three digits, such as `1,234` and `1.234`."""

_GROUPED = re.compile(r"[-+]?\d{1,3}(\.\d{3})+,\d+")
"""A number with points between thousands and a decimal comma."""

MOST_STRAYS = 0.1
"""A column holds numbers if at most this share of its values are something else."""


def columns_of(rows: Fields) -> list[list[str]]:
    """Return the values of each column that are not missing, from rows of equal length."""
    return [[text for text in column if text not in MISSING] for column in zip(*rows, strict=True)]


def decimal_mark(columns: Fields) -> tuple[str, str]:
    """Return what the evidence says the decimal mark is, and a number that has it; two empty texts if there is none.

    Only columns of numbers count. `1,234` is no evidence, as its comma may stand between thousands; nor are numbers
    with both marks, or where columns differ.
    """
    marks: dict[str, str] = {}
    for column in columns:
        if not any("," in text or "." in text for text in column):
            continue
        numbers = [text for text in column if number(text) == number(text) or _GROUPED.fullmatch(text)]
        if len(numbers) < (1.0 - MOST_STRAYS) * len(column):
            continue
        for text in numbers:
            if "," in text and not _THOUSANDS.fullmatch(text):
                marks.setdefault(",", text)
            elif "." in text and not _THOUSANDS.fullmatch(text):
                marks.setdefault(".", text)
    return next(iter(marks.items())) if len(marks) == 1 else ("", "")


def grouped_points(column: Sequence[str]) -> str:
    """Return a number of a column whose points may stand between thousands; empty if they can only be decimal points.

    They may if all numbers with points have three digits behind each, and numbers without go beyond 99, but not 999.
    """
    pointed = [text for text in column if "." in text]
    whole = [abs(number(text)) for text in column if "." not in text]
    alike = bool(pointed and whole) and all(map(_THOUSANDS.fullmatch, pointed))
    return pointed[0] if alike and 100 <= max(whole) < 1000 else ""


def with_points(fields: Sequence[str]) -> Sequence[str] | None:
    """Return fields with points for decimal commas, all at once; None if one has a point, so that each must be seen."""
    joined = "\n".join(fields)
    converted = joined.replace(",", ".").split("\n")
    return None if "." in joined or len(converted) != len(fields) else converted


def if_decimal(text: str) -> str:
    """Return what to do if the comma in a text stands before decimals, as the end of a sentence; empty if it cannot."""
    if not COMMA.fullmatch(text):
        return ""
    return f"; if {text} is {parse(text.replace(',', '.')):g}, say that commas stand before decimals (--decimal ,)"
