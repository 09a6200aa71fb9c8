from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import sparse
from sklearn.preprocessing import OneHotEncoder

from erasurehead.datasets._preprocessing.design import CodeBlock, NumberBlock, design, joint_keys
from erasurehead.datasets._preprocessing.target import Target
from erasurehead.datasets._readers.layouts import TableLayout
from erasurehead.datasets._readers.table import NumberColumn, Table
from erasurehead.errors import DataError

from .fitting import fit_table


def _codes(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int32)


@given(st.integers(1, 60), st.integers(1, 5), st.integers(1, 12), st.integers(0, 1000))
def test_it_agrees_with_scikit_learn(n_rows: int, n_columns: int, n_values: int, seed: int) -> None:
    values = np.random.default_rng(seed).integers(0, n_values, size=(n_rows, n_columns)).astype(np.float64)
    names = tuple(f"c{place}" for place in range(n_columns))
    columns = {name: NumberColumn(values[:, place]) for place, name in enumerate(names)}
    table = Table("it", columns, n_rows, str)
    groups = [(name,) for name in names]
    encoding = fit_table(table, Target("", "least_squares"), TableLayout(names), one_hot=groups, constant=False)
    X = encoding.encode(table)[0].X
    expected = OneHotEncoder().fit_transform(values)
    assert X.shape == expected.shape
    np.testing.assert_array_equal(X.toarray(), expected.toarray())


def test_blocks_stand_side_by_side_and_the_constant_is_last() -> None:
    blocks = [CodeBlock(_codes(2, 0, -1), 3), NumberBlock(np.array([0.5, 1.5, 2.5])), CodeBlock(_codes(0, 1, 1), 2)]
    X = design(blocks, None, True, 3)
    assert isinstance(X, sparse.csr_array)
    np.testing.assert_array_equal(
        X.toarray(), [[0, 0, 1, 0.5, 1, 0, 1], [1, 0, 0, 1.5, 0, 1, 1], [0, 0, 0, 2.5, 0, 1, 1]]
    )
    assert (X.indices.dtype, X.indptr.dtype, X.data.dtype) == (np.int32, np.int32, np.float64)
    assert X.has_canonical_format


def test_rows_may_be_chosen_in_any_order() -> None:
    blocks = [CodeBlock(_codes(2, 0, 1), 3)]
    X = design(blocks, np.array([2, 0]), False, 3)
    np.testing.assert_array_equal(X.toarray(), [[0, 1, 0], [0, 0, 1]])
    assert design(blocks, np.array([], dtype=np.int64), True, 3).shape == (0, 4)


def test_numbers_alone_make_a_dense_matrix() -> None:
    X = design([NumberBlock(np.array([1.0, 2.0])), NumberBlock(np.array([3.0, 4.0]))], np.array([1]), True, 2)
    assert isinstance(X, np.ndarray)
    np.testing.assert_array_equal(X, [[2, 4, 1]])


@given(st.lists(st.tuples(st.integers(-1, 4), st.integers(-1, 2), st.integers(-1, 6)), min_size=1, max_size=50))
def test_joint_keys_tell_combinations_apart(rows: list[tuple[int, int, int]]) -> None:
    columns = [np.array(column, dtype=np.int32) for column in zip(*rows, strict=True)]
    keys = joint_keys(columns, [5, 3, 7])
    for row, key in zip(rows, keys, strict=True):
        assert (key == -1) == (-1 in row)
    whole = {row for row in rows if -1 not in row}
    assert len({key for key in keys.tolist() if key >= 0}) == len(whole)


def test_too_many_combinations_are_refused() -> None:
    with pytest.raises(DataError, match="combinations of 4 columns are too many; combine fewer columns"):
        joint_keys([_codes(0)] * 4, [10**5] * 4)
