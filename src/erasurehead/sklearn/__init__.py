"""Estimators for scikit-learn: its linear models by its names, trained by the one training loop.

The room knows scikit-learn's names, shapes and habits, and offers nothing of its own: change the import.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from erasurehead._internal.lazy_import import lazy_names
from erasurehead.errors import MissingExtra

if TYPE_CHECKING:
    from erasurehead.sklearn._classification import LogisticRegression as LogisticRegression
    from erasurehead.sklearn._cross_validation import (
        ElasticNetCV as ElasticNetCV,
        LogisticRegressionCV as LogisticRegressionCV,
        RidgeCV as RidgeCV,
    )
    from erasurehead.sklearn._regression import (
        ElasticNet as ElasticNet,
        GammaRegressor as GammaRegressor,
        LinearRegression as LinearRegression,
        PoissonRegressor as PoissonRegressor,
        Ridge as Ridge,
    )

_find, __dir__ = lazy_names(__name__)


def __getattr__(name: str) -> object:
    try:
        return _find(name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "sklearn":
            raise
        raise MissingExtra("The estimators need scikit-learn: pip install 'erasurehead[sklearn]'.") from None
