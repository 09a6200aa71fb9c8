"""Dense least squares is the reference: it is checked against numpy on the plain matrix, and against mathematics."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from erasurehead.decoding._least_squares import LeastSquaresDecoder

from .helpers import check_every_arrival, code_of


@st.composite
def random_codes(draw: st.DrawFn, n_pieces: int = 1):
    seed = draw(st.integers(0, 10_000))
    rng = np.random.default_rng(seed)
    n_messages, n_tasks = draw(st.integers(1, 12)), draw(st.integers(1, 8))
    matrix = rng.integers(-2, 3, (n_messages, n_tasks * n_pieces)) * (
        rng.random((n_messages, n_tasks * n_pieces)) < 0.6
    )
    return code_of(matrix, n_pieces=n_pieces), rng.permutation(n_messages)


@given(random_codes(), random_codes(n_pieces=2))
def test_it_agrees_with_numpy_at_every_arrival(first, second):
    for code, order in (first, second):
        check_every_arrival(LeastSquaresDecoder(code), order)


def test_nothing_arrived_is_nothing_known():
    session = LeastSquaresDecoder(code_of(np.eye(3))).begin()
    assert session.residual() == 3
    assert session.decoding().weights.shape == (1, 0)
    assert session.decoding().residual == 3


def test_a_message_added_twice_counts_once():
    session = LeastSquaresDecoder(code_of(np.eye(3))).begin()
    session.extend([1, 1, 1])
    assert session.residual() == pytest.approx(2)
    assert session.decoding().messages.tolist() == [1]


def test_weights_have_the_least_norm():
    # Two replicas share the weight: half each, where any split would decode.
    decoding = LeastSquaresDecoder(code_of(np.array([[1.0, 1.0], [1.0, 1.0]]))).decode([0, 1])
    np.testing.assert_allclose(decoding.weights, [[0.5, 0.5]])


def test_rows_of_very_different_size_are_not_truncated():
    # Without row scaling a cut-off relative to the largest singular value loses the small row.
    decoding = LeastSquaresDecoder(code_of(np.array([[1e-14, 0.0], [0.0, 1.0]]))).decode([0, 1])
    assert decoding.residual < 1e-20
    np.testing.assert_allclose(decoding.alpha, [[1.0, 1.0]])


def test_the_decoding_depends_on_the_set_of_arrivals_alone():
    rng = np.random.default_rng(3)
    code = code_of(rng.normal(size=(9, 9)))
    decoder = LeastSquaresDecoder(code)
    first, second = decoder.decode([7, 1, 4]), decoder.decode([4, 7, 1])
    assert first.weights.tobytes() == second.weights.tobytes()


def test_residuals_along_a_sequence_of_arrivals():
    code = code_of(np.array([[1.0, 1, 0], [0, 1, 1], [0, 0, 1]]))
    residuals = LeastSquaresDecoder(code).residuals([0, 2, 1])
    np.testing.assert_allclose(residuals, [1.0, 0.0, 0.0], atol=1e-12)


def test_session_and_batch_agree_whatever_the_order():
    rng = np.random.default_rng(11)
    code = code_of((rng.random((14, 10)) < 0.3).astype(float))
    decoder = LeastSquaresDecoder(code)
    arrived = rng.permutation(14)[:9]
    reference = decoder.decode(np.sort(arrived))
    for _ in range(5):
        shuffled = rng.permutation(arrived)
        session = decoder.begin()
        for message in shuffled:
            session.add(int(message))
        assert session.residual() == pytest.approx(reference.residual, abs=1e-12)
        assert session.decoding().weights.tobytes() == reference.weights.tobytes()


def test_exactness():
    code = code_of(np.array([[1.0, 1, 0], [0, 1, 1], [1, 0, 1]]))
    session = LeastSquaresDecoder(code).begin()
    session.extend([0, 1])
    assert not session.exact()
    session.add(2)
    assert session.exact()
    assert session.decoding().exact
