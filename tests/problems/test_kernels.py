"""The kernels: the logistic residual to within the rounding of 1 a sample; small and large arrays to the same bits."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import sparse
from scipy.special import expit

from erasurehead.problems import _kernels as kernels, _machine_code as machine_code
from erasurehead.problems._blocks import pattern_block
from erasurehead.problems._kernels import logistic_residuals


def both(kernel: str, *arguments: Any, changed: int) -> bool:
    """Return whether a kernel in numpy writes and returns the bits that it does as machine code."""
    results: list[tuple[Any, bytes]] = []
    for here in (False, True):
        given = [one.copy() if isinstance(one, np.ndarray) else one for one in arguments]
        with pytest.MonkeyPatch.context() as patch:
            if here:
                patch.setattr(kernels, "_machine_code", lambda size: None)
            results.append((getattr(kernels, kernel)(*given), given[changed].tobytes()))
    (one, written), (other, too) = results
    return written == too and np.float64(one or 0.0).tobytes() == np.float64(other or 0.0).tobytes()


sizes = st.one_of(st.integers(1, 40), st.sampled_from([511, 512, 513, 1024, 3000]))


@given(sizes, st.sampled_from([1e-3, 1.0, 30.0, 1e3, 1e300]), st.floats(1e-6, 1e3), st.integers(0, 10_000))
def test_small_logistic_residuals_have_the_bits_of_large_ones(n: int, size: float, scale: float, seed: int) -> None:
    assert machine_code.__name__ in sys.modules  # or numpy would be compared with itself
    rng = np.random.default_rng(seed)
    margins, labels = size * rng.normal(size=n), np.where(rng.random(n) < 0.5, 1.0, -1.0)
    margins[rng.random(n) < 0.1] = 0.0
    assert both("logistic_residuals", margins, np.exp(-np.abs(margins)), labels, scale, changed=0)


@given(sizes, sizes, st.floats(0.0, 1.0), st.integers(0, 10_000))
def test_small_products_of_ones_have_the_bits_of_large_ones(rows: int, columns: int, filled: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, columns = min(rows, 600), min(columns, 60)
    ones = rng.random((rows, columns)) < filled * rng.random(columns)
    block = pattern_block(sparse.csr_array(ones.astype(np.float64)))
    parts = block.first, block.runs, block.columns, block.rows
    weights, residuals = rng.normal(size=columns), np.append(rng.normal(size=rows), 0.0)
    assert both("pattern_product", *parts, weights, np.full(rows + 1, np.nan), changed=5)
    assert both("pattern_transposed", *parts, residuals, np.full(columns, np.nan), changed=5)


@given(sizes, sizes, st.floats(-3, 3), st.integers(0, 10_000))
def test_small_supports_are_taken_and_added_to_the_same_bits(n: int, length: int, weight: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    places = rng.integers(0, n, length).astype(np.int32)
    assert both("take", rng.normal(size=n), places, np.full(length, np.nan), changed=2)
    places[rng.random(length) < 0.2] = -1
    assert both("add_in_place", rng.normal(size=n), places, weight, rng.normal(size=length), changed=0)


@pytest.fixture(params=["numpy", "machine code"])
def either(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both implementations, one after the other."""
    if request.param == "numpy":
        monkeypatch.setattr(kernels, "_machine_code", lambda size: None)
    return request.param


def residuals(margins: np.ndarray, labels: np.ndarray, scale: float) -> tuple[np.ndarray, float]:
    changed = margins.copy()
    return changed, logistic_residuals(changed, np.exp(-np.abs(margins)), labels, scale)


@given(st.integers(1, 2000), st.sampled_from([1e-3, 1.0, 30.0, 1e3, 1e300]), st.integers(0, 10_000))
def test_residuals_and_loss_are_those_of_the_definition(n_samples: int, size: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    margins, labels = size * rng.normal(size=n_samples), np.where(rng.random(n_samples) < 0.5, 1.0, -1.0)
    slopes, loss = residuals(margins, labels, 0.5)
    np.testing.assert_allclose(slopes, -0.5 * labels * expit(-labels * margins), rtol=1e-13, atol=1e-300)
    assert loss == pytest.approx(0.5 * np.logaddexp(0.0, -labels * margins).sum(), rel=1e-12)


@pytest.mark.parametrize("margin", [20.0, 37.0, 100.0, 700.0])
@pytest.mark.usefixtures("either")
def test_losses_below_the_rounding_of_one_still_count(margin: float) -> None:
    _, loss = residuals(np.full(1000, margin), np.ones(1000), 1.0)
    assert loss == pytest.approx(1000 * np.log1p(np.exp(-margin)), rel=1e-6, abs=0.0)


@pytest.mark.parametrize("margin", [np.inf, -np.inf, np.nan])
@pytest.mark.usefixtures("either")
def test_margins_that_are_not_finite_are_not_hidden(margin: float) -> None:
    slopes, loss = residuals(np.array([0.0, margin]), np.array([1.0, 1.0]), 1.0)
    if np.isnan(margin):
        assert np.isnan(slopes[1])
        assert np.isnan(loss)
    else:
        assert slopes[1] == (0.0 if margin > 0 else -1.0)
        assert loss == (pytest.approx(np.log(2.0)) if margin > 0 else np.inf)


@given(sizes, st.integers(1, 60), st.floats(0.0, 1.0), st.booleans(), st.integers(0, 10_000))
def test_small_sums_over_pairs_have_the_bits_of_large_ones(
    rows: int, columns: int, filled: float, ones: bool, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    dense = (rng.random((min(rows, 600), columns)) < filled * rng.random(columns)).astype(float)
    values = dense if ones else dense * rng.normal(size=dense.shape)
    weights, upper = rng.normal(size=len(dense)), np.triu_indices(columns)
    sums = np.full(len(upper[0]), np.nan)
    assert both("weighted_pairs", sparse.csr_array(values), weights, sums, changed=2)
    kernels.weighted_pairs(sparse.csr_array(values), weights, sums)
    np.testing.assert_allclose(sums, (values.T @ (weights[:, np.newaxis] * values))[upper], atol=1e-12)


@given(sizes, st.integers(1, 60), st.floats(0.0, 1.0), st.integers(0, 10_000))
def test_small_blocks_of_ones_have_the_rows_of_large_ones(rows: int, columns: int, filled: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    ones = (rng.random((min(rows, 600), columns)) < filled * rng.random(columns)).astype(float)
    block, chosen = pattern_block(sparse.csr_array(ones)), np.flatnonzero(rng.random(columns) < 0.5)
    found = block.among(chosen)
    assert found.has_sorted_indices
    np.testing.assert_array_equal(found.toarray(), ones[:, chosen])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernels, "_machine_code", lambda size: None)
        slow = block.among(chosen)
    np.testing.assert_array_equal(slow.indptr, found.indptr)
    np.testing.assert_array_equal(slow.indices, found.indices)
