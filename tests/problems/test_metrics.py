"""The measures agree with scikit-learn's, and say where they are not defined."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st
from sklearn.metrics import average_precision_score, confusion_matrix, r2_score, roc_auc_score

from erasurehead.problems._metrics import accuracy, areas, confusion, r_squared


@given(st.integers(2, 60), st.integers(1, 20), st.integers(0, 10_000))
def test_areas_are_scikit_learns_ties_included(n_samples: int, n_scores: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    labels = np.where(rng.random(n_samples) < 0.4, 1.0, -1.0)
    labels[:2] = 1.0, -1.0
    scores = rng.integers(0, n_scores, n_samples).astype(np.float64)
    expected = {"auc": roc_auc_score(labels, scores), "pr_auc": average_precision_score(labels, scores)}
    assert areas(labels, scores) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("labels", [[1.0, 1.0], [-1.0, -1.0]])
def test_areas_of_one_class_are_not_defined(labels: list[float]) -> None:
    assert areas(np.array(labels), np.array([0.1, 0.2])) == {}


def test_areas_of_a_score_that_is_no_number_are_not_defined() -> None:
    assert areas(np.array([1.0, -1.0]), np.array([np.nan, 0.2])) == {}
    assert areas(np.array([1.0, -1.0]), np.array([np.inf, 0.2])) == {"auc": 1.0, "pr_auc": 1.0}


def test_r_squared_is_scikit_learns_and_needs_targets_that_vary() -> None:
    rng = np.random.default_rng(0)
    targets, predicted = rng.normal(size=30), rng.normal(size=30)
    error = float(((targets - predicted) ** 2).mean())
    assert r_squared(error, targets) == pytest.approx(r2_score(targets, predicted), rel=1e-12)
    assert r_squared(error, np.ones(5)) is None


def test_accuracy_is_the_share_that_agrees() -> None:
    assert accuracy(np.array([1.0, -1.0, 1.0, 1.0]), np.array([1.0, 1.0, 1.0, -1.0])) == 0.5


def test_confusion_is_scikit_learns() -> None:
    rng = np.random.default_rng(1)
    labels, predicted = rng.integers(0, 3, 40), rng.integers(0, 3, 40)
    np.testing.assert_array_equal(confusion(labels, predicted, 4)[:3, :3], confusion_matrix(labels, predicted))
    assert not confusion(labels, predicted, 4)[3].any()
