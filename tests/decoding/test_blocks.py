"""Blocks without a common task: each pattern is solved once, large blocks have decoders of their own."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from erasurehead import codes
from erasurehead.codes import GradientCode, _transforms as transforms, cyclic_repetition
from erasurehead.decoding import make_decoder
from erasurehead.decoding._blocks import Blocks
from erasurehead.decoding._least_squares import LeastSquaresDecoder
from erasurehead.decoding._null_space import NullSpace
from erasurehead.decoding._subcodes import components

from .helpers import best_residual, check_consistent, code_of


def test_group_codes_decode_from_any_so_many_messages_as_there_are_pieces():
    code = codes.build("communication_efficient_groups", n_workers=8, load=4, n_pieces=2)
    decoder = make_decoder(code)
    assert isinstance(decoder, Blocks)
    assert decoder.residuals([0, 3, 1, 6, 7]).tolist() == pytest.approx([6.0, 4.0, 4.0, 2.0, 0.0], abs=1e-9)
    decoding = decoder.decode([3, 0, 6, 7])
    assert decoding.exact
    check_consistent(decoding)


def test_equal_blocks_share_one_table():
    code = codes.build("communication_efficient_groups", n_workers=40, load=4, n_pieces=2)
    decoder = make_decoder(code)
    assert isinstance(decoder, Blocks)
    assert len(decoder.kinds) == 1
    assert len(decoder.members) == 10


def test_first_messages_of_partial_stragglers_are_needed_all():
    code = codes.build("partial_stragglers", cyclic_repetition(9, stragglers=2), slowness=4)
    decoder = make_decoder(code)
    first, second = np.flatnonzero(code.structure.parts == 0), np.flatnonzero(code.structure.parts == 1)
    assert decoder.decode([*first, *second[2:]]).exact
    missing = decoder.decode([*first[1:], *second[2:]])
    assert missing.residual == pytest.approx(1.0)  # one exclusive task
    check_consistent(missing)


def test_a_sequence_is_judged_as_its_arrivals_one_by_one():
    code = codes.build("communication_efficient_groups", n_workers=23, load=4, n_pieces=2)  # blocks of two sizes
    decoder = make_decoder(code)
    sequence = np.random.default_rng(3).integers(0, 23, 40)
    session, one_by_one = decoder.begin(), []
    for message in sequence.tolist():
        session.add(message)
        one_by_one.append(session.residual())
    np.testing.assert_allclose(decoder.residuals(sequence), one_by_one, atol=1e-9)
    assert decoder.residuals([]).shape == (0,)


def test_large_blocks_have_decoders_of_their_own():
    inner = cyclic_repetition(70, stragglers=2)
    twice = sparse.block_diag([inner.encoding, inner.encoding], format="csr")
    code = GradientCode("twice", {}, sparse.csr_array(twice), np.arange(140), 140, 140, tolerance=2)
    decoder = make_decoder(code)
    assert isinstance(decoder, Blocks)
    assert decoder.decoders[0] is decoder.decoders[1]
    assert isinstance(decoder.decoders[0], NullSpace)
    rng = np.random.default_rng(1)
    arrived = rng.permutation(140)[:136]
    decoding = decoder.decode(arrived)
    check_consistent(decoding)
    reference = LeastSquaresDecoder(code).decode(arrived)
    np.testing.assert_allclose(decoding.alpha, reference.alpha, atol=1e-8)


def test_tasks_that_nobody_holds_stay_missing():
    matrix = np.zeros((4, 5))
    matrix[0, [0, 1]], matrix[1, [0, 1]], matrix[2, 2], matrix[3, 3] = (1, 2), (2, 1), 1, 1
    code = code_of(matrix)
    decoder = Blocks(code, components(code), make_decoder)
    for arrived in ([0], [0, 1], [0, 1, 2, 3]):
        assert decoder.residual(arrived) == pytest.approx(best_residual(code, arrived), abs=1e-12)
        assert decoder.decode(arrived).residual == pytest.approx(best_residual(code, arrived), abs=1e-12)


def test_components_number_blocks_from_zero():
    matrix = np.array([[0, 0, 1.0, 0], [1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0], [0, 1, 0, 1]])
    blocks = components(code_of(matrix))
    assert blocks[0] == blocks[2] != blocks[1] == blocks[4]
    assert sorted(set(blocks.tolist())) == [0, 1]
    assert blocks[3] == blocks[0]  # it says nothing, and is counted to the first


def test_a_sequence_in_which_nothing_comes_from_a_kind_of_blocks():
    code = codes.build(
        "communication_efficient_groups", n_workers=5, load=3, n_pieces=2
    )  # blocks of three workers and of two
    decoder = make_decoder(code)
    assert isinstance(decoder, Blocks)
    for workers in ([0, 1, 2], [3, 4], [4]):
        expected = [best_residual(code, workers[:count]) for count in range(1, len(workers) + 1)]
        assert decoder.residuals(workers).tolist() == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("n_workers", [4, 8])
def test_a_code_of_several_pieces_of_which_losses_leave_nothing(n_workers):
    code = codes.build("communication_efficient_groups", n_workers, load=4, n_pieces=2)
    left = transforms.shortened(code, range(1, n_workers))
    assert left.encoding.nnz == 0
    assert make_decoder(left).decode(range(n_workers)).residual == 1.0
