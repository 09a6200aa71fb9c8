# scikit-learn ships no types
# pyright: reportMissingTypeStubs=false, reportUnknownVariableType=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false
"""Least squares without a penalty, with l2, and with l1 and l2, and models of logarithms, by scikit-learn's names."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.metrics import d2_tweedie_score

from erasurehead._internal.arrays import Array
from erasurehead.problems import LeastSquares, Regression
from erasurehead.sklearn._base import LinearEstimator
from erasurehead.sklearn._solving import SampleMatrix, check_number


class TargetModel(RegressorMixin, LinearEstimator):
    """A linear model of one target or of several: its predictions."""

    def __sklearn_tags__(self) -> Any:
        tags: Any = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def predict(self, X: Any) -> Array:
        """Return what is predicted for samples x features, shape (n_samples,) or (n_samples, n_targets)."""
        return self._margins(X)


@dataclass(eq=False, repr=False, kw_only=True)
class LinearRegressor(TargetModel):
    """Least squares with a penalty or none, each target fitted by itself."""

    warm_start: bool = False
    _column_is_one = True
    """Whether one column of targets leaves `coef_` of one dimension, as scikit-learn does where there is a penalty."""

    @abstractmethod
    def _penalty(self, total: float) -> tuple[float, float]:
        """Return the factors of l1 and of l2 beside the mean of the squares.

        Arguments:
            total: the sum of the samples' weights.
        """

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Find the coefficients.

        Arguments:
            X: samples x features; an array, a data frame, or a sparse matrix.
            y: their targets, shape (n_samples,) or (n_samples, n_targets).
            sample_weight: how much each sample counts, at least 0, shape (n_samples,); None for 1.

        Returns:
            The estimator itself.
        """
        self._penalty(1.0)  # checks
        solver = self._solver
        matrix, y = self._checked(X, y, y_numeric=True, multi_output=True)
        y = y.astype(np.float64)
        samples = SampleMatrix(matrix, self._weights(sample_weight, matrix), self.fit_intercept)
        l1, l2 = self._penalty(samples.total)
        mean = samples.mean(y)
        several = y.ndim == 2
        shape = (*(() if self._column_is_one and y.shape[1:] == (1,) else y.shape[1:]), samples.n_features)
        starts: list[tuple[Array, Array] | None] = [None] * (y.shape[1] if several else 1)
        if self.warm_start and getattr(self, "coef_", np.empty(0)).shape == shape:
            coefs, intercepts = self.coef_.reshape(-1, shape[-1]), np.atleast_1d(self.intercept_ - mean)
            starts = [(row[None], constant[None]) for row, constant in zip(coefs, intercepts, strict=True)]
        solutions = [
            samples.solve(solver, LeastSquares, target, l1, l2, start)
            for target, start in zip(np.atleast_2d((y - mean).T), starts, strict=True)
        ]
        self.coef_ = np.concatenate([one.coef for one in solutions]).reshape(shape)
        constants = np.concatenate([one.intercept for one in solutions]) + mean
        passes = [one.n_iter for one in solutions]
        self.intercept_ = 0.0 if not self.fit_intercept else constants if several else float(constants[0])
        self.n_iter_ = np.array(passes) if len(shape) == 2 else passes[0]
        self.converged_ = all(one.converged for one in solutions)
        return self


class LinearRegression(LinearRegressor):
    """Least squares without a penalty: scikit-learn's, on any engine.

    It minimises what scikit-learn's `LinearRegression` minimises: the sum of the squares of `y - X @ coef_ -
    intercept_`, times the samples' weights. Where columns are collinear, there are many minima: scikit-learn takes the
    shortest of them, and here it is another, which predicts the same.

    >>> from erasurehead.sklearn import LinearRegression
    >>> model = LinearRegression().fit([[0.0], [1.0], [2.0]], [1.0, 3.0, 5.0])
    >>> model.predict([[10.0]]).round(6)
    array([21.])

    Arguments:
        tol: ends when the norm of the gradient is this fraction of what it is where all coefficients are 0, at
            least 0; 0 for as near to the minimum as rounding allows.
        max_iter: most passes over the samples.
        fit_intercept: whether there is a constant term.
        warm_start: whether `fit` begins with the coefficients of the fit before, if they are of as many.
        engine: as for `LogisticRegression`.
        n_workers: likewise.
        scheme: likewise.

    Attributes:
        coef_: shape (n_features,), or (n_targets, n_features) where y has two dimensions.
        intercept_: a number, or shape (n_targets,); 0.0 without an intercept.
        n_iter_: passes over the samples, or those of each target, shape (n_targets,).
        converged_: whether the minimum was reached to `tol`; if not, `fit` has warned.
        n_features_in_: number of features.
        feature_names_in_: their names; only of data frames, whose names are texts.
    """

    _column_is_one = False

    def _penalty(self, total: float) -> tuple[float, float]:
        return 0.0, 0.0


@dataclass(eq=False, repr=False, kw_only=True)
class Ridge(LinearRegressor):
    """Least squares with l2: scikit-learn's, on any engine.

    It minimises what scikit-learn's `Ridge` minimises: the sum of the squares of `y - X @ coef_ - intercept_`, times
    the samples' weights, plus `alpha * ||coef_||^2`.

    >>> from erasurehead.sklearn import Ridge
    >>> Ridge(alpha=2.0).fit([[0.0], [1.0], [2.0]], [1.0, 3.0, 5.0]).coef_.round(6)
    array([1.])

    Arguments:
        alpha: strength of the penalty, at least 0.
        tol: as for `LinearRegression`.
        max_iter: likewise.
        fit_intercept: likewise.
        warm_start: likewise.
        random_state: not used, as nothing is random; it is there so that code for scikit-learn need not be changed.
        engine: as for `LogisticRegression`.
        n_workers: likewise.
        scheme: likewise.

    Attributes:
        coef_: as for `LinearRegression`, but shape (n_features,) if y is one column, for which predictions are of shape
            (n_samples,); as there are the others.
    """

    alpha: float = field(default=1.0, kw_only=False)
    random_state: Any = None

    def _penalty(self, total: float) -> tuple[float, float]:
        return 0.0, check_number("alpha", self.alpha) / total


@dataclass(eq=False, repr=False, kw_only=True)
class ElasticNet(LinearRegressor):
    """Least squares with l1 and l2, so that coefficients become exactly 0: scikit-learn's, on any engine.

    It minimises what scikit-learn's `ElasticNet` minimises: half of the weighted mean of the squares of
    `y - X @ coef_ - intercept_`, plus `alpha * l1_ratio * sum |coef_| + alpha * (1 - l1_ratio) / 2 * ||coef_||^2`.
    With `l1_ratio=1` that is the lasso.

    >>> from erasurehead.sklearn import ElasticNet
    >>> ElasticNet(alpha=1.0, l1_ratio=1.0).fit([[-1.0, 0.0], [1.0, 0.0]], [-3.0, 3.0]).coef_.round(6)
    array([2., 0.])

    Arguments:
        alpha: strength of the penalty, at least 0.
        l1_ratio: share of l1 in it, from 0 to 1.
        tol: as for `LinearRegression`; the gradient is the shortest subgradient here.
        max_iter: likewise.
        fit_intercept: likewise.
        warm_start: likewise.
        random_state: not used, as nothing is random; it is there so that code for scikit-learn need not be changed.
        engine: as for `LogisticRegression`.
        n_workers: likewise.
        scheme: likewise.

    Attributes:
        coef_: as for `LinearRegression`, but shape (n_features,) if y is one column, for which predictions are of shape
            (n_samples,); as there are the others.
    """

    alpha: float = field(default=1.0, kw_only=False)
    l1_ratio: float = 0.5
    random_state: Any = None

    def _penalty(self, total: float) -> tuple[float, float]:
        alpha, l1_ratio = check_number("alpha", self.alpha), check_number("l1_ratio", self.l1_ratio, 1.0)
        return 2.0 * alpha * l1_ratio, alpha * (1.0 - l1_ratio)


@dataclass(eq=False, repr=False, kw_only=True)
class LogLinear(RegressorMixin, LinearEstimator):
    """A model of the logarithm of what is expected, with l2."""

    alpha: float = 1.0
    warm_start: bool = False
    _loss: ClassVar[str]
    _power: ClassVar[int]
    """That of the mean by which the variance grows."""

    def __sklearn_tags__(self) -> Any:
        tags: Any = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Find the coefficients.

        Arguments:
            X: samples x features; an array, a data frame, or a sparse matrix.
            y: their targets, shape (n_samples,).
            sample_weight: how much each sample counts, at least 0, shape (n_samples,); None for 1.

        Returns:
            The estimator itself.
        """
        alpha, solver = check_number("alpha", self.alpha), self._solver
        matrix, y = self._checked(X, y, y_numeric=True)
        y = y.astype(np.float64)
        samples = SampleMatrix(matrix, self._weights(sample_weight, matrix), self.fit_intercept)
        start = np.zeros((1, samples.n_features)), np.log(np.maximum([np.average(y, weights=samples.weights)], 1e-300))
        if self.warm_start and getattr(self, "coef_", np.empty(0)).shape == (samples.n_features,):
            start = self.coef_[None], np.array([self.intercept_])
        solution = samples.solve(solver, partial(Regression, loss=self._loss), y, 0.0, 0.5 * alpha, start)
        self.coef_, self.intercept_ = solution.coef[0], float(solution.intercept[0])
        self.n_iter_, self.converged_ = solution.n_iter, solution.converged
        return self

    def predict(self, X: Any) -> Array:
        """Return what is expected for samples x features, shape (n_samples,)."""
        return np.exp(self._margins(X))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the share of the deviance that is explained, as scikit-learn's does."""
        return float(d2_tweedie_score(y, self.predict(X), sample_weight=sample_weight, power=self._power))


class PoissonRegressor(LogLinear):
    """Counts, whose logarithm is expected to be linear: scikit-learn's, on any engine.

    It minimises what scikit-learn's `PoissonRegressor` minimises: half of the weighted mean of the deviance, plus
    `alpha / 2 * ||coef_||^2`.

    >>> from erasurehead.sklearn import PoissonRegressor
    >>> model = PoissonRegressor(alpha=0.0).fit([[0.0], [1.0], [2.0]], [1, 2, 4])
    >>> model.predict([[3.0]]).round(6)
    array([8.])

    Arguments:
        alpha: strength of the penalty, at least 0.
        tol: as for `LinearRegression`.
        max_iter: likewise.
        fit_intercept: likewise.
        warm_start: likewise.
        engine: as for `LogisticRegression`.
        n_workers: likewise.
        scheme: likewise.

    Attributes:
        coef_: shape (n_features,).
        intercept_: a number; 0.0 without an intercept.
        n_iter_: passes over the samples.
        converged_: as for `LinearRegression`, as are the others.
    """

    _loss = "poisson"
    _power = 1


class GammaRegressor(LogLinear):
    """Amounts above 0, whose logarithm is expected to be linear: scikit-learn's, on any engine.

    It minimises what scikit-learn's `GammaRegressor` minimises: half of the weighted mean of the deviance, plus
    `alpha / 2 * ||coef_||^2`.

    >>> from erasurehead.sklearn import GammaRegressor
    >>> model = GammaRegressor(alpha=0.0).fit([[0.0], [1.0], [2.0]], [1.0, 2.0, 4.0])
    >>> model.predict([[3.0]]).round(6)
    array([8.])

    Arguments:
        alpha: strength of the penalty, at least 0.
        tol: as for `LinearRegression`.
        max_iter: likewise.
        fit_intercept: likewise.
        warm_start: likewise.
        engine: as for `LogisticRegression`.
        n_workers: likewise.
        scheme: likewise.

    Attributes:
        coef_: as for `PoissonRegressor`, as are the others.
    """

    _loss = "gamma"
    _power = 2
