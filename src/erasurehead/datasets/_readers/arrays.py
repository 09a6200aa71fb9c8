"""Matrices and label vectors from files: svmlight, scipy `.npz`, NumPy `.npy`."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead._internal.resources import check_memory
from erasurehead._internal.user_files import StrPath, beginning, check_text, readable
from erasurehead.datasets._matrices import Matrix, check_matrix, check_sparse_indices, floats
from erasurehead.datasets._readers.forms import form
from erasurehead.datasets._readers.svmlight import matrix, read_svmlight, zero_based
from erasurehead.datasets._readers.table import Place
from erasurehead.errors import DataError, NoFile, counted

_COPIES = 2  # of the data at a time: as in the file, and as float64
_VECTORS = 6  # least number of vectors as long as the model that training holds at a time
_UNREADABLE = (
    OSError,
    ValueError,
    EOFError,
    TypeError,
    SyntaxError,
    OverflowError,
    MemoryError,
    RecursionError,
    zipfile.BadZipFile,
)
"""What NumPy and scipy raise for files that are damaged, or not theirs."""


@dataclass(frozen=True, eq=False)
class Arrays:
    """A matrix and, if the file holds them, labels.

    Arguments:
        X: the matrix, shape (n_rows, n_columns): CSR, or dense; float64, all finite.
        y: raw labels, shape (n_rows,), or None.
        place: returns where a row is in the file, for messages.
        base: index of the file's first column for svmlight; otherwise 0.
        beyond: number of rows with entries that were left out, because their column is beyond `n_columns`.
    """

    X: Matrix
    y: Array | None
    place: Place
    base: int = 0
    beyond: int = 0


def read_matrix(path: Path) -> Matrix:
    """Read a matrix saved by `scipy.sparse.save_npz` or `numpy.save`.

    Raises:
        DataError: if the file does not hold such a matrix, or a value is NaN or infinite; the message says where.
    """
    return check_matrix(_load_npz(path) if form(path) == "npz" else load_npy(path), str(path))


def load_npy(path: Path, mapped: bool = False) -> Any:
    """Return the array of a `.npy` file, whatever its type and shape.

    Arguments:
        path: of the file.
        mapped: whether to leave it on disk, memory-mapped.

    Raises:
        DataError: if it is not such a file, holds Python objects, or is shorter than its header says.
        TooLarge: if it does not fit into memory.
    """
    try:
        load = cast("Any", np.load)
        on_disk: Any = load(path, mmap_mode="r", allow_pickle=False)  # this checks the length of the file
        if mapped or type(on_disk) is not np.memmap:
            return on_disk
        check_memory(f"{path}, an array of shape {on_disk.shape},", _COPIES * 8 * on_disk.size)
        return np.array(on_disk)
    except _UNREADABLE as error:
        raise DataError(f"{path} is not a matrix of numbers saved by scipy or numpy ({error}).") from None


def _load_npz(path: Path) -> Any:
    """Return the matrix of an `.npz` file of scipy's; its indices are checked before they are used."""
    from scipy import sparse

    try:
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
        if "format.npy" not in [entry.filename for entry in entries]:  # by which scipy says how it is stored
            raise DataError(
                f"{path} is not a sparse matrix of scipy.sparse.save_npz; save a dense one, and labels, with "
                "numpy.save: one array in each file."
            )
        check_memory(f"{path}, unpacked,", _COPIES * sum(entry.file_size for entry in entries))
        loaded: Any = sparse.load_npz(path)
        check_sparse_indices(loaded, str(path))
        return sparse.csr_array(loaded)
    except DataError:
        raise
    except _UNREADABLE as error:
        raise DataError(f"{path} is not a matrix of numbers saved by scipy or numpy ({error}).") from None


def read_labels(path: StrPath, beside: Path, n_rows: int) -> Array:
    """Read labels from a `.npy` file or a text file with one number per line.

    Arguments:
        path: the file; searched for as given, then in the folder of the data.
        beside: the data file.
        n_rows: number of labels that there must be.

    Raises:
        DataError: if the file is missing, does not hold numbers, or not one for each row.
    """
    place = Path(path).expanduser()
    try:
        place = readable(place if place.exists() else beside.parent / place)
        binary = beginning(place, 6) == b"\x93NUMPY"
        if not binary:
            check_text(place)
        labels = load_npy(place) if binary else np.loadtxt(place, ndmin=1)
    except NoFile:
        raise DataError(
            f"There is no file {str(path)!r} with the labels of {beside}; name one: .npy, or a text with one number in "
            "each line (target, --label)."
        ) from None
    except _UNREADABLE as error:
        raise DataError(f"{place} does not hold labels as numbers ({error}).") from None
    labels = floats(labels, str(place)).ravel()
    if len(labels) != n_rows:
        raise DataError(f"{place} holds {counted('label', len(labels))}, but {beside} has {counted('row', n_rows)}.")
    if not np.isfinite(labels).all():
        row = int(np.argmax(~np.isfinite(labels)))
        raise DataError(f"{place}, row {row}: the label {labels[row]} is not a finite number.")
    return labels


def read_arrays(path: Path, n_columns: int | None = None, base: int | None = None) -> Arrays:
    """Read a matrix file in any of the supported formats.

    Arguments:
        path: the file.
        n_columns: for svmlight: number of columns; None for as many as there are.
        base: for svmlight: index of the first column; None for 0 if an index of 0 occurs, otherwise 1.

    Raises:
        DataError: if the file cannot be used; the message says where.
    """
    kind = form(path)
    if kind in ("csv", "parquet"):
        raise DataError(f"{path} is a table, but a matrix is needed here; name a LIBSVM, .npz or .npy file.")
    if kind in ("npz", "npy"):
        return Arrays(read_matrix(path), None, lambda row: f"{path}, row {row}")
    rows = read_svmlight(path)
    if base is None:
        base = 0 if zero_based(rows) else 1
    if n_columns is None:
        if not len(rows.indices):
            raise DataError(f"{path} has labels only: no row has an entry; each is a label, then pairs of index:value.")
        n_columns = int(rows.indices.max()) + 1 - base
        line = rows.lines[np.searchsorted(np.cumsum(rows.counts), int(rows.indices.argmax()), side="right")]
        subject = (
            f"{path}, line {line}: a model of {n_columns:,} columns, as the index {n_columns - 1 + base} asks for,"
        )
        check_memory(subject, _VECTORS * 8 * n_columns)
    X, beyond = matrix(rows, n_columns, base)
    return Arrays(X, rows.labels, lambda row: f"{path}, line {rows.lines[row]}", base, beyond)
