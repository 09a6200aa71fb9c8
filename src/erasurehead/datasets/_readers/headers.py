"""Whether the first line of a table without a description holds names or data, decided by what only that line has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead.datasets._readers.decimals import MOST_STRAYS, columns_of, number
from erasurehead.datasets._readers.index_columns import is_numbering
from erasurehead.datasets._readers.table import MISSING

_YEARS = (1800, 2200)
_FEW = 3  # rows and columns from which regularity of the first line is no chance
_MANY = 8  # columns beyond which numbers that rise, or are evenly spaced, are no chance whatever is below


@dataclass(frozen=True)
class HeaderVerdict:
    """What the first line of a table is.

    Attributes:
        header: whether it holds the columns' names.
        reason: why, as the end of a sentence that begins with "as".
        obvious: whether nobody would doubt it.
    """

    header: bool
    reason: str
    obvious: bool = False


def verdict(first: Sequence[str], rows: Sequence[Sequence[str]]) -> HeaderVerdict:
    """Decide whether the first line of a table holds names.

    Arguments:
        first: its fields.
        rows: the fields of lines below, all as many as in the first.
    """
    values = np.array([number(text) if text not in MISSING else np.nan for text in first])
    below = [row for row in rows if list(row) != list(first)]  # joined files repeat their header
    if not below:
        if not np.isnan(values).all() and all(
            value == value or text in MISSING for value, text in zip(values.tolist(), first, strict=True)
        ):
            return HeaderVerdict(False, "it has only numbers")
        return HeaderVerdict(True, "it has texts", True)
    columns = columns_of(below)
    numbers = [_numbers(column) for column in columns]
    named = not first[0] and _is_index(columns[0], len(below))
    for_header = ["its first field is empty, as above an index"] if named else []
    for_data: list[str] = []
    above = [place for place, below_it in enumerate(numbers) if below_it is not None and not np.isnan(values[place])]
    counts = named and is_numbering(first)
    unlike = (
        "it counts the columns"
        if counts
        else _unlike(
            values[above],
            [column for column in (numbers[place] for place in above) if column is not None],
            below,
            above,
            first,
        )
    )
    if unlike:
        for_header.append(unlike)
    texts_above, word, recurs = 0, False, False
    for place, text in enumerate(first):
        below_it = numbers[place]
        if text in MISSING:
            continue
        if below_it is not None and np.isnan(values[place]):
            texts_above += 1
            for_header.append("it has texts above numbers")
            word = word or (text[0].isalpha() and len(below_it) == len(columns[place]))
        elif below_it is None and columns[place] and text in set(columns[place]):
            for_data.append(f"{text!r} occurs below, too")
            recurs = True
        elif below_it is not None and not unlike and below_it.min() <= values[place] <= below_it.max():
            for_data.append("it has numbers like those below")
        elif below_it is None and columns[place] and not np.isnan(values[place]) and not unlike:
            for_data.append("it has a number above texts")
    shown = [text for text in first if text]
    twice = next((text for place, text in enumerate(shown) if text in shown[:place]), None)
    if twice is not None and not texts_above:
        for_data.append(f"it has {twice!r} twice")
    holds_numbers = not np.isnan(values).all()
    if word and not recurs:  # no row has a word where all others have numbers, whatever the rest of it looks like
        return HeaderVerdict(True, "it has texts above numbers", not for_data and not holds_numbers)
    if len(for_header) == len(for_data):
        if holds_numbers:
            return HeaderVerdict(False, for_data[0] if for_data else "it has numbers, as lines below have")
        return HeaderVerdict(True, for_header[0] if for_header else "none of its values occurs below")
    if len(for_header) < len(for_data):
        return HeaderVerdict(False, for_data[0])
    return HeaderVerdict(True, for_header[0], bool(texts_above) and not for_data and not holds_numbers)


def _numbers(column: Sequence[str]) -> Array | None:
    """Return the numbers of a column; None if it holds texts, or nothing."""
    values = np.array([number(text) for text in column])
    numbers = values[~np.isnan(values)]
    return numbers if len(numbers) and len(numbers) >= (1.0 - MOST_STRAYS) * len(values) else None


def _is_index(column: Sequence[str], n_rows: int) -> bool:
    """Return whether a column can be an index, in which numbers begin again where files were joined."""
    return len(column) == n_rows <= 2 * len(set(column))


def _unlike(
    values: Array, numbers: Sequence[Array], rows: Sequence[Sequence[str]], places: Sequence[int], first: Sequence[str]
) -> str:
    """Return how numbers of the first line differ from those below as names do; empty if they do not.

    Arguments:
        values: the numbers.
        numbers: the numbers below each of them.
        rows: the lines below.
        places: the columns of the numbers.
        first: all fields of the first line.
    """
    count = len(values)
    steps: Array = np.diff(values)
    if not count or len(set(values.tolist())) < count:
        return ""
    whole = bool((values == np.trunc(values)).all())
    years = whole and bool(((values >= _YEARS[0]) & (values <= _YEARS[1])).all())
    years_below = [float(np.mean((column >= _YEARS[0]) & (column <= _YEARS[1]))) for column in numbers]
    alone, even = len(first) == count, count < 2 or _even(np.abs(steps))
    if alone and count <= _MANY and not (even and (count >= _FEW or values[0] == 0)):
        return ""  # numbers alone that follow no rule, or too few to tell, may be any row
    if years and bool((steps > 0).all() or (steps < 0).all()):
        if count > 1 and max(years_below) < 0.5:
            return "it has years above other numbers"
        if len(first) > count and len(rows) > _FEW and not any(years_below):
            return "it has a year above other numbers"
    if not bool((steps > 0).all()):
        return ""
    fractions = [float(np.count_nonzero(column % 1.0)) / len(column) for column in numbers]
    counts = whole and values.tolist() == list(range(count))
    if whole and min(fractions) >= 1.0 - MOST_STRAYS and (count >= _FEW or (counts and count > 1)):
        return "it has whole numbers above fractions"
    ranges = [float(column.max() - column.min()) for column in numbers]
    distances = [
        max(float(column.min() - value), float(value - column.max()))
        for value, column in zip(values.tolist(), numbers, strict=True)
    ]
    if count < 2 or len(rows) < _FEW:
        return ""
    if min(ranges) > 0 and all(distance > width for distance, width in zip(distances, ranges, strict=True)):
        return "its numbers are far from those below"
    numbering = counts or (count > _FEW and (years or values[0] == 1) and steps.tolist() == [1.0] * (count - 1))
    if count >= _FEW and even and (numbering or count > _MANY or min(distances) > 0):
        below: list[Array] = [np.diff([number(row[place]) for place in places]) for row in rows]
        rise = [bool((own > 0).all()) and (count == _FEW or _even(own)) for own in below]  # three may be so by chance
        if not any(rise):
            return "its numbers are evenly spaced, as in no line below"
    return ""


def _even(steps: Array) -> bool:
    mean = float(steps.mean())
    return bool((np.abs(steps - mean) <= 0.05 * mean).all())
