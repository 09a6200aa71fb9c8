"""Bernoulli and block codes: their expected residuals, by formula and by the table of SCHEMES 3 and 4."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, strategies as st

from erasurehead.codes import GradientCode, fractional_repetition
from erasurehead.codes._bernoulli import bernoulli, regularised_bernoulli, stochastic_block
from erasurehead.codes._expanders import regular
from erasurehead.errors import InvalidArgument

from .oracles import one_step_residual, optimal_residual


def means(make: Callable[[int], GradientCode], answering: int, draws: int = 500) -> tuple[float, float]:
    """One-step and optimal residual, each the mean over draws of code and arrivals."""
    random = np.random.default_rng(0)
    found = []
    for seed in range(draws):
        code = make(seed)
        kept = np.sort(random.choice(code.n_workers, answering, replace=False))
        found.append((one_step_residual(code, kept), optimal_residual(code, kept)))
    one_step, optimal = np.mean(found, axis=0)
    return float(one_step), float(optimal)


# SCHEMES 3, k = 60: load, fraction of stragglers, then (one-step, optimal) of Bernoulli, repetition and regular codes.
TABLE = [
    (5, 0.2, (13.75, 3.3), (2.797, 0.009), (2.797, 0.68)),
    (5, 0.5, (22.0, 10.2), (11.19, 1.566), (11.19, 5.97)),
    (10, 0.3, (7.143, 2.19), (2.179, 0.0), (2.179, 0.72)),
    (3, 0.3, (27.14, 9.95), (8.281, 1.431), (8.281, 3.46)),  # 2,000 draws; the table's 10.5 and 3.58 are rougher
]


@pytest.mark.slow
@pytest.mark.parametrize(("load", "delta", "coins", "repeated", "even"), TABLE)
def test_table_of_charles_et_al(
    load: int, delta: float, coins: tuple[float, float], repeated: tuple[float, float], even: tuple[float, float]
) -> None:
    r = round(60 * (1 - delta))
    one_step, optimal = means(lambda seed: bernoulli(60, load, seed=seed, nobody_idle=False), r)
    assert (one_step, optimal) == (pytest.approx(coins[0], rel=0.06), pytest.approx(coins[1], rel=0.06))
    assert coins[0] == pytest.approx(60 * (60 - load) / (r * load), rel=1e-3)
    one_step, optimal = means(lambda seed: regular(60, load, seed=seed), r)
    assert (one_step, optimal) == (pytest.approx(even[0], rel=0.06), pytest.approx(even[1], rel=0.06))
    repetition = fractional_repetition(60, load).with_structure(mean_load=float(load))
    one_step, optimal = means(lambda seed: repetition, r)
    assert (one_step, optimal) == (pytest.approx(repeated[0], rel=0.08), pytest.approx(repeated[1], rel=0.15, abs=0.05))


# SCHEMES 4: block, within, between, arrivals, expected one-step residual.
BLOCKS = [(10, 0.5, 0.02, 42, 9.680), (5, 0.8, 0.0182, 42, 9.04), (10, 0.3, 0.06, 30, 17.21), (5, 1.0, 0.0, 42, 4.794)]


@pytest.mark.slow
@pytest.mark.parametrize(("block", "within", "between", "r", "expected"), BLOCKS)
def test_vectors_of_stochastic_block_codes(block: int, within: float, between: float, r: int, expected: float) -> None:
    def make(seed: int) -> GradientCode:
        return stochastic_block(60, block, within, between, seed=seed, nobody_idle=False)

    assert means(make, r, draws=500)[0] == pytest.approx(expected, rel=0.05)


def test_a_block_code_of_sure_coins_is_repetition_in_a_hidden_order() -> None:
    code = stochastic_block(60, 5, within=1, between=0, seed=1)
    _, copies = np.unique(code.content, return_counts=True)
    assert copies.tolist() == [5] * 12
    assert set(code.loads.tolist()) == set(code.replication.tolist()) == {5}
    assert code.content.tolist() != fractional_repetition(60, 5).content.tolist()


@pytest.mark.slow
@given(st.integers(1, 40), st.integers(1, 40), st.floats(0.01, 1), st.integers(0, 5))
def test_nobody_is_idle(n: int, k: int, fraction: float, seed: int) -> None:
    for code in (
        bernoulli(n, fraction * k, k, seed=seed),
        regularised_bernoulli(n, max(1.0, fraction * k), k, seed=seed),
        stochastic_block(n, 1 + int(fraction * (k - 1)), fraction, fraction / 2, k, seed=seed),
    ):
        assert code.loads.min() >= 1
        assert code.replication.min() >= 1
        assert (code.encoding.data == 1).all()


@pytest.mark.parametrize("load", [0.5, 3, 20, 45])
def test_coins_have_the_probability_asked_for(load: float) -> None:
    counts = np.array([bernoulli(60, load, seed=seed, nobody_idle=False).encoding.toarray() for seed in range(300)])
    assert counts.mean() == pytest.approx(load / 60, rel=0.03)
    spread = counts.sum(axis=2).var()
    assert spread == pytest.approx(load * (1 - load / 60), rel=0.06)  # binomial: the coins are independent
    deviations = (counts.mean(axis=0) - load / 60) / np.sqrt(load / 60 * (1 - load / 60) / 300)
    assert (deviations**2).mean() == pytest.approx(1, abs=0.1)  # chi-square over 3,600 cells: none is preferred


def test_thinning_leaves_nobody_more_than_twice_the_load() -> None:
    plain = bernoulli(500, 2, seed=1, nobody_idle=False)
    thin = regularised_bernoulli(500, 2, seed=1, nobody_idle=False)
    assert plain.load > 4
    over = plain.loads > 4
    assert (thin.loads[over] == 2).all()
    assert (thin.loads[~over] == plain.loads[~over]).all()
    assert (thin.encoding > plain.encoding).nnz == 0


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: bernoulli(10, 0), "load must be positive and at most the number of tasks, 10, but it is 0"),
        (lambda: bernoulli(10, 11), "load must be positive and at most the number of tasks, 10, but it is 11"),
        (lambda: bernoulli(10, float("nan")), "load must be positive"),
        (lambda: bernoulli(10, 2, seed=-1), "seed must be at least 0, but it is -1"),
        (lambda: regularised_bernoulli(10, 0.5), "load must be at least 1, so that a thinned worker keeps a task"),
        (lambda: stochastic_block(10, 20, 0.1, 0.1), "block must be at most 10, but it is 20"),
        (lambda: stochastic_block(10, 5, 1.5, 0.1), r"within must be a probability in \[0, 1\], but it is 1.5"),
        (lambda: stochastic_block(10, 5, 0.5, -0.1), r"between must be a probability in \[0, 1\], but it is -0.1"),
        (lambda: stochastic_block(10, 5, 0, 0), "within and between must not both be zero"),
    ],
)
def test_what_is_refused(build: Callable[[], GradientCode], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        build()
