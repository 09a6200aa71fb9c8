"""Matrices and label vectors from files: svmlight, scipy `.npz`, NumPy `.npy`."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from erasurehead.arrays import Array
from erasurehead.datasets.files import readable, suffix
from erasurehead.datasets.matrices import check_matrix, floats
from erasurehead.datasets.svmlight import matrix, read_svmlight, zero_based
from erasurehead.errors import DataError

if TYPE_CHECKING:
    from erasurehead.datasets.base import Matrix


@dataclass(frozen=True, eq=False)
class Arrays:
    """A matrix and, where the file holds them, labels.

    Arguments:
        X: shape (n_rows, n_columns): CSR, or dense; float64, all finite.
        y: raw labels, shape (n_rows,), or None.
        place: row -> where it stands, for messages.
        base: index that the file's first column has, for svmlight; else 0.
        beyond: rows with entries left out as their column is beyond `n_columns`.
    """

    X: Matrix
    y: Array | None
    place: Callable[[int], str]
    base: int = 0
    beyond: int = 0


def read_matrix(path: Path) -> Matrix:
    """Read a matrix saved by `scipy.sparse.save_npz` or `numpy.save`.

    Raises:
        DataError: if the file holds no such matrix, or a value is NaN or infinite; the message says where.
    """
    try:
        if suffix(path) == ".npz":
            from scipy import sparse

            loaded: Any = sparse.csr_array(sparse.load_npz(path))
        else:
            loaded = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile) as error:
        raise DataError(f"{path} is not a matrix of numbers saved by scipy or numpy ({error}).") from None
    return check_matrix(loaded, str(path))


def read_labels(path: str | os.PathLike[str], beside: Path, n_rows: int) -> Array:
    """Read labels from a `.npy` file or a text file of one number a line.

    Arguments:
        path: the file; looked for as given, then in the folder of the data.
        beside: the data file.
        n_rows: how many labels there must be.

    Raises:
        DataError: if the file is not there, holds no numbers, or not one for each row.
    """
    place = Path(path).expanduser()
    place = readable(place if place.exists() else beside.parent / place)
    try:
        labels = np.load(place, allow_pickle=False) if place.suffix == ".npy" else np.loadtxt(place, ndmin=1)
    except (OSError, ValueError, EOFError) as error:
        raise DataError(f"{place} does not hold labels as numbers ({error}).") from None
    labels = floats(labels, str(place)).ravel()
    if len(labels) != n_rows:
        raise DataError(f"{place} holds {len(labels)} labels, but {beside} has {n_rows} rows.")
    if not np.isfinite(labels).all():
        row = int(np.argmax(~np.isfinite(labels)))
        raise DataError(f"{place}, row {row}: the label {labels[row]} is not a finite number.")
    return labels


def read_arrays(path: Path, n_columns: int | None = None, base: int | None = None) -> Arrays:
    """Read a matrix file in any of the forms.

    Arguments:
        path: the file.
        n_columns: for svmlight: number of columns; None for as many as there are.
        base: for svmlight: index of the first column; None for 0 if an index of 0 comes up, else 1.

    Raises:
        DataError: if the file cannot be used; the message says where.
    """
    if suffix(path) in {".npz", ".npy"}:
        return Arrays(read_matrix(path), None, lambda row: f"{path}, row {row}")
    rows = read_svmlight(path)
    if base is None:
        base = 0 if zero_based(rows) else 1
    if n_columns is None:
        n_columns = int(rows.indices.max()) + 1 - base if len(rows.indices) else 0
    made, beyond = matrix(rows, n_columns, base)
    return Arrays(made, rows.labels, lambda row: f"{path}, line {rows.lines[row]}", base, beyond)
