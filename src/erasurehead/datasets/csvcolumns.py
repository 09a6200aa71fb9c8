"""The columns of a CSV file, gathered from its fields: numbers, texts, or what the first value says."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from erasurehead.arrays import Array
from erasurehead.datasets.table import MISSING, Column, Numbers, TextCoder, Texts

Kind: TypeAlias = Literal["number", "text", "auto", "label"]
"""How a column is read; `auto` and `label` are `number` or `text` as the first value that is not missing says."""

_CATEGORIES = " as the values before it are; name the column in one_hot (--one-hot) if its values are categories"
_LABELS = " as the labels before it are; write all of them as numbers, or all as names"
_EMPTY = "leave the field empty if the value is missing"
_NO_ROW = "leave that row out, or fill it in, as every row needs its label"


def is_number(text: str) -> bool:
    """Say whether a text reads as a number, infinity and NaN included."""
    try:
        float(text)
    except ValueError:
        return False
    return True


class Fault(Exception):
    """A field that cannot be used: its row in the chunk, and what is wrong."""

    def __init__(self, row: int, message: str) -> None:
        super().__init__(message)
        self.row = row


class Builder(ABC):
    """Gathers one column, chunk by chunk."""

    @abstractmethod
    def add(self, fields: Sequence[str]) -> None:
        """Take the fields of a chunk."""

    @abstractmethod
    def finish(self) -> Column:
        """Return the column."""


class _NumberBuilder(Builder):
    def __init__(self, hint: str, missing: str = _EMPTY) -> None:
        self._parts: list[Array] = []
        self._hint = hint
        self._missing = missing

    def add(self, fields: Sequence[str]) -> None:
        try:
            part = np.fromiter(map(float, fields), np.float64, len(fields))
        except ValueError:
            part = None
        if part is None or not np.isfinite(part).all():
            part = np.array([self._parse(row, field.strip()) for row, field in enumerate(fields)], dtype=np.float64)
        self._parts.append(part)

    def _parse(self, row: int, field: str) -> float:
        if field in MISSING:
            return np.nan
        if not is_number(field):
            raise Fault(row, f"{field!r} is not a number{self._hint}")
        value = float(field)
        if not np.isfinite(value):
            raise Fault(row, f"{field!r} is not a finite number; {self._missing}")
        return value

    def finish(self) -> Column:
        return Numbers(np.concatenate(self._parts))


class _TextBuilder(Builder):
    def __init__(self) -> None:
        self._coder = TextCoder()
        self._parts: list[NDArray[np.int32]] = []

    def add(self, fields: Sequence[str]) -> None:
        self._parts.append(np.fromiter(map(self._coder.__getitem__, fields), np.int32, len(fields)))

    def finish(self) -> Column:
        return Texts(np.concatenate(self._parts), self._coder.texts())


class _AutoBuilder(Builder):
    """Counts missing values until one has a value, whose kind is then that of the column."""

    def __init__(self, label: bool) -> None:
        self._label = label
        self._missing = 0
        self._builder: Builder | None = None

    def add(self, fields: Sequence[str]) -> None:
        if self._builder is None:
            first = next((field for field in map(str.strip, fields) if field not in MISSING), None)
            if first is None:
                self._missing += len(fields)
                return
            self._builder = self._begin(is_number(first))
        self._builder.add(fields)

    def _begin(self, number: bool) -> Builder:
        numbers = _NumberBuilder(_LABELS, _NO_ROW) if self._label else _NumberBuilder(_CATEGORIES)
        builder = numbers if number else _TextBuilder()
        if self._missing:
            builder.add(("",) * self._missing)
        return builder

    def finish(self) -> Column:
        return (self._builder or self._begin(number=True)).finish()


def builder(kind: Kind, hint: str) -> Builder:
    """Return what gathers a column that is read in a certain way.

    Arguments:
        kind: how.
        hint: what to do about a text in a column of numbers, as the end of a sentence.
    """
    if kind == "number":
        return _NumberBuilder(hint)
    return _TextBuilder() if kind == "text" else _AutoBuilder(kind == "label")
