"""Columns of texts and numbers: whether they hold categories, or are numbers with a few texts among them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial

import numpy as np

from erasurehead.datasets._readers.decimals import MOST_STRAYS, if_decimal
from erasurehead.datasets._readers.fields import not_a_number, parse, written
from erasurehead.datasets._readers.names import as_option
from erasurehead.datasets._readers.table import Table, TextColumn
from erasurehead.errors import DataError

MOST_CODES = 20
"""Columns with at most this many different numbers may be codes of categories."""

_MOST_SHOWN = 3
_FEWEST = 5
_BEGINS = frozenset("0123456789+-.,$€£¥( \u00a0\u2212")


class Tally:
    """Counts the numbers and the other texts of a column of texts, block by block.

    A column is one of numbers with strays if there are more than 20 different numbers in it and nine in ten values are
    such, or half of them and all others are of at most three different texts; and also if nine in ten of its values are
    numbers as people write them, such as `1,234` or `5 %`. Else its values are categories, whatever the order of rows.
    """

    def __init__(self) -> None:
        self._numbers: set[float] = set()
        self._n_numbers = self._n_written = self._n_texts = 0
        self._texts: dict[str, Callable[[], str]] = {}  # the first ones, and where they are
        self._written = ""

    def add(self, table: Table, name: str) -> None:
        """Add the values of a block.

        Arguments:
            table: the block.
            name: of the column; numbers are not counted, as one that holds nothing else needs no tally.
        """
        column = table.column(name)
        if not isinstance(column, TextColumn) or name in table.categories:
            return
        for code, (text, count) in enumerate(zip(column.values, column.counts().tolist(), strict=True)):
            begins = count and text[0] in _BEGINS
            if begins and np.isfinite(value := parse(text)):
                self._n_numbers += count
                if len(self._numbers) <= MOST_CODES:
                    self._numbers.add(value)
                continue
            if begins and written(text):
                self._n_written += count
                self._written = self._written or text
            else:
                self._n_texts += count
            if count and len(self._texts) <= _MOST_SHOWN and text not in self._texts:
                self._texts[text] = partial(table.place, int(np.argmax(column.codes == code)))

    @property
    def strays(self) -> bool:
        """Whether the column is one of numbers but for a few texts, or for the way in which they are written."""
        whole = self._n_numbers + self._n_written + self._n_texts
        if self._n_written:
            return self._n_texts <= MOST_STRAYS * whole
        if not self._n_texts or len(self._numbers) <= MOST_CODES:
            return False
        few = len(self._texts) <= _MOST_SHOWN and 2 * self._n_numbers >= whole
        return few or self._n_texts <= MOST_STRAYS * whole

    @property
    def mostly_numbers(self) -> bool:
        """Whether at least half of the values are numbers, if there are enough to tell, and none as people write it."""
        return not self._n_written and self._n_numbers >= max(self._n_texts, _FEWEST)

    @property
    def mixed(self) -> bool:
        """Whether there are both numbers and other texts."""
        return bool(self._n_numbers and self._n_texts + self._n_written)

    def refusal(self, name: str, csv: bool, model: bool = False, label: bool = False) -> str:
        """Return what to say of a column of numbers with strays, as a sentence.

        Arguments:
            name: of the column.
            csv: whether it is one of a CSV file.
            model: whether a model says how columns are read, and not the user.
            label: whether it is to be predicted.
        """
        (first, where), *others = list(self._texts.items())[:_MOST_SHOWN]
        categories = "" if model or label else "name the column in one_hot (--one-hot) if its values are categories"
        if self._n_written:
            commas = if_decimal(self._written) if csv and not model else ""
            fault = not_a_number(self._written, "")
            return f"{where()}, column {name!r}: {fault}{commas}{categories and f'; {categories}'}."
        likewise = ", ".join(f"{text!r} ({_line(place)})" for text, place in others)
        tokens = as_option(*list(self._texts)[:_MOST_SHOWN])
        missing = f"name what stands for a missing value (--missing {tokens}), " if csv and not (model or label) else ""
        if missing and self._n_texts == 1 and _line(where) == "line 1":
            missing = "say that the line holds the columns' names, if it does (--header yes), "
        whole = self._n_numbers + self._n_texts
        return (
            f"{where()}, column {name!r}: {first!r} is not a number{f', nor is {likewise}' if likewise else ''}, but "
            f"{self._n_numbers:,} of the column's {whole:,} values are; correct it, {missing}or "
            f"{categories or ('leave that row out' if label else 'leave the field empty if the value is missing')}."
        )

    def note(self, name: str) -> str:
        """Return that the column holds both numbers and texts, as a note."""
        text, place = next(iter(self._texts.items()))
        return (
            f"column {name!r} holds numbers and texts, such as {text!r} ({_line(place)}): all its values are categories"
        )


def settled(tallies: Mapping[str, Tally], csv: bool, label: str) -> Iterator[str]:
    """Yield what a user should know about columns whose kind their values have decided.

    Arguments:
        tallies: of the values of each column.
        csv: whether they are those of a CSV file.
        label: name of the column to predict.

    Raises:
        DataError: if a column is one of numbers but for a few texts.
    """
    for name, tally in tallies.items():
        if tally.strays:
            raise DataError(tally.refusal(name, csv, label=name == label))
        if tally.mixed:
            yield tally.note(name)


def _line(place: Callable[[], str]) -> str:
    return place().rpartition(", ")[2]
