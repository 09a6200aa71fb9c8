"""A user's own matrix: what is refused, and what tolerance is found."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import sparse

from erasurehead.codes import GradientCode, custom, cyclic_repetition, fractional_repetition
from erasurehead.codes._communication_efficient import communication_efficient_groups
from erasurehead.codes._cyclic import complex_cyclic_mds, cyclic_mds
from erasurehead.codes._expanders import regular
from erasurehead.codes._nested import nested
from erasurehead.errors import InvalidArgument

TANDON = [[0.5, 1.0, 0.0], [0.0, 1.0, -1.0], [0.5, 0.0, 1.0]]


@pytest.mark.parametrize(
    "code",
    [
        cyclic_mds(8, 3),
        cyclic_repetition(7, 2),
        fractional_repetition(10, 3),
        nested(6, 2),
        complex_cyclic_mds(6, 2),
        communication_efficient_groups(8, 4, 2),
    ],
    ids=repr,
)
def test_the_tolerance_of_a_known_code_is_found(code: GradientCode) -> None:
    own = custom(code.encoding, code.owner, code.n_pieces)
    assert own.tolerance == code.tolerance
    assert (own.encoding != code.encoding).nnz == 0
    assert own.n_pieces == code.n_pieces
    assert (
        custom(code.encoding.toarray(), code.owner.tolist(), code.n_pieces, code.tolerance).tolerance == code.tolerance
    )


def test_tandons_example_as_list_array_sparse_and_mapping() -> None:
    code = custom(TANDON)
    assert code.tolerance == 1
    for again in (np.array(TANDON), sparse.coo_array(np.array(TANDON)), code.parameters["matrix"]):
        assert custom(again).encoding.toarray().tolist() == TANDON


def test_a_stated_tolerance_is_tried() -> None:
    assert custom(cyclic_repetition(30, 5).encoding, tolerance=5).tolerance == 5
    with pytest.raises(InvalidArgument, match=r"tolerance must hold, but without workers \[.*\] nothing decodes"):
        custom(cyclic_repetition(30, 5).encoding, tolerance=6)
    with pytest.raises(InvalidArgument, match="tolerance must be at most 2, but it is 3"):
        custom(TANDON, tolerance=3)


def test_large_sparse_matrices_are_checked_without_making_them_dense() -> None:
    assert custom(fractional_repetition(6_000, 3).encoding).tolerance == 0  # as far as a few seconds allow
    assert custom(regular(6_000, 3).encoding).n_workers == 6_000


@given(st.lists(st.lists(st.sampled_from([0.0, 1.0, -2.0]), min_size=3, max_size=3), min_size=1, max_size=5))
def test_refused_or_right(rows: list[list[float]]) -> None:
    matrix = np.array(rows)
    try:
        code = custom(matrix)
    except InvalidArgument:
        rank = np.linalg.matrix_rank(matrix)
        with_target = np.linalg.matrix_rank(np.vstack([matrix, np.ones(3)]))
        assert not matrix.any(axis=0).all() or not matrix.any(axis=1).all() or with_target > rank
        return
    for worker in range(code.n_workers if code.tolerance else 0):
        kept = np.delete(matrix, worker, axis=0)
        assert np.linalg.matrix_rank(np.vstack([kept, np.ones(3)])) == np.linalg.matrix_rank(kept)


def test_an_approximate_code_is_taken_when_asked() -> None:
    assert custom([[1.0, 2.0], [2.0, 4.0]], approximate=True).tolerance is None
    assert custom(TANDON, approximate=True).tolerance == 1


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: custom([[1, 2], [0, 0]]), "matrix must have no empty row, got 'row 1 is empty'"),
        (lambda: custom([[1, 0], [1, 0]]), "matrix must have no empty column, got 'column 1 is empty'"),
        (lambda: custom([[1, np.nan], [1, 0]]), "matrix must be finite, but it is 'nan in row 0, column 1'"),
        (lambda: custom([[1, 2], [np.inf, 0]]), "matrix must be finite, but it is 'inf in row 1, column 0'"),
        (lambda: custom(np.array([[1j, 1]])), "matrix must be real.*two rows with the same owner"),
        (lambda: custom([[1, 2], [2, 4]]), "sum of all tasks in the span of its rows.*use approximate=True"),
        (lambda: custom([1, 2]), "matrix must have one row a message"),
        (lambda: custom([[]]), "matrix must have one row a message"),
        (lambda: custom(TANDON, owner=[0, 2, 2]), "owner must number the workers 0, 1, 2, ... without gaps"),
        (lambda: custom(TANDON, owner=[0, 1]), "owner must name one worker for each of the 3 messages"),
        (lambda: custom(TANDON, owner=[0.5, 1, 2]), "owner must name one worker for each of the 3 messages"),
        (lambda: custom(TANDON, n_pieces=2), "n_pieces must divide the 3 columns, got 2"),
        (
            lambda: custom(np.diag([1.0, 1e-300, 1.0])),
            "matrix must have rows that can be squared in float64, got 'row 1'",
        ),
        (
            lambda: custom(1e-300 * np.eye(3)),
            "matrix must have rows that can be squared.*divide the row by its largest",
        ),
        (lambda: custom(1e300 * np.eye(3)), "matrix must have rows that can be squared"),
        (lambda: nested(100, 59), "stragglers must be at most 7 of 100 workers with this seed, .*a load of 8"),
        (lambda: custom({"shape": [1, 1]}), "matrix must have the keys shape, row, column and value"),
    ],
)
def test_what_is_refused(build: Callable[[], GradientCode], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        build()


def test_a_matrix_that_is_none_is_refused_in_a_sentence():
    entries = {"shape": [2, 2], "row": [0, 1], "column": [0, 1], "value": [1.0, 1.0]}
    for wrong, said in (
        ([[1, 2], [3]], "matrix must be numbers, in rows of equal length"),
        ([["a", 1], [1, 2]], "matrix must be numbers"),
        ([[10**400, 1], [1, 1]], "matrix must be numbers"),
        (entries | {"row": [0, 2]}, "matrix.row must be among 0..1, but it is 2"),
        (entries | {"column": [0, 0.5]}, "matrix.column must be a list of whole numbers"),
        (entries | {"value": [1.0]}, "matrix must have a row, a column and a value for each entry"),
        (entries | {"shape": [2]}, "matrix.shape must be the numbers of messages and of columns"),
    ):
        with pytest.raises(InvalidArgument, match=said):
            custom(wrong)
    assert custom(entries).n_tasks == 2
