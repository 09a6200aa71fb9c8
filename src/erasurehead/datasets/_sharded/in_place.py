"""A folder of Parquet files as tasks of a run, without a copy: workers read and encode the rows of their own tasks."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Unpack

import numpy as np

from erasurehead._internal.partition import split_samples
from erasurehead._internal.user_files import StrPath
from erasurehead.datasets._base import RowSplit
from erasurehead.datasets._encoded import Task
from erasurehead.datasets._preprocessing.table_encoding import TableEncoding
from erasurehead.datasets._readers.forms import opened
from erasurehead.datasets._sharded.folder import RowsInPlace, ShardFolder
from erasurehead.datasets._sharded.manifest import Origin, ShardManifest, StoredFile
from erasurehead.datasets._sources import Asked, asked, source_of

TASKS = 240
"""Number of tasks, if there are as many training rows: most numbers of workers that people have divide it."""

_ENDS = 1 << 16  # bytes at the end of a file, where it says what is in it


def in_place(
    path: StrPath,
    target: str | None = None,
    *,
    task: Task | None = None,
    constant: bool = True,
    test_fraction: float | None = 0.2,
    seed: int = 0,
    **how: Unpack[Asked],
) -> ShardFolder:
    """Fit an encoding to a folder of Parquet files, and cut its training rows into tasks, in the order of the files.

    The test rows are those that `read` sets aside. No more than a block of rows is held, but nine bytes of each.

    Arguments:
        path: of the folder.
        target: the column of the labels; None for the last.
        task: see `read`.
        constant: see `read`.
        test_fraction: see `read`.
        seed: see `read`.
        **how: the other arguments of `read`.

    Raises:
        DataError, InvalidArgument: as for `read`.
    """
    place = opened(path).absolute()
    source = source_of(place, target, *asked(how))
    fitted = source.fit(RowSplit(test_fraction, seed), task, constant)
    encoding, n_rows, n_train = fitted.encoding, fitted.places.n_rows, fitted.places.n_train
    assert isinstance(encoding, TableEncoding)
    training = fitted.places.training(0, n_rows, source.source)
    ranges = split_samples(n_train, min(TASKS, n_train))
    edges = np.array([0, *training[[rows.start for rows in ranges[1:]]], n_rows])
    testing = np.ones(n_rows, dtype=bool)
    testing[training] = False
    manifest = ShardManifest(
        name=source.name,
        task=encoding.target.task,
        classes=encoding.target.n_classes,
        form="dense" if fitted.dense else "sparse",
        columns=encoding.n_columns,
        origin=Origin(str(place), 0, n_rows, test_fraction or 0.0, seed),
        notes=(*fitted.notes, *fitted.warnings),
        encoding=StoredFile("encoding.json", 0, _digest(place, encoding.to_json())),
        supports=None,
        test=StoredFile("test", 0, "", n_rows - n_train) if n_train < n_rows else None,
        tasks=tuple(StoredFile(f"{number}", 0, "", rows.stop - rows.start) for number, rows in enumerate(ranges)),
    )
    return ShardFolder(place, manifest, RowsInPlace(encoding, edges, testing))


def _digest(folder: Path, encoding: str) -> str:
    """Return a checksum of an encoding, and of what the files of a folder say of themselves at their ends."""
    digest = hashlib.sha256(encoding.encode())
    for file in sorted(folder.rglob("*.parquet")):
        with file.open("rb") as stream:
            length = stream.seek(0, os.SEEK_END)
            stream.seek(max(0, length - _ENDS))
            digest.update(f"{file.relative_to(folder)} {length}".encode() + stream.read())
    return digest.hexdigest()
