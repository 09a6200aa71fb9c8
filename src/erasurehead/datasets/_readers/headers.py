"""Whether the first line of a table without a description holds names or data, decided by what only that line has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead.datasets._readers.decimals import MOST_STRAYS, columns_of
from erasurehead.datasets._readers.fields import MISSING, Fields, number
from erasurehead.datasets._readers.index_columns import is_numbering

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


def verdict(first: Sequence[str], rows: Fields) -> HeaderVerdict:
    """Decide whether the first line of a table holds names.

    Arguments:
        first: its fields.
        rows: the fields of lines below, all as many as in the first.
    """
    values = np.array([number(text) if text not in MISSING else np.nan for text in first])
    numeric: list[bool] = (~np.isnan(values)).tolist()
    below = [row for row in rows if list(row) != list(first)]  # joined files repeat their header
    if not below:
        if any(numeric) and all(one or text in MISSING for one, text in zip(numeric, first, strict=True)):
            return HeaderVerdict(False, "it has only numbers")
        return HeaderVerdict(True, "it has texts", True)
    columns = columns_of(below)
    numbers = {place: own for place, column in enumerate(columns) if (own := _numbers(column)) is not None}
    named = not first[0] and _is_index(columns[0], len(below))
    for_header = ["its first field is empty, as above an index"] if named else []
    for_data: list[str] = []
    if named and is_numbering(first):
        unlike = "it counts the columns"
    else:
        above = [place for place in numbers if numeric[place]]
        unlike = _unlike(values[above], [numbers[place] for place in above], below, above, first)
    if unlike:
        for_header.append(unlike)
    texts_above, word, recurs = 0, False, False
    for place, text in enumerate(first):
        own, column = numbers.get(place), columns[place]
        if text in MISSING:
            continue
        if own is None:
            if text in column:
                for_data.append(f"{text!r} occurs below, too")
                recurs = True
            elif column and numeric[place] and not unlike:
                for_data.append("it has a number above texts")
        elif not numeric[place]:
            texts_above += 1
            for_header.append("it has texts above numbers")
            word = word or (text[0].isalpha() and len(own) == len(column))
        elif not unlike and own.min() <= values[place] <= own.max():
            for_data.append("it has numbers like those below")
    shown = [text for text in first if text]
    twice = next((text for place, text in enumerate(shown) if text in shown[:place]), None)
    if twice is not None and not texts_above:
        for_data.append(f"it has {twice!r} twice")
    holds_numbers = any(numeric)
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


def _unlike(values: Array, numbers: Sequence[Array], rows: Fields, places: Sequence[int], first: Sequence[str]) -> str:
    """Return how numbers of the first line differ from those below as names do; empty if they do not.

    Arguments:
        values: the numbers.
        numbers: the numbers below each of them.
        rows: the lines below.
        places: the columns of the numbers.
        first: all fields of the first line.
    """
    count, steps = len(values), np.diff(values)
    if not count or len(set(values.tolist())) < count:
        return ""
    rise, whole = bool((steps > 0).all()), bool((values == np.trunc(values)).all())
    years = whole and _share_of_years(values) == 1.0
    years_below = [_share_of_years(column) for column in numbers]
    alone, even = len(first) == count, count < 2 or _even(np.abs(steps))
    if alone and count <= _MANY and not (even and (count >= _FEW or values[0] == 0)):
        return ""  # numbers alone that follow no rule, or too few to tell, may be any row
    if years and (rise or bool((steps < 0).all())):
        if count > 1 and max(years_below) < 0.5:
            return "it has years above other numbers"
        if len(first) > count and len(rows) > _FEW and not any(years_below):
            return "it has a year above other numbers"
    if not rise:
        return ""
    counts = whole and values.tolist() == list(range(count))
    fractional = min(np.count_nonzero(column % 1.0) / len(column) for column in numbers) >= 1.0 - MOST_STRAYS
    if whole and fractional and (count >= _FEW or (counts and count > 1)):
        return "it has whole numbers above fractions"
    if count < 2 or len(rows) < _FEW:
        return ""
    low, high = np.array([[float(column.min()), float(column.max())] for column in numbers]).T
    distances = np.maximum(low - values, values - high)
    if bool((high > low).all() and (distances > high - low).all()):
        return "its numbers are far from those below"
    numbering = counts or (count > _FEW and (years or values[0] == 1) and bool((steps == 1.0).all()))
    if count >= _FEW and even and (numbering or count > _MANY or bool((distances > 0).all())):
        below: list[Array] = [np.diff([number(row[place]) for place in places]) for row in rows]
        if not any(
            bool((own > 0).all()) and (count == _FEW or _even(own)) for own in below
        ):  # three may be so by chance
            return "its numbers are evenly spaced, as in no line below"
    return ""


def _share_of_years(numbers: Array) -> float:
    return float(np.mean((numbers >= _YEARS[0]) & (numbers <= _YEARS[1])))


def _even(steps: Array) -> bool:
    mean = float(steps.mean())
    return bool((np.abs(steps - mean) <= 0.05 * mean).all())
