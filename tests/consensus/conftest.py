"""Problems small enough that a run takes a fraction of a second."""

from __future__ import annotations

import numpy as np
import pytest

from erasurehead.problems import LeastSquares, LogisticRegression


@pytest.fixture(scope="session")
def problem() -> LogisticRegression:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 6))
    y = np.sign(X @ rng.standard_normal(6) + rng.standard_normal(400))
    return LogisticRegression(X, y, l2=1e-2)


@pytest.fixture(scope="session")
def squares() -> LeastSquares:
    rng = np.random.default_rng(1)
    X = rng.standard_normal((60, 3))
    return LeastSquares(X, X @ np.array([1.0, -2.0, 0.5]) + rng.standard_normal(60), l2=0.0)
