"""scikit-learn's own checks of estimators: all of them, with no exception."""

from __future__ import annotations

from collections.abc import Callable
from inspect import isclass
from typing import Any

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks  # pyright: ignore[reportMissingTypeStubs]

from erasurehead import sklearn

ESTIMATORS = [
    sklearn.LogisticRegression(),
    sklearn.LinearRegression(),
    sklearn.Ridge(),
    sklearn.PoissonRegressor(),
    sklearn.GammaRegressor(),
    sklearn.ElasticNet(),
    sklearn.LogisticRegressionCV(Cs=(0.1, 1.0), cv=2),
    sklearn.RidgeCV(alphas=(1.0, 10.0), cv=2),
    sklearn.ElasticNetCV(alphas=2, cv=2),
]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:SCIPY_ARRAY_API:sklearn.exceptions.SkipTestWarning")
@pytest.mark.filterwarnings("ignore:.*has no minimum:sklearn.exceptions.ConvergenceWarning")  # all of one class
@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn_finds_no_fault(estimator: Any, check: Callable[[Any], None]) -> None:
    check(estimator)


def test_every_estimator_is_checked() -> None:
    assert {type(estimator) for estimator in ESTIMATORS} == {
        one for name in sklearn.__all__ if isclass(one := getattr(sklearn, name))
    }
