"""Worst cases: proven by trying all sets, closed forms that agree with that, and an adversary that comes close."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import sparse

from erasurehead import codes, delays
from erasurehead.codes import GradientCode
from erasurehead.decoding import make_decoder
from erasurehead.decoding._adversary import worst_case
from erasurehead.decoding._averages import mean_residual
from erasurehead.decoding._bounds import spectral_bound

from .helpers import code_of


def largest(code, s):
    """Return the largest residual over all sets of s stragglers, without the library's search."""
    decoder, everybody = make_decoder(code), set(range(code.n_workers))
    gone = itertools.combinations(range(code.n_workers), s)
    sets = (np.array(sorted(everybody - set(workers)), dtype=np.int64) for workers in gone)
    return max(decoder.residual(code.messages_of_workers(present)) for present in sets)


@pytest.mark.parametrize("s", range(0, 11, 2))
def test_worst_groups_are_a_knapsack(s):
    uneven = code_of(
        np.kron(np.eye(4), np.ones((3, 2)))[[0, 1, 3, 4, 5, 6, 7, 8, 9, 10]], groups=[0, 0, 1, 1, 1, 2, 2, 2, 3, 3]
    )
    found = worst_case(uneven, s)
    assert found.proven
    assert len(found.stragglers) == s
    assert found.residual == pytest.approx(largest(uneven, s))
    present = np.setdiff1d(np.arange(10), found.stragglers)
    assert make_decoder(uneven).residual(present) == pytest.approx(found.residual)


def test_repetition_loses_whole_groups():
    # k = 60 tasks, load 5: s * floor((k - r) / s).
    code = codes.fractional_repetition(60, load=5)
    for arrivals, residual in ((45, 15.0), (42, 15.0), (56, 0.0)):
        assert worst_case(code, 60 - arrivals).residual == residual


@pytest.mark.parametrize(
    "code",
    [
        codes.build("regular", n_workers=10, load=3),
        codes.build("cyclic_mds", n_workers=9, stragglers=2),
        codes.build("graph_code", n_workers=12, replication=3),
    ],
)
def test_small_codes_are_tried_out(code):
    for s in (1, 3, 4):
        found = worst_case(code, s)
        assert found.proven
        assert found.residual == pytest.approx(largest(code, s), abs=1e-9)


def test_block_designs_have_no_worst_set():
    code = codes.build("projective_plane", order=3)
    found = worst_case(code, 4)
    assert found.proven
    assert found.residual == pytest.approx(1.0)
    assert found.residual == pytest.approx(largest(code, 4))


@pytest.mark.slow
@pytest.mark.parametrize("s", [3, 6])
def test_the_adversary_comes_close_where_the_truth_is_known(s):
    for code in (
        codes.build("regular", n_workers=14, load=3, seed=2),
        codes.build("bernoulli", n_workers=14, load=3, seed=5),
        codes.build("graph_code", n_workers=15, replication=3),
    ):
        truth = worst_case(code, s)
        found = worst_case(code, s, enumerate_up_to=1, effort=600)
        assert truth.proven
        assert not found.proven
        assert 0.85 * truth.residual <= found.residual <= truth.residual + 1e-9


@pytest.mark.slow
def test_the_adversary_finds_the_blocks():
    # Charles and Papailiopoulos, k = 60: an adversary who knows the blocks, and the mean over random stragglers.
    for block, within, between, s, mean, informed in (
        (10, 0.5, 0.02, 18, 2.80, 8.07),
        (5, 0.8, 0.0182, 18, 1.73, 8.68),
        (10, 0.3, 0.06, 30, 8.21, 11.8),
    ):
        drawn = [codes.build("stochastic_block", 60, block, within, between, seed=seed) for seed in range(3)]
        worst = np.mean([worst_case(code, s, effort=150).residual for code in drawn])
        assert worst > informed
        random = np.mean([mean_residual(code, [s], samples=20).mean[0] for code in drawn])
        assert random == pytest.approx(mean, rel=0.35)  # that table's codes may leave workers idle
    pure = codes.build("stochastic_block", n_workers=60, block=5, within=1.0, between=0.0)
    assert worst_case(pure, 18).residual == pytest.approx(15.0)
    assert mean_residual(pure, [18], samples=400).mean[0] == pytest.approx(0.08, abs=0.06)


@pytest.mark.slow
def test_the_spectral_bound_holds_for_the_adversary():
    code = codes.build("regular", n_workers=60, load=5)
    for s in (6, 18, 30):
        assert worst_case(code, s, effort=150).residual <= spectral_bound(code, s)


def test_a_start_is_never_forgotten():
    code = codes.build("bernoulli", n_workers=40, load=3, seed=1)
    best = worst_case(code, 10, effort=400)
    more = worst_case(code, 12, effort=10, start=best.stragglers)
    assert more.residual >= best.residual - 1e-9


def ones_on_a_circle(n, load):
    matrix = np.zeros((n, n))
    for worker in range(n):
        matrix[worker, (worker + np.arange(load)) % n] = 1.0
    return code_of(matrix)


@pytest.mark.slow
def test_few_stragglers_hurt_a_circle_of_ones_less_than_a_plane():
    # Normalised worst residuals of 13 workers with load 4; the plane wins from five stragglers on.
    circle, plane = ones_on_a_circle(13, 4), codes.build("projective_plane", order=3)
    for s, on_circle, on_plane in ((1, 0.0021, 0.0154), (2, 0.0059, 0.0330), (3, 0.0154, 0.0533)):
        assert worst_case(circle, s).residual / 13 == pytest.approx(on_circle, abs=5e-5)
        assert worst_case(plane, s).residual / 13 == pytest.approx(on_plane, abs=5e-5)
    assert worst_case(circle, 4).residual == pytest.approx(worst_case(plane, 4).residual)
    assert worst_case(circle, 5).residual > worst_case(plane, 5).residual
    repeated = codes.fractional_repetition(12, load=4)
    assert worst_case(repeated, 3).residual == 0.0
    assert worst_case(repeated, 4).residual / 12 == pytest.approx(1 / 3)


def test_kronecker_products():
    # Sakorikar and Wang: normalised worst residuals of the Fano plane times (3, 2, 1), and of (3, 2, 1) squared.
    triangle = codes.build("regular", n_workers=3, load=2)
    product = codes.build("kronecker", codes.build("projective_plane", order=2), triangle)
    assert (product.n_workers, product.load) == (21, 6)
    assert product.spectrum.ratio == pytest.approx(0.25)
    for s, worst, bound in ((1, 0.00397, 0.0123), (2, 0.01190, 0.0256), (3, 0.03571, 0.0400)):
        found = worst_case(product, s)
        assert found.proven
        assert found.residual / 21 == pytest.approx(worst, abs=5e-6)
        assert spectral_bound(product, s) / 21 == pytest.approx(bound, abs=5e-5)
    squared = codes.build("kronecker", triangle, triangle)
    assert worst_case(squared, 3).residual / 9 == pytest.approx(0.11111, abs=5e-6)
    assert worst_case(squared, 3).residual == pytest.approx(spectral_bound(squared, 3))


@pytest.mark.slow
def test_large_codes_are_searched_without_anything_dense():
    code = codes.build("regular", n_workers=3000, load=3)
    found = worst_case(code, 300, effort=8)
    assert not found.proven
    assert found.residual >= 95  # a hundred tasks can be isolated
    assert found.residual <= spectral_bound(code, 300)


def test_workers_with_several_messages():
    twice = sparse.csr_array(np.kron(np.eye(3), np.ones((2, 1))))
    code = GradientCode("twice", {}, twice, np.array([0, 1, 1, 2, 2, 0]), 3, 3, groups=np.array([0, 0, 1, 1, 2, 2]))
    assert worst_case(code, 2).residual == pytest.approx(largest(code, 2)) == 1.0


def test_the_workers_that_hurt_a_code_most_never_answer() -> None:
    code = codes.fractional_repetition(60, 5)
    lost = delays.parse(f"late({worst_case(code, 17).stragglers.tolist()})").row(0, 60) == np.inf
    assert lost.sum() == 17
    assert make_decoder(code).residual(np.flatnonzero(~lost)) == 5 * (
        17 // 5
    )  # Charles et al. 2017: s * floor((k - r) / s)
