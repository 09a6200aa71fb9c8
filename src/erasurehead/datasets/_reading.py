"""Reading your own data: CSV, Parquet, svmlight/LIBSVM, scipy `.npz`, NumPy `.npy`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from erasurehead._internal.user_files import StrPath
from erasurehead.datasets._base import Dataset, RowSplit
from erasurehead.datasets._encoded import Task
from erasurehead.datasets._preprocessing.columns import Columns, DateOrder
from erasurehead.datasets._preprocessing.target import check_task
from erasurehead.datasets._readers.dialects import Decimal, Quotes, check_dialect
from erasurehead.datasets._readers.frames import Frame
from erasurehead.datasets._sources import source_of


def read(
    path: StrPath | Frame,
    target: StrPath | None = None,
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
    dates: DateOrder | None = None,
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
        dates: tables: whether `03/04/2024` is written `"day-first"` or `"month-first"`, for columns in which no date
            tells.

    Raises:
        DataError: if the file cannot be used; the message names the line and the column.
        InvalidArgument: if an argument does not fit the file.
        MissingExtra: if the file is Parquet and pyarrow is not installed.
    """
    check_task(task)
    columns = Columns(one_hot, categorical, interactions, standardize, drop, ordinal, count, text, dates)
    dialect = check_dialect(delimiter, header, names, decimal, quotes, missing)
    split = RowSplit(test_fraction, seed)
    return source_of(path, target, columns, dialect, whole=True).dataset(split, task, constant)
