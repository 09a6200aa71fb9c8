"""Every family: the decoder that is chosen for it agrees with dense least squares, at every arrival, in any order."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from erasurehead import codes
from erasurehead.codes import GradientCode
from erasurehead.decoding import (
    Alternatives,
    Blocks,
    FirstPerGroup,
    Folded,
    GraphComponents,
    LeastSquaresDecoder,
    NullSpace,
    SparseLeastSquares,
    UniformOverlap,
    make_decoder,
)
from erasurehead.errors import InvalidArgument

from .helpers import check_consistent

UNEVEN = [0.1, 0.2, 0.5, 0.3, 0.05, 0.4]
ONES = codes.fractional_repetition(3, 3)
FAMILIES: dict[str, tuple[GradientCode, type]] = {
    "uncoded": (codes.uncoded(7, 9), FirstPerGroup),
    "fractional_repetition": (codes.fractional_repetition(11, load=3), FirstPerGroup),
    "multi_message": (codes.multi_message(6, load=3), FirstPerGroup),
    "batched_coupons": (codes.batched_coupons(12, 4), FirstPerGroup),
    "draco_repetition": (codes.draco_repetition(10, corrupted=1), FirstPerGroup),
    "cyclic_repetition": (codes.cyclic_repetition(12, stragglers=3), LeastSquaresDecoder),
    "large_cyclic_repetition": (codes.cyclic_repetition(50, stragglers=2), NullSpace),
    "cyclic_mds": (codes.cyclic_mds(12, stragglers=3), LeastSquaresDecoder),
    "large_cyclic_mds": (codes.cyclic_mds(50, stragglers=3), NullSpace),
    "complex_cyclic_mds": (codes.complex_cyclic_mds(9, stragglers=3), LeastSquaresDecoder),
    "large_complex_cyclic_mds": (codes.complex_cyclic_mds(25, stragglers=3), NullSpace),
    "reed_solomon": (codes.reed_solomon(8, 3), LeastSquaresDecoder),
    "draco_cyclic": (codes.draco_cyclic(9, corrupted=1), LeastSquaresDecoder),
    "large_draco_cyclic": (codes.draco_cyclic(27, corrupted=1), NullSpace),
    "communication_efficient_cyclic": (codes.communication_efficient_cyclic(10, 2, stragglers=2), LeastSquaresDecoder),
    "large_pieces": (codes.communication_efficient_cyclic(50, 2, stragglers=1), NullSpace),
    "communication_efficient_groups": (codes.communication_efficient_groups(14, load=4, n_pieces=2), Blocks),
    "communication_efficient_parity": (codes.communication_efficient_groups(12, load=4, generator="parity"), Blocks),
    "partial_repetition": (codes.partial_stragglers(codes.fractional_repetition(9, load=3), slowness=2), Blocks),
    "partial_cyclic": (codes.partial_stragglers(codes.cyclic_repetition(9, stragglers=2), slowness=2.5), Blocks),
    "binary_repetition": (codes.binary_repetition(11, stragglers=3), Alternatives),
    "nested": (codes.nested(8, stragglers=2), Alternatives),
    "graph_code": (codes.graph_code(18, replication=3), GraphComponents),
    "edge_code": (codes.edge_code([[0, 1], [1, 2], [2, 0], [2, 3], [3, 4]]), GraphComponents),
    "projective_plane": (codes.projective_plane(3), UniformOverlap),
    "affine_plane": (codes.affine_plane(3), UniformOverlap),
    "paley": (codes.paley(11), UniformOverlap),
    "bernoulli": (codes.bernoulli(20, 3), LeastSquaresDecoder),
    "stochastic_block": (codes.stochastic_block(20, 5, 0.7, 0.1), LeastSquaresDecoder),
    "regular": (codes.regular(20, load=4), LeastSquaresDecoder),
    "expander": (codes.expander(20, load=4), LeastSquaresDecoder),
    "soft_design": (codes.soft_design(16, load=4, density=0.4), LeastSquaresDecoder),
    "stochastic_gradient": (codes.stochastic_gradient(15, 3, 0.2), LeastSquaresDecoder),
    "heterogeneous_staircase": (codes.heterogeneous_staircase(UNEVEN), LeastSquaresDecoder),
    "heterogeneous_exclusive": (codes.heterogeneous_exclusive(UNEVEN), LeastSquaresDecoder),
    "enlarged_plane": (codes.kronecker(codes.projective_plane(2), ONES), Folded),
    "refined_classes": (codes.refine(codes.binary_repetition(7, stragglers=2), 14), Alternatives),
    "refined_graph": (codes.refine(codes.graph_code(12, replication=3), 24), Folded),
    "product": (codes.kronecker(codes.projective_plane(2), codes.regular(3, load=2)), LeastSquaresDecoder),
    "product_of_exact": (codes.kronecker(codes.fractional_repetition(4, 2), codes.cyclic_mds(5, 2)), Blocks),
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
    assert isinstance(make_decoder(codes.regular(2000, load=3)), SparseLeastSquares)
    large = make_decoder(codes.cyclic_mds(2000, 3))
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
    for message in (-1, code.n_messages):
        with pytest.raises(InvalidArgument, match=f"messages must be among 0..{code.n_messages - 1}, but it is"):
            make_decoder(code).decode([message])
