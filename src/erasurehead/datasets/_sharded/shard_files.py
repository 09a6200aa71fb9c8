"""Writing the files of a folder of shards: rows bucket by bucket, supports, encoding, and their checksums."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from erasurehead._internal.arrays import BoolArray, ShortIntArray
from erasurehead._internal.tensor_format import Slot
from erasurehead.datasets._matrices import MAX_INDEX
from erasurehead.datasets._sharded.folder import LabelledRows
from erasurehead.datasets._sharded.manifest import StoredFile
from erasurehead.datasets._sharded.spool import Spool
from erasurehead.datasets._sharded.tensor_writer import TensorWriter
from erasurehead.errors import DataError

_F64, _I64, _I32 = np.dtype("<f8"), np.dtype("<i8"), np.dtype("<i4")


@dataclass(frozen=True, eq=False)
class RowFiles:
    """Writes files of rows.

    Arguments:
        folder: folder for the files.
        spool: holds the rows.
        n_columns: number of columns of the design matrix.
        dense: whether all numbers are stored.
        classes: whether labels are class numbers.
    """

    folder: Path
    spool: Spool
    n_columns: int
    dense: bool
    classes: bool

    def write(self, name: str, buckets: range, n_rows: int, about: dict[str, str]) -> tuple[StoredFile, BoolArray]:
        """Write the rows of some buckets.

        Arguments:
            name: name of the file.
            buckets: the buckets that hold the rows, in order.
            n_rows: number of rows.
            about: description of the file.

        Returns:
            The file, and which columns the rows touch, shape (n_columns,).

        Raises:
            DataError: if the rows are not those that were counted, or too many for one file.
        """
        path = self.folder / name
        touched = np.zeros(self.n_columns, dtype=bool)
        slots = self._slots(n_rows, buckets)
        with TensorWriter(path, slots, {"format": "erasurehead-shard", "version": "1", **about}) as writer:
            entries = 0
            if "edges" in slots:
                writer.write("edges", np.zeros(1, dtype=_I32))
            for bucket in buckets:
                rows = self.spool.take(bucket, self.dense, self.n_columns)
                self._write(writer, slots, rows, entries)
                if isinstance(rows.X, np.ndarray):
                    continue
                entries += len(rows.X.indices)
                touched[rows.X.indices] = True
        return stored(path, n_rows), touched

    def _slots(self, n_rows: int, buckets: range) -> dict[str, Slot]:
        labels = {"labels": Slot(_I64 if self.classes else _F64, (n_rows,))}
        if self.dense:
            return {"rows": Slot(_F64, (n_rows, self.n_columns)), **labels}
        some = slice(buckets.start, buckets.stop)
        entries = int(self.spool.entries[some].sum())
        if entries > MAX_INDEX:
            raise DataError(
                f"a task of {n_rows} rows has {entries} entries, more than 32-bit indices can count; take more tasks."
            )
        values = {} if bool(self.spool.ones[some].all()) else {"values": Slot(_F64, (entries,))}
        return {**values, **labels, "columns": Slot(_I32, (entries,)), "edges": Slot(_I32, (n_rows + 1,))}

    def _write(self, writer: TensorWriter, slots: dict[str, Slot], rows: LabelledRows, entries: int) -> None:
        writer.write("labels", rows.y)
        if isinstance(rows.X, np.ndarray):
            writer.write("rows", rows.X)
            return
        writer.write("columns", rows.X.indices.astype(_I32))
        writer.write("edges", (rows.X.indptr[1:].astype(_I64) + entries).astype(_I32))
        if "values" in slots:
            writer.write("values", rows.X.data)


def write_supports(path: Path, supports: Sequence[ShortIntArray]) -> StoredFile:
    """Write the columns that each task touches."""
    edges = np.concatenate(([0], np.cumsum([len(support) for support in supports]))).astype(_I64)
    slots = {"edges": Slot(_I64, edges.shape), "columns": Slot(_I32, (int(edges[-1]),))}
    with TensorWriter(path, slots, {"format": "erasurehead-supports", "version": "1"}) as writer:
        writer.write("edges", edges)
        for support in supports:
            writer.write("columns", support)
    return stored(path)


def write_text(path: Path, text: Iterable[str]) -> StoredFile:
    """Write a text."""
    with path.open("w", encoding="utf-8", newline="") as file:
        file.writelines(text)
        file.flush()
        os.fsync(file.fileno())
    return stored(path)


def stored(path: Path, rows: int = 0) -> StoredFile:
    """Return a file's entry in the manifest."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return StoredFile(path.name, path.stat().st_size, digest, rows)
