"""The logistic residual in one pass: to within the rounding of 1 a sample, whatever the margins and their number."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit

from erasurehead.problems.kernels import logistic_residuals


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
def test_losses_below_the_rounding_of_one_still_count(margin: float) -> None:
    _, loss = residuals(np.full(1000, margin), np.ones(1000), 1.0)
    assert loss == pytest.approx(1000 * np.log1p(np.exp(-margin)), rel=1e-6, abs=0.0)


@pytest.mark.parametrize("margin", [np.inf, -np.inf, np.nan])
def test_margins_that_are_not_finite_are_not_hidden(margin: float) -> None:
    slopes, loss = residuals(np.array([0.0, margin]), np.array([1.0, 1.0]), 1.0)
    if np.isnan(margin):
        assert np.isnan(slopes[1])
        assert np.isnan(loss)
    else:
        assert slopes[1] == (0.0 if margin > 0 else -1.0)
        assert loss == (pytest.approx(np.log(2.0)) if margin > 0 else np.inf)
