"""Data that cannot be used are refused before anything starts, in one sentence that says where they are wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse

from erasurehead.errors import InvalidArgument
from erasurehead.problems._checks import check_design, check_target
from erasurehead.problems._design_matrices import DenseDesign, PatternDesign, SparseDesign


def spoilt(value: float) -> np.ndarray:
    X = np.zeros((4, 3))
    X[0, 0], X[2, 1] = 5.0, value
    return X


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array, sparse.csc_matrix, sparse.coo_array])
def test_a_number_that_is_not_finite_is_named_with_its_row_and_column(value: float, form: Any) -> None:
    with pytest.raises(InvalidArgument) as refusal:
        check_design(form(spoilt(value)), "X")
    assert str(refusal.value) == (
        f"X[2, 1] must be a finite number, but it is {value!r}; leave the sample out, or fill the value in."
    )


def test_the_first_of_many_wrong_numbers_is_named_though_rows_before_it_are_empty() -> None:
    X = np.zeros((5, 2))
    X[3:] = np.nan
    with pytest.raises(InvalidArgument, match=r"^X\[3, 0\] must be a finite number"):
        check_design(sparse.csr_array(X))


@pytest.mark.parametrize(
    ("X", "shape"), [(np.ones(3), "(3,)"), (np.ones((0, 3)), "(0, 3)"), (sparse.csr_array((3, 0)), "(3, 0)")]
)
def test_a_matrix_has_rows_and_columns(X: Any, shape: str) -> None:
    with pytest.raises(InvalidArgument) as refusal:
        check_design(X, "X")
    assert str(refusal.value) == f"the shape of X must be (samples, features), both at least 1, but it is {shape}."


@pytest.mark.parametrize("X", [np.array([["a", "b"]]), np.ones((2, 2), dtype=complex), np.array([[None]])])
def test_only_real_numbers_are_taken(X: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"the dtype of X must be one of real numbers, but it is '.*'; encode it"):
        check_design(X)
    with pytest.raises(InvalidArgument, match="the dtype of y must be one of real numbers"):
        check_target(X[:, 0], "y", len(X), "X")


def test_a_sparse_matrix_whose_columns_are_out_of_bounds_is_refused() -> None:
    X = sparse.csr_array(np.eye(3))
    X.indices[1] = 7
    with pytest.raises(ValueError, match="entry 1 is in column 7, but columns go from 0 to 2"):
        check_design(X)


@pytest.mark.parametrize(
    ("X", "form"),
    [
        (sparse.eye_array(3, dtype=np.int8), PatternDesign),
        (sparse.csr_array((2, 3)), PatternDesign),
        (sparse.csr_matrix(np.eye(3, dtype=bool)), PatternDesign),
        (2 * sparse.eye_array(3, format="csc", dtype=np.float32), SparseDesign),
        (np.eye(3), DenseDesign),
        ([[1, 2], [3, 4]], DenseDesign),
    ],
)
def test_the_form_follows_the_data(X: Any, form: type) -> None:
    assert type(check_design(X)) is form


def test_targets_are_one_finite_number_a_row() -> None:
    with pytest.raises(
        InvalidArgument, match=r"^the shape of y must be \(3,\), one value a row of X, but it is \(2,\).$"
    ):
        check_target([1, 2], "y", 3, "X")
    with pytest.raises(
        InvalidArgument, match=r"^the shape of y must be \(3,\), one value a row of X, but it is \(3, 1\)"
    ):
        check_target(np.ones((3, 1)), "y", 3, "X")
    with pytest.raises(InvalidArgument, match=r"^y\[1\] must be a finite number, but it is nan; leave the sample out"):
        check_target([1.0, np.nan, np.inf], "y", 3, "X")
    values = check_target([True, False], "y", 2, "X")
    assert values.dtype == np.float64
    np.testing.assert_array_equal(values, [1.0, 0.0])
