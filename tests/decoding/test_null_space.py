"""Exact decoding from the erased side: the reference's weights, at the cost of the stragglers."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from erasurehead import codes
from erasurehead.codes import cyclic_repetition
from erasurehead.decoding._least_squares import LeastSquaresDecoder
from erasurehead.decoding._matrix_products import backward
from erasurehead.decoding._null_space import NullSpace
from erasurehead.decoding._sparse import SparseLeastSquares

from .helpers import check_consistent, code_of


@pytest.mark.parametrize(
    "code",
    [
        cyclic_repetition(8, stragglers=3),
        codes.build("cyclic_mds", n_workers=8, stragglers=3),
        codes.build("complex_cyclic_mds", n_workers=8, stragglers=2),
    ],
)
def test_every_set_of_stragglers_gets_the_weights_of_least_norm(code):
    reference = LeastSquaresDecoder(code)
    decoder = NullSpace(code, reference)
    for count in range(code.tolerance + 1):
        for stragglers in itertools.combinations(range(8), count):
            present = np.setdiff1d(np.arange(8), stragglers)
            messages = code.messages_of_workers(present)
            decoding = decoder.decode(messages)
            check_consistent(decoding)
            assert decoding.exact
            np.testing.assert_allclose(decoding.weights, reference.decode(messages).weights, atol=1e-9)


def test_the_fourier_null_space_of_a_cyclic_code():
    code = codes.build("cyclic_mds", n_workers=20, stragglers=5)
    solutions = NullSpace(code, LeastSquaresDecoder(code)).solutions
    assert solutions is not None
    null = solutions.null_at(np.arange(20))
    assert null.shape == (5, 20)
    np.testing.assert_allclose(null @ null.T, np.eye(5), atol=1e-12)
    np.testing.assert_allclose(backward(code, null.T), 0, atol=1e-12)


def test_sets_that_cannot_be_decoded_are_left_to_the_inner_decoder():
    code = codes.build("cyclic_mds", n_workers=9, stragglers=2)
    reference = LeastSquaresDecoder(code)
    session = NullSpace(code, reference).begin()
    session.extend(range(6))
    assert not session.exact()
    assert session.residual() == pytest.approx(reference.residual(range(6)))
    assert session.decoding().weights.tobytes() == reference.decode(range(6)).weights.tobytes()
    session.add(7)
    assert session.exact()


def test_a_code_that_nobody_can_decode_gains_nothing_and_loses_nothing():
    code = code_of(np.array([[1.0, 1.0, 0.0], [1.0, 0.0, 0.0]]))
    decoder = NullSpace(code, LeastSquaresDecoder(code))
    assert decoder.solutions is None
    assert decoder.decode([0, 1]).residual == pytest.approx(1.0)


def test_a_cyclic_code_of_4000_workers_decodes_without_a_dense_matrix():
    code = codes.build("cyclic_mds", n_workers=4000, stragglers=3)
    decoder = NullSpace(code, SparseLeastSquares(code))
    decoding = decoder.decode(np.setdiff1d(np.arange(4000), [5, 1000, 3003]))
    assert decoding.exact
    check_consistent(decoding)
