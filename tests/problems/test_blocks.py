"""A pattern block is its matrix, whatever its rows and columns hold; and it crosses to a worker as plain arrays."""

from __future__ import annotations

import dataclasses
import pickle
from importlib import import_module

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import sparse

from erasurehead.problems._blocks import MOST_ROWS, pattern_block


def products(matrix: sparse.csr_array, seed: int = 0):
    rng = np.random.default_rng(seed)
    n_rows, n_columns = matrix.shape
    return rng.normal(size=(1, n_columns)), rng.normal(size=(1, n_rows))


def check(matrix: sparse.csr_array) -> None:
    weights, residuals = products(matrix)
    margins, total = np.full((1, matrix.shape[0]), np.nan), np.full((1, matrix.shape[1]), np.nan)
    block = pattern_block(matrix)
    block.multiply(weights, margins)
    block.multiply_transposed(residuals, total)
    np.testing.assert_allclose(margins[0], matrix @ weights[0], rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(total[0], matrix.T @ residuals[0], rtol=1e-11, atol=1e-12)


@given(st.integers(1, 40), st.integers(1, 40), st.sampled_from([0.0, 0.03, 0.3, 0.9, 1.0]), st.integers(0, 10_000))
def test_both_products_are_the_matrix_products(n_rows: int, n_columns: int, density: float, seed: int) -> None:
    ones = np.random.default_rng(seed).random((n_rows, n_columns)) < density
    check(sparse.csr_array(ones.astype(np.float64)))


def test_a_block_of_as_many_rows_as_two_bytes_count() -> None:
    rng = np.random.default_rng(0)
    columns = np.sort(rng.integers(0, 700, (MOST_ROWS, 2)) + np.array([0, 700]), axis=1)
    edges = np.arange(0, 2 * MOST_ROWS + 1, 2)
    check(sparse.csr_array((np.ones(2 * MOST_ROWS), columns.ravel(), edges), shape=(MOST_ROWS, 1500)))


def test_columns_of_many_ones_are_cut_into_bands_of_rows_and_others_are_not() -> None:
    densities = np.array([0.9, 0.0002, 0.05, 0.001, 0.0])
    ones = np.random.default_rng(0).random((5000, 5)) < densities
    matrix = sparse.csr_array(ones.astype(np.float64))
    check(matrix)
    stretches = np.bincount(pattern_block(matrix).columns, minlength=5)
    assert stretches.tolist() == [3, int(ones[:, 1].sum() > 1), 3, 1, 0]


def test_a_block_holds_two_bytes_a_one_and_four_a_column_with_several() -> None:
    ones = np.random.default_rng(1).random((300, 1000)) < 0.02
    block = pattern_block(sparse.csr_array(ones.astype(np.float64)))
    several = int((ones.sum(axis=0) > 1).sum())
    assert block.first.nbytes + block.rows.nbytes == 2 * (ones.sum() + int((~ones.any(axis=0)).sum()))
    assert block.columns.nbytes == 4 * several
    size = sum(
        getattr(block, field.name).nbytes for field in dataclasses.fields(block) if field.name not in ("n_rows",)
    )
    assert len(pickle.dumps(block, protocol=5)) < size + 1000


def test_arrays_of_a_block_may_be_read_only() -> None:
    matrix = sparse.csr_array(np.eye(5)[[0, 1, 1, 4]])
    block = pattern_block(matrix)
    for name in ("first", "runs", "columns", "rows"):
        getattr(block, name).flags.writeable = False
    weights, margins = np.arange(5.0)[None], np.empty((1, 4))
    weights.flags.writeable = False
    block.multiply(weights, margins)
    np.testing.assert_array_equal(margins, [[0.0, 1.0, 1.0, 4.0]])


def test_arrays_of_other_types_are_refused_not_compiled_for() -> None:
    import_module("erasurehead.problems._machine_code")  # as once there is something to gain by it
    block = pattern_block(sparse.csr_array(np.eye(3)))
    with pytest.raises(TypeError, match="No matching definition"):
        block.multiply(np.ones((1, 3), dtype=np.float32), np.empty((1, 3)))
