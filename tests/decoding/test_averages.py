"""Mean residuals: closed forms equal the mean over all sets, and the published tables come out."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from erasurehead import codes
from erasurehead.decoding import make_decoder
from erasurehead.decoding._averages import mean_residual
from erasurehead.decoding._least_squares import LeastSquaresDecoder
from erasurehead.decoding._sparse import SparseLeastSquares

from .prescribed import OneStep


def over_all_sets(code, stragglers):
    decoder, everybody = make_decoder(code), set(range(code.n_workers))
    sets = itertools.combinations(range(code.n_workers), stragglers)
    present = (np.array(sorted(everybody - set(gone)), dtype=np.int64) for gone in sets)
    return np.mean([decoder.residual(code.messages_of_workers(workers)) for workers in present])


@pytest.mark.parametrize(
    "code",
    [
        codes.fractional_repetition(10, load=3),
        codes.build("multi_message", n_workers=7, load=3),
        codes.build("batched_coupons", n_workers=9, load=3, seed=2),
        codes.build("projective_plane", order=2),
        codes.uncoded(6, 8),
    ],
)
def test_closed_forms_are_the_mean_over_all_sets(code):
    found = mean_residual(code, range(code.n_workers + 1))
    assert found.exact
    assert found.samples == 0
    for s in range(code.n_workers + 1):
        assert found.mean[s] == pytest.approx(over_all_sets(code, s), abs=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(
    "code",
    [
        codes.build("regular", n_workers=10, load=3),
        codes.build("cyclic_mds", n_workers=9, stragglers=2),
        codes.build("communication_efficient_groups", n_workers=8, load=4, n_pieces=2),
    ],
)
def test_monte_carlo_agrees_within_its_error_bar(code):
    found = mean_residual(code, range(code.n_workers + 1), samples=400)
    assert not found.exact
    for s in range(code.n_workers + 1):
        assert abs(found.mean[s] - over_all_sets(code, s)) <= 4 * found.error[s] + 1e-9


def test_the_same_seed_gives_the_same_means():
    code = codes.build("regular", n_workers=12, load=3)
    first, second = (mean_residual(code, [3, 6], samples=5, seed=7) for _ in range(2))
    assert first.mean.tolist() == second.mean.tolist()


@pytest.mark.slow
def test_large_codes_are_sampled_by_full_decodings():
    code = codes.build("regular", n_workers=400, load=3)
    found = mean_residual(code, [40, 133], samples=6)
    assert isinstance(make_decoder(code), SparseLeastSquares)
    dense = mean_residual(code, [40, 133], samples=6, decoder=LeastSquaresDecoder(code))
    np.testing.assert_allclose(found.mean, dense.mean, atol=1e-3)


# ErasureHead's tables: repetition of k = 60 tasks, r arrivals; residual k C(k - s, r) / C(k, r).
@pytest.mark.parametrize(
    ("load", "arrivals", "one_step", "optimal"),
    [
        (5, 48, 2.7966101694915255, 0.008700887226833888),
        (5, 30, 11.186440677966102, 1.5655664585191793),
        (10, 42, 2.179176755447942, 3.4823448020490114e-05),
        (3, 42, 8.28087167070218, 1.4307422559906486),
    ],
)
def test_repetition_of_sixty_tasks(load, arrivals, one_step, optimal):
    code = codes.fractional_repetition(60, load=load)
    assert OneStep(code).expected_residual(arrivals) == pytest.approx(one_step)
    assert mean_residual(code, [60 - arrivals]).mean[0] == pytest.approx(optimal)
    assert optimal == pytest.approx(60 * math.comb(60 - load, arrivals) / math.comb(60, arrivals))


@pytest.mark.parametrize("load", [3, 5, 10])
def test_the_mean_one_step_residual_is_the_same_for_all_biregular_codes(load):
    for arrivals in (30, 42, 48):
        expected = 60 * (60 - load) * (60 - arrivals) / (arrivals * load * 59)
        for code in (codes.fractional_repetition(60, load=load), codes.build("regular", 60, load=load)):
            assert OneStep(code).expected_residual(arrivals) == pytest.approx(expected)


# Charles, Papailiopoulos, Ellenberg, k = 60: (load, straggler fraction), then one-step and optimal means for
# Bernoulli and for s-regular codes, from Monte Carlo with 200 to 1500 sets.
TABLE = [
    (5, 0.2, 13.7, 3.3, 2.78, 0.68),
    (5, 0.5, 21.9, 10.2, 11.35, 5.97),
    (10, 0.3, 7.13, 2.19, 2.17, 0.72),
    (3, 0.3, 27.3, 10.5, 8.36, 3.58),
]


@pytest.mark.slow
@pytest.mark.parametrize(("load", "delta", "bernoulli_step", "bernoulli", "regular_step", "regular"), TABLE)
def test_the_table_of_sixty_tasks(load, delta, bernoulli_step, bernoulli, regular_step, regular):
    s = round(60 * delta)

    def means(make, count):
        drawn = [make(seed) for seed in range(count)]
        steps = [OneStep(code).expected_residual(60 - s) for code in drawn]
        optima = [mean_residual(code, [s], samples=6, seed=3).mean[0] for code in drawn]
        return np.array([steps, optima])

    # The paper's Bernoulli codes may leave workers idle.
    found = means(lambda seed: codes.build("bernoulli", 60, load, seed=seed, nobody_idle=False), 60)
    error = found.std(axis=1) / math.sqrt(60)
    np.testing.assert_allclose(found.mean(axis=1), [bernoulli_step, bernoulli], atol=4 * error.max(), rtol=0.03)
    assert OneStep(codes.build("bernoulli", 60, load, nobody_idle=False)).rho(60 - s) == pytest.approx(
        60 / ((60 - s) * load), rel=0.2
    )
    assert found.mean(axis=1)[0] == pytest.approx(60 * (60 - load) / ((60 - s) * load), rel=0.1)
    found = means(lambda seed: codes.build("regular", 60, load=load, seed=seed), 30)
    error = found.std(axis=1) / math.sqrt(30)
    np.testing.assert_allclose(found.mean(axis=1), [regular_step, regular], atol=4 * error.max(), rtol=0.03)


def test_least_mean_residual_shrinks_one_step_decoding_of_bernoulli_codes():
    drawn = [codes.build("bernoulli", 60, 3, seed=seed, nobody_idle=False) for seed in range(100)]
    unbiased = np.mean([OneStep(code).expected_residual(42) for code in drawn])
    shrunk = np.mean([OneStep(code, "mmse").expected_residual(42) for code in drawn])
    assert unbiased == pytest.approx(27.1, rel=0.05)
    assert shrunk == pytest.approx(18.7, rel=0.03)


# Charles and Papailiopoulos' stochastic block code, k = 60: exact means of one-step decoding over codes and sets.
@pytest.mark.parametrize(
    ("block", "within", "between", "arrivals", "one_step"),
    [(10, 0.5, 0.02, 42, 9.680), (5, 0.8, 0.0182, 42, 9.04), (10, 0.3, 0.06, 30, 17.21), (5, 1.0, 0.0, 42, 4.794)],
)
def test_stochastic_block_codes(block, within, between, arrivals, one_step):
    drawn = [
        codes.build("stochastic_block", 60, block, within, between, seed=seed, nobody_idle=False) for seed in range(150)
    ]
    load = within * block + between * (60 - block)
    rho = 60 / (arrivals * load)  # the paper's weight, for the expected load rather than this draw's
    random = np.random.default_rng(1)
    residuals = []
    for code in drawn:
        for _ in range(4):
            summed = code.encoding[random.permutation(60)[:arrivals]].sum(axis=0)
            residuals.append(float(((rho * summed - 1) ** 2).sum()))
    error = np.std(residuals) / math.sqrt(len(residuals) / 4)
    assert np.mean(residuals) == pytest.approx(one_step, abs=4 * error)


@pytest.mark.slow
def test_expander_of_fifty_workers():
    # Raviv et al.: n = 50, degree 3, 7 stragglers.
    drawn = [codes.build("expander", 50, load=3, seed=seed) for seed in range(10)]
    assert np.mean([OneStep(code).expected_residual(43) for code in drawn]) == pytest.approx(2.602, abs=0.001)
    assert np.mean([mean_residual(code, [7], samples=40).mean[0] for code in drawn]) == pytest.approx(0.565, rel=0.15)


def test_graph_codes_lose_p_to_the_degree():
    # Glasgow and Wootters: residual per task when workers straggle with probability p, degree d.
    random = np.random.default_rng(0)
    for degree, p, expected in ((3, 0.2, 0.00828), (4, 0.3, 0.00805)):
        code = codes.build("graph_code", 600 * degree // 2, replication=degree)
        decoder = make_decoder(code)
        lost = [decoder.residual(np.flatnonzero(random.random(code.n_workers) >= p)) for _ in range(200)]
        assert np.mean(lost) / code.n_tasks == pytest.approx(expected, rel=0.12)
