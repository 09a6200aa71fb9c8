"""Gradients over samples of one's own count samples by their weights, as the whole gradient does."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from erasurehead.problems import LogisticRegression


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_all_samples_once_are_the_gradient_of_the_weighted_mean(form: type) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((12, 3)), np.where(rng.random(12) < 0.5, -1.0, 1.0)
    problem = LogisticRegression(form(X), y, sample_weight=rng.random(12))
    models = rng.standard_normal((2, 3))
    found = problem.sample_gradients(models, np.tile(np.arange(12), (2, 1)))
    np.testing.assert_allclose(found, [problem.gradient(model) for model in models], rtol=1e-12)
