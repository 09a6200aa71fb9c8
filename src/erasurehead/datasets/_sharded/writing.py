"""Sharding: a file of any size becomes a folder with one file of rows per task."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import stat
from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from erasurehead._internal.arrays import ShortIntArray
from erasurehead._internal.partition import split_samples
from erasurehead._internal.storage.access import ACCESS, FILE_MODES, FOLDER_MODES, Access
from erasurehead._internal.storage.folders import Folder
from erasurehead._internal.user_files import StrPath
from erasurehead.datasets._base import RowSplit
from erasurehead.datasets._encoded import EncodingReport, Task
from erasurehead.datasets._preprocessing.target import check_task
from erasurehead.datasets._readers.forms import opened
from erasurehead.datasets._sharded.folder import ShardFolder
from erasurehead.datasets._sharded.manifest import MANIFEST, Form, Origin, ShardManifest, StoredFile
from erasurehead.datasets._sharded.shard_files import RowFiles, write_supports, write_text
from erasurehead.datasets._sharded.spool import Spool, bucket_edges
from erasurehead.datasets._sources import Asked, asked, source_of
from erasurehead.datasets._sources.rows import CHANGED, Fitted, RowSource, remarks
from erasurehead.errors import DataError, check_choice, check_count, check_size, counted, invalid

BLOCK = 1 << 24
"""Bytes of encoded rows that are collected before they are written, and that a bucket holds; about three times as much
memory is used, plus the text of a block (40 MB)."""


def shard(
    path: StrPath,
    n_tasks: int,
    out: StrPath,
    target: StrPath | None = None,
    *,
    task: Task | None = None,
    constant: bool = True,
    test_fraction: float | None = 0.2,
    seed: int = 0,
    loss: str = "",
    block: int = BLOCK,
    access: Access = "private",
    say: Callable[[str], None] | None = None,
    **how: Unpack[Asked],
) -> ShardFolder:
    """Cut a file into shards, one per task, without ever holding all of it in memory.

    The folder has the rows, encoding and split that `erasurehead.datasets.read` makes of the file with the same
    arguments, bit for bit, and each task has the rows that `split_samples` gives it. The file is read twice, or three
    times for a CSV file with a random test part, as rows must be counted first; the folder is created under another
    name and renamed when it is complete.

    Memory is bounded by `block`, the vocabularies, and per row 24 bytes for the random split (8 once it is drawn) and 4
    for labels that are classes. A `.npz` file has to be read as a whole.

    Arguments:
        path: the file: CSV, Parquet, svmlight/LIBSVM, `.npy` or `.npz`, as for `read`.
        n_tasks: number of tasks; codes over a divisor of it can be used, too.
        out: the folder to create.
        target: see `read`.
        task: see `read`.
        constant: see `read`.
        test_fraction: see `read`.
        seed: see `read`.
        loss: what is trained from the shards unless a run says otherwise, such as `"poisson"`; by default what the task
            stands for.
        block: bytes of encoded rows that are held at a time.
        access: who may read the folder and its files: only you (`"private"`), your `"group"`, or `"all"`, for workers
            that read them under another user id. An existing folder keeps its mode.
        say: called with what is being done.
        **how: the other arguments of `read`, on columns and on text tables, such as `one_hot`.

    Returns:
        The folder.

    Raises:
        DataError: if the file cannot be used, or changes while it is read; the message says where.
        InvalidArgument: if an argument does not fit the file, there are more tasks than training rows, or the
            folder is not empty.
        OSError: for example if the disk is full. Nothing is left of the folder then.
    """
    check_size("n_tasks", n_tasks)
    check_count("block", block)
    check_choice("access", access, ACCESS)
    tell: Callable[[str], None] = say or (lambda text: None)
    folder = _free(out)
    columns, dialect = asked(how)
    split = RowSplit(test_fraction, seed)
    check_task(task)
    place = opened(path).absolute()
    source = source_of(place, target, columns, dialect)
    with _folder_to_be(folder, access) as scratch:
        with _unchanged(place):
            tell(f"reading {place} for the encoding ...")
            fitted = source.fit(split, task, constant)
            tasks = split_samples(fitted.places.n_train, n_tasks)
            tell(f"encoding {counted('row', fitted.places.n_rows)} ...")
            writing = _Writing(scratch, source, fitted, tasks, block)
            writing.spool_rows()
        tell(f"writing {counted('task', n_tasks)} ...")
        origin = Origin(
            str(place), sum(size for _, size, _ in _state(place)), fitted.places.n_rows, test_fraction or 0.0, seed
        )
        writing.finish(origin, loss)
    return ShardFolder.open(folder)


class _Writing:
    """The second pass: rows through the spool into files.

    Arguments:
        folder: folder for the files.
        source: source of the rows.
        fitted: result of the first pass.
        tasks: the ranges of the training rows.
        block: bytes of rows that are held at a time.
    """

    def __init__(
        self, folder: Path, source: RowSource[Any], fitted: Fitted, tasks: Sequence[slice], block: int
    ) -> None:
        self._folder = folder
        self._source = source
        self._fitted = fitted
        self._tasks = tasks
        n_rows, n_train = fitted.places.n_rows, fitted.places.n_train
        row = 16 + fitted.entries_per_row * (8 if fitted.dense else 12)
        starts = [rows.start for rows in tasks] + [n_train] * (n_train < n_rows)
        edges, self._buckets = bucket_edges(starts, n_rows, max(1, int(block / row)))
        self._spool = Spool(folder, edges, block, source.source)
        self._reports = {training: EncodingReport(0, {}, {}) for training in (True, False)}

    def spool_rows(self) -> None:
        """Encode all rows, and spool each for its task."""
        for piece in self._source.pieces(self._fitted):
            if len(piece.places):
                self._reports[int(piece.places[0]) < self._fitted.places.n_train] += piece.report
            self._spool.add(piece.places, piece.X, piece.y)
        self._spool.flush()

    def finish(self, origin: Origin, loss: str) -> None:
        """Write all files, the manifest last."""
        encoding, places, name, dense = (
            self._fitted.encoding,
            self._fitted.places,
            self._source.name,
            self._fitted.dense,
        )
        target, n_columns = encoding.target, encoding.n_columns
        writer = RowFiles(self._folder, self._spool, n_columns, dense, target.task == "softmax")
        about = {"data": name, "columns": str(n_columns), "labels": target.task, "tasks": str(len(self._tasks))}
        form: Form = "dense" if dense else "sparse"
        if not dense and self._spool.ones[: self._buckets[len(self._tasks) - 1].stop].all():
            form = "pattern"  # all numbers of all training rows are ones
        tasks, supports = self._write_tasks(writer, about)
        n_test = places.n_rows - places.n_train
        test = writer.write("test.safetensors", self._buckets[-1], n_test, about)[0] if n_test else None
        notes = (*self._fitted.notes, *self._fitted.warnings, *remarks(self._reports[True], self._reports[False]))
        manifest = ShardManifest(
            name=name,
            task=target.task,
            classes=target.n_classes,
            form=form,
            columns=n_columns,
            origin=origin,
            notes=notes,
            encoding=write_text(self._folder / "encoding.json", [encoding.to_json()]),
            supports=None if dense else write_supports(self._folder / "supports.safetensors", supports),
            test=test,
            tasks=tasks,
            loss=loss,
        )
        write_text(self._folder / MANIFEST, [manifest.text])

    def _write_tasks(
        self, writer: RowFiles, about: Mapping[str, str]
    ) -> tuple[tuple[StoredFile, ...], list[ShortIntArray]]:
        """Write the file of each task; return them, and the columns that each task touches."""
        files: list[StoredFile] = []
        supports: list[ShortIntArray] = []
        for number, rows in enumerate(self._tasks):
            facts = {"task": str(number), "first_row": str(rows.start), **about}
            file, touched = writer.write(
                f"task-{number:05}.safetensors", self._buckets[number], rows.stop - rows.start, facts
            )
            files.append(file)
            supports.append(np.flatnonzero(touched).astype(np.int32))
        return tuple(files), supports


@contextlib.contextmanager
def _unchanged(path: Path) -> Generator[None]:
    """Raise `DataError` if a file has changed during the block."""
    before = _state(path)
    yield
    if _state(path) != before:
        raise DataError(CHANGED.format(source=path))


def _state(path: Path) -> list[tuple[int, int, int]]:
    """Return which file a path is, how long, and when it was changed; of a folder, of each of its files."""
    files = sorted(path.rglob("*.parquet")) if path.is_dir() else [path]
    return [(status.st_ino, status.st_size, status.st_mtime_ns) for status in (file.stat() for file in files)]


def _free(out: StrPath) -> Path:
    place = Path(out).expanduser().absolute()
    try:
        if place.is_symlink():
            place = place.resolve()  # a link is the user's way to say where the folder should be
        above = next(folder for folder in (place, *place.parents) if folder.exists())
        why = "" if above.is_dir() or above == place else f"{str(above)!r} is a file"
    except RuntimeError:
        why = "it is a link to itself"
    if why or "\0" in str(place):
        raise invalid(
            "out", "must be a folder that can be made", os.fspath(out), why or "a NUL character is in its name"
        )
    if place.exists() and (not place.is_dir() or any(place.iterdir())):
        reason = "is already in use: it is not empty" if place.is_dir() else "is a file"
        raise invalid("out", "must be a folder that is empty or not there", os.fspath(out), f"this one {reason}")
    return place


@contextlib.contextmanager
def _folder_to_be(folder: Path, access: Access) -> Generator[Path]:
    """Create a folder under a temporary name, and rename it if all goes well; otherwise remove it.

    While it is written, nobody else has access to it; then it has the mode of the folder that it replaces.
    """
    scratch = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}.part")
    above = [parent for parent in scratch.parents if not parent.exists()]  # the innermost first
    try:
        Folder.made(scratch).close()
        yield scratch
        for file in scratch.iterdir():
            file.chmod(FILE_MODES[access])
        scratch.chmod(stat.S_IMODE(folder.stat().st_mode) if folder.is_dir() else FOLDER_MODES[access])
        # The names in the folders must survive a power cut, like the files' contents.
        with Folder.open(scratch) as written, Folder.open(folder.parent) as above_it:
            written.sync()
            scratch.replace(folder)
            above_it.sync()
    except OSError as error:
        reason = f"{error.strerror or error}; the shards that were begun were removed"
        culprit = str(error.filename or scratch)
        raise OSError(error.errno, reason, str(folder) if culprit.startswith(str(scratch)) else culprit) from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
        with contextlib.suppress(OSError):  # a folder that holds the shards stays
            for parent in above:
                parent.rmdir()
