"""Prescribed weights: unbiased or of least mean residual, with the optimal residual told to wait rules."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, strategies as st

from erasurehead import codes
from erasurehead.decoding import make_decoder
from erasurehead.decoding._least_squares import LeastSquaresDecoder
from erasurehead.errors import InvalidArgument

from .helpers import check_consistent, code_of
from .prescribed import FixedWeights, OneStep


def one_step_mean(decoder: OneStep, n_arrived: int) -> tuple[float, np.ndarray]:
    """Return the mean residual and the mean alpha over all sets of so many messages."""
    sets = itertools.combinations(range(decoder.code.n_messages), n_arrived)
    decodings = [decoder.decode(messages) for messages in sets]
    residual = float(np.mean([decoding.residual for decoding in decodings]))
    return residual, np.mean([decoding.alpha for decoding in decodings], axis=0)


@pytest.mark.parametrize("aim", ["unbiased", "mmse"])
@pytest.mark.parametrize("n_arrived", [1, 4, 7])
def test_the_expected_residual_is_the_mean_over_all_sets(aim, n_arrived):
    decoder = OneStep(code_of((np.random.default_rng(2).random((8, 6)) < 0.4).astype(float)), aim)
    assert decoder.expected_residual(n_arrived) == pytest.approx(one_step_mean(decoder, n_arrived)[0])


def test_the_unbiased_weight_counts_every_task_once_in_the_mean():
    code = codes.build("regular", n_workers=9, load=3)
    assert OneStep(code).rho(6) == pytest.approx(9 / (6 * 3))  # k / (r s)
    np.testing.assert_allclose(one_step_mean(OneStep(code), 6)[1], 1.0)


def test_no_other_weight_has_a_smaller_mean_residual_than_mmse():
    code = codes.build("bernoulli", n_workers=30, load=3, seed=4)
    decoder = OneStep(code, "mmse")
    rho, best = decoder.rho(20), decoder.expected_residual(20)
    along, square = 30 / rho - (30 - best) / rho, (30 - best) / rho**2
    for other in np.linspace(0.5, 1.5, 11) * rho:
        assert 30 - 2 * other * along + other**2 * square >= best - 1e-9
    assert best < OneStep(code).expected_residual(20)


def test_for_a_block_design_mmse_is_optimal():
    code = codes.build("projective_plane", order=3)
    for n_arrived in range(1, 14):
        assert OneStep(code, "mmse").expected_residual(n_arrived) == pytest.approx(
            make_decoder(code).residual(range(n_arrived)), abs=1e-9
        )


def test_nothing_arrived_weighs_nothing():
    assert OneStep(codes.build("regular", n_workers=9, load=3)).decode([]).residual == 9


@given(st.permutations(range(12)))
def test_rules_are_told_the_optimal_residual(order):
    code = codes.build("bernoulli", n_workers=12, load=3, seed=1)
    optimal = LeastSquaresDecoder(code)
    for decoder in (OneStep(code), FixedWeights(code, np.full(12, 0.4))):
        session = decoder.begin()
        session.extend(order[:7])
        assert session.residual() == pytest.approx(optimal.residual(order[:7]), abs=1e-9)
        decoding = session.decoding()
        check_consistent(decoding)
        assert decoding.residual >= session.residual() - 1e-9


def test_fixed_weights_do_not_depend_on_who_else_arrives():
    code = codes.build("stochastic_gradient", n_workers=10, replication=3, straggling=0.25)
    decoder = FixedWeights(code)
    np.testing.assert_allclose(decoder.decode([2, 5]).weights, [np.asarray(code.structure.weights)[[2, 5]]])
    session = decoder.begin()
    for message in (5, 2):
        session.add(message)
    assert session.decoding().weights.tobytes() == decoder.decode([2, 5]).weights.tobytes()


def test_fixed_weights_are_unbiased_and_leave_what_the_code_states():
    code = codes.build("heterogeneous_held", probabilities=[0.1, 0.2, 0.5], holders=[[0, 1, 2]])
    straggling = np.array([0.1, 0.2, 0.5])
    decoder, mean, residual = FixedWeights(code), 0.0, 0.0
    for present in itertools.product([False, True], repeat=3):
        chance = float(np.prod(np.where(present, 1 - straggling, straggling)))
        decoding = decoder.decode(np.flatnonzero(present))
        mean += chance * decoding.alpha[0, 0]
        residual += chance * decoding.residual
    assert mean == pytest.approx(1.0)
    assert residual == pytest.approx(1 / 14)


def test_bad_input():
    code = codes.build("communication_efficient_groups", n_workers=8, load=4, n_pieces=2)
    for make in (OneStep, lambda code: FixedWeights(code, np.ones(8))):
        with pytest.raises(InvalidArgument, match="one piece"):
            make(code)
    regular = codes.build("regular", n_workers=6, load=2)
    with pytest.raises(InvalidArgument, match="'unbiased' or 'mmse'"):
        OneStep(regular, "best")
    with pytest.raises(InvalidArgument, match="sum is not zero"):
        OneStep(code_of(np.array([[1.0, -1.0], [-1.0, 1.0]])))
    with pytest.raises(InvalidArgument, match="carries none"):
        FixedWeights(regular)
    with pytest.raises(InvalidArgument, match="one finite number"):
        FixedWeights(regular, np.ones(5))
