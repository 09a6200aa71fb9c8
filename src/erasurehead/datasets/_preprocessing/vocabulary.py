"""Vocabularies: the distinct values of a column, each with its code 0, 1, ... in ascending order."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Annotated, TypeAlias, TypedDict

import numpy as np

from erasurehead._internal.arrays import Array, IntArray, ShortIntArray
from erasurehead._internal.documents import PlainData
from erasurehead._internal.storage.sealed import Unfit
from erasurehead._internal.typed import KEY, NUMBERS, STEPS, differences, maker
from erasurehead.datasets._readers.fields import EXACT, TRUTHS, identified, padded, plain
from erasurehead.datasets._readers.table import Column, NumberColumn, TextColumn
from erasurehead.errors import DataError

Codes = ShortIntArray

_TABLE_SPAN = 1 << 20  # integers with at most this range are distinguished by a table instead of sorting


ROUNDED = f"whole numbers beyond {EXACT:,} cannot be told apart as numbers"
"""What is wrong with a column whose values were rounded, where their identity matters."""


@dataclass(frozen=True, eq=False)
class NumberVocabulary:
    """Distinct numbers: float64, ascending, shape (size,). A text that parses as one of them is that value.

    Arguments:
        values: the numbers.
        spelled: how they are written, where that is with zeros before them, as in `007`; empty otherwise.
    """

    values: Array
    spelled: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """Number of values."""
        return len(self.values)

    def codes(self, column: Column) -> Codes:
        """Return the code of each row's value, int32, shape (n_rows,); -1 where it is missing or unknown."""
        if isinstance(column, NumberColumn):
            return self._find(column.values)
        codes_of_texts = self._find(np.array([identified(text) for text in column.values], dtype=np.float64))
        return np.append(codes_of_texts, np.int32(-1))[column.codes]

    def _find(self, values: Array) -> Codes:
        places = np.searchsorted(self.values, values)
        places[places == self.size] = 0
        return np.where(self.values[places] == values, places, -1).astype(np.int32)

    def labels(self) -> list[str]:
        """Return the values as texts, in the order of their codes."""
        return list(self.spelled) or [plain(value) for value in self.values.tolist()]

    def as_plain(self) -> PlainData:
        """Return it as plain data; whole numbers as differences, which keeps them short."""
        spelled = {"spelled": list(self.spelled)} if self.spelled else {}
        if bool((self.values == np.trunc(self.values)).all()) and float(np.abs(self.values).max()) < EXACT:
            return {"whole": differences(self.values.astype(np.int64)), **spelled}
        return {"numbers": self.values.tolist(), **spelled}

    @classmethod
    def from_plain(cls, data: object) -> NumberVocabulary:
        """Return what `as_plain` returned as plain data."""
        stored = maker(_Numbers)(data)
        values = stored["whole"].astype(np.float64) if "whole" in stored else stored["numbers"]
        return cls(values, stored.get("spelled", ()))

    def __post_init__(self) -> None:
        if len(self.spelled) not in (0, len(self.values)):
            raise Unfit("spelled must have a text for each number")


@dataclass(frozen=True, eq=False)
class TextVocabulary:
    """Distinct texts, in ascending order. A number is looked up as it is printed, without `.0` if it is an integer.

    Where all are truth values, `TRUE`, `True`, `true` and 1 are the same one.
    """

    values: tuple[str, ...] = field(metadata={KEY: "texts"})

    @property
    def size(self) -> int:
        """Number of values."""
        return len(self.values)

    def codes(self, column: Column) -> Codes:
        """Return the code of each row's value, int32, shape (n_rows,); -1 where it is missing or unknown."""
        places = {text: code for code, text in enumerate(self.values)}
        if TRUTHS.keys() >= set(places):
            by_truth = {TRUTHS[text]: code for text, code in places.items()}
            places = {
                text: by_truth[value] for text, value in [*TRUTHS.items(), ("0", 0.0), ("1", 1.0)] if value in by_truth
            }
        if isinstance(column, TextColumn):
            texts, codes = column.values, column.codes
        else:
            numbers, codes = distinct(column.values)
            texts = [plain(number) for number in numbers.tolist()]
        codes_of_texts = np.array([places.get(text, -1) for text in texts], dtype=np.int32)
        return np.append(codes_of_texts, np.int32(-1))[codes]

    def labels(self) -> list[str]:
        """Return the values as texts, in the order of their codes."""
        return list(self.values)


Vocabulary: TypeAlias = TextVocabulary | NumberVocabulary
"""The distinct values of a column in ascending order; the index of a value is its code."""


class _Numbers(TypedDict, total=False):
    whole: Annotated[IntArray, STEPS]
    numbers: Annotated[Array, NUMBERS]
    spelled: tuple[str, ...]


def vocabulary_of(column: Column) -> Vocabulary:
    """Return the vocabulary of a column's values.

    Texts are compared as they are written, unless every text in the column is a number and no two of them are the
    same number: then they are compared as numbers, so that `3` and `3.0` in a later file are the same value, and `3`
    is `03` where some begin with a zero; but they are called as they are written. Where all
    are truth values, different spellings of one, such as `TRUE` and `True`, are one value, called `true` or `false`.

    Raises:
        DataError: if no row has a value, or values were rounded, so that different ones cannot be told apart.
    """
    if isinstance(column, NumberColumn):
        values: Array = distinct(column.values)[0]
        if not len(values):
            raise DataError("no row has a value")
        if column.rounded:
            raise DataError(ROUNDED)
        return NumberVocabulary(values)
    texts = column.used()
    if not texts:
        raise DataError("no row has a value")
    if TRUTHS.keys() >= set(texts):
        spellings = [[text for text in texts if TRUTHS[text] == truth] for truth in (0.0, 1.0)]
        if any(len(alike) > 1 for alike in spellings):
            return TextVocabulary(tuple(alike[0].lower() for alike in spellings if alike))
        return TextVocabulary(tuple(sorted(texts, key=str.lower)))
    numbers, places = np.unique([math.nan if text in TRUTHS else identified(text) for text in texts], return_index=True)
    if len(numbers) == len(texts) and bool(np.isfinite(numbers).all()):
        spelled: list[str] = [texts[place] for place in places.tolist()] if any(map(padded, texts)) else []
        return NumberVocabulary(numbers, tuple(spelled))
    return TextVocabulary(tuple(sorted(texts)))


def vocabulary_of_column(column: Column | None, name: str, source: str) -> Vocabulary:
    """Return the vocabulary of a named column.

    Arguments:
        column: its values; None if it has none.
        name: its name, for messages.
        source: what it comes from, for messages.

    Raises:
        DataError: as for `vocabulary_of`; the message names the column.
    """
    if column is None or bool(column.missing().all()):
        raise nothing_in(name, source)
    try:
        return vocabulary_of(column)
    except DataError as error:
        raise DataError(f"{source}, column {name!r}: {error}; name it in one_hot, too (--one-hot).") from None


def nothing_in(name: str, source: str) -> DataError:
    """Return the error for a column that has no value in any training row."""
    return DataError(f"{source}: no row has a value in column {name!r}; leave the column out (drop, --drop).")


def distinct(values: Array) -> tuple[Array, Codes]:
    """Return the distinct values, ascending, and each row's code among them; NaN has the code -1.

    It does what `np.unique(values, return_inverse=True)` does, much faster for integers with a small range.
    """
    filled = ~np.isnan(values)
    whole = bool(filled.all())
    present = values if whole else values[filled]
    unique, inverse = _distinct(present)
    if whole:
        return unique, inverse
    codes = np.full(len(values), -1, dtype=np.int32)
    codes[filled] = inverse
    return unique, codes


def _distinct(values: Array) -> tuple[Array, Codes]:
    if len(values):
        low, high = float(values.min()), float(values.max())
        if high - low < _TABLE_SPAN and max(-low, high) < EXACT and bool((values == np.trunc(values)).all()):
            shifted = (values - low).astype(np.int64)
            seen = np.zeros(int(high - low) + 1, dtype=bool)
            seen[shifted] = True
            places = (np.cumsum(seen) - 1).astype(np.int32)
            return np.flatnonzero(seen).astype(np.float64) + low, places[shifted]
    unique, inverse = np.unique(values, return_inverse=True)
    return unique, inverse.astype(np.int32)
