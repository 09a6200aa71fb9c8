"""Files as streams: what must be known of the whole is gathered in one pass, the rows are encoded in another."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from erasurehead._internal.arrays import IntArray
from erasurehead.datasets.base import check_split, split_rows
from erasurehead.datasets.encoded import EncodingReport, Labels, Task
from erasurehead.datasets.preprocessing.encoding import Encoding
from erasurehead.errors import DataError

if TYPE_CHECKING:
    from erasurehead.datasets.matrices import Matrix

CHANGED = "{path} has changed while it was read; shard it when nothing writes to it any more."
EMPTY = "{path} has no rows of data."

BLOCK_ROWS = 1 << 16
"""Rows of a block, where the file's own form does not say how many."""


class Places:
    """Where each row of a file goes: the training rows first, in the order that the split gives them, then the others.

    Arguments:
        n_rows: rows of the file.
        n_train: how many of them are for training.
        destination: place of each row, shape (n_rows,); None if the rows stay as they are.
    """

    def __init__(self, n_rows: int, n_train: int, destination: IntArray | None) -> None:
        self.n_rows = n_rows
        self.n_train = n_train
        self._destination = destination

    @classmethod
    def of_split(cls, train: IntArray, test: IntArray) -> Places:
        """Return the places for the rows that `split_rows` names."""
        destination = np.empty(len(train) + len(test), dtype=np.int64)
        destination[train] = np.arange(len(train))
        destination[test] = np.arange(len(train), len(destination))
        return cls(len(destination), len(train), destination)

    def of(self, rows: IntArray, path: Path) -> IntArray:
        """Return the places of some rows of the file.

        Raises:
            DataError: if there are more rows than there were.
        """
        if len(rows) and rows[-1] >= self.n_rows:
            raise DataError(CHANGED.format(path=path))
        return rows if self._destination is None else self._destination[rows]


@dataclass(frozen=True)
class Split:
    """How the rows are split into those for training and those for testing, as `split_rows` does it.

    Arguments:
        test_fraction: share of the rows set aside for testing, in (0, 1); None or 0 for none.
        seed: of the random split, at least 0.
    """

    test_fraction: float | None
    seed: int

    def __post_init__(self) -> None:
        check_split(self.test_fraction, self.seed)

    def places(self, n_rows: int) -> Places:
        """Return where each of this many rows goes."""
        if not self.test_fraction:
            return Places(n_rows, n_rows, None)
        return Places.of_split(*split_rows(n_rows, self.test_fraction, self.seed))


@dataclass(frozen=True, eq=False)
class Fitted:
    """What the first pass found.

    Arguments:
        encoding: how rows are encoded.
        places: where its rows go.
        entries_per_row: stored numbers in a row of the design matrix, on average.
        dense: whether the design matrix is dense.
        notes: what a user should know of how the file was read.
    """

    encoding: Encoding
    places: Places
    entries_per_row: float
    dense: bool
    notes: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Piece:
    """Encoded rows: for training, for testing, or some of both.

    Arguments:
        rows: which rows of the file they are, ascending, shape (n,).
        X: shape (n, n_columns).
        y: shape (n,).
        report: what was met on the way; None where nothing can be missing.
    """

    rows: IntArray
    X: Matrix
    y: Labels
    report: EncodingReport | None = None


class Source(ABC):
    """A file that is read in blocks, as often as need be.

    Arguments:
        path: of the file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @abstractmethod
    def fit(self, split: Split, task: Task | None, constant: bool) -> Fitted:
        """Read the whole file, and find out how it is to be encoded.

        Arguments:
            split: which rows are for training.
            task: what the labels are for; None to tell from them.
            constant: whether to add a column of ones.
        """

    @abstractmethod
    def pieces(self, encoding: Encoding, places: Places) -> Iterator[Piece]:
        """Read the whole file again, and yield its rows encoded."""
