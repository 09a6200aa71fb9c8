"""Reading a folder of shards: files are read whole, and length and checksum are verified before they are used."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from erasurehead._internal.arrays import AnyArray, Array, BoolArray, IntArray, ShortIntArray
from erasurehead._internal.atomic_files import write_whole, writing
from erasurehead._internal.storage.folders import Folder
from erasurehead._internal.tensor_format import decode_tensors
from erasurehead._internal.user_files import StrPath
from erasurehead.datasets._encoded import Labels, Task
from erasurehead.datasets._matrices import Matrix, csr
from erasurehead.datasets._preprocessing.encoding import Encoding
from erasurehead.datasets._preprocessing.table_encoding import TableEncoding
from erasurehead.datasets._sharded.manifest import MANIFEST, Form, ShardManifest, StoredFile, read_manifest
from erasurehead.datasets._sharded.placement import PLACEMENT, Placement, read_placement
from erasurehead.errors import DataError, counted, unreadable

_REMEDY = "copy it again, or shard the data again"

_verdicts: dict[tuple[str, int, int, str], str] = {}
"""Results of checksums in this process: by path, length, time of change and expected checksum, the complaint."""


class LabelledRows(NamedTuple):
    """Rows of a design matrix with their labels, as stored in a file."""

    X: Matrix
    y: Labels


def is_sharded(path: StrPath) -> bool:
    """Return whether a path is a folder that has a manifest.

    Arguments:
        path: any path, which need not exist.
    """
    return (Path(path).expanduser() / MANIFEST).is_file()


def read_checked(folder: Path, file: StoredFile) -> bytearray:
    """Return the bytes of a file, after verifying that they are those that were written.

    The checksum is computed once per file and process, as long as neither the length nor the time of change of the file
    changes.

    Raises:
        DataError: if the file is missing, not a regular file in the folder, cannot be read, or has another length or
            checksum; the message names it.
    """
    path = folder / file.name
    try:
        with Folder.open(folder) as opened:
            number = opened.opened(file.name)
        with os.fdopen(number, "rb") as stream:
            state = os.fstat(stream.fileno())
            if state.st_size != file.bytes:
                raise DataError(f"{path} holds {state.st_size} bytes instead of {file.bytes}; {_REMEDY}.")
            key = (str(path), state.st_size, state.st_mtime_ns, file.sha256)
            if complaint := _verdicts.get(key):
                raise DataError(complaint)
            data = bytearray(file.bytes)
            if (count := stream.readinto(data)) != file.bytes:
                raise DataError(f"{path} ends after {count} of {file.bytes} bytes; {_REMEDY}.")
    except FileNotFoundError:
        raise DataError(f"{path} is missing; {_REMEDY}.") from None
    except OSError as error:
        raise unreadable(path, error) from None
    if key not in _verdicts:
        checksum = hashlib.sha256(data).hexdigest()
        _verdicts[key] = (
            ""
            if checksum == file.sha256
            else f"{path} is damaged: its SHA-256 is {checksum[:12]}... instead of {file.sha256[:12]}...; {_REMEDY}."
        )
    if complaint := _verdicts[key]:
        raise DataError(complaint)
    return data


def read_rows(folder: Path, file: StoredFile, form: Form, n_columns: int) -> LabelledRows:
    """Read the rows of a task, or the test rows.

    Arguments:
        folder: where the file is.
        file: the file's entry in the manifest.
        form: how the rows are stored.
        n_columns: number of columns of the design matrix.

    Raises:
        DataError: as for `read_checked`, or if the file does not hold such rows.
    """
    path = str(folder / file.name)
    tensors, _ = decode_tensors(read_checked(folder, file), path)
    try:
        y = tensors["labels"]
        X = tensors["rows"] if form == "dense" else _sparse(tensors, n_columns)
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"{path} does not hold {form} rows ({error}).") from None
    if X.shape != (file.rows, n_columns) or y.shape != (file.rows,):
        shape = " x ".join(map(str, X.shape))
        raise DataError(f"{path} holds {shape} instead of {file.rows} x {n_columns}.")
    values: Any = cast("Any", X) if form == "dense" else cast("Any", X).data
    if values.dtype != np.float64 or y.dtype.name not in ("float64", "int64") or not np.isfinite(values).all():
        raise DataError(f"{path} holds values that are not finite float64 numbers.")
    return LabelledRows(X, y)


def joined_rows(parts: Sequence[LabelledRows]) -> LabelledRows:
    """Return the rows of several parts, one after the other."""
    if len(parts) == 1:
        return parts[0]
    y: NDArray[Any] = np.concatenate([cast("NDArray[Any]", part.y) for part in parts])
    matrices: list[Any] = [part.X for part in parts]
    if isinstance(matrices[0], np.ndarray):
        return LabelledRows(np.concatenate(matrices), y)
    from scipy import sparse

    stack: Any = sparse.vstack
    return LabelledRows(stack(matrices, format="csr"), y)


def _sparse(tensors: dict[str, AnyArray], n_columns: int) -> Matrix:
    edges, columns = tensors["edges"], tensors["columns"]
    values = tensors.get("values")
    matrix = csr(np.ones(len(columns)) if values is None else values, columns, edges, (len(edges) - 1, n_columns))
    matrix.check_format(full_check=True)  # a column out of bounds would make the loops write out of bounds
    return matrix


@dataclass(frozen=True, eq=False)
class RowsInPlace:
    """Reads and encodes rows of a folder of Parquet files where they are used.

    Arguments:
        encoding: how they are encoded.
        edges: the first row of each task, and the end, shape (n_tasks + 1,).
        testing: which rows are for testing, shape (n_rows,).
    """

    encoding: TableEncoding
    edges: IntArray
    testing: BoolArray

    def read(self, folder: Path, files: Sequence[StoredFile], testing: bool = False) -> LabelledRows:
        """Return the training rows of tasks that follow each other, or the test rows between them.

        Raises:
            DataError: if they cannot be read, or are not those that the encoding was fitted to.
        """
        before, last = (int(self.edges[int(files[place].name) - place]) for place in (0, -1))
        parts: list[LabelledRows] = []
        for block in self.encoding.blocks(folder, before, last):
            rows = np.flatnonzero(self.testing[before : before + block.n_rows] == testing)
            before += block.n_rows
            if len(rows):
                X, y, _ = self.encoding.apply(block.take(rows))
                assert y is not None
                parts.append(LabelledRows(X, y))
        if before != last:
            raise DataError(f"{folder} has changed: row {before} is not there; begin a new run.")
        return joined_rows(parts)


@dataclass(frozen=True, eq=False)
class ShardFolder:
    """A data set in a folder that `shard` wrote, or in one of Parquet files whose rows stay where they are.

    It says of them what `Dataset` says of data in memory.

    Arguments:
        path: of the folder.
        manifest: its manifest.
        in_place: reads the rows of Parquet files; None for shards.
    """

    path: Path
    manifest: ShardManifest
    in_place: RowsInPlace | None = None
    published: ClassVar[None] = None

    @classmethod
    def open(cls, path: StrPath) -> ShardFolder:
        """Read the manifest of a folder, and nothing else.

        Raises:
            DataError: if it has none.
        """
        place = Path(path).expanduser().absolute()
        return cls(place, read_manifest(place))

    @cached_property
    def encoding(self) -> Encoding:
        """How raw rows become rows of the matrix."""
        if self.in_place is not None:
            return self.in_place.encoding
        data = read_checked(self.path, self.manifest.encoding)
        encoding = Encoding.from_json(data)
        stated = self.manifest.task, self.manifest.classes
        if stated != (encoding.target.task, encoding.target.n_classes):
            raise DataError(
                f"The manifest in {self.path} says that labels are for {stated[0]} with {stated[1]} classes, and the "
                f"encoding, {encoding.target.task} with {encoding.target.n_classes}; {_REMEDY}."
            )
        return encoding

    @property
    def placement(self) -> Placement | None:
        """Which machine has which tasks; None if nobody has said it.

        Raises:
            InvalidArgument: if what was said does not fit the tasks.
        """
        path = self.path / PLACEMENT
        return read_placement(path, self.manifest.n_tasks) if path.is_file() else None

    def place(self, path: StrPath) -> None:
        """Take over from a file of JSON which machine has which tasks.

        Raises:
            InvalidArgument: if it does not name the tasks of each machine, or some task is on none.
            RecordsError: if the folder cannot be written.
        """
        placement, kept = read_placement(path, self.manifest.n_tasks), self.path / PLACEMENT
        write_whole(kept, [json.dumps(placement).encode() + b"\n"])
        with writing(kept):
            kept.chmod((self.path / MANIFEST).stat().st_mode & 0o777)  # who may read the data may read where they are

    @property
    def name(self) -> str:
        """Short name."""
        return self.manifest.name

    @property
    def task(self) -> Task:
        """The kind of problem: `logistic`, `least_squares` or `softmax`."""
        return self.manifest.task

    @property
    def source(self) -> str:
        """The folder."""
        return str(self.path)

    @property
    def notes(self) -> tuple[str, ...]:
        """What a user should know about the rows."""
        what = "shard" if self.in_place is None else "task"
        return (f"{counted(what, self.manifest.n_tasks)} of {self.manifest.origin.file}", *self.manifest.notes)

    @property
    def n_train(self) -> int:
        """Number of training rows."""
        return self.manifest.n_train

    @property
    def n_test(self) -> int:
        """Number of test rows."""
        return self.manifest.n_test

    @property
    def n_columns(self) -> int:
        """Number of columns of the design matrix, the constant included."""
        return self.manifest.columns

    @property
    def n_classes(self) -> int:
        """Number of classes; 0 for least squares."""
        return self.manifest.classes

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the manifest, and so of all data."""
        return self.manifest.fingerprint

    def covariance(self, vector: Array) -> Array:
        """Return `X^T X vector` over the training rows, shape (n_columns,); all shards are read, one by one."""
        total = np.zeros(self.n_columns)
        for task in range(self.manifest.n_tasks):
            X: Any = self.rows_of(task).X
            total += X.T @ (X @ vector)
        return total

    def rows_of(self, task: int) -> LabelledRows:
        """Return the rows of a task."""
        return self._rows(self.manifest.tasks[task])

    def test_rows(self) -> LabelledRows | None:
        """Return the test rows; None if there are none."""
        return None if self.manifest.test is None else self._rows(self.manifest.test)

    def _rows(self, file: StoredFile) -> LabelledRows:
        if self.in_place is not None:
            testing = file is self.manifest.test
            return self.in_place.read(self.path, self.manifest.tasks if testing else [file], testing)
        return read_rows(self.path, file, self.manifest.form, self.manifest.columns)

    def support(self, tasks: Sequence[int]) -> IntArray | None:
        """Return the columns that some tasks touch, ascending; None if they touch all."""
        if self._supports is None:
            return None
        edges, columns = self._supports
        touched = np.zeros(self.manifest.columns, dtype=bool)
        for task in tasks:
            touched[columns[edges[task] : edges[task + 1]]] = True
        support = np.flatnonzero(touched)
        return None if len(support) == self.manifest.columns else support

    @cached_property
    def _supports(self) -> tuple[IntArray, ShortIntArray] | None:
        file = self.manifest.supports
        if file is None:
            return None
        path = self.path / file.name
        tensors, _ = decode_tensors(read_checked(self.path, file), str(path))
        edges, columns = (tensors.get(name, np.zeros(0)) for name in ("edges", "columns"))
        whole = all(part.ndim == 1 and part.dtype.kind == "i" for part in (edges, columns))
        cut = whole and len(edges) == self.manifest.n_tasks + 1 and edges[0] == 0 and edges[-1] == len(columns)
        inside = cut and columns.min(initial=0) >= 0 and columns.max(initial=0) < self.manifest.columns
        if not (inside and (np.diff(edges) >= 0).all()):
            raise DataError(f"{path} does not hold the columns of {self.manifest.n_tasks} tasks; {_REMEDY}.")
        return edges, columns

    def check_there(self) -> None:
        """Raise unless every file is there with its length; none is read.

        Raises:
            DataError: if one is not; the message names it.
        """
        try:
            with Folder.open(self.path) as folder:
                for file in self.manifest.files if self.in_place is None else ():
                    if folder.kind(file.name) != "file":
                        raise DataError(f"{self.path / file.name} is missing; {_REMEDY}.")
                    if (size := folder.size(file.name)) != file.bytes:
                        raise DataError(
                            f"{self.path / file.name} holds {size} bytes instead of {file.bytes}; {_REMEDY}."
                        )
        except OSError as error:
            raise unreadable(self.path, error) from None

    def check(self) -> list[str]:
        """Read every file, and return the problems, one sentence per file; empty if there are none."""
        complaints: list[str] = []
        for file in self.manifest.files:
            try:
                read_checked(self.path, file)
            except DataError as error:
                complaints.append(str(error))
        return complaints
