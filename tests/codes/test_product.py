"""Products of codes, and finer tasks."""

from __future__ import annotations

import numpy as np
import pytest

from erasurehead.codes import GradientCode, fractional_repetition, uncoded
from erasurehead.codes._communication_efficient import communication_efficient_groups
from erasurehead.codes._cyclic import cyclic_mds
from erasurehead.codes._designs import block_design, projective_plane
from erasurehead.codes._expanders import regular
from erasurehead.codes._nested import nested
from erasurehead.codes._product import kronecker, refine
from erasurehead.codes._random_assignments import stochastic_gradient
from erasurehead.errors import InvalidArgument

from .oracles import optimal_residual, residuals, worst_residual

TRIANGLE = block_design([[0, 1], [1, 2], [0, 2]])


def test_the_product_is_kroneckers() -> None:
    first, second = cyclic_mds(4, 1), nested(3, 1)
    code = kronecker(first, second)
    assert code.encoding.toarray() == pytest.approx(np.kron(first.encoding.toarray(), second.encoding.toarray()))
    assert (code.n_workers, code.n_tasks, code.load) == (12, 12, first.load * second.load)
    assert code.owner.tolist() == [3 * i + int(j) for i in range(4) for j in second.owner]


@pytest.mark.slow
def test_vectors_of_the_source() -> None:  # SCHEMES 6b
    code = kronecker(projective_plane(2), TRIANGLE)
    assert (code.n_workers, code.load) == (21, 6)
    assert code.spectrum.ratio == pytest.approx(0.25)
    for s, worst, bound in ((1, 0.00397, 0.0123), (2, 0.01190, 0.0256), (3, 0.03571, 0.0400)):
        found = residuals(code, s, at_most=1_500).max() / code.n_tasks
        assert found == pytest.approx(worst, abs=1e-5)
        assert 0.25 * s / (21 - s + 0.25 * s) == pytest.approx(bound, abs=5e-5)
        assert found <= bound


def test_the_bound_is_tight_for_the_square_of_the_triangle() -> None:
    assert worst_residual(kronecker(TRIANGLE, TRIANGLE), 3) / 9 == pytest.approx(1 / 9)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (cyclic_mds(4, 1), cyclic_mds(3, 2)),
        (fractional_repetition(4, 2), fractional_repetition(4, 2)),
        (nested(3, 1), fractional_repetition(4, 2)),
        (uncoded(3), cyclic_mds(4, 1)),
    ],
    ids=repr,
)
def test_tolerances_multiply(first: GradientCode, second: GradientCode) -> None:
    code = kronecker(first, second)
    assert code.tolerance == (first.tolerance + 1) * (second.tolerance + 1) - 1
    assert residuals(code, code.tolerance, at_most=500).max() < 1e-12
    # Row 0 of the grid and as many of the other rows as break the first code.
    grid = np.arange(code.n_workers).reshape(first.n_workers, -1)
    killed = grid[: first.tolerance + 1, : second.tolerance + 1].ravel()
    assert optimal_residual(code, code.messages_without(killed)) > 1e-3


def test_groups_of_a_product() -> None:
    both = kronecker(fractional_repetition(4, 2), fractional_repetition(6, 3))
    assert both.replicas
    assert both.structure.decoder == "groups"
    one = kronecker(fractional_repetition(4, 2), projective_plane(2))
    for code in (both, one, kronecker(projective_plane(2), fractional_repetition(4, 2))):
        assert code.groups is not None
        touched = code.assignment.toarray() > 0
        for group in np.unique(code.groups):
            inside = touched[code.groups == group].any(axis=0)
            assert not (inside & touched[code.groups != group].any(axis=0)).any()
    assert one.structure.decoder == "least_squares"
    assert kronecker(projective_plane(2), TRIANGLE).groups is None


def test_products_need_whole_gradients() -> None:
    with pytest.raises(InvalidArgument, match="first must have one piece a gradient, got 'a code with 2 pieces'"):
        kronecker(communication_efficient_groups(12, 4, 2), uncoded(2))


@pytest.mark.parametrize(
    "code",
    [cyclic_mds(6, 3), fractional_repetition(6, 3), communication_efficient_groups(8, 4, 2), nested(5, 2)],
    ids=repr,
)
def test_finer_tasks_keep_the_tolerance(code: GradientCode) -> None:
    fine = refine(code, 2 * code.n_tasks + 3)
    assert fine.tolerance == code.tolerance
    assert fine.n_workers == code.n_workers
    assert residuals(fine, fine.tolerance, at_most=300).max() < 1e-12
    assert refine(code, code.n_tasks).encoding.toarray() == pytest.approx(code.encoding.toarray())


def test_cut_evenly_residuals_scale() -> None:
    code = regular(10, 3)
    kept = code.messages_without([0, 4, 5])
    assert optimal_residual(refine(code, 30), kept) == pytest.approx(3 * optimal_residual(code, kept))


def test_finer_tasks_keep_what_is_said_of_messages_only() -> None:
    assert refine(projective_plane(2), 10).structure.known() == {"decoder": "least_squares"}
    fine = refine(stochastic_gradient(6, 2, 0.1), 9)
    assert fine.structure.decoder == "fixed_weights"
    assert len(fine.structure.weights) == 6
    with pytest.raises(InvalidArgument, match="n_tasks must be at least 6, but it is 5"):
        refine(cyclic_mds(6, 3), 5)
