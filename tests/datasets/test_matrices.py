from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from erasurehead.datasets._matrices import check_matrix, split_last_column, with_constant
from erasurehead.errors import DataError

DENSE = np.array([[0.0, 1.5, 0.0], [2.0, 0.0, 3.0]])
KINDS: list[Any] = [np.asarray, sparse.csr_array, sparse.csr_matrix, sparse.coo_array, sparse.csc_matrix]


def _array(matrix: Any) -> np.ndarray:
    return matrix if isinstance(matrix, np.ndarray) else matrix.toarray()


@pytest.mark.parametrize("kind", KINDS)
def test_matrices_are_float64_dense_or_canonical_csr(kind: Any) -> None:
    found = check_matrix(kind(DENSE.astype(np.float32)), "it")
    np.testing.assert_array_equal(_array(found), DENSE)
    assert found.dtype == np.float64
    if kind is not np.asarray:
        assert isinstance(found, sparse.csr_array)
        assert (found.indices.dtype, found.indptr.dtype) == (np.int32, np.int32)
        assert found.has_canonical_format


def test_entries_that_stand_twice_are_added_and_sorted_without_touching_the_given_matrix() -> None:
    given = sparse.csr_array((np.array([1.0, 2.0, 3.0]), np.array([2, 0, 2]), np.array([0, 3])), shape=(1, 3))
    found: Any = check_matrix(given, "it")
    assert (found.toarray().tolist(), found.nnz, given.nnz) == ([[2, 0, 4]], 2, 3)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("wrong", [math.nan, math.inf])
def test_numbers_that_are_not_finite_are_named(kind: Any, wrong: float) -> None:
    given = DENSE.copy()
    given[1, 2] = wrong
    with pytest.raises(DataError, match=f"X, row 1, column 2: {wrong} is not a finite number"):
        check_matrix(kind(given), "X")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (np.zeros(3), r"X must be a matrix with two dimensions, but its shape is \(3,\)"),
        (np.array([["a"]]), "X must hold real numbers, but its type is <U1"),
        (np.array([[1j]]), "X must hold real numbers, but its type is complex128"),
        (sparse.csr_array(np.array([[1j]])), "X must hold real numbers, but its type is complex128"),
    ],
)
def test_other_arrays_are_refused(given: Any, said: str) -> None:
    with pytest.raises(DataError, match=said):
        check_matrix(given, "X")


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_a_constant_may_be_put_on_and_the_last_column_taken_off(kind: Any) -> None:
    wide = with_constant(check_matrix(kind(DENSE), "X"))
    np.testing.assert_array_equal(_array(wide), np.column_stack([DENSE, [1, 1]]))
    rest, last = split_last_column(check_matrix(kind(DENSE), "X"))
    np.testing.assert_array_equal(_array(rest), DENSE[:, :2])
    np.testing.assert_array_equal(last, [0, 3])
