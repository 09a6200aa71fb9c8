"""Reading the user's own data: CSV, Parquet, svmlight/LIBSVM, scipy `.npz`, NumPy `.npy`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from erasurehead.arrays import Array
from erasurehead.datasets.array_encoding import ArrayEncoding
from erasurehead.datasets.arraysfile import Arrays, read_arrays, read_labels
from erasurehead.datasets.base import Dataset, Labels, Task, split_rows
from erasurehead.datasets.columns import HINT, Columns, check_names, csv_kinds, features
from erasurehead.datasets.csvfile import Layout, look, read_csv
from erasurehead.datasets.forms import form
from erasurehead.datasets.matrices import split_last_column, with_constant
from erasurehead.datasets.table import Numbers, Table
from erasurehead.datasets.table_encoding import fit_table
from erasurehead.datasets.target import Target, fit_target
from erasurehead.errors import DataError, invalid
from erasurehead.files import readable

if TYPE_CHECKING:
    from erasurehead.datasets.base import Matrix


def read(
    path: str | os.PathLike[str],
    target: str | os.PathLike[str] | None = None,
    *,
    one_hot: Sequence[str] | Literal["all"] = (),
    categorical: bool = False,
    interactions: Sequence[Sequence[str]] = (),
    standardize: bool = True,
    task: Task | None = None,
    constant: bool = True,
    test_fraction: float | None = 0.2,
    seed: int = 0,
) -> Dataset:
    """Read a file of the user's own into a data set; the ending of its name says what it is.

    - `.csv`, `.tsv`, `.txt`, `.data` (also with `.gz`, `.bz2`): one row a line, read in bounded chunks. The delimiter
      is comma, semicolon, tab or bar, whichever the first line has most of. A first line of nothing but numbers is
      data: the columns are then called `1`, `2`, ...
    - `.parquet`: where pyarrow is installed (extra `report`).
    - `.svm`, `.svmlight`, `.libsvm`, and `.txt`, `.data` or any other ending if the first line looks so (also with
      `.gz`, `.bz2`): svmlight/LIBSVM. Columns are counted from 0 if an index of 0 comes up, else from 1.
    - `.npz` of `scipy.sparse.save_npz`, `.npy` of `numpy.save`: a matrix, as it is.

    How a file begins goes before the ending of its name: gzip, Parquet and NumPy files are known by it. A pipe, or `-`
    for standard input, is read to its end first. What is none of these is refused, and the message says what to do.

    Missing values of tables (an empty field, `NA`, `N/A`, `null`, `NULL`, `?`; Parquet: null): a missing number
    counts as the mean of the training rows, a missing category has no entry in the row, a missing label is refused.
    NaN and infinity are refused. Categories are those of the training rows; others are counted and have no entry.

    Arguments:
        path: the file.
        target: the labels. Tables: the name of their column, by default the last. Matrices: a file that holds them
            (`.npy`, or a text of one number a line), by default the matrix's last column. svmlight has its own.
        one_hot: tables: columns whose distinct values become columns, or `"all"`.
        categorical: tables: one-hot encode columns of texts that `one_hot` does not name, instead of refusing them.
        interactions: tables: combinations of columns whose distinct combinations become columns.
        standardize: tables: shift and scale columns of numbers to mean 0 and deviation 1.
        task: `logistic`, `least_squares`, `softmax`, or None to tell from the labels (see `fit_target`).
        constant: whether to add a last column of ones.
        test_fraction: share of the rows set aside for testing, in (0, 1); None or 0 for none.
        seed: of the random split, as scikit-learn's `train_test_split(random_state=seed)` has it.

    Raises:
        DataError: if the file cannot be used; the message names the line and the column.
        InvalidArgument: if an argument does not fit the file.
        MissingExtra: if the file is Parquet and pyarrow is not installed.
    """
    place = readable(path)
    columns = Columns(one_hot, categorical, interactions, standardize)
    if is_table(place, columns):
        return _read_table(place, target, columns, task, constant, test_fraction, seed)
    return _read_arrays(place, target, task, constant, test_fraction, seed)


def is_table(path: Path, columns: Columns) -> bool:
    """Say whether a file is a table of named columns, and not a matrix.

    Raises:
        InvalidArgument: if it is a matrix, and something is said of its columns.
    """
    if form(path) in ("csv", "parquet"):
        return True
    for name in ("one_hot", "categorical", "interactions"):
        if value := getattr(columns, name):
            raise invalid(
                name, "is for CSV and Parquet files", value, f"the columns of {path.name} are taken as they are"
            )
    return False


def _read_table(
    path: Path, target: str | os.PathLike[str] | None, columns: Columns, task: Task | None, constant: bool,
    test_fraction: float | None, seed: int,
) -> Dataset:  # fmt: skip
    parquet = form(path) == "parquet"
    layout = _parquet_layout(path) if parquet else look(path)
    label = layout.names[-1] if target is None else os.fspath(target)
    check_names(layout, label, columns, path)
    table = _parquet_table(path, layout) if parquet else _csv_table(path, layout, label, columns)
    numeric, one_hot = features(table, label, columns)
    labels = fit_target(table.column(label), label, task, table.place)
    y, _ = labels.apply(table.column(label), table.place)
    train, test = split_rows(table.n_rows, test_fraction, seed)
    _check_classes(y[train], labels, path)
    encoding = fit_table(
        table, labels, layout, numeric=numeric, one_hot=one_hot, rows=train, standardize=columns.standardize,
        constant=constant,
    )  # fmt: skip
    trained, tested = encoding.encode(table, [train, test])
    _check_varies(trained.X, path)
    notes = [*table.notes, f"label {label!r}: {labels.task}, {labels.meaning()}"]
    if not layout.header:
        notes.append(f"no header: the columns are called 1 to {len(layout.names)}")
    notes += [f"training rows: {said}" for said in trained.report.sentences()]
    notes += [f"test rows: {said}" for said in tested.report.sentences()]
    return Dataset(
        path.name.split(".")[0], trained.X, y[train], tested.X if len(test) else None, y[test] if len(test) else None,
        labels.task, encoding, str(path), tuple(notes),
    )  # fmt: skip


def _csv_table(path: Path, layout: Layout, label: str, columns: Columns) -> Table:
    return read_csv(path, layout, csv_kinds(layout, label, columns), HINT)


def _parquet_layout(path: Path) -> Layout:
    from erasurehead.datasets.parquetfile import parquet_columns

    return Layout(parquet_columns(path))


def _parquet_table(path: Path, layout: Layout) -> Table:
    from erasurehead.datasets.parquetfile import read_parquet

    return read_parquet(path, layout.names)


def _check_classes(y: Labels, target: Target, path: Path) -> None:
    if target.classes is not None and len(np.unique(y)) < target.classes.size:
        raise DataError(f"{path}: {target.too_few(len(np.unique(y)), len(y))}")


def _check_varies(X: Matrix, path: Path) -> None:
    """Raise if every column has one value in all training rows: a model can learn nothing from it."""
    columns: Any = X
    highest, lowest = columns.max(axis=0), columns.min(axis=0)
    if not isinstance(X, np.ndarray):
        highest, lowest = highest.toarray(), lowest.toarray()
    if len(columns.shape) == 2 and X.shape[0] > 1 and (highest == lowest).all():
        raise DataError(
            f"{path}: every column but the label has one value in all training rows, so that there is nothing to learn "
            "from; name other columns (--label, --one-hot), or more rows."
        )


def _read_arrays(
    path: Path, target: str | os.PathLike[str] | None, task: Task | None, constant: bool,
    test_fraction: float | None, seed: int,
) -> Dataset:  # fmt: skip
    arrays = read_arrays(path)
    if arrays.y is not None and target is not None:
        raise invalid("target", "is not for svmlight files, which hold their labels", os.fspath(target))
    matrix, raw, last = _separate(arrays, path, target)
    labels = fit_target(Numbers(raw), "", task, arrays.place)
    y, _ = labels.apply(Numbers(raw), arrays.place)
    train, test = split_rows(len(y), test_fraction, seed)
    _check_classes(y[train], labels, path)
    _check_varies(matrix[train], path)
    encoding = ArrayEncoding(int(matrix.shape[1]), labels, constant, arrays.base, last)
    notes = [f"label: {labels.task}, {labels.meaning()}"]
    if last:
        notes.append("the labels are the last column of the matrix")
    if arrays.y is not None:
        notes.append(f"columns are counted from {arrays.base}")
    if constant:
        matrix = with_constant(matrix)
    return Dataset(
        path.name.split(".")[0], matrix[train], y[train],
        matrix[test] if len(test) else None, y[test] if len(test) else None,
        labels.task, encoding, str(path), tuple(notes),
    )  # fmt: skip


def _separate(arrays: Arrays, path: Path, target: str | os.PathLike[str] | None) -> tuple[Matrix, Array, bool]:
    """Return the matrix without labels, the labels, and whether they were its last column."""
    if arrays.y is not None:
        return arrays.X, arrays.y, False
    if target is not None:
        return arrays.X, read_labels(target, path, int(arrays.X.shape[0])), False
    if arrays.X.shape[1] < 2:
        raise DataError(f"{path} has one column only; name the file that holds the labels as target.")
    rest, raw = split_last_column(arrays.X)
    return rest, raw, True
