"""Shards that know where their data are: only the names of files are sent to a worker, which reads them."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, final

import numpy as np

from erasurehead._internal.arrays import Array, IntArray, Places
from erasurehead.datasets._sharded.folder import LabelledRows, RowsInPlace, joined_rows, read_rows
from erasurehead.datasets._sharded.manifest import Form, StoredFile
from erasurehead.errors import DataError, InvalidArgument
from erasurehead.problems._base import Shard
from erasurehead.problems._checks import check_target
from erasurehead.problems._design_matrices import DenseDesign, Design, PatternDesign, SparseDesign
from erasurehead.problems._losses import SampleLoss
from erasurehead.problems._shards import LinearShard, Piece, build_shard, hold_rows, on_support, parameters_of

if TYPE_CHECKING:
    from erasurehead._internal.arrays import SparseMatrix

HOST = "{host}"
"""Placeholder for the name of the worker's host in the path of its folder."""


@dataclass(frozen=True)
class Store:
    """Where shards are stored, and what they have in common.

    Arguments:
        folder: its path where the data are read; `{host}` in it stands for the name of the machine.
        form: how rows are stored.
        n_columns: number of columns of the design matrix.
        n_samples: number of training samples in all tasks; losses are divided by it.
        sample_loss: the loss of one sample.
        in_place: reads rows that are not stored but encoded where they are used; None if they are stored.
    """

    folder: str
    form: Form
    n_columns: int
    n_samples: int
    sample_loss: SampleLoss
    in_place: RowsInPlace | None = None

    def read(self, files: Sequence[StoredFile]) -> LabelledRows:
        """Return the rows of some files, one after the other.

        Raises:
            DataError: if a file is missing or damaged, or holds labels of another loss; the message names it.
        """
        folder = Path(self.folder.replace(HOST, socket.gethostname()))
        if self.in_place is not None:
            return self._checked(self.in_place.read(folder, files), folder)
        parts = [read_rows(folder, file, self.form, self.n_columns) for file in files]
        return joined_rows([self._checked(rows, folder / file.name) for rows, file in zip(parts, files, strict=True)])

    def _checked(self, rows: LabelledRows, place: Path) -> LabelledRows:
        try:
            target = check_target(rows.y, "the labels", len(rows.y), "the rows")
            return LabelledRows(rows.X, self.sample_loss.labels(target, "the labels"))
        except InvalidArgument as error:
            raise DataError(f"{place} does not hold what its manifest says: {error}") from None

    def design(self, rows: LabelledRows) -> Design:
        """Return rows in the form of the whole data: a task with only ones is not a pattern if other tasks differ."""
        if self.form == "dense":
            return DenseDesign(cast("Array", rows.X))
        kind = PatternDesign if self.form == "pattern" else SparseDesign
        return kind(cast("SparseMatrix", rows.X))


@final
class StoredShard(Shard):
    """Tasks whose data are read where they are used.

    It holds only a few numbers, file names and checksums until it is used, or unpickled on a worker: a worker that is
    ready has read its data. Problems with a file are raised whenever the shard is used, which costs the worker's
    messages but not the worker; once the file is repaired, the shard works again.

    Arguments:
        store: where the files are.
        tasks: the files of each task.
        features: the columns that the tasks touch, ascending; None if all of them.
    """

    def __init__(self, store: Store, tasks: Sequence[Sequence[StoredFile]], features: IntArray | None) -> None:
        self._store = store
        self._tasks = tuple(map(tuple, tasks))
        self._features = None if features is None else features.astype(np.int32)
        self._sizes: Sequence[Sequence[int]] = ()  # of what each task is cut into; empty if none is
        self._prepare()

    def _prepare(self) -> None:
        self._loaded: LinearShard | None = None
        self.n_tasks = len(self._tasks) * (len(self._sizes[0]) if self._sizes else 1)
        self.support = None
        if self._features is not None:
            n_outputs = self._store.sample_loss.n_outputs
            self.support = parameters_of(self._features, n_outputs, self._store.n_columns)

    def __getstate__(self) -> dict[str, Any]:
        return {"store": self._store, "tasks": self._tasks, "features": self._features, "sizes": self._sizes}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._store, self._tasks, self._features = state["store"], state["tasks"], state["features"]
        self._sizes = state["sizes"]
        self._prepare()
        with contextlib.suppress(DataError):  # raised when the shard is used, which costs messages and not the worker
            self._shard()

    def cut(self, sizes: Sequence[Sequence[int]]) -> StoredShard:
        """Return the same shard over finer tasks: see `LinearShard.cut`."""
        features = None if self._features is None else self._features.astype(np.int64)
        finer = StoredShard(self._store, self._tasks, features)
        finer._sizes = sizes
        finer._prepare()
        return finer

    def take(self, point: Array) -> Array:
        return on_support(point, self.support)

    def combine(self, local: Array, coefficients: Array, step: int, out: Array) -> float:
        return self._shard().combine(local, coefficients, step, out)

    def curvature(self, coefficients: Array, out: Array) -> float:
        return self._shard().curvature(coefficients, out)

    def block(self, local: Array, marks: Array, coefficients: Array, coupled: bool, out: Array) -> None:
        self._shard().block(local, marks, coefficients, coupled, out)

    def newton_step(
        self, local: Array, vector: Array, coefficients: Array, damping: float, iterations: int, out: Array
    ) -> None:
        self._shard().newton_step(local, vector, coefficients, damping, iterations, out)

    def _shard(self) -> LinearShard:
        """Return the shard with its data, reading them if they have not been read.

        Raises:
            DataError: if a file is missing or damaged; the message names it.
        """
        if self._loaded is None:
            apart = self._store.form == "dense" or self._store.in_place is not None
            shard = self._read_apart() if apart else self._read_joined()
            self._loaded = shard.cut(self._sizes) if self._sizes else shard
        return self._loaded

    def _read_joined(self) -> LinearShard:
        store = self._store
        rows = store.read([file for files in self._tasks for file in files])
        edges = [0, *accumulate(sum(file.rows for file in files) for files in self._tasks)]
        ranges = [slice(low, high) for low, high in pairwise(edges)]
        shard = build_shard(store.design(rows), rows.y, store.sample_loss, ranges, store.n_samples)
        if not np.array_equal(_whole(shard.support), _whole(self.support)):
            raise DataError(f"the supports in {store.folder} are not those of its tasks; shard the data anew.")
        return shard

    def _read_apart(self) -> LinearShard:
        """Read each task into an array of its own: joining them would hold the data twice for a moment."""
        store = self._store
        pieces: list[Piece] = []
        for task, files in enumerate(self._tasks):
            rows = store.read(files)
            for piece in hold_rows(store.design(rows), rows.y, store.sample_loss).pieces:
                pieces.append(Piece(piece.block, piece.labels, tuple((task, part) for _, part in piece.parts)))
        return LinearShard(store.sample_loss, pieces, len(self._tasks), store.n_samples, store.n_columns, None)


def _whole(support: Places | None) -> Places:
    return np.zeros(0, dtype=np.int32) if support is None else support
