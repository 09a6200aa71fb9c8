"""Reading your own data: CSV, Parquet, svmlight/LIBSVM, scipy `.npz`, NumPy `.npy`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from erasurehead._internal.arrays import Array, IntArray
from erasurehead._internal.user_files import readable
from erasurehead.datasets._base import Dataset, RowSplit
from erasurehead.datasets._encoded import Labels, Task
from erasurehead.datasets._matrices import Matrix, split_last_column, with_constant
from erasurehead.datasets._preprocessing.array_encoding import ArrayEncoding
from erasurehead.datasets._preprocessing.column_uses import column_uses
from erasurehead.datasets._preprocessing.columns import (
    HINT,
    Choice,
    Columns,
    choose_columns,
    csv_kinds,
    features,
    tallies_of,
    typed_notes,
)
from erasurehead.datasets._preprocessing.derived import DerivedFit, derived_notes, looks_like_a_date, with_derived
from erasurehead.datasets._preprocessing.table_encoding import as_read, fit_table
from erasurehead.datasets._preprocessing.target import Target, check_task, fit_target
from erasurehead.datasets._readers.arrays import Arrays, read_arrays, read_labels
from erasurehead.datasets._readers.csv import first_values, read_csv
from erasurehead.datasets._readers.dialects import Decimal, Dialect, Quotes, check_dialect, given
from erasurehead.datasets._readers.forms import form
from erasurehead.datasets._readers.frames import Frame, frame_layout, frame_name, is_frame, read_frame
from erasurehead.datasets._readers.layouts import TableLayout, look
from erasurehead.datasets._readers.mixed_columns import settled
from erasurehead.datasets._readers.table import NumberColumn, Table, with_numbers
from erasurehead.errors import DataError, invalid

_FRAMES = "collect() or to_frame() makes a frame of what is none yet; write arrays with numpy.save"


def read(
    path: str | os.PathLike[str] | Frame,
    target: str | os.PathLike[str] | None = None,
    *,
    drop: Sequence[str] = (),
    one_hot: Sequence[str] | Literal["all"] = (),
    categorical: bool = False,
    interactions: Sequence[Sequence[str]] = (),
    standardize: bool = True,
    task: Task | None = None,
    constant: bool = True,
    test_fraction: float | None = 0.2,
    seed: int = 0,
    delimiter: str | None = None,
    header: bool | Literal["yes", "no"] | None = None,
    names: Sequence[str] = (),
    decimal: Decimal | None = None,
    quotes: Quotes | None = None,
    missing: Sequence[str] = (),
    ordinal: Sequence[str] = (),
    count: Sequence[str] = (),
    text: Sequence[str] = (),
) -> Dataset:
    """Read your own data, a file or a frame, into a data set.

    It reads text tables (CSV and the like), Parquet (extra `report`), svmlight/LIBSVM, scipy's `.npz`, NumPy's `.npy`,
    and frames of pandas, polars, pyarrow and others. docs/data.md tells what is detected and how columns are treated:
    a column means the same in every format, and whatever is guessed is said in a note of the data set.

    A missing number is replaced by the mean of the training rows, a missing category has no entry in the row, a missing
    label is refused, and so is infinity. Categories are those of the training rows; others are counted and have no
    entry.

    Arguments:
        path: the file, or the frame.
        target: the labels. Tables: the name of their column, by default the last. Matrices: a file that holds them
            (`.npy`, or a text with one number per line), by default the matrix's last column. svmlight files have their
            own.
        drop: tables: columns to leave out.
        one_hot: tables: columns to one-hot encode (each distinct value becomes a column), or `"all"`.
        categorical: tables: whether to one-hot encode columns of texts that `one_hot` does not name, instead of
            refusing them.
        interactions: tables: combinations of columns whose distinct combinations become columns.
        standardize: tables: whether to shift and scale columns of numbers to mean 0 and standard deviation 1.
        task: `logistic`, `least_squares`, `softmax`, or None to choose it from the labels (see `fit_target`).
        constant: whether to add a last column of ones.
        test_fraction: fraction of the rows set aside for testing, in (0, 1); None or 0 for none.
        seed: seed of the random split, which is that of scikit-learn's `train_test_split(random_state=seed)`; but if a
            class has no training row there, its first row is made one, with a note.
        delimiter: CSV: one character, or `comma`, `semicolon`, `tab`, `bar` or `blanks` (any number of spaces and
            tabs); None to detect it.
        header: CSV: whether the first line holds the columns' names; None to detect it.
        names: CSV: names of all columns, in place of those in the file.
        decimal: CSV: what stands before decimals, `.` or `,`; None to detect it.
        quotes: CSV: how a quote within a quoted field is written, `doubled` or `backslash`; `none` if quotes are
            letters like any others; None to detect which of the first two it is.
        missing: CSV: texts or numbers that stand for a missing value, beside those above; if the empty text is among
            them, no others do (`[""]`: only the empty field).
        ordinal: tables: columns of texts with an order, each as `"size=small<medium<large"`: they become 0, 1, 2, ...
        count: tables: columns whose values become how often each occurs among the training rows, as `log(1 + count)`.
        text: tables: columns of long texts, whose words become columns (TF-IDF, hashed to 4,096).

    Raises:
        DataError: if the file cannot be used; the message names the line and the column.
        InvalidArgument: if an argument does not fit the file.
        MissingExtra: if the file is Parquet and pyarrow is not installed.
    """
    columns = Columns(one_hot, categorical, interactions, standardize, drop, ordinal, count, text)
    dialect = check_dialect(delimiter, header, names, decimal, quotes, missing)
    check_task(task)
    split = RowSplit(test_fraction, seed)
    if is_frame(path):
        if setting := given(dialect):
            raise invalid(setting[0], "is for CSV files", setting[1], "a frame has its columns")
        raw = _of_frame(path, target, columns)
    elif not isinstance(path, str | os.PathLike):
        raise invalid("path", "must be a file, or a frame of pandas, polars or pyarrow", type(path).__name__, _FRAMES)
    else:
        place = readable(path)
        if not is_table(place, columns, dialect):
            return _read_arrays(place, target, task, constant, split)
        raw = _of_file(place, target, columns, dialect)
    return _encoded(raw, dialect, task, constant, split)


def is_table(path: Path, columns: Columns, dialect: Dialect) -> bool:
    """Return whether a file is a table of named columns, as opposed to a matrix.

    Raises:
        InvalidArgument: if it is a matrix and options about columns are given, or it is not a text and those about
            texts are given.
    """
    kind, setting = form(path, delimited=dialect.delimiter is not None), given(dialect)
    if setting and kind != "csv":
        raise invalid(setting[0], "is for CSV files", setting[1], f"{path.name} is none")
    if kind in ("csv", "parquet"):
        return True
    for name in ("drop", "one_hot", "categorical", "interactions", "ordinal", "count", "text"):
        if value := getattr(columns, name):
            raise invalid(
                name, "is for CSV and Parquet files", value, f"the columns of {path.name} are taken as they are"
            )
    return False


def layout_of(path: Path, dialect: Dialect) -> tuple[TableLayout, bool]:
    """Return how a file of named columns is laid out, and whether it is a Parquet file, as opposed to a text."""
    if form(path, delimited=dialect.delimiter is not None) != "parquet":
        return look(path, dialect), False
    from erasurehead.datasets._readers.parquet import parquet_columns

    return TableLayout(parquet_columns(path)), True


@dataclass(frozen=True, eq=False)
class _Raw:
    """A table as read.

    Arguments:
        name: short name of the data.
        source: the file, or the kind of frame.
        layout: all columns of the source.
        choice: the columns that were read.
        table: their values.
        text: whether it is a CSV file.
    """

    name: str
    source: str
    layout: TableLayout
    choice: Choice
    table: Table
    text: bool = False


def _of_file(path: Path, target: str | os.PathLike[str] | None, columns: Columns, dialect: Dialect) -> _Raw:
    layout, parquet = layout_of(path, dialect)
    choice = choose_columns(layout.names, None if target is None else os.fspath(target), columns, path.name)
    if parquet:
        from erasurehead.datasets._readers.parquet import read_parquet

        table = read_parquet(path, choice.read, choice.exact)
    else:
        table = read_csv(path, layout, csv_kinds(choice, dates_in(path, layout, choice)), HINT)
    return _Raw(path.name.split(".")[0], str(path), layout, choice, table, not parquet)


def dates_in(path: Path, layout: TableLayout, choice: Choice) -> list[str]:
    """Return the columns of a CSV file that begin with a date, and of which nobody has said what they hold."""
    return [
        name
        for name, text in first_values(path, layout).items()
        if name != choice.label and not choice.columns.is_decided(name) and looks_like_a_date(text)
    ]


def _of_frame(frame: Frame, target: str | os.PathLike[str] | None, columns: Columns) -> _Raw:
    layout, source = frame_layout(frame), frame_name(frame)
    choice = choose_columns(layout.names, None if target is None else str(target), columns, source)
    table = read_frame(frame, choice.read, choice.exact)
    return _Raw("frame", source.removeprefix("the "), layout, choice, table)


def _encoded(raw: _Raw, dialect: Dialect, task: Task | None, constant: bool, split: RowSplit) -> Dataset:
    layout, label, columns = raw.layout, raw.choice.label, raw.choice.columns
    whole, typed = (raw.table, ()) if raw.text else with_numbers(raw.table, raw.choice.exact, label)
    derived = _derived(whole, columns, label).derived(whole.columns)
    table = with_derived(whole, derived)
    numeric, one_hot = features(table, label, columns)
    tallies = tallies_of(table.columns, columns)
    for name, tally in tallies.items():
        tally.add(table, name)
    kind_notes = [*settled(tallies, raw.text, label)]
    labels = fit_target(table.column(label), label, task, table.place)
    y, _ = labels.apply(table.column(label), table.place)
    train, test, moved = _parts(y, labels, split, raw.source)
    fitted = _derived(whole, columns, label, train)
    if columns.count:  # which are those of the training rows
        derived = fitted.derived(whole.columns)
        table = with_derived(whole, derived)
    encoding = fit_table(
        table,
        labels,
        layout,
        numeric=numeric,
        one_hot=one_hot,
        rows=train,
        standardize=columns.standardize,
        constant=constant,
        dialect=as_read(dialect, layout),
        derived=derived,
        words=fitted.words(),
    )
    trained, tested = encoding.encode(whole, [train, test])
    _check_varies(trained.X, raw.source)
    notes = [
        *table.notes,
        *kind_notes,
        *typed_notes(typed, labels),
        *derived_notes(derived),
        *raw.choice.notes(columns.drop),
        labels.note(task),
        *moved,
    ]
    notes += [f"test rows: {sentence}" for sentence in tested.report.unseen_sentences()]
    notes += (trained.report + tested.report).missing_sentences()
    return Dataset(
        raw.name,
        trained.X,
        y[train],
        tested.X if len(test) else None,
        y[test] if len(test) else None,
        labels.task,
        encoding,
        raw.source,
        tuple(notes),
        uses=column_uses(encoding, table, train),
    )


def _derived(table: Table, columns: Columns, label: str, rows: IntArray | None = None) -> DerivedFit:
    fit = DerivedFit(columns, label)
    fit.add(table, rows)
    return fit


def _parts(y: Labels, target: Target, split: RowSplit, path: Path | str) -> tuple[IntArray, IntArray, tuple[str, ...]]:
    """Return the training rows, with all classes, the test rows, and notes."""
    classes = None if target.classes is None else y
    train, test, moved = split.rows(len(y), classes)
    codes = y[moved] > 0 if target.task == "logistic" else y[moved]
    return train, test, target.moved_note(codes.astype(np.int64), len(train), str(path))


def _check_varies(X: Matrix, path: Path | str) -> None:
    """Raise if every column is constant over all training rows: a model could not learn anything."""
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
    path: Path,
    target: str | os.PathLike[str] | None,
    task: Task | None,
    constant: bool,
    split: RowSplit,
) -> Dataset:
    arrays = read_arrays(path)
    if arrays.y is not None and target is not None:
        raise invalid("target", "is not for svmlight files, which hold their labels", os.fspath(target))
    matrix, raw, last = _separate(arrays, path, target)
    labels = fit_target(NumberColumn(raw), "", task, arrays.place)
    y, _ = labels.apply(NumberColumn(raw), arrays.place)
    train, test, moved = _parts(y, labels, split, path)
    _check_varies(matrix[train], path)
    encoding = ArrayEncoding(int(matrix.shape[1]), labels, constant, arrays.base, last)
    notes = [labels.note(task), *moved]
    if last:
        notes.append("the labels are the last column of the matrix")
    if arrays.y is not None:
        notes.append(f"columns are counted from {arrays.base}")
    if constant:
        matrix = with_constant(matrix)
    return Dataset(
        path.name.split(".")[0],
        matrix[train],
        y[train],
        matrix[test] if len(test) else None,
        y[test] if len(test) else None,
        labels.task,
        encoding,
        str(path),
        tuple(notes),
    )


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
