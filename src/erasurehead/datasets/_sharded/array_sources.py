"""LIBSVM, `.npy` and `.npz` files as streams of encoded rows: columns stay as they are."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead.datasets._base import RowSplit
from erasurehead.datasets._encoded import Task
from erasurehead.datasets._matrices import Matrix, floats, not_finite, split_last_column, with_constant
from erasurehead.datasets._preprocessing.array_encoding import ArrayEncoding
from erasurehead.datasets._preprocessing.encoding import Encoding
from erasurehead.datasets._readers.arrays import Arrays, load_npy, read_labels, read_matrix
from erasurehead.datasets._readers.forms import form
from erasurehead.datasets._readers.svmlight import matrix, svmlight_blocks
from erasurehead.datasets._readers.table import NumberColumn
from erasurehead.datasets._sharded.sources import CHANGED, EMPTY, EncodedRows, Fitted, Places, RowSource
from erasurehead.datasets._sharded.table_sources import LabelValues, moved_note
from erasurehead.errors import DataError, invalid

_BLOCK = 1 << 22  # bytes of a matrix that are processed at once


@dataclass(frozen=True, eq=False)
class _Shape:
    """What is known about a matrix before its rows are encoded.

    Arguments:
        n_features: number of columns, without labels and constant.
        base: index of the first column, for svmlight.
        labels_last: whether the labels are its last column.
        entries: number of stored numbers in all rows.
        notes: notes for people.
    """

    n_features: int
    base: int
    labels_last: bool
    entries: int
    notes: tuple[str, ...]


class ArraySource(RowSource):
    """A file that holds a matrix."""

    def fit(self, split: RowSplit, task: Task | None, constant: bool) -> Fitted:
        labels = LabelValues("", task)
        n_rows = 0
        for block in self._blocks(None):
            labels.add(NumberColumn(_labels(block)), block.place)
            n_rows += len(_labels(block))
        if not n_rows:
            raise DataError(EMPTY.format(path=self.path))
        shape = self._shape()
        target = labels.target()
        encoding = ArrayEncoding(shape.n_features, target, constant, shape.base, shape.labels_last)
        places = Places.of_split(split, n_rows, labels.classes(target))
        notes = (target.note(task), *moved_note(labels, target, places, self.path), *shape.notes)
        return Fitted(encoding, places, shape.entries / n_rows + constant, self._dense(), notes)

    def pieces(self, encoding: Encoding, places: Places) -> Iterator[EncodedRows]:
        assert isinstance(encoding, ArrayEncoding)
        before = 0
        for block in self._blocks(encoding):
            if block.beyond or int(block.X.shape[1]) != encoding.n_features:
                raise DataError(CHANGED.format(path=self.path))
            y, _ = encoding.target.apply(NumberColumn(_labels(block)), block.place)
            design = with_constant(block.X) if encoding.constant else block.X
            yield EncodedRows(np.arange(before, before + len(y)), design, y)
            before += len(y)

    @abstractmethod
    def _blocks(self, encoding: ArrayEncoding | None) -> Iterator[Arrays]:
        """Yield blocks of rows, with their labels.

        Arguments:
            encoding: encoding of the file; None while it is unknown.
        """

    @abstractmethod
    def _shape(self) -> _Shape:
        """Return the shape of the matrix, after all its blocks have been read once."""

    def _dense(self) -> bool:
        return False


class SvmlightSource(ArraySource):
    """An svmlight/LIBSVM file."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._lowest, self._highest, self._entries = 1, 0, 0

    def _blocks(self, encoding: ArrayEncoding | None) -> Iterator[Arrays]:
        self._entries = 0
        for rows in svmlight_blocks(self.path):
            self._entries += len(rows.indices)
            self._lowest = min(self._lowest, int(rows.indices.min(initial=1)))
            self._highest = max(self._highest, int(rows.indices.max(initial=0)))
            width, base = (0, 0) if encoding is None else (encoding.n_features, encoding.base)
            X, beyond = matrix(rows, width, base)
            yield Arrays(X, rows.labels, lambda row, lines=rows.lines: f"{self.path}, line {lines[row]}", 0, beyond)

    def _shape(self) -> _Shape:
        base = min(self._lowest, 1)
        width = self._highest + 1 - base if self._entries else 0
        return _Shape(width, base, False, self._entries, (f"columns are counted from {base}",))


class MatrixSource(ArraySource):
    """A `.npy` file, read in blocks; or a `.npz` file, which has to be read as a whole.

    Arguments:
        path: of the file.
        target: the file of the labels; None if they are the matrix's last column.
    """

    def __init__(self, path: Path, target: str | None) -> None:
        super().__init__(path)
        self._matrix: Any = _open(path)
        self._dense_rows = isinstance(self._matrix, np.ndarray)
        self._target = None if target is None else read_labels(target, path, int(self._matrix.shape[0]))
        if target is None and self._matrix.shape[1] < 2:
            raise DataError(f"{path} has one column only; name the file that holds the labels as target.")

    def _blocks(self, encoding: ArrayEncoding | None) -> Iterator[Arrays]:
        n_rows, n_columns = (int(length) for length in self._matrix.shape)
        step = max(1, _BLOCK // (8 * n_columns))
        for before in range(0, n_rows, step):
            rows = slice(before, min(before + step, n_rows))
            block = self._rows(rows)
            X, y = split_last_column(block) if self._target is None else (block, self._target[rows])
            yield Arrays(X, y, lambda row, before=before: f"{self.path}, row {before + row}")

    def _rows(self, rows: slice) -> Matrix:
        if not self._dense_rows:
            return self._matrix[rows]
        dense = floats(self._read(rows), str(self.path))
        wrong = np.argwhere(~np.isfinite(dense))
        if len(wrong):
            row, column = (int(place) for place in wrong[0])
            raise not_finite(str(self.path), rows.start + row, column, float(dense[row, column]))
        return dense

    def _read(self, rows: slice) -> Any:
        """Return rows of a `.npy` file; they are read, as mapped pages would count as this process's memory."""
        mapped = self._matrix
        if not mapped.flags.c_contiguous:  # stored column by column, as in Fortran
            return mapped[rows]
        width = int(mapped.shape[1])
        start = mapped.offset + rows.start * width * mapped.dtype.itemsize
        values = np.fromfile(self.path, mapped.dtype, (rows.stop - rows.start) * width, offset=start)
        if len(values) != (rows.stop - rows.start) * width:
            raise DataError(CHANGED.format(path=self.path))
        return values.reshape(-1, width)

    def _shape(self) -> _Shape:
        last = self._target is None
        width = int(self._matrix.shape[1]) - last
        entries = int(self._matrix.shape[0]) * width if self._dense_rows else len(self._matrix.data)
        return _Shape(width, 0, last, entries, ("the labels are the last column of the matrix",) if last else ())

    def _dense(self) -> bool:
        return self._dense_rows


def array_source(path: Path, target: str | None) -> ArraySource:
    """Return the source for a file that is not a table.

    Raises:
        InvalidArgument: if a target is named for a file that has its own.
    """
    if form(path) in ("npy", "npz"):
        return MatrixSource(path, target)
    if target is not None:
        raise invalid("target", "is not for svmlight files, which hold their labels", target)
    return SvmlightSource(path)


def _labels(block: Arrays) -> Array:
    assert block.y is not None
    return block.y


def _open(path: Path) -> Any:
    if form(path) == "npz":
        return read_matrix(path)
    mapped = load_npy(path, mapped=True)
    if mapped.ndim != 2:
        raise DataError(f"{path} must be a matrix with two dimensions, but its shape is {mapped.shape}.")
    return mapped
