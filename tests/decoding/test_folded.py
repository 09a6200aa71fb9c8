"""Repetitions are taken out of a code before it is decoded, and put back afterwards."""

from __future__ import annotations

import numpy as np
import pytest

from erasurehead import codes
from erasurehead.codes import fractional_repetition
from erasurehead.decoding import make_decoder
from erasurehead.decoding._design import UniformOverlap
from erasurehead.decoding._folded import Folded, fold
from erasurehead.decoding._graph import GraphComponents
from erasurehead.decoding._least_squares import LeastSquaresDecoder

from .helpers import check_consistent, code_of


def test_an_enlarged_plane_keeps_its_closed_form():
    code = codes.build("kronecker", codes.build("projective_plane", order=2), fractional_repetition(3, 3))
    decoder = make_decoder(code)
    assert isinstance(decoder, Folded)
    assert isinstance(decoder.decoder, UniformOverlap)
    assert decoder.copies == 3
    # Workers 0..2 are replicas: the first of them says it all, and the smallest that arrived is used.
    session = decoder.begin()
    session.add(2)
    before = session.residual()
    session.add(1)
    assert session.residual() == before
    assert session.decoding().messages.tolist() == [1]


def test_refined_tasks_are_one_task_to_the_decoder():
    coarse = codes.build("graph_code", n_workers=12, replication=3)
    code = codes.build("refine", coarse, 24)
    decoder = make_decoder(code)
    assert isinstance(decoder, Folded)
    assert isinstance(decoder.decoder, GraphComponents)
    arrived = [0, 3, 4, 5, 9, 11]
    assert decoder.residual(arrived) == pytest.approx(3 * GraphComponents(coarse).residual(arrived))
    check_consistent(decoder.decode(arrived))


def test_tasks_that_are_repeated_unequally_are_folded_by_their_common_divisor():
    row = np.array([[1, 1, 1, 1, 0, 0], [0, 0, 0, 0, 2, 2], [1, 1, 1, 1, 1, 1]], dtype=float)
    decoder = fold(code_of(row), LeastSquaresDecoder)
    assert decoder is not None
    assert decoder.copies == 2
    assert decoder.decoder.code.n_tasks == 3
    for arrived in ([0], [1, 2], [0, 1]):
        assert decoder.residual(arrived) == pytest.approx(LeastSquaresDecoder(code_of(row)).residual(arrived), abs=1e-9)


def test_codes_without_repetitions_are_left_alone():
    assert fold(codes.build("regular", n_workers=20, load=3), LeastSquaresDecoder) is None
    assert fold(code_of(np.ones((2, 4)), n_pieces=2), LeastSquaresDecoder) is None
