"""Matrices of finite float64 numbers, sparse or dense: construction, checks, joining."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from erasurehead._internal.arrays import AnyArray, Array, ShortIntArray
from erasurehead._internal.foreign_arrays import as_array, fault_of_sparse, masked_place
from erasurehead.errors import DataError

if TYPE_CHECKING:
    from erasurehead._internal.arrays import SparseMatrix

Matrix: TypeAlias = "SparseMatrix | Array"

MAX_INDEX = 2**31 - 1
"""The indices of a CSR matrix are int32."""

LARGEST = 1e150
"""The largest number whose squares can be added up over all rows."""


def csr(data: Array, indices: ShortIntArray, ends: ShortIntArray, shape: tuple[int, int]) -> SparseMatrix:
    """Return a CSR matrix of the given arrays, which are not copied."""
    from scipy import sparse

    matrix: Any = sparse.csr_array((data, indices, ends), shape=shape)
    return matrix


def check_matrix(given: Any, name: str) -> Matrix:
    """Return a matrix as float64, dense or CSR with ascending int32 indices.

    Arguments:
        given: anything that numpy or scipy takes for a matrix.
        name: its name in messages.

    Raises:
        DataError: if it is not two-dimensional, does not hold real numbers, or one of them is NaN or infinite.
    """
    from scipy import sparse

    to_csr: Any = sparse.csr_array
    if sparse.issparse(given):
        check_sparse_indices(given, name)
        return _check_sparse(to_csr(given), name)
    array: Any = unmasked(given, name)
    if array.ndim != 2:
        raise DataError(f"{name} must be a matrix with two dimensions, but its shape is {array.shape}.")
    dense = floats(array, name)
    wrong = np.flatnonzero(~np.isfinite(dense))
    if len(wrong):
        row, column = divmod(int(wrong[0]), dense.shape[1])
        raise not_finite(name, row, column, float(dense[row, column]))
    return dense


def unmasked(given: Any, name: str) -> AnyArray:
    """Return an array of anything that numpy takes as one.

    Raises:
        DataError: if values are masked, or rows differ in length.
    """
    place = masked_place(given)
    if place is not None:
        raise DataError(
            f"{name} has masked values, the first at {place}; fill them in (numpy.ma.filled), or leave those rows out."
        )
    array = as_array(given)
    if array is None:
        raise DataError(f"{name} must be a matrix, but its rows have different lengths.")
    return array


def check_sparse_indices(given: Any, name: str) -> None:
    """Raise if a sparse matrix has indices out of bounds.

    Raises:
        DataError: if it has; the error names the first such index.
    """
    fault = fault_of_sparse(given)
    if fault:
        raise DataError(f"{name} is an invalid sparse matrix: {fault}.")


def _check_sparse(given: Any, name: str) -> SparseMatrix:
    if not given.has_canonical_format:
        given = given.copy()
        given.sum_duplicates()
    if max(given.nnz, *given.shape) > MAX_INDEX:
        raise DataError(f"{name} has shape {given.shape} and {given.nnz} entries, more than 32-bit indices can hold.")
    indices: ShortIntArray = given.indices.astype(np.int32)
    ends: ShortIntArray = given.indptr.astype(np.int32)
    values = floats(given.data, name)
    wrong = np.flatnonzero(~np.isfinite(values))
    if len(wrong):
        place = int(wrong[0])
        row = int(np.count_nonzero(ends <= place)) - 1
        raise not_finite(name, row, int(indices[place]), float(values[place]))
    return csr(values, indices, ends, given.shape)


def floats(values: Any, name: str) -> Array:
    """Return an array as float64.

    Raises:
        DataError: if it does not hold real numbers.
    """
    if values.dtype.kind not in "buif":
        raise DataError(f"{name} must hold real numbers, but its type is {values.dtype}.")
    return values.astype(np.float64)


def not_finite(name: str, row: int, column: int, value: float) -> DataError:
    """Return the error for an entry that is NaN or infinite."""
    return DataError(f"{name}, row {row}, column {column}: {value} is not a finite number.")


def too_large(place: str, column: str, value: float) -> DataError:
    """Return the error for a number beyond `LARGEST`."""
    return DataError(f"{place}, column {column!r}: {value:g} is too large to square; correct it, or its unit.")


def split_last_column(matrix: Matrix) -> tuple[Matrix, Array]:
    """Return a matrix without its last column, and that column."""
    if isinstance(matrix, np.ndarray):
        return matrix[:, :-1], matrix[:, -1].copy()
    columns: Any = matrix.tocsc()
    return check_matrix(columns[:, :-1], "the matrix"), columns[:, [-1]].toarray().ravel()


def with_constant(matrix: Matrix) -> Matrix:
    """Return a matrix with a last column of ones."""
    ones = np.ones((int(matrix.shape[0]), 1))
    if isinstance(matrix, np.ndarray):
        return np.column_stack([matrix, ones])
    from scipy import sparse

    return check_matrix(sparse.hstack([matrix, sparse.csr_array(ones)], format="csr"), "the matrix")
