"""A support is what the rows touch, and a block over it is the rows without the other columns."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import sparse

from erasurehead.problems._checks import check_design

from .oracles import FORMS, matrix_of


@given(st.sampled_from(["sparse", "one_hot", "ragged"]), st.integers(0, 10_000), st.integers(1, 20), st.integers(1, 15))
def test_the_support_of_some_rows_is_the_columns_that_they_touch(
    form: str, seed: int, n_rows: int, n_columns: int
) -> None:
    rng = np.random.default_rng(seed)
    dense = matrix_of(form, rng, n_rows, n_columns)
    design = check_design(sparse.csr_array(dense))
    low, middle, high = np.sort(rng.integers(0, n_rows + 1, 3)).tolist()
    ranges = [rows for rows in (slice(middle, high), slice(low, middle)) if rows.stop > rows.start]
    touched = np.flatnonzero(np.any([dense[rows].any(axis=0) for rows in ranges], axis=0)) if ranges else []
    support = design.support(ranges)
    np.testing.assert_array_equal(np.arange(n_columns) if support is None else support, touched)


def test_a_support_of_all_columns_is_none() -> None:
    design = check_design(sparse.csr_array([[1.0, 0.0], [1.0, 1.0]]))
    assert design.support([slice(0, 2)]) is None
    np.testing.assert_array_equal(design.support([slice(0, 1)]), [0])
    assert check_design(np.zeros((2, 2))).support([slice(0, 1)]) is None


@pytest.mark.parametrize("form", FORMS)
def test_a_block_is_its_rows_over_its_columns(form: str) -> None:
    rng = np.random.default_rng(7)
    dense = matrix_of(form, rng, 30, 12)
    design = check_design(dense if form == "dense" else sparse.csr_array(dense))
    ranges = [slice(20, 23), slice(2, 9)] if design.joins else [slice(2, 9)]
    support = design.support(ranges)
    rows = np.concatenate([dense[part] for part in ranges])
    rows = rows if support is None else rows[:, support]
    block = design.block(ranges, support)
    weights, residuals = rng.normal(size=(2, rows.shape[1])), rng.normal(size=(2, rows.shape[0]))
    margins, total = np.full((2, rows.shape[0]), np.nan), np.full((2, rows.shape[1]), np.nan)
    block.multiply(weights, margins)
    block.multiply_transposed(residuals, total)
    np.testing.assert_allclose(margins, weights @ rows.T, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(total, residuals @ rows, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("form", FORMS)
def test_equal_rows_have_equal_margins_to_the_bit(form: str) -> None:
    rng = np.random.default_rng(7)
    dense = matrix_of(form, rng, 10, 40)[[3, 1, 4, 3, 5, 3]]
    design = check_design(sparse.csr_array(dense)) if form != "dense" else check_design(dense)
    weights = rng.normal(size=(2, 40))
    margins = design.margins(weights)
    np.testing.assert_allclose(margins, weights @ dense.T, rtol=1e-12, atol=1e-14)
    if form != "dense":  # the order of sums in a dense product is BLAS's own
        np.testing.assert_array_equal(margins[:, [3, 5]], margins[:, [0, 0]])
