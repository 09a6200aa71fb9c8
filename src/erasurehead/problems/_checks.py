"""Checks data from users and converts them into one form before any worker starts."""

from __future__ import annotations

from collections.abc import Sized
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from erasurehead._internal.arrays import Array
from erasurehead._internal.foreign_arrays import as_array, fault_of_sparse, masked_place, owned
from erasurehead.errors import UNSAID, check_count, invalid
from erasurehead.problems._design_matrices import DenseDesign, Design, PatternDesign, SparseDesign

if TYPE_CHECKING:
    from erasurehead._internal.arrays import SparseMatrix

_MOST_COLUMNS = 2**31 - 1  # columns are numbered with 32 bits
_REMEDY = "leave the sample out, or fill the value in"


def check_design(X: Any, argument: str = "X", n_columns: int | None = None) -> Design:
    """Check a matrix of samples x features, and choose its form.

    Arguments:
        X: a scipy sparse matrix or array, or anything that numpy turns into an array of two dimensions. X is copied, as
            are labels, so that later changes to it do not matter, unless it is read-only (`writeable` is False, as in
            read-only memory maps). A sparse matrix whose stored numbers are all 1, such as a one-hot encoding, is kept
            as a pattern, without its numbers.
        argument: its name, for errors.
        n_columns: number of features that it must have; None for any.

    Raises:
        InvalidArgument: if it is not a finite, real matrix with at least one row and one column, or does not have
            `n_columns` columns.
    """
    is_sparse: bool = sparse.issparse(X)
    if is_sparse and (fault := fault_of_sparse(X)):
        raise invalid(argument, f"must be a whole sparse matrix, in which {fault}", UNSAID, "build it anew")
    matrix: Any = X if is_sparse else _array(X, argument)
    if matrix.ndim != 2 or min(matrix.shape) < 1:
        raise invalid(f"the shape of {argument}", "must be (samples, features), both at least 1", matrix.shape)
    if n_columns is not None and matrix.shape[1] != n_columns:
        raise invalid(
            f"the number of columns of {argument}",
            f"must be {n_columns}, as in the training data",
            matrix.shape[1],
            "encode it with the encoding of the training data",
        )
    if matrix.shape[1] > _MOST_COLUMNS:
        raise invalid(f"the number of columns of {argument}", f"must be at most {_MOST_COLUMNS}", matrix.shape[1])
    _check_kind(matrix.dtype, argument)
    return _sparse_design(matrix, argument) if is_sparse else _dense_design(matrix, argument)


def check_test_pair(test: Any) -> tuple[Any, Any]:
    """Return the two parts of a `test` argument; what they hold is checked with them.

    Raises:
        InvalidArgument: if there are not two.
    """
    try:
        samples, labels = test
    except (TypeError, ValueError):
        given = f"{len(test)} in all" if isinstance(test, Sized) else test
        raise invalid("test", "must be the samples and their labels, (X_test, y_test)", given) from None
    return samples, labels


def check_target(y: Any, argument: str, n_samples: int, design: str) -> Array:
    """Check that there is one finite number per sample, and return them as float64, shape (n_samples,).

    Arguments:
        y: labels or targets.
        argument: their name, for errors.
        n_samples: rows of the design.
        design: name of the design, for errors.

    Raises:
        InvalidArgument: if there is not.
    """
    values = _array(y, argument)
    if values.shape != (n_samples,):
        raise invalid(f"the shape of {argument}", f"must be ({n_samples},), one value a row of {design}", values.shape)
    _check_kind(values.dtype, argument)
    values = owned(values.astype(np.float64, copy=False), y)
    bad = np.flatnonzero(~np.isfinite(values))
    if len(bad):
        raise invalid(f"{argument}[{bad[0]}]", "must be a finite number", float(values[bad[0]]), _REMEDY)
    return values


def check_squares(values: Array, argument: str) -> None:
    """Raise if the sum of squares of finite numbers overflows: no step size would help.

    Raises:
        InvalidArgument: if it does; the error names the largest number.
    """
    largest = float(np.abs(values).max(initial=0.0))
    if largest > np.sqrt(np.finfo(np.float64).max / max(1, values.size)):
        raise invalid(
            f"every value of {argument}",
            "must be small enough for squares to be added up in float64",
            largest,
            "divide by a unit such as 1e6, or by the standard deviation",
        )


def check_not_lost(values: Array, argument: str) -> None:
    """Raise if the squares of finite numbers are lost to rounding: every loss would be 0.

    Raises:
        InvalidArgument: if there are numbers other than 0, and all are that small; the error names the largest one.
    """
    largest = float(np.abs(values).max(initial=0.0))
    limits = np.finfo(np.float64)
    if 0.0 < largest < np.sqrt(limits.tiny / limits.eps):
        raise invalid(
            argument,
            "must have a value that is large enough to be squared in float64",
            largest,
            "multiply by a unit such as 1e100, or divide by the standard deviation",
        )


def _array(given: Any, argument: str) -> NDArray[Any]:
    place = masked_place(given)
    if place is not None:
        raise invalid(
            argument, "must have no masked values", place, "fill them in (numpy.ma.filled), or leave them out"
        )
    array = as_array(given)
    if array is None:
        raise invalid(argument, "must have rows of equal length", UNSAID)
    return array


def _check_kind(dtype: np.dtype[Any], argument: str) -> None:
    if dtype.kind not in "biuf":
        raise invalid(
            f"the dtype of {argument}", "must be one of real numbers", str(dtype), "encode it as numbers first"
        )


def _dense_design(matrix: NDArray[Any], argument: str) -> Design:
    numbers = owned(np.ascontiguousarray(matrix, dtype=np.float64), matrix)
    finite = np.isfinite(numbers)
    if not finite.all():
        row, column = np.argwhere(~finite)[0]
        raise invalid(f"{argument}[{row}, {column}]", "must be a finite number", float(numbers[row, column]), _REMEDY)
    check_squares(numbers, argument)
    return DenseDesign(numbers)


def _own_rows(matrix: Any) -> SparseMatrix:
    """Return a matrix in row order, in arrays of its own."""
    rows: Any = sparse.csr_array(matrix, dtype=np.float64)
    if matrix.format != "csr":
        return rows
    parts = [(rows.data, matrix.data), (rows.indices, matrix.indices), (rows.indptr, matrix.indptr)]
    kept: Any = sparse.csr_array(
        tuple(owned(array, given) for array, given in parts), shape=rows.shape, dtype=np.float64
    )
    return kept


def _sparse_design(matrix: Any, argument: str) -> Design:
    rows = _own_rows(matrix)
    if not (rows.has_canonical_format and rows.data.all()):
        rows = rows.copy()  # the user's arrays must not be changed
        rows.sum_duplicates()
        rows.eliminate_zeros()
    bad = np.flatnonzero(~np.isfinite(rows.data))
    if len(bad):
        entry = int(bad[0])
        row = int(np.count_nonzero(rows.indptr[1:] <= entry))
        place = f"{argument}[{row}, {rows.indices[entry]}]"
        raise invalid(place, "must be a finite number", float(rows.data[entry]), _REMEDY)
    check_squares(rows.data, argument)
    return PatternDesign(rows) if (rows.data == 1.0).all() else SparseDesign(rows)


def intercept_parameters(intercept: int | None, n_features: int, n_outputs: int) -> tuple[int, ...]:
    """Return the parameters that belong to a column, one for each output; none if no column is given.

    Arguments:
        intercept: index of the column, from 0, or from -1 for the last one; None for no column.
        n_features: columns of the design matrix.
        n_outputs: number of rows of weights.

    Raises:
        InvalidArgument: if there is no such column.

    >>> intercept_parameters(-1, 5, 2)
    (4, 9)
    """
    if intercept is None:
        return ()
    column = check_count("intercept", intercept, -n_features, n_features - 1) % n_features
    return tuple(range(column, n_outputs * n_features, n_features))
