"""First-per-group: agrees with least squares, costs nothing, and depends on the set of arrivals alone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from erasurehead.decoding import make_decoder
from erasurehead.decoding._groups import FirstPerGroup
from erasurehead.decoding._least_squares import LeastSquaresDecoder
from erasurehead.errors import InvalidArgument

from .helpers import check_consistent, code_of, repetition


@given(st.integers(1, 5), st.integers(1, 4), st.integers(1, 3), st.data())
def test_it_agrees_with_least_squares(n_groups, replicas, tasks_each, data):
    code = repetition(n_groups, replicas, tasks_each)
    order = data.draw(st.permutations(range(code.n_messages)))
    count = data.draw(st.integers(0, code.n_messages))
    decoder, reference = FirstPerGroup(code), LeastSquaresDecoder(code)
    session, other = decoder.begin(), reference.begin()
    for message in order[:count]:
        session.add(message)
        other.add(message)
        assert session.residual() == pytest.approx(other.residual(), abs=1e-9)
    decoding = session.decoding()
    check_consistent(decoding)
    np.testing.assert_allclose(decoding.alpha, other.decoding().alpha, atol=1e-9)
    assert set(decoding.weights.ravel()) <= {1.0}
    batch = decoder.decode(order[:count])
    assert batch.messages.tolist() == decoding.messages.tolist()
    assert batch.residual == decoding.residual


def test_the_smallest_index_is_used_whoever_came_first():
    decoder = FirstPerGroup(repetition(2, 3))
    assert decoder.decode([2, 1, 5]).messages.tolist() == [1, 5]
    assert decoder.decode([1, 2, 5]).messages.tolist() == [1, 5]


def test_uneven_groups_and_uncovered_tasks():
    # Task 3 is held by nobody; group 1 has a single message.
    code = code_of(np.array([[1.0, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0]]), groups=[0, 0, 1])
    decoder = make_decoder(code)
    assert isinstance(decoder, FirstPerGroup)
    assert decoder.residuals([1, 0, 2]).tolist() == [2.0, 2.0, 1.0]


def test_coefficients_other_than_one_are_weighted_best():
    code = code_of(np.array([[2.0, 1.0], [2.0, 1.0]]), groups=[0, 0])
    decoding = FirstPerGroup(code).decode([1])
    np.testing.assert_allclose(decoding.weights, [[0.6]])
    assert decoding.residual == pytest.approx(2 - 9 / 5)
    check_consistent(decoding)


def test_a_full_decoding_has_a_residual_of_exactly_zero():
    code = repetition(7, 3, 3)
    assert FirstPerGroup(code).residual(range(0, 21, 3)) == 0.0


def test_groups_of_different_messages_are_refused():
    code = code_of(np.array([[1.0, 2.0], [2.0, 1.0]]), groups=[0, 0])
    with pytest.raises(InvalidArgument, match="groups of equal messages"):
        FirstPerGroup(code)
