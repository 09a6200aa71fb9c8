"""The spectral bounds hold for every set of stragglers, and are attained where theory says so."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from erasurehead import codes
from erasurehead.decoding import analyse, make_decoder
from erasurehead.decoding._adversary import worst_case
from erasurehead.decoding._averages import mean_residual
from erasurehead.decoding._bounds import is_biregular, spectral_bound
from erasurehead.errors import InvalidArgument

BIREGULAR = [
    codes.build("regular", n_workers=24, load=4, seed=1),
    codes.build("expander", n_workers=20, load=3),
    codes.fractional_repetition(24, load=4),
    codes.build("projective_plane", order=3),
    codes.build("affine_plane", order=3),
    codes.build("cyclic_mds", n_workers=21, stragglers=4),
    codes.build("graph_code", n_workers=30, replication=3),
    codes.build(
        "kronecker", first=codes.build("projective_plane", order=2), second=codes.build("regular", n_workers=3, load=2)
    ),
    codes.build("margulis", side=5),
]


@given(st.sampled_from(BIREGULAR), st.integers(0, 1000), st.data())
def test_no_set_of_stragglers_exceeds_the_bounds(code, seed, data):
    s = data.draw(st.integers(0, code.n_workers - 1))
    present = np.random.default_rng(seed).permutation(code.n_workers)[s:]
    assert make_decoder(code).residual(present) <= spectral_bound(code, s) + 1e-8


def test_block_designs_attain_the_bound_for_every_number_of_stragglers():
    for code in (
        codes.build("projective_plane", order=3),
        codes.build("affine_plane", order=3),
        codes.build("paley", n_workers=11),
    ):
        decoder = make_decoder(code)
        for s in range(code.n_workers):
            assert decoder.residual(range(s, code.n_workers)) == pytest.approx(spectral_bound(code, s), abs=1e-9)


def test_no_biregular_code_has_a_smaller_ratio_than_a_design_could():
    for code in BIREGULAR:
        if set(code.encoding.data.tolist()) == {1.0}:
            n, replication = code.n_workers, int(code.replication[0])
            assert code.spectrum.ratio >= (n - replication) / (replication * (n - 1)) - 1e-9


def test_who_has_bounds():
    assert all(is_biregular(code) for code in BIREGULAR)
    for code in (
        codes.build("bernoulli", n_workers=20, load=3),
        codes.build("nested", n_workers=6, stragglers=1),
        codes.build("communication_efficient_groups", n_workers=8, load=4, n_pieces=2),
    ):
        assert not is_biregular(code)
        assert spectral_bound(code, 2) == code.n_tasks


def test_when_nobody_is_left():
    code = codes.build("projective_plane", order=2)
    assert spectral_bound(code, 7) == 7
    assert spectral_bound(code, 0) == 0


def test_bad_input():
    with pytest.raises(InvalidArgument, match="at most 7"):
        spectral_bound(codes.build("projective_plane", order=2), 8)


def test_bounds_and_worst_cases_count_workers_where_one_sends_the_messages_of_two():
    ones = codes.GradientCode("ones", {}, np.ones((3, 1)), [0, 0, 2], n_workers=3, n_tasks=1)
    assert not is_biregular(ones)
    assert spectral_bound(ones, 2) == 1.0  # workers 0 and 2 may straggle
    assert worst_case(ones, 2).residual == pytest.approx(1.0)
    assert mean_residual(ones, [2]).mean[0] == pytest.approx(1 / 3, abs=0.2)
    assert np.isnan(analyse(ones, [1]).curves.one_step).all()


def test_a_code_without_coefficients_has_trivial_bounds():
    nothing = codes.GradientCode("nothing", {}, np.zeros((2, 2)), [0, 1], n_workers=2, n_tasks=2)
    assert spectral_bound(nothing, 1) == 2.0
    assert analyse(nothing).curves.worst.tolist() == [2.0, 2.0, 2.0]
