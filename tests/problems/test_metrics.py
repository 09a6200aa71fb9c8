"""The measures agree with scikit-learn's, and say where they are not defined."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st
from sklearn.metrics import r2_score, roc_auc_score

from erasurehead.problems._metrics import accuracy, area_under_curve, r_squared


@given(st.integers(2, 60), st.integers(1, 20), st.integers(0, 10_000))
def test_area_under_curve_is_scikit_learns_ties_included(n_samples: int, n_scores: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    labels = np.where(rng.random(n_samples) < 0.4, 1.0, -1.0)
    labels[:2] = 1.0, -1.0
    scores = rng.integers(0, n_scores, n_samples).astype(np.float64)
    assert area_under_curve(labels, scores) == pytest.approx(roc_auc_score(labels, scores), abs=1e-12)


@pytest.mark.parametrize("labels", [[1.0, 1.0], [-1.0, -1.0]])
def test_area_under_curve_of_one_class_is_not_defined(labels: list[float]) -> None:
    assert area_under_curve(np.array(labels), np.array([0.1, 0.2])) is None


def test_area_under_curve_of_a_score_that_is_no_number_is_not_defined() -> None:
    assert area_under_curve(np.array([1.0, -1.0]), np.array([np.nan, 0.2])) is None
    assert area_under_curve(np.array([1.0, -1.0]), np.array([np.inf, 0.2])) == 1.0


def test_r_squared_is_scikit_learns_and_needs_targets_that_vary() -> None:
    rng = np.random.default_rng(0)
    targets, predicted = rng.normal(size=30), rng.normal(size=30)
    error = float(((targets - predicted) ** 2).mean())
    assert r_squared(error, targets) == pytest.approx(r2_score(targets, predicted), rel=1e-12)
    assert r_squared(error, np.ones(5)) is None


def test_accuracy_is_the_share_that_agrees() -> None:
    assert accuracy(np.array([1.0, -1.0, 1.0, 1.0]), np.array([1.0, 1.0, 1.0, -1.0])) == 0.5
