"""Sparse least squares: as good as the dense reference, and a bound at every arrival that is never too low."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import sparse

from erasurehead import codes
from erasurehead.codes import GradientCode
from erasurehead.decoding import make_decoder
from erasurehead.decoding._base import residual_of
from erasurehead.decoding._least_squares import LeastSquaresDecoder
from erasurehead.decoding._sparse import SparseLeastSquares
from erasurehead.errors import InvalidArgument

from .helpers import best_residual, check_consistent, code_of


def random_sparse(n: int, load: float, seed: int, n_tasks: int | None = None) -> GradientCode:
    """Return a Bernoulli code: some workers hold nothing, and some tasks have no worker."""
    rng = np.random.default_rng(seed)
    n_tasks = n if n_tasks is None else n_tasks
    matrix = sparse.random_array((n, n_tasks), density=load / n_tasks, rng=rng, format="csr")
    matrix.data[:] = rng.choice([1.0, 1.0, 2.0, -0.5], size=matrix.nnz)
    return GradientCode("bernoulli", {}, matrix, np.arange(n), n, n_tasks)


def regular(n: int, load: int, seed: int) -> GradientCode:
    rng = np.random.default_rng(seed)
    matrix = sum(sparse.csr_array(np.eye(n)[rng.permutation(n)]) for _ in range(load))
    return GradientCode("regular", {}, sparse.csr_array(matrix), np.arange(n), n, n)


@given(st.integers(5, 40), st.integers(1, 4), st.integers(0, 1000), st.data())
def test_decodings_agree_with_dense_least_squares(n, load, seed, data):
    code = random_sparse(n, load, seed)
    count = data.draw(st.integers(0, n))
    arrived = np.random.default_rng(seed).permutation(n)[:count]
    decoding = SparseLeastSquares(code).decode(arrived)
    check_consistent(decoding)
    reference = LeastSquaresDecoder(code).decode(arrived)
    assert decoding.residual == pytest.approx(reference.residual, abs=2e-6 * n)
    # The squared distance of two alphas is the difference of the residuals when one of them is optimal.
    assert np.sum((decoding.alpha - reference.alpha) ** 2) <= 2e-6 * n


@pytest.mark.slow
@given(st.integers(5, 40), st.integers(1, 4), st.integers(0, 1000))
def test_the_bound_is_sound_tight_and_never_rises(n, load, seed):
    code = random_sparse(n, load, seed)
    order = np.random.default_rng(seed).permutation(n)
    session = SparseLeastSquares(code).begin()
    last = code.n_tasks
    for count, message in enumerate(order, start=1):
        session.add(int(message))
        bound, best = session.residual(), best_residual(code, order[:count])
        assert best - 1e-9 <= bound <= last
        if count <= 2 * n / 3:
            assert bound <= 1.05 * best + 1e-3
        last = bound


@pytest.mark.parametrize("load", [3, 8])
@pytest.mark.slow
def test_a_code_of_600_workers_against_the_dense_reference(load):
    code = random_sparse(600, load, seed=load)
    order = np.random.default_rng(0).permutation(600)
    decoder, dense = SparseLeastSquares(code), LeastSquaresDecoder(code)
    bounds = decoder.residuals(order[:540])
    assert (np.diff(bounds) <= 0).all()
    for count in (60, 200, 300, 400, 480, 540):
        best = dense.residual(order[:count])
        assert decoder.decode(order[:count]).residual == pytest.approx(best, abs=2e-6 * 600)
        assert best - 1e-9 <= bounds[count - 1] <= 1.04 * best


@pytest.mark.slow
def test_sessions_and_sequences_agree():
    code = random_sparse(400, 3, seed=5)
    order = np.random.default_rng(1).permutation(400)[:300]
    decoder = SparseLeastSquares(code)
    session = decoder.begin()
    one_by_one = []
    for message in order.tolist():
        session.add(message)
        one_by_one.append(session.residual())
    np.testing.assert_allclose(one_by_one, decoder.residuals(order), rtol=1e-12)
    with_repeats = decoder.residuals(np.repeat(order[:50], 2))
    np.testing.assert_allclose(with_repeats[1::2], one_by_one[:50], rtol=1e-12)
    np.testing.assert_allclose(with_repeats[::2], one_by_one[:50], rtol=1e-12)


def test_the_decoding_depends_on_the_set_of_arrivals_alone():
    code = random_sparse(300, 3, seed=2)
    decoder = SparseLeastSquares(code)
    arrived = np.random.default_rng(0).permutation(300)[:200]
    asked_at_each = decoder.begin()
    for message in arrived.tolist():
        asked_at_each.add(message)
        asked_at_each.residual()
    first, second = asked_at_each.decoding(), decoder.decode(np.sort(arrived))
    assert first.weights.tobytes() == second.weights.tobytes()
    assert first.messages.tolist() == second.messages.tolist()


def test_many_at_once_are_judged_by_one_solve():
    code = random_sparse(500, 3, seed=3)
    session = SparseLeastSquares(code).begin()
    session.extend(range(250))
    best = LeastSquaresDecoder(code).residual(range(250))
    assert best - 1e-9 <= session.residual() <= 1.01 * best
    session.extend(range(200, 350))
    best = LeastSquaresDecoder(code).residual(range(350))
    assert best - 1e-9 <= session.residual() <= 1.01 * best


def test_a_regular_code_is_exact_when_everything_has_arrived():
    code = regular(300, 4, seed=1)
    session = SparseLeastSquares(code).begin()
    for message in range(300):
        assert not session.exact()
        session.add(message)
    assert session.exact()
    assert session.decoding().exact


def test_a_small_budget_keeps_the_bound_sound():
    code = random_sparse(200, 4, seed=9)
    order = np.random.default_rng(4).permutation(200)
    bounds = SparseLeastSquares(code, budget=1).residuals(order)
    assert (np.diff(bounds) <= 0).all()
    assert all(bounds[count - 1] >= best_residual(code, order[:count]) - 1e-9 for count in range(10, 200, 20))


@pytest.mark.slow
def test_huge_codes_stay_sparse():
    code = random_sparse(100_000, 3, seed=0)
    decoder = make_decoder(code)
    assert isinstance(decoder, SparseLeastSquares)
    decoding = decoder.decode(range(0, 100_000, 2))
    assert decoding.residual < 0.5 * code.n_tasks
    assert decoding.residual == pytest.approx(residual_of(code, decoding.messages, decoding.weights))


def test_pieces_are_refused():
    with pytest.raises(InvalidArgument, match="one piece"):
        SparseLeastSquares(code_of(np.ones((2, 4)), n_pieces=2))


HARD: dict[str, Callable[[], codes.GradientCode]] = {
    "soft design": lambda: codes.build("soft_design", n_workers=500, load=20, density=0.1),
    "blocks": lambda: codes.build("stochastic_block", n_workers=800, block=6, within=0.6, between=0.003),
    "bernoulli": lambda: codes.build("bernoulli", n_workers=600, load=12),
    "few tasks": lambda: codes.build("regular", n_workers=600, load=6, n_tasks=400),
    "regular": lambda: codes.build("regular", n_workers=700, load=4),
    "margulis": lambda: codes.build("margulis", side=24),
    "large soft design": lambda: codes.build("soft_design", n_workers=1500, load=30, density=0.05),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", HARD)
@pytest.mark.parametrize("missing", [0, 1, 20])
def test_the_residual_is_the_least_to_a_thousandth_however_ill_conditioned(name, missing):
    code = HARD[name]()
    decoder = SparseLeastSquares(code)
    messages = code.messages_without(np.random.default_rng(missing).permutation(code.n_workers)[:missing])
    found = decoder.solve(messages)
    rows = code.encoding[messages].toarray()
    values, vectors = np.linalg.eigh(rows @ rows.T)
    kept = values > 1e-12 * values[-1]
    weights = vectors[:, kept] @ ((vectors[:, kept].T @ rows.sum(axis=1)) / values[kept])
    best = float(((rows.T @ weights - 1.0) ** 2).sum())
    assert found.decoding.residual <= best * (1 + 1e-3) + 1e-12 * code.n_tasks
    assert found.decoding.residual == pytest.approx(residual_of(code, messages, found.decoding.weights), rel=1e-9)
