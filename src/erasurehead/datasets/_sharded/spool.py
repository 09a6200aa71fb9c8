"""An external sort of rows, in little memory, from the order of the file to the order of the tasks.

Rows come in blocks, each row with its place in the final order. They are collected in memory up to a limit, then
appended to one file for each *bucket*, a range of places that fits in memory. Then they are read bucket by bucket and
sorted.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from erasurehead._internal.arrays import AnyArray, IntArray
from erasurehead.datasets._encoded import Labels
from erasurehead.datasets._matrices import Matrix, csr
from erasurehead.datasets._sharded.folder import LabelledRows
from erasurehead.datasets._sources.rows import CHANGED
from erasurehead.errors import DataError

if TYPE_CHECKING:
    from erasurehead._internal.arrays import SparseMatrix


@dataclass(frozen=True, eq=False)
class _Batch:
    """Rows with their places."""

    places: IntArray
    rows: LabelledRows


class Spool:
    """Buckets of rows on disk.

    Arguments:
        folder: folder for the buckets' files.
        edges: bucket i is for the places from `edges[i]` to `edges[i + 1]`, shape (n_buckets + 1,).
        room: bytes of rows that are collected in memory before they are written.
        source: the file that the rows are from, for messages.

    Attributes:
        entries: number of stored numbers in each bucket, shape (n_buckets,).
        ones: whether all stored numbers of each bucket are 1, shape (n_buckets,).
    """

    def __init__(self, folder: Path, edges: IntArray, room: int, source: str) -> None:
        self._folder = folder
        self._edges = edges
        self._room = room
        self._source = source
        self._waiting: list[_Batch] = []
        self._bytes = 0
        self.entries = np.zeros(len(edges) - 1, dtype=np.int64)
        self.ones = np.ones(len(edges) - 1, dtype=bool)

    def add(self, places: IntArray, X: Matrix, y: Labels) -> None:
        """Add some rows.

        Arguments:
            places: places of the rows in the final order, shape (n_rows,).
            X: the rows; stored zeros are removed, as everywhere where gradients are computed.
            y: their labels, of eight bytes each.
        """
        if not len(places):
            return
        rows = X if isinstance(X, np.ndarray) else _without_zeros(X)
        self._waiting.append(_Batch(places, LabelledRows(rows, y)))
        self._bytes += 16 * len(places) + (rows.nbytes if isinstance(rows, np.ndarray) else 12 * len(rows.data))
        if self._bytes >= self._room:
            self.flush()

    def flush(self) -> None:
        """Write the collected rows to the buckets' files."""
        if not self._waiting:
            return
        batch = _sorted(self._waiting)
        self._waiting, self._bytes = [], 0
        cuts = np.searchsorted(batch.places, self._edges)
        for bucket in np.flatnonzero(np.diff(cuts)):
            low, high = int(cuts[bucket]), int(cuts[bucket + 1])
            rows = LabelledRows(batch.rows.X[low:high], batch.rows.y[low:high])
            self._append(int(bucket), batch.places[low:high], rows)

    def _append(self, bucket: int, places: IntArray, rows: LabelledRows) -> None:
        X, y = rows
        if isinstance(X, np.ndarray):
            arrays: list[AnyArray] = [places, y, X]
            self.entries[bucket] += X.size
        else:
            ones = bool((X.data == 1.0).all())
            arrays = [places, y, X.indptr, X.indices, X.data[:0] if ones else X.data]
            self.entries[bucket] += len(X.indices)
            self.ones[bucket] &= ones
        with self._path(bucket).open("ab") as file:
            for array in arrays:
                np.save(
                    stored := io.BytesIO(), array
                )  # of a file of its own, numpy would not say why it is not written
                file.write(stored.getbuffer())

    def take(self, bucket: int, dense: bool, n_columns: int) -> LabelledRows:
        """Return the rows of a bucket in the order of their places, and remove them.

        Raises:
            DataError: if some place has no row, or two, because the source has changed.
        """
        path = self._path(bucket)
        expected = np.arange(int(self._edges[bucket]), int(self._edges[bucket + 1]))
        batch = _sorted([*_batches(path, dense, n_columns)]) if path.exists() else None
        if batch is None or not np.array_equal(batch.places, expected):
            raise DataError(CHANGED.format(source=self._source))
        path.unlink()
        return batch.rows

    def _path(self, bucket: int) -> Path:
        return self._folder / f"bucket-{bucket:07}"


def _batches(path: Path, dense: bool, n_columns: int) -> Iterator[_Batch]:
    """Yield what `_append` wrote, one batch per call."""
    with path.open("rb") as file:
        while file.peek(1):
            places, y, rows, *more = (np.load(file) for _ in range(3 if dense else 5))
            if not dense:
                columns, values = more
                rows = csr(values if len(values) else np.ones(len(columns)), columns, rows, (len(y), n_columns))
            yield _Batch(places, LabelledRows(rows, y))


def _sorted(batches: Sequence[_Batch]) -> _Batch:
    """Return all rows in the order of their places."""
    places = np.concatenate([batch.places for batch in batches])
    y: NDArray[Any] = np.concatenate([cast("NDArray[Any]", batch.rows.y) for batch in batches])
    matrices = [batch.rows.X for batch in batches]
    rows = matrices[0] if len(matrices) == 1 else _stacked(matrices)
    if bool((np.diff(places) > 0).all()):
        return _Batch(places, LabelledRows(rows, y))
    order = np.argsort(places, kind="stable")
    return _Batch(places[order], LabelledRows(rows[order], y[order]))


def _stacked(matrices: list[Matrix]) -> Matrix:
    if isinstance(matrices[0], np.ndarray):
        return np.concatenate(cast("list[NDArray[Any]]", matrices))
    from scipy import sparse

    stack: Any = sparse.vstack
    return stack(matrices, format="csr")


def _without_zeros(matrix: SparseMatrix) -> SparseMatrix:
    if matrix.data.all():
        return matrix
    smaller = matrix.copy()
    smaller.eliminate_zeros()
    return smaller


def bucket_edges(starts: Sequence[int], end: int, rows: int) -> tuple[IntArray, list[range]]:
    """Cut ranges of places into buckets of at most `rows` rows.

    Arguments:
        starts: the first place of each range, ascending from 0.
        end: the end of the last range.
        rows: largest number of rows, at least 1.

    Returns:
        The buckets' edges, shape (n_buckets + 1,); and for each range its buckets.
    """
    edges: list[int] = [0]
    owned: list[range] = []
    for low, high in pairwise([*starts, end]):
        first = len(edges) - 1
        edges += [*range(low + rows, high, rows), high]
        owned.append(range(first, len(edges) - 1))
    return np.array(edges, dtype=np.int64), owned
