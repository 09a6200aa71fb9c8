"""Block designs: the closed form is the least-squares optimum, whoever straggles."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from erasurehead.decoding import LeastSquares, UniformOverlap, for_code
from erasurehead.decoding.design import overlap_of
from erasurehead.errors import InvalidArgument

from .helpers import check_consistent, code_of


def developed(difference_set: list[int], n: int) -> np.ndarray:
    """Return the n x n incidence matrix of a difference set, one translate a row."""
    matrix = np.zeros((n, n))
    for shift in range(n):
        matrix[shift, (np.array(difference_set) + shift) % n] = 1.0
    return matrix


def affine_plane_of_order_3() -> np.ndarray:
    """Return AG(2, 3): 9 points (workers) on 12 lines (tasks)."""
    points = [(x, y) for x in range(3) for y in range(3)]
    lines = [[(x, (slope * x + shift) % 3) for x in range(3)] for slope in range(3) for shift in range(3)]
    lines += [[(x, y) for y in range(3)] for x in range(3)]
    return np.array([[float(point in line) for line in lines] for point in points])


FANO = developed([1, 2, 4], 7)
PG23 = developed([0, 1, 3, 9], 13)
PG25 = developed([1, 5, 11, 24, 25, 27], 31)
PALEY11 = developed([1, 3, 4, 5, 9], 11)
DESIGNS = {"fano": FANO, "pg23": PG23, "pg25": PG25, "paley11": PALEY11, "ag23": affine_plane_of_order_3()}


@pytest.mark.parametrize("name", DESIGNS)
def test_the_closed_form_is_the_optimum(name):
    code = code_of(DESIGNS[name])
    decoder, reference = UniformOverlap(code), LeastSquares(code)
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
    assert LeastSquares(code_of(FANO)).residual(order[:count]) == pytest.approx(decoder.residual_with(count), abs=1e-9)


def test_published_values():
    # Residual with s stragglers, and the weight.
    fano = UniformOverlap(code_of(FANO))
    assert [fano.residual_with(7 - s) for s in (1, 2, 3)] == pytest.approx([0.25, 4 / 7, 1.0])
    assert [fano.weight(7 - s) for s in (1, 2, 3)] == pytest.approx([0.375, 3 / 7, 0.5])
    assert UniformOverlap(code_of(PG23)).residual_with(9) == pytest.approx(1.0)
    affine = UniformOverlap(code_of(affine_plane_of_order_3()))
    assert [affine.residual_with(9 - s) for s in (1, 2, 3)] == pytest.approx([4 / 11, 0.8, 4 / 3])
    assert UniformOverlap(code_of(PG25)).residual_with(28) == pytest.approx(5 / 11)


def test_designs_are_recognised_and_others_are_not():
    assert isinstance(for_code(code_of(FANO)), UniformOverlap)
    assert overlap_of(code_of(FANO)) == pytest.approx((3.0, 2.0, 1.0))
    broken = FANO.copy()
    broken[0, [1, 3]] = broken[0, [3, 1]]  # the same load, another overlap
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
