"""The spectrum, and the bound that it gives for every straggler set of a biregular code (SCHEMES, Lemma U)."""

from __future__ import annotations

import numpy as np
import pytest

from erasurehead.codes import GradientCode, fractional_repetition
from erasurehead.codes._designs import affine_plane, paley
from erasurehead.codes._expanders import expander, regular
from erasurehead.codes._graph_codes import graph_code

from .oracles import residuals


@pytest.mark.slow
@pytest.mark.parametrize("code", [regular(40, 3), regular(500, 3), regular(400, 4, 800), regular(800, 4, 400)])
def test_agrees_with_dense_singular_values(code: GradientCode) -> None:
    values = np.linalg.svd(code.encoding.toarray(), compute_uv=False)
    assert code.spectrum.largest == pytest.approx(values[0])
    assert code.spectrum.second == pytest.approx(values[1], rel=1e-9)
    assert code.spectrum.ratio == pytest.approx((values[1] / values[0]) ** 2)


def test_repetition_has_no_gap_and_one_worker_no_second_value() -> None:
    assert fractional_repetition(400, 4).spectrum.gap == pytest.approx(0)
    assert fractional_repetition(3, 3).spectrum.second == pytest.approx(0)
    assert fractional_repetition(1, 1).spectrum.second == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "code",
    [regular(12, 3), expander(10, 4), graph_code(12, 4), paley(11), affine_plane(3), fractional_repetition(12, 3)],
)
def test_bound_for_every_straggler_set(code: GradientCode) -> None:
    n, x = code.n_workers, code.spectrum.ratio
    for s in range(1, n):
        bound = code.n_tasks * x * s / (n - s + x * s)
        assert residuals(code, s, at_most=400).max() <= bound + 1e-9


def test_a_gap_too_narrow_to_resolve_counts_as_none() -> None:
    circle = regular(3_000, 2)
    assert (circle.spectrum.largest, circle.spectrum.ratio) == (2.0, 1.0)
