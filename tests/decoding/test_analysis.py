"""Analysis: the curves and costs of a code in one object, the same for the same seed."""

from __future__ import annotations

import json

import numpy as np
import pytest

from erasurehead import codes
from erasurehead.decoding import analyse, make_decoder
from erasurehead.decoding._adversary import worst_case
from erasurehead.decoding._averages import mean_residual
from erasurehead.decoding._bounds import spectral_bound
from erasurehead.errors import InvalidArgument


def test_the_curves_of_a_repetition_code_are_closed_forms():
    code = codes.fractional_repetition(30, load=3)
    found = analyse(code)
    curves = found.curves
    assert curves.stragglers.tolist() == list(range(31))
    assert found.samples == 0
    assert not curves.mean_error.any()
    assert curves.worst_proven.all()
    # ErasureHead, n = 30, c = 3, r = 15: a group is missing with probability .1120690.
    assert curves.mean[15] == pytest.approx(30 * 0.11206896551724138)
    assert curves.worst[[2, 3, 5, 6, 30]].tolist() == [0, 3, 3, 6, 30]
    assert curves.one_step[15] == pytest.approx(30 * 27 * 15 / (15 * 3 * 29))
    assert (curves.mean <= curves.worst + 1e-9).all()
    assert (curves.worst <= curves.bound + 1e-9).all()


@pytest.mark.slow
def test_the_curves_of_a_random_code_lie_as_they_must():
    code = codes.build("regular", n_workers=16, load=3)
    curves = analyse(code, samples=50, effort=60, enumerate_up_to=600).curves
    assert (curves.mean <= curves.worst + 1e-9).all()
    assert (curves.worst <= curves.bound + 1e-9).all()
    assert (curves.mean[:-1] <= curves.one_step[:-1] + 3 * curves.mean_error[:-1] + 1e-9).all()
    assert (np.diff(curves.worst) >= 0).all()
    assert curves.worst_proven[3]
    assert not curves.worst_proven[8]
    assert curves.worst[3] == worst_case(code, 3).residual
    assert curves.bound[5] == spectral_bound(code, 5)


def test_what_is_not_defined_is_not_a_number():
    found = analyse(
        codes.build("communication_efficient_groups", n_workers=8, load=4, n_pieces=2), [0, 3], samples=5, effort=10
    )
    assert np.isnan(found.curves.one_step).all()
    assert np.isnan(found.curves.bound).all()
    assert found.as_dict()["curves"]["bound"] == [None, None]


def test_costs():
    cost = analyse(codes.build("communication_efficient_groups", n_workers=12, load=4, n_pieces=2), [2], samples=5).cost
    assert (cost.load, cost.mean_load, cost.replication, cost.storage) == (4, 4.0, (4, 4), 4.0)
    assert (cost.messages, cost.upload) == (1, 0.5)
    assert cost.decoder == "Blocks"
    assert cost.decoding_seconds > 0
    nested = analyse(codes.build("nested", n_workers=6, stragglers=2), [2], samples=5).cost
    assert (nested.messages, nested.upload) == (3, 3.0)


def test_conditioning_is_part_of_it():
    found = analyse(codes.build("cyclic_mds", n_workers=20, stragglers=5), [5], samples=5)
    assert found.conditioning.stragglers == 5
    assert found.conditioning.amplification > 10


def test_large_codes_are_looked_at_in_twenty_one_places():
    curves = analyse(codes.fractional_repetition(1000, load=4)).curves
    assert len(curves.stragglers) == 21
    assert curves.stragglers[[0, -1]].tolist() == [0, 1000]


def test_the_same_seed_gives_the_same_figures_but_for_the_time():
    first, second = (
        analyse(codes.build("bernoulli", n_workers=12, load=3), [2, 5], samples=20, effort=30, seed=4) for _ in range(2)
    )
    for name, column in vars(first.curves).items():
        np.testing.assert_array_equal(column, vars(second.curves)[name])
    assert first.conditioning == second.conditioning


def test_everything_can_be_written_as_json():
    found = analyse(codes.build("regular", n_workers=8, load=3), [0, 2], samples=10, effort=10)
    written = json.loads(json.dumps(found.as_dict(), allow_nan=False))
    assert written["curves"]["stragglers"] == [0, 2]
    assert written["cost"]["load"] == 3
    assert written["code"].startswith("regular(")


def test_the_mean_is_that_of_mean_residual():
    code = codes.build("graph_code", n_workers=18, replication=3)
    curves = analyse(code, [4], samples=30, effort=10).curves
    assert curves.mean[0] == mean_residual(code, [4], samples=30, decoder=make_decoder(code)).mean[0]


def test_bad_input():
    with pytest.raises(InvalidArgument, match="at most 8"):
        analyse(codes.build("regular", n_workers=8, load=3), [9])
    with pytest.raises(InvalidArgument, match="at least one number"):
        analyse(codes.build("regular", n_workers=8, load=3), [])
