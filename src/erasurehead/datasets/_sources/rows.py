"""What a source of rows does, whatever it is: it fits an encoding, and yields its rows encoded, or as a data set."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np

from erasurehead._internal.arrays import IntArray, ShortIntArray
from erasurehead.datasets._base import Dataset, RowSplit
from erasurehead.datasets._encoded import Encoded, EncodingReport, Labels, Task
from erasurehead.datasets._matrices import Matrix
from erasurehead.datasets._preprocessing.column_uses import ColumnUse
from erasurehead.datasets._preprocessing.encoding import Encoding
from erasurehead.datasets._preprocessing.target import Target
from erasurehead.datasets._sources.labels import LabelValues
from erasurehead.errors import DataError

CHANGED = "{source} has changed while it was read; shard it when nothing writes to it any more."
EMPTY = "{source} has no rows of data."

BLOCK_ROWS = 1 << 16
"""Number of rows of a block, if the file's format does not determine it."""


class Places:
    """Where each row of a source goes: first the training rows, in the order of the split, then the others.

    Arguments:
        n_rows: number of rows.
        n_train: number of training rows.
        destination: destination of each row, shape (n_rows,); None if the rows stay as they are.
        moved: the rows that are for training as their classes had no other there.
    """

    def __init__(self, n_rows: int, n_train: int, destination: IntArray | None, moved: IntArray | None = None) -> None:
        self.n_rows = n_rows
        self.n_train = n_train
        self.moved = np.arange(0) if moved is None else moved
        self._destination = destination

    @classmethod
    def of_split(cls, split: RowSplit, n_rows: int, source: str, classes: ShortIntArray | None = None) -> Places:
        """Return where each row goes.

        Arguments:
            split: how the rows are split.
            n_rows: number of rows.
            source: where they are from, for messages.
            classes: the class of each row, shape (n_rows,); None if they are not known, or labels are no classes.
        """
        if not split.test_fraction:
            return cls(n_rows, n_rows, None)
        train, test, moved = split.rows(n_rows, classes, source)
        destination = np.empty(n_rows, dtype=np.int64)
        destination[train] = np.arange(len(train))
        destination[test] = np.arange(len(train), n_rows)
        return cls(n_rows, len(train), destination, moved)

    def of(self, rows: IntArray, source: str) -> IntArray:
        """Return the places of some rows.

        Raises:
            DataError: if there are more rows than in the first pass.
        """
        if rows.max(initial=-1) >= self.n_rows:
            raise DataError(CHANGED.format(source=source))
        return rows if self._destination is None else self._destination[rows]

    def training(self, before: int, n_rows: int, source: str) -> IntArray:
        """Return which rows of a block are for training, given how many rows come before it."""
        return np.flatnonzero(self.of(np.arange(before, before + n_rows), source) < self.n_train)


@dataclass(frozen=True, eq=False)
class Fitted:
    """The result of the first pass.

    Arguments:
        encoding: how rows are encoded.
        places: where its rows go.
        entries_per_row: mean number of stored numbers in a row of the design matrix.
        dense: whether the design matrix is dense.
        notes: what a user should know about how the source was read.
        warnings: possible problems with columns.
    """

    encoding: Encoding
    places: Places
    entries_per_row: float
    dense: bool
    notes: tuple[str, ...]
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class EncodedRows:
    """Encoded rows, all for training or all for testing, in the order of their places.

    Arguments:
        places: where they go, ascending, shape (n,).
        X: the design matrix, shape (n, n_columns).
        y: the labels, shape (n,).
        report: unknown and missing values.
    """

    places: IntArray
    X: Matrix
    y: Labels
    report: EncodingReport


_Block = TypeVar("_Block")


class RowSource(ABC, Generic[_Block]):
    """Rows that are read in blocks, as often as necessary.

    Arguments:
        source: where they are from, for messages.
        name: short name of the data.
        shown: where they are from, for data sets; by default as in messages.
    """

    def __init__(self, source: str, name: str, shown: str = "") -> None:
        self.source, self.name, self._shown = source, name, shown or source

    @abstractmethod
    def fit(self, split: RowSplit, task: Task | None, constant: bool) -> Fitted:
        """Read all rows, and fit their encoding.

        Arguments:
            split: which rows are training rows.
            task: the kind of problem; None to choose it from the labels.
            constant: whether to add a column of ones.
        """

    @abstractmethod
    def blocks(self, encoding: Any = None) -> Iterator[_Block]:
        """Yield blocks of rows, given their encoding, if it is known."""

    @abstractmethod
    def labels(self, block: _Block, encoding: Any) -> Labels:
        """Return the labels of a block."""

    @abstractmethod
    def encoded(self, block: _Block, encoding: Any, parts: Sequence[IntArray]) -> list[Encoded]:
        """Return parts of a block, encoded; the first one is for training."""

    def uses(self, fitted: Fitted) -> tuple[ColumnUse, ...]:
        """Return how each column of a table that is kept whole is used; empty for other data."""
        return ()

    def pieces(self, fitted: Fitted) -> Iterator[EncodedRows]:
        """Read all rows again, and yield those of each block encoded, first those for training, then the others.

        Raises:
            DataError: if they are not those of the first pass.
        """
        encoding, places, before = fitted.encoding, fitted.places, 0
        for block in self.blocks(encoding):
            y = self.labels(block, encoding)
            place = places.of(np.arange(before, before + len(y)), self.source)
            order = np.argsort(place)
            parts = np.split(order, [int(np.count_nonzero(place < places.n_train))])
            for rows, own in zip(parts, self.encoded(block, encoding, parts), strict=True):
                yield EncodedRows(place[rows], own.X, y[rows], own.report)
            before += len(y)
        if before != places.n_rows:
            raise DataError(CHANGED.format(source=self.source))

    def dataset(self, split: RowSplit, task: Task | None, constant: bool) -> Dataset:
        """Return all rows of a source that is kept whole, as a data set; arguments and errors as for `fit`."""
        fitted = self.fit(split, task, constant)
        train, test = self.pieces(fitted)
        _check_varies(train.X, self.source)
        left = len(test.y) > 0
        return Dataset(
            self.name,
            train.X,
            train.y,
            test.X if left else None,
            test.y if left else None,
            fitted.encoding.target.task,
            fitted.encoding,
            self._shown,
            (*fitted.notes, *remarks(train.report, test.report)),
            uses=self.uses(fitted),
        )


def remarks(train: EncodingReport, test: EncodingReport) -> list[str]:
    """Return notes about values that training never saw, and those that are missing."""
    return [*(f"test rows: {sentence}" for sentence in test.unseen_sentences()), *(train + test).missing_sentences()]


def final(labels: LabelValues, split: RowSplit, n_rows: int, source: str) -> tuple[Target, Places, tuple[str, ...]]:
    """Return how labels become numbers, where each row goes, and a note about rows that were moved for their classes.

    Raises:
        DataError: if the labels cannot be used.
    """
    target = labels.target()
    classes = labels.classes(target)
    places = Places.of_split(split, n_rows, source, classes)
    moved = () if classes is None else target.moved_note(classes[places.moved], places.n_train, source)
    return target, places, moved


def _check_varies(X: Any, source: str) -> None:
    """Raise if every column is constant over all training rows: a model could not learn anything."""
    highest, lowest = X.max(axis=0), X.min(axis=0)
    if hasattr(highest, "toarray"):
        highest, lowest = highest.toarray(), lowest.toarray()
    if np.shape(X)[0] > 1 and (highest == lowest).all():
        raise DataError(
            f"{source}: every column but the label has one value in all training rows, so that there is nothing to "
            "learn from; name other columns (--label, --one-hot), or more rows."
        )
