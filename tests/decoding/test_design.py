"""Block designs: the closed form is the least-squares optimum, whoever straggles."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given, strategies as st

from erasurehead import codes
from erasurehead.decoding import make_decoder
from erasurehead.decoding._design import UniformOverlap, overlap_of
from erasurehead.decoding._least_squares import LeastSquaresDecoder
from erasurehead.errors import InvalidArgument

from .helpers import check_consistent, code_of

FANO = codes.build("projective_plane", order=2).encoding.toarray()
DESIGNS = {
    "PG(2,2)": codes.build("projective_plane", order=2),
    "PG(2,3)": codes.build("projective_plane", order=3),
    "PG(2,4)": codes.build("projective_plane", order=4),
    "PG(2,5)": codes.build("projective_plane", order=5),
    "AG(2,3)": codes.build("affine_plane", order=3),
    "Paley 11": codes.build("paley", n_workers=11),
    "twin primes 15": codes.build("twin_primes", smaller=3),
    "biquadratic 37": codes.build("biquadratic", n_workers=37),
}


@pytest.mark.parametrize("name", DESIGNS)
def test_the_closed_form_is_the_optimum(name):
    code = DESIGNS[name]
    decoder, reference = UniformOverlap(code), LeastSquaresDecoder(code)
    order = np.random.default_rng(0).permutation(code.n_messages)
    session = decoder.begin()
    last = code.n_tasks
    for count, message in enumerate(order, start=1):
        session.add(int(message))
        assert session.residual() == pytest.approx(reference.residual(order[:count]), abs=1e-9)
        assert session.residual() <= last
        last = session.residual()
        decoding = session.decoding()
        check_consistent(decoding)
        np.testing.assert_allclose(decoding.alpha, reference.decode(order[:count]).alpha, atol=1e-9)
    assert session.exact()
    np.testing.assert_allclose(decoder.residuals(order), reference.residuals(order), atol=1e-9)


@given(st.permutations(range(7)), st.integers(0, 7))
def test_random_and_chosen_stragglers_cost_the_same(order, count):
    decoder = UniformOverlap(code_of(FANO))
    assert LeastSquaresDecoder(code_of(FANO)).residual(order[:count]) == pytest.approx(
        decoder.residual_with(count), abs=1e-9
    )


@pytest.mark.parametrize(
    ("name", "stragglers", "weight", "residual"),
    [
        ("PG(2,2)", 1, 0.375, 0.25),
        ("PG(2,2)", 2, 3 / 7, 4 / 7),
        ("PG(2,2)", 3, 0.5, 1.0),
        ("PG(2,3)", 4, 1 / 3, 1.0),
        ("AG(2,3)", 1, 4 / 11, 4 / 11),
        ("AG(2,3)", 2, 0.4, 0.8),
        ("AG(2,3)", 3, 4 / 9, 4 / 3),
        ("PG(2,5)", 3, 6 / 33, 5 / 11),
        ("PG(2,5)", 10, 0.23076923076923078, 1.9230769230769234),
        ("Paley 11", 3, 0.2631578947368421, 0.47368421052631504),
    ],
)
def test_published_values(name, stragglers, weight, residual):
    decoder = UniformOverlap(DESIGNS[name])
    n_arrived = DESIGNS[name].n_workers - stragglers
    assert decoder.weight(n_arrived) == pytest.approx(weight)
    assert decoder.residual_with(n_arrived) == pytest.approx(residual)


def test_designs_are_recognised_and_others_are_not():
    assert isinstance(make_decoder(code_of(FANO)), UniformOverlap)
    assert overlap_of(code_of(FANO)) == pytest.approx((3.0, 2.0, 1.0))
    broken = FANO.copy()
    broken[0, [0, 1]] = broken[0, [1, 0]]  # the same load, another overlap
    assert overlap_of(code_of(broken)) is None
    assert overlap_of(code_of(np.eye(2), n_pieces=2)) is None
    with pytest.raises(InvalidArgument, match="same overlap"):
        UniformOverlap(code_of(broken))


def test_a_message_added_twice_counts_once():
    session = UniformOverlap(code_of(FANO)).begin()
    session.extend([3, 3])
    session.add(3)
    assert session.residual() == pytest.approx(UniformOverlap(code_of(FANO)).residual_with(1))
    residuals = UniformOverlap(code_of(FANO)).residuals([3, 3, 4])
    assert residuals[0] == residuals[1] > residuals[2]


def test_equal_messages_have_a_residual_before_any_is_in() -> None:
    decoder = UniformOverlap(codes.build("cyclic_mds", n_workers=4, stragglers=3))
    assert decoder.residual([]) == 4.0
    assert decoder.decode([]).messages.tolist() == []
    assert decoder.residual([2]) == pytest.approx(0.0, abs=1e-9)


@pytest.mark.alone
def test_the_decoder_of_a_huge_design_is_chosen_by_what_it_states():
    code = codes.build("paley", n_workers=1019)
    begin = time.perf_counter()
    decoder = make_decoder(code)
    assert time.perf_counter() - begin < 1.0  # and not for all sets of stragglers
    assert isinstance(decoder, UniformOverlap)
    assert decoder.overlap == (509, 509 - 254, 254)
    assert decoder.residual(range(1019)) == pytest.approx(0, abs=1e-9)
