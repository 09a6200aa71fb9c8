"""What the fields of a text stand for: numbers, truth values, or that a value is missing."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import TypeAlias

from erasurehead._internal.plain_text import in_groups

Fields: TypeAlias = Sequence[Sequence[str]]
"""The fields of rows, or of columns, as they are in a text."""


MISSING = (
    "",
    "NA",
    "N/A",
    "n/a",
    "#N/A",
    "#NA",
    "#N/A N/A",
    "<NA>",
    "NaN",
    "nan",
    "NAN",
    "-nan",
    "-NaN",
    "nan(ind)",
    "-nan(ind)",
    "1.#IND",
    "-1.#IND",
    "1.#QNAN",
    "-1.#QNAN",
    "null",
    "NULL",
    "\\N",
    "None",
    "?",
)
"""Representations of missing values in text files, as written by R, spreadsheets, databases, pandas, Python and C."""


FINITE = "replace it, or make the value missing (NaN, null)"


TRUTHS: Mapping[str, float] = {
    spelling: value
    for value, word in ((0.0, "False"), (1.0, "True"))
    for spelling in (word, word.lower(), word.upper())
}
"""Texts that are truth values. A column of nothing else is one of numbers, 1 for true, whatever it was read from."""


EXACT = 2**53
"""Whole numbers up to here are exact in float64; beyond, many are rounded to the same number."""


COMMA = re.compile(r"[-+]?(?:\d+,\d*|,\d+)(?:[eE][-+]?\d+)?")
"""A number with a decimal comma; or one with a comma between thousands, as in `1,234`."""


def absent(missing: Collection[str]) -> frozenset[str]:
    """Return all texts that stand for a missing value, if a user names some: no others if the empty one is named."""
    return frozenset(missing if "" in missing else (*MISSING, *missing))


def padded(text: str) -> bool:
    """Return whether a text is a number with a zero before its digits: it may be a code, such as `01` or `007`.

    >>> padded("01"), padded("0.5"), padded("10")
    (True, False, False)
    """
    return text[:1] == "0" and text[1:2].isdigit()


def plain(value: float) -> str:
    """Return a number as people write it: without `.0` if it is an integer.

    >>> plain(3.0), plain(1.5)
    ('3', '1.5')
    """
    return str(int(value)) if value.is_integer() else repr(value)


_WRITTEN = re.compile(
    r"(\()?[-+\u2212]?\s?[$€£¥]?\s?[-+\u2212]?"
    r"(?:\d{1,3}(?:[,.'’ \u00a0\u202f]\d{3})+|\d+)(?:[.,]\d+)?\s?[%$€£¥]?(?(1)\)|-?)"
)
"""A number as people write it: with its thousands apart, a decimal comma, a currency, per cent, or another minus."""


def written(text: str) -> bool:
    """Return whether a text is a number as people write it, which `float` does not read.

    >>> written("1,234.5"), written("5 %"), written("12 kg")
    (True, True, False)
    """
    return _WRITTEN.fullmatch(text.strip()) is not None


_SHORT_DATE = re.compile(
    r"\d{1,2}([-/. ])(?:\d{1,2}|[A-Za-z]{3})\1\d{2}(?: .*)?|\d{1,2}:\d{2}(?::\d{2})?(?: ?[AaPp]\.?[Mm]\.?)?"
)
DATED = "write dates with years of four digits, and times of day as numbers"
"""What to do where texts are short dates."""


def is_short_date(text: str) -> bool:
    """Return whether a text is a date of which nobody can tell the year, or a time of day without a date.

    >>> is_short_date("15/01/24"), is_short_date("7:41 PM"), is_short_date("15/01/2024")
    (True, True, False)
    """
    return _SHORT_DATE.fullmatch(text) is not None


_CODE = re.compile(r"\n0\d+\s*\n")


def first_code(texts: Sequence[str]) -> str:
    """Return the first text that is a whole number with zeros before it; empty if there is none.

    >>> first_code(["12", "007"])
    '007'
    """
    lines = "\n".join(texts)
    match = None if "." in lines else _CODE.search(f"\n{lines}\n")  # as many columns of numbers have points
    return match[0].strip() if match else ""


def not_a_number(text: str, hint: str) -> str:
    """Return the end of a sentence about a text in a column of numbers.

    Arguments:
        text: the text.
        hint: what to do if the column's values are no numbers.
    """
    if written(text):
        minus = ", a hyphen in front for a minus" if text.endswith((")", "-")) or "\u2212" in text else ""
        hint = (
            f"; write the column's numbers with nothing between their digits, with a decimal point{minus}, and without "
            "signs of currency or per cent"
        )
    elif hint and is_short_date(text):
        hint = f"; {DATED}{hint}"
    return f"{text!r} is not a number{hint}"


def parse(text: str) -> float:
    """Return the number in a text; NaN if it is not a number, or has digits in groups as Python writes them (`1_000`).

    In data these are names, such as `2020_01`.
    """
    try:
        return math.nan if in_groups(text) else float(text)
    except ValueError:
        return math.nan


def number(text: str) -> float:
    """Return the number in a text, with a decimal point or a decimal comma, 1 for true; NaN if it is none."""
    value = TRUTHS.get(text, parse(text))
    return parse(text.replace(",", ".")) if value != value and COMMA.fullmatch(text) else value


def is_rounded(text: str, value: float) -> bool:
    """Return whether a text is a whole number, but not this one."""
    try:
        return int(text) != int(value)
    except ValueError:
        return False


def identified(text: str) -> float:
    """Return the number in a text, 1 for true; NaN if it is none, or has more digits than tell float64s apart.

    >>> identified("9007199254740992"), identified("9007199254740993"), identified("true")
    (9007199254740992.0, nan, 1.0)
    """
    value = TRUTHS.get(text, parse(text))
    if len(text) <= _TOLD_APART or not math.isfinite(value):
        return value
    try:
        return value if Decimal(text) in (Decimal(value), Decimal(repr(value))) else math.nan
    except InvalidOperation:
        return math.nan


_TOLD_APART = 15  # decimal digits that float64 never merges
