"""Data sets: design matrices and labels for training and testing, and how they were made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from erasurehead._internal.arrays import AnyArray, Array, IntArray
from erasurehead.datasets._encoded import Labels, Task
from erasurehead.datasets._matrices import Matrix
from erasurehead.errors import DataError, check_count, counted, invalid, real

if TYPE_CHECKING:
    from erasurehead.datasets._preprocessing.column_uses import ColumnUse
    from erasurehead.datasets._preprocessing.encoding import Encoding


@dataclass(frozen=True)
class Published:
    """The settings of the ErasureHead paper's runs on a data set (section 5, Table 1, and the authors' code).

    Arguments:
        loss: what is minimised.
        rate: step size of the first step.
        rate_factor: factor of the step size after each step. The paper has 0.99 for KC Housing and the
            authors' code 0.98; this is the paper's value.
        metric: metric on the test part: `auc`, or `mse` in units of the target.
        steps: number of steps of a run.
        n_workers: number of workers.
    """

    loss: Task
    rate: float
    rate_factor: float
    metric: Literal["auc", "mse"]
    steps: int = 100
    n_workers: int = 30


@dataclass(frozen=True, eq=False)
class Dataset:
    """A design matrix and labels for training, and others for testing.

    Arguments:
        name: short name.
        X_train: shape (n_train, n_columns): CSR with float64 values (all exactly 1.0 if every column is one-hot) and
            ascending int32 indices, or a dense float64 array.
        y_train: shape (n_train,): -1.0 and 1.0 (`logistic`), numbers (`least_squares`), or int64 classes 0, 1, ...
            (`softmax`).
        X_test: shape (n_test, n_columns), or None if nothing was set aside for testing.
        y_test: shape (n_test,), or None.
        task: `logistic`, `least_squares` or `softmax`.
        encoding: how raw rows become rows of the matrix; it is saved with a model and applied to new files.
        source: where the data came from: a file, a download, or a synthetic stand-in and its seed.
        notes: what a user should know about how they were read, one sentence each without a full stop.
        published: the settings of the paper's runs, for the data sets of the paper.
        uses: how each column of a user's table is used; empty for other data.
        synthetic: whether they are a synthetic stand-in.
    """

    name: str
    X_train: Matrix
    y_train: Labels
    X_test: Matrix | None
    y_test: Labels | None
    task: Task
    encoding: Encoding
    source: str
    notes: tuple[str, ...] = ()
    published: Published | None = None
    uses: tuple[ColumnUse, ...] = ()
    synthetic: bool = False

    def __repr__(self) -> str:
        return (
            f"Dataset({self.name!r}: {self.task}, {self.n_train:,} x {self.n_columns:,} for training,"
            f" {counted('row', self.n_test)} for testing, from {self.source})"
        )

    @property
    def warnings(self) -> tuple[str, ...]:
        """Possible problems with the columns, and what would help, one sentence each without a full stop."""
        return tuple(use.warning for use in self.uses if use.warning)

    @property
    def n_train(self) -> int:
        """Number of training rows."""
        return int(self.X_train.shape[0])

    @property
    def n_test(self) -> int:
        """Number of test rows."""
        return 0 if self.X_test is None else int(self.X_test.shape[0])

    @property
    def n_columns(self) -> int:
        """Number of columns of the design matrix, the constant included."""
        return int(self.X_train.shape[1])

    @property
    def n_classes(self) -> int:
        """Number of classes; 0 for least squares."""
        return self.encoding.target.n_classes

    def covariance(self, vector: Array) -> Array:
        """Return `X^T X vector` over the training rows, shape (n_columns,)."""
        X: Any = self.X_train
        return np.asarray(X.T @ (X @ vector), dtype=np.float64)


@dataclass(frozen=True)
class RowSplit:
    """How rows are split into training rows and test rows; see `split_rows`.

    Arguments:
        test_fraction: fraction of the rows set aside for testing, in (0, 1); None or 0 for none.
        seed: seed of the random split.

    Raises:
        InvalidArgument: if the fraction is not in [0, 1), or the seed is not a whole number of at least 0.
    """

    test_fraction: float | None
    seed: int

    def __post_init__(self) -> None:
        check_count("seed", self.seed, at_least=0)
        if self.test_fraction and not 0 < real(self.test_fraction) < 1:
            raise invalid("test_fraction", "must lie in [0, 1)", self.test_fraction)

    def rows(self, n_rows: int, classes: AnyArray | None, source: str) -> tuple[IntArray, IntArray, IntArray]:
        """Return the training rows, with all classes; the test rows; and the rows that were moved for that.

        Arguments:
            n_rows: number of rows.
            classes: the class of each row, shape (n_rows,); None if labels are no classes.
            source: where they are from, for messages.
        """
        return with_every_class(*split_rows(n_rows, self.test_fraction, self.seed, source), classes)


def split_rows(n_rows: int, test_fraction: float | None, seed: int = 0, source: str = "") -> tuple[IntArray, IntArray]:
    """Return the training rows and the test rows, as scikit-learn's `train_test_split(random_state=seed)` chooses them.

    Arguments:
        n_rows: number of rows.
        test_fraction: fraction of the rows set aside for testing, in (0, 1); None or 0 for none: then all rows are
            for training, in their order.
        seed: seed of the split, at least 0.
        source: where the rows are from, for messages.

    Raises:
        InvalidArgument: if the fraction is not in [0, 1).
        DataError: if one of the parts would be empty.
    """
    RowSplit(test_fraction, seed)  # checks
    if not test_fraction:
        return np.arange(n_rows), np.arange(0)
    if n_rows - np.ceil(test_fraction * n_rows) < 1:
        raise DataError(
            f"{source and f'{source}: '}{counted('row', n_rows)} {'is' if n_rows == 1 else 'are'} too few to set "
            f"{test_fraction:g} of them aside for testing."
        )
    # Drawn here, as importing scikit-learn takes longer than many a short run; tests compare the two.
    n_test = int(np.ceil(test_fraction * n_rows))
    drawn = np.random.RandomState(seed).permutation(n_rows)  # the generator that scikit-learn uses
    return drawn[n_test:], drawn[:n_test]


def with_every_class(train: IntArray, test: IntArray, classes: AnyArray | None) -> tuple[IntArray, IntArray, IntArray]:
    """Return the training rows and the test rows, after the first row of each class that only test rows have is moved.

    Arguments:
        train: the training rows.
        test: the test rows.
        classes: the class of each row, shape (n_rows,); None if labels are no classes.

    Returns:
        The training rows, to which rows were added at the end; the test rows; and the rows that were moved, ascending.
    """
    absent = np.zeros(0) if classes is None else np.setdiff1d(classes[test], classes[train])
    if classes is None or not len(absent):
        return train, test, np.arange(0)
    values, first = np.unique(classes, return_index=True)
    moved = np.sort(first[np.searchsorted(values, absent)])
    return np.concatenate([train, moved]), test[~np.isin(test, moved)], moved
