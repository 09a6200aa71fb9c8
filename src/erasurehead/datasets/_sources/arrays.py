"""LIBSVM, `.npy` and `.npz` files as streams of encoded rows: columns stay as they are."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from erasurehead._internal.arrays import Array, IntArray
from erasurehead.datasets._base import RowSplit
from erasurehead.datasets._encoded import Encoded, EncodingReport, Labels, Task
from erasurehead.datasets._matrices import floats, not_finite, split_last_column
from erasurehead.datasets._preprocessing.array_encoding import ArrayEncoding
from erasurehead.datasets._readers.arrays import Arrays, load_npy, read_arrays, read_labels
from erasurehead.datasets._readers.forms import form
from erasurehead.datasets._readers.svmlight import matrix, svmlight_blocks
from erasurehead.datasets._readers.table import NumberColumn
from erasurehead.datasets._sources.labels import LabelValues
from erasurehead.datasets._sources.rows import CHANGED, EMPTY, Fitted, RowSource, final
from erasurehead.errors import DataError, invalid

_BLOCK = 1 << 22  # bytes of a matrix that are processed at once
_LAST = ("the labels are the last column of the matrix",)
_COUNTED = "columns are counted from {base}"


@dataclass(frozen=True, eq=False)
class _Shape:
    """What is known about a matrix before its rows are encoded.

    Arguments:
        n_features: number of columns, without labels and constant.
        base: index of the first column, for svmlight.
        labels_last: whether the labels are its last column.
        entries: number of stored numbers in all rows.
        notes: notes for people.
        dense: whether all numbers are stored.
    """

    n_features: int
    base: int
    labels_last: bool
    entries: int
    notes: tuple[str, ...]
    dense: bool = False


class ArraySource(RowSource[Arrays]):
    """A file that holds a matrix.

    Arguments:
        path: of the file.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(str(path), path.name.split(".")[0])
        self._path = path

    def fit(self, split: RowSplit, task: Task | None, constant: bool) -> Fitted:
        labels = LabelValues("", task)
        n_rows = 0
        for block in self.blocks():
            labels.add(NumberColumn(_labels(block)), block.place)
            n_rows += len(_labels(block))
        if not n_rows:
            raise DataError(EMPTY.format(source=self.source))
        shape = self._shape()
        target, places, moved = final(labels, split, n_rows, self.source)
        encoding = ArrayEncoding(shape.n_features, target, constant, shape.base, shape.labels_last)
        notes = (target.note(task), *moved, *shape.notes)
        return Fitted(encoding, places, shape.entries / n_rows + constant, shape.dense, notes)

    def labels(self, block: Arrays, encoding: ArrayEncoding) -> Labels:
        return encoding.target.apply(NumberColumn(_labels(block)), block.place)[0]

    def encoded(self, block: Arrays, encoding: ArrayEncoding, parts: Sequence[IntArray]) -> list[Encoded]:
        if block.beyond or int(block.X.shape[1]) != encoding.n_features:
            raise DataError(CHANGED.format(source=self.source))
        X = encoding.design(block)
        return [Encoded(X[rows], None, EncodingReport(len(rows), {}, {})) for rows in parts]

    @abstractmethod
    def _shape(self) -> _Shape:
        """Return the shape of the matrix, after all its blocks have been read once."""


class SvmlightSource(ArraySource):
    """An svmlight/LIBSVM file."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._lowest, self._highest, self._entries = 1, 0, 0

    def blocks(self, encoding: ArrayEncoding | None = None) -> Iterator[Arrays]:
        self._entries = 0
        for rows in svmlight_blocks(self._path):
            self._entries += len(rows.indices)
            self._lowest = min(self._lowest, int(rows.indices.min(initial=1)))
            self._highest = max(self._highest, int(rows.indices.max(initial=0)))
            width, base = (0, 0) if encoding is None else (encoding.n_features, encoding.base)
            X, beyond = matrix(rows, width, base)
            yield Arrays(X, rows.labels, lambda row, lines=rows.lines: f"{self.source}, line {lines[row]}", 0, beyond)

    def _shape(self) -> _Shape:
        base = min(self._lowest, 1)
        width = self._highest + 1 - base if self._entries else 0
        return _Shape(width, base, False, self._entries, (_COUNTED.format(base=base),))


class NpySource(ArraySource):
    """A `.npy` file, read in blocks.

    Arguments:
        path: of the file.
        target: the file of the labels; None if they are the matrix's last column.
    """

    def __init__(self, path: Path, target: str | None) -> None:
        super().__init__(path)
        self._matrix: Any = load_npy(path, mapped=True)
        if self._matrix.ndim != 2:
            raise DataError(f"{path} must be a matrix with two dimensions, but its shape is {self._matrix.shape}.")
        self._target = _labels_beside(path, target, self._matrix.shape)

    def blocks(self, encoding: ArrayEncoding | None = None) -> Iterator[Arrays]:
        n_rows, n_columns = (int(length) for length in self._matrix.shape)
        step = max(1, _BLOCK // (8 * n_columns))
        for before in range(0, n_rows, step):
            rows = slice(before, min(before + step, n_rows))
            block = floats(self._read(rows), self.source)
            wrong = np.argwhere(~np.isfinite(block))
            if len(wrong):
                row, column = (int(place) for place in wrong[0])
                raise not_finite(self.source, before + row, column, float(block[row, column]))
            X, y = split_last_column(block) if self._target is None else (block, self._target[rows])
            yield Arrays(X, y, lambda row, before=before: f"{self.source}, row {before + row}")

    def _read(self, rows: slice) -> Any:
        """Return rows of the file; they are read, as mapped pages would count as this process's memory."""
        mapped = self._matrix
        if not mapped.flags.c_contiguous:  # stored column by column, as in Fortran
            return mapped[rows]
        width = int(mapped.shape[1])
        start = mapped.offset + rows.start * width * mapped.dtype.itemsize
        values = np.fromfile(self._path, mapped.dtype, (rows.stop - rows.start) * width, offset=start)
        if len(values) != (rows.stop - rows.start) * width:
            raise DataError(CHANGED.format(source=self.source))
        return values.reshape(-1, width)

    def _shape(self) -> _Shape:
        last = self._target is None
        width = int(self._matrix.shape[1]) - last
        return _Shape(width, 0, last, len(self._matrix) * width, _LAST if last else (), dense=True)


class _InMemory(ArraySource):
    """A file that is read as a whole, and kept; arguments as for `array_source`."""

    def __init__(self, path: Path, target: str | None) -> None:
        super().__init__(path)
        arrays = read_arrays(path)
        y, self._notes = arrays.y, (_COUNTED.format(base=arrays.base),)
        if y is None:
            y, self._notes = _labels_beside(path, target, arrays.X.shape), ()
        self._last = y is None
        if y is None:
            rest, y = split_last_column(arrays.X)
            arrays, self._notes = replace(arrays, X=rest), _LAST
        self._arrays = replace(arrays, y=y)

    def blocks(self, encoding: ArrayEncoding | None = None) -> Iterator[Arrays]:
        yield self._arrays

    def _shape(self) -> _Shape:
        X: Any = self._arrays.X
        dense, width = isinstance(X, np.ndarray), int(X.shape[1])
        entries = int(X.size) if dense else len(X.data)
        return _Shape(width, self._arrays.base, self._last, entries, self._notes, dense)


def array_source(path: Path, target: str | None, whole: bool) -> ArraySource:
    """Return the source for a file that is not a table.

    Arguments:
        path: of the file.
        target: the file of the labels; None if the file has them.
        whole: whether all rows are read at once; those of `.npz` files always are.

    Raises:
        InvalidArgument: if a target is named for a file that has its own.
    """
    kind = form(path)
    if kind == "svmlight" and target is not None:
        raise invalid("target", "is not for svmlight files, which hold their labels", target)
    if whole or kind == "npz":
        return _InMemory(path, target)
    return NpySource(path, target) if kind == "npy" else SvmlightSource(path)


def _labels_beside(path: Path, target: str | None, shape: tuple[int, ...]) -> Array | None:
    """Return the labels of a matrix in a file of their own; None if they are its last column."""
    if target is None and shape[1] < 2:
        raise DataError(f"{path} has one column only; name the file that holds the labels as target.")
    return None if target is None else read_labels(target, path, shape[0])


def _labels(block: Arrays) -> Array:
    assert block.y is not None
    return block.y
