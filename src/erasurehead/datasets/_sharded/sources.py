"""Files as streams: one pass gathers what must be known about the whole file, another encodes the rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from erasurehead._internal.arrays import IntArray
from erasurehead.datasets._base import RowSplit
from erasurehead.datasets._encoded import EncodingReport, Labels, Task
from erasurehead.datasets._matrices import Matrix
from erasurehead.datasets._preprocessing.encoding import Encoding
from erasurehead.errors import DataError

CHANGED = "{path} has changed while it was read; shard it when nothing writes to it any more."
EMPTY = "{path} has no rows of data."

BLOCK_ROWS = 1 << 16
"""Number of rows of a block, if the file's format does not determine it."""


class Places:
    """Where each row of a file goes: first the training rows, in the order of the split, then the others.

    Arguments:
        n_rows: number of rows of the file.
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
    def of_split(cls, split: RowSplit, n_rows: int, classes: NDArray[np.int32] | None = None) -> Places:
        """Return where each row goes.

        Arguments:
            split: how the rows are split.
            n_rows: number of rows.
            classes: the class of each row, shape (n_rows,); None if they are not known, or labels are no classes.
        """
        if not split.test_fraction:
            return cls(n_rows, n_rows, None)
        train, test, moved = split.rows(n_rows, classes)
        destination = np.empty(n_rows, dtype=np.int64)
        destination[train] = np.arange(len(train))
        destination[test] = np.arange(len(train), n_rows)
        return cls(n_rows, len(train), destination, moved)

    def of(self, rows: IntArray, path: Path) -> IntArray:
        """Return the places of some rows of the file.

        Raises:
            DataError: if there are more rows than in the first pass.
        """
        if len(rows) and rows[-1] >= self.n_rows:
            raise DataError(CHANGED.format(path=path))
        return rows if self._destination is None else self._destination[rows]


@dataclass(frozen=True, eq=False)
class Fitted:
    """The result of the first pass.

    Arguments:
        encoding: how rows are encoded.
        places: where its rows go.
        entries_per_row: mean number of stored numbers in a row of the design matrix.
        dense: whether the design matrix is dense.
        notes: what a user should know about how the file was read.
    """

    encoding: Encoding
    places: Places
    entries_per_row: float
    dense: bool
    notes: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class EncodedRows:
    """Encoded rows: for training, for testing, or both.

    Arguments:
        rows: their row numbers in the file, ascending, shape (n,).
        X: the design matrix, shape (n, n_columns).
        y: the labels, shape (n,).
        report: unknown and missing values; None where nothing can be missing.
    """

    rows: IntArray
    X: Matrix
    y: Labels
    report: EncodingReport | None = None


class RowSource(ABC):
    """A file that is read in blocks, as often as necessary.

    Arguments:
        path: of the file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @abstractmethod
    def fit(self, split: RowSplit, task: Task | None, constant: bool) -> Fitted:
        """Read the whole file, and fit its encoding.

        Arguments:
            split: which rows are training rows.
            task: the kind of problem; None to choose it from the labels.
            constant: whether to add a column of ones.
        """

    @abstractmethod
    def pieces(self, encoding: Encoding, places: Places) -> Iterator[EncodedRows]:
        """Read the whole file again, and yield its rows encoded."""
