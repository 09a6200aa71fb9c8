"""Every family: the decoder that is chosen for it agrees with dense least squares, at every arrival, in any order."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from erasurehead import codes
from erasurehead.codes import GradientCode
from erasurehead.decoding import make_decoder
from erasurehead.decoding._alternatives import Alternatives
from erasurehead.decoding._blocks import Blocks
from erasurehead.decoding._design import UniformOverlap
from erasurehead.decoding._folded import Folded
from erasurehead.decoding._graph import GraphComponents
from erasurehead.decoding._groups import FirstPerGroup
from erasurehead.decoding._least_squares import LeastSquaresDecoder
from erasurehead.decoding._null_space import NullSpace
from erasurehead.decoding._sparse import SparseLeastSquares
from erasurehead.errors import InvalidArgument

from .helpers import check_consistent

UNEVEN = [0.1, 0.2, 0.5, 0.3, 0.05, 0.4]
ONES = codes.fractional_repetition(3, 3)
FAMILIES: dict[str, tuple[GradientCode, type]] = {
    "uncoded": (codes.uncoded(7, 9), FirstPerGroup),
    "fractional_repetition": (codes.fractional_repetition(11, load=3), FirstPerGroup),
    "multi_message": (codes.build("multi_message", n_workers=6, load=3), FirstPerGroup),
    "batched_coupons": (codes.build("batched_coupons", n_workers=12, load=4), FirstPerGroup),
    "draco_repetition": (codes.build("draco_repetition", n_workers=10, corrupted=1), FirstPerGroup),
    "cyclic_repetition": (codes.cyclic_repetition(12, stragglers=3), LeastSquaresDecoder),
    "large_cyclic_repetition": (codes.cyclic_repetition(50, stragglers=2), NullSpace),
    "cyclic_mds": (codes.build("cyclic_mds", n_workers=12, stragglers=3), LeastSquaresDecoder),
    "large_cyclic_mds": (codes.build("cyclic_mds", n_workers=50, stragglers=3), NullSpace),
    "complex_cyclic_mds": (codes.build("complex_cyclic_mds", n_workers=9, stragglers=3), LeastSquaresDecoder),
    "large_complex_cyclic_mds": (codes.build("complex_cyclic_mds", n_workers=25, stragglers=3), NullSpace),
    "reed_solomon": (codes.build("reed_solomon", n_workers=8, load=3), LeastSquaresDecoder),
    "draco_cyclic": (codes.build("draco_cyclic", n_workers=9, corrupted=1), LeastSquaresDecoder),
    "large_draco_cyclic": (codes.build("draco_cyclic", n_workers=27, corrupted=1), NullSpace),
    "communication_efficient_cyclic": (
        codes.build("communication_efficient_cyclic", n_workers=10, n_pieces=2, stragglers=2),
        LeastSquaresDecoder,
    ),
    "large_pieces": (codes.build("communication_efficient_cyclic", n_workers=50, n_pieces=2, stragglers=1), NullSpace),
    "communication_efficient_groups": (
        codes.build("communication_efficient_groups", n_workers=14, load=4, n_pieces=2),
        Blocks,
    ),
    "communication_efficient_parity": (
        codes.build("communication_efficient_groups", n_workers=12, load=4, generator="parity"),
        Blocks,
    ),
    "partial_repetition": (
        codes.build("partial_stragglers", code=codes.fractional_repetition(9, load=3), slowness=2),
        Blocks,
    ),
    "partial_cyclic": (
        codes.build("partial_stragglers", code=codes.cyclic_repetition(9, stragglers=2), slowness=2.5),
        Blocks,
    ),
    "binary_repetition": (codes.build("binary_repetition", n_workers=11, stragglers=3), Alternatives),
    "nested": (codes.build("nested", n_workers=8, stragglers=2), Alternatives),
    "graph_code": (codes.build("graph_code", n_workers=18, replication=3), GraphComponents),
    "edge_code": (codes.build("edge_code", edges=[[0, 1], [1, 2], [2, 0], [2, 3], [3, 4]]), GraphComponents),
    "projective_plane": (codes.build("projective_plane", order=3), UniformOverlap),
    "affine_plane": (codes.build("affine_plane", order=3), UniformOverlap),
    "paley": (codes.build("paley", n_workers=11), UniformOverlap),
    "bernoulli": (codes.build("bernoulli", n_workers=20, load=3), LeastSquaresDecoder),
    "stochastic_block": (
        codes.build("stochastic_block", n_workers=20, block=5, within=0.7, between=0.1),
        LeastSquaresDecoder,
    ),
    "regular": (codes.build("regular", n_workers=20, load=4), LeastSquaresDecoder),
    "expander": (codes.build("expander", n_workers=20, load=4), LeastSquaresDecoder),
    "soft_design": (codes.build("soft_design", n_workers=16, load=4, density=0.4), LeastSquaresDecoder),
    "stochastic_gradient": (
        codes.build("stochastic_gradient", n_workers=15, replication=3, straggling=0.2),
        LeastSquaresDecoder,
    ),
    "heterogeneous_staircase": (codes.build("heterogeneous_staircase", UNEVEN), LeastSquaresDecoder),
    "heterogeneous_exclusive": (codes.build("heterogeneous_exclusive", UNEVEN), LeastSquaresDecoder),
    "enlarged_plane": (codes.build("kronecker", codes.build("projective_plane", order=2), ONES), Folded),
    "refined_classes": (
        codes.build("refine", code=codes.build("binary_repetition", n_workers=7, stragglers=2), n_tasks=14),
        Alternatives,
    ),
    "refined_graph": (
        codes.build("refine", code=codes.build("graph_code", n_workers=12, replication=3), n_tasks=24),
        Folded,
    ),
    "product": (
        codes.build(
            "kronecker",
            first=codes.build("projective_plane", order=2),
            second=codes.build("regular", n_workers=3, load=2),
        ),
        LeastSquaresDecoder,
    ),
    "product_of_exact": (
        codes.build(
            "kronecker",
            first=codes.fractional_repetition(4, 2),
            second=codes.build("cyclic_mds", n_workers=5, stragglers=2),
        ),
        Blocks,
    ),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_the_decoder_of_each_family(family):
    code, kind = FAMILIES[family]
    assert type(make_decoder(code)) is kind


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
@settings(max_examples=12)
@given(data=st.data())
def test_it_agrees_with_dense_least_squares(family, data):
    code, _ = FAMILIES[family]
    rng = np.random.default_rng(data.draw(st.integers(0, 10_000)))
    order = rng.permutation(code.n_messages)[: data.draw(st.integers(0, code.n_messages))]
    decoder, reference = make_decoder(code), LeastSquaresDecoder(code).begin()
    session, last = decoder.begin(), float(code.n_tasks)
    for message in order.tolist():
        session.add(message)
        reference.add(message)
        assert session.residual() == pytest.approx(reference.residual(), abs=1e-8 * code.n_tasks)
        assert session.residual() <= last
        assert session.exact() == reference.exact()
        last = session.residual()
    decoding, expected = session.decoding(), reference.decoding()
    check_consistent(decoding)
    assert set(decoding.messages.tolist()) <= set(order.tolist())
    np.testing.assert_allclose(decoding.alpha, expected.alpha, atol=1e-6)
    batch = decoder.decode(np.sort(order))
    assert batch.messages.tolist() == decoding.messages.tolist()
    assert batch.weights.tobytes() == decoding.weights.tobytes()


@pytest.mark.parametrize("family", [name for name, (code, _) in FAMILIES.items() if code.tolerance is not None])
def test_the_stated_tolerance_is_decoded_exactly(family):
    code, _ = FAMILIES[family]
    decoder = make_decoder(code)
    rng = np.random.default_rng(0)
    for _ in range(20):
        present = np.sort(rng.permutation(code.n_workers)[code.tolerance :])
        session = decoder.begin()
        session.extend(code.messages_of_workers(present))
        assert session.exact()
        assert session.decoding().exact


def test_large_sparse_codes_are_never_made_dense():
    assert isinstance(make_decoder(codes.build("regular", n_workers=2000, load=3)), SparseLeastSquares)
    large = make_decoder(codes.build("cyclic_mds", n_workers=2000, stragglers=3))
    assert isinstance(large, NullSpace)
    assert isinstance(large.inner, SparseLeastSquares)


def test_equal_sets_give_equal_residuals_whatever_came_twice():
    for code, _ in FAMILIES.values():
        once, twice = make_decoder(code).begin(), make_decoder(code).begin()
        once.extend([0, 2, 4])
        for message in (4, 0, 4, 2, 0):
            twice.add(message)
        assert once.residual() == pytest.approx(twice.residual(), abs=1e-9)
        assert once.decoding().weights.tobytes() == twice.decoding().weights.tobytes()


@pytest.mark.parametrize("family", codes.catalogue(), ids=lambda family: family.name)
def test_messages_that_a_code_has_not_are_refused(family):
    code = family.example_code
    decoder = make_decoder(code)
    for message in (-1, code.n_messages):
        session = decoder.begin()
        for ask in (
            decoder.decode,
            decoder.residual,
            decoder.residuals,
            session.extend,
            lambda one, to=session: to.add(*one),
        ):
            with pytest.raises(InvalidArgument, match=f"messages must be among 0..{code.n_messages - 1}, but it is"):
                ask([message])


@pytest.mark.parametrize("messages", [np.ones(12, dtype=bool), np.arange(3.0), [0, 1.5], ["a"], None, 3])
def test_a_mask_of_messages_and_what_is_no_list_of_them_is_refused(messages):
    decoder = make_decoder(codes.fractional_repetition(12, load=3))
    with pytest.raises(InvalidArgument, match="messages must be the numbers of messages"):
        decoder.decode(messages)
