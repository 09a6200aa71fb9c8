# scikit-learn ships no types
# pyright: reportMissingTypeStubs=false, reportUnknownVariableType=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false
"""What the estimators have in common: the settings of their solver, and scikit-learn's checks of samples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import (
    _check_sample_weight,  # pyright: ignore[reportPrivateUsage]  # which estimators of others use, too
    check_is_fitted,
    validate_data,
)

from erasurehead._internal.arrays import Array
from erasurehead.engines import Engine
from erasurehead.schemes import Scheme
from erasurehead.sklearn._solving import Solver


class FittedAttributes(BaseEstimator):
    """What `fit` leaves, apart from the parameters, which are fields of dataclasses."""

    coef_: Array
    intercept_: Any
    n_iter_: Any
    converged_: bool
    n_features_in_: int
    classes_: Any  # of classifiers


@dataclass(eq=False, repr=False, kw_only=True)
class LinearEstimator(FittedAttributes):
    """A linear model whose coefficients `erasurehead.train` finds.

    Its fields, and those of its subclasses, are the parameters that scikit-learn sees.
    """

    tol: float = 1e-10
    max_iter: int = 1000
    fit_intercept: bool = True
    engine: Engine | str | None = None
    n_workers: int | None = None
    scheme: Scheme | str = "adaptive"

    def __sklearn_tags__(self) -> Any:
        tags: Any = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    @property
    def _solver(self) -> Solver:
        return Solver(self.engine, self.n_workers, self.scheme, self.tol, self.max_iter)

    def _checked(self, X: Any, y: Any, **how: Any) -> tuple[Any, Array]:
        """Return samples as float64, in row order where they are sparse, and their labels."""
        checked: Any = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64, **how)
        return checked

    def _weights(self, sample_weight: Any, X: Any) -> Array | None:
        if sample_weight is None:
            return None
        return _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)

    def _margins(self, X: Any) -> Array:
        """Return coefficients times features plus intercepts, of one output or of several as `coef_` has rows."""
        check_is_fitted(self)
        samples: Any = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        products: Any = samples @ self.coef_.T
        return products + self.intercept_
