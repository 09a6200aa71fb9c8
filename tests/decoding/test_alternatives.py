"""Codes made of whole codes: the first complete one decodes, and partial ones still count together."""

from __future__ import annotations

import numpy as np
import pytest

from erasurehead import codes
from erasurehead.decoding import make_decoder
from erasurehead.decoding._alternatives import Alternatives
from erasurehead.decoding._least_squares import LeastSquaresDecoder

from .helpers import check_consistent


def test_a_complete_class_is_summed_with_weights_of_one():
    code = codes.build("binary_repetition", n_workers=11, stragglers=2)
    decoder = make_decoder(code)
    assert isinstance(decoder, Alternatives)
    classes = np.asarray(code.structure.classes)
    members = np.flatnonzero(classes == 1)
    session = decoder.begin()
    for message in [0, 2, *members[:-1].tolist()]:
        session.add(message)
        assert not session.exact()
    session.add(int(members[-1]))
    decoding = session.decoding()
    assert session.residual() == decoding.residual == 0.0
    assert decoding.messages.tolist() == members.tolist()
    assert decoding.weights.tolist() == [[1.0] * len(members)]


def test_the_smallest_complete_class_is_used_whatever_the_order():
    code = codes.build("binary_repetition", n_workers=9, stragglers=1)
    decoder = make_decoder(code)
    first = decoder.decode(range(9))
    assert first.messages.tolist() == np.flatnonzero(np.asarray(code.structure.classes) == 0).tolist()
    assert decoder.decode(range(8, -1, -1)).messages.tolist() == first.messages.tolist()


def test_partial_classes_are_decoded_as_well_as_they_can_be():
    code = codes.build("binary_repetition", n_workers=10, stragglers=2)
    decoder, reference = make_decoder(code), LeastSquaresDecoder(code)
    for arrived in ([0, 1], [0, 4, 5, 8], [1, 2, 3, 4, 5, 6]):
        decoding = decoder.decode(arrived)
        check_consistent(decoding)
        assert decoding.residual == pytest.approx(reference.residual(arrived), abs=1e-12)


def test_a_nested_code_decodes_at_the_level_that_is_reached():
    code = codes.build("nested", n_workers=8, stragglers=2)
    decoder = make_decoder(code)
    levels = np.asarray(code.structure.levels)
    session = decoder.begin()
    for worker in range(6):
        for message in code.messages_of(worker).tolist():
            session.add(message)
    assert session.exact()
    used = session.decoding()
    assert used.exact
    assert set(levels[used.messages].tolist()) == {2}


def test_levels_that_decode_only_together():
    code = codes.build("nested", n_workers=4, stragglers=1)
    levels = np.asarray(code.structure.levels)
    zero, one = np.flatnonzero(levels == 0), np.flatnonzero(levels == 1)
    together = [int(zero[1]), int(zero[2]), int(one[0]), int(one[3])]
    decoder = make_decoder(code)
    session = decoder.begin()
    session.extend(together)
    assert session.exact() == LeastSquaresDecoder(code).decode(together).exact
    check_consistent(session.decoding())
