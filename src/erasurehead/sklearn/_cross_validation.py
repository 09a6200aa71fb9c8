# scikit-learn ships no types
# pyright: reportMissingTypeStubs=false, reportUnknownVariableType=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false
"""Estimators that choose how much to penalise, by cross-validation over a path of penalties, the strongest first."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import is_classifier
from sklearn.metrics import check_scoring
from sklearn.model_selection import check_cv

from erasurehead._internal.arrays import Array
from erasurehead._internal.documents import PlainData
from erasurehead.errors import check_size, invalid
from erasurehead.sklearn._base import LinearEstimator
from erasurehead.sklearn._classification import LogisticModel, LogisticRegression
from erasurehead.sklearn._regression import ElasticNet, Ridge, TargetModel
from erasurehead.sklearn._solving import check_number


@dataclass(eq=False, repr=False, kw_only=True)
class PenaltySearch(LinearEstimator):
    """Chooses a penalty by cross-validation, and fits with it; mixed into the estimator that fits.

    Each fit begins with the coefficients of the penalty before.
    """

    _plain: ClassVar[type[Any]]  # what is fitted
    _penalty_name: ClassVar[str]
    _scored_by: ClassVar[str]  # by default
    cv: Any = None
    scoring: Any = None

    @abstractmethod
    def _path(self, X: Any, y: Array, weights: Array | None) -> Sequence[float]:
        """Return the penalties to try, the strongest first."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Choose the penalty, and find the coefficients with it.

        Arguments:
            X: samples x features; an array, a data frame, or a sparse matrix.
            y: their targets or classes, shape (n_samples,).
            sample_weight: how much each sample counts, in fits and scores, at least 0, shape (n_samples,); None for 1.

        Returns:
            The estimator itself.
        """
        classes: bool = is_classifier(self)
        how: dict[str, bool] = {} if classes else {"y_numeric": True, "multi_output": True}
        samples, y = self._checked(X, y, **how)
        weights = self._weights(sample_weight, samples)
        path = self._path(samples, y, weights)
        settings = {name: value for name, value in self.get_params().items() if name in self._plain().get_params()}
        folds: Any = check_cv(self.cv, y, classifier=classes)
        score: Any = check_scoring(self._plain(), scoring=self.scoring or self._scored_by)
        scores: list[list[float]] = []
        for fitted, scored in folds.split(samples, y):
            model = self._plain(**settings, warm_start=True)
            inside, outside = (None, {}) if weights is None else (weights[fitted], {"sample_weight": weights[scored]})
            scores.append([])
            for strength in path:
                model.set_params(**{self._penalty_name: strength}).fit(samples[fitted], y[fitted], inside)
                scores[-1].append(score(model, samples[scored], y[scored], **outside))
        self.scores_: Array = np.array(scores)
        best = path[int(self.scores_.mean(axis=0).argmax())]
        model = self._plain(**settings, **{self._penalty_name: best}).fit(samples, y, weights)
        attributes: PlainData = {name: value for name, value in vars(model).items() if name.endswith("_")}
        attributes |= {f"{self._penalty_name}_": best, f"{self._penalty_name}s_": np.array(path)}
        vars(self).update(attributes)
        return self


@dataclass(eq=False, repr=False, kw_only=True)
class LogisticRegressionCV(PenaltySearch, LogisticModel):
    """Logistic regression with the `C` that cross-validation finds best; scikit-learn's, on any engine.

    Arguments:
        Cs: values of `C` to try, or how many between 1e-4 and 1e4.
        cv: number of folds, 5 if None; or what splits samples into folds, as for scikit-learn.
        scoring: what is best: the name of a measure of scikit-learn's, or a scorer; None for accuracy.
        l1_ratio: as for `LogisticRegression`, as are all the others.

    Attributes:
        C_: the best one; of equally good ones the least.
        Cs_: all that were tried, ascending.
        scores_: their scores on each fold, shape (n_folds, n_Cs).
        classes_: as for `LogisticRegression`, as are all the others, fitted with `C_` to all samples.
    """

    _plain, _penalty_name, _scored_by = LogisticRegression, "C", "accuracy"

    Cs: int | Sequence[float] = 10
    tol: float = 1e-4

    def _path(self, X: Any, y: Array, weights: Array | None) -> Sequence[float]:
        if np.ndim(self.Cs) == 0:
            return np.logspace(-4.0, 4.0, check_size("Cs", self.Cs)).tolist()
        return sorted(_strengths("Cs", self.Cs))


@dataclass(eq=False, repr=False, kw_only=True)
class RidgeCV(PenaltySearch, TargetModel):
    """Least squares with l2, with the `alpha` that cross-validation finds best; scikit-learn's, on any engine.

    Arguments:
        alphas: values of `alpha` to try.
        cv: number of folds, 5 if None; or what splits samples into folds, as for scikit-learn.
        scoring: what is best: the name of a measure of scikit-learn's, or a scorer; None for the mean squared error.
        tol: as for `Ridge`, as are all the others.

    Attributes:
        alpha_: the best one; of equally good ones the greatest.
        alphas_: all that were tried, descending.
        scores_: their scores on each fold, shape (n_folds, n_alphas).
        coef_: as for `Ridge`, as are all the others, fitted with `alpha_` to all samples.
    """

    _plain, _penalty_name, _scored_by = Ridge, "alpha", "neg_mean_squared_error"

    alphas: Sequence[float] = field(default=(0.1, 1.0, 10.0), kw_only=False)

    def _path(self, X: Any, y: Array, weights: Array | None) -> Sequence[float]:
        return sorted(_strengths("alphas", self.alphas), reverse=True)


@dataclass(eq=False, repr=False, kw_only=True)
class ElasticNetCV(PenaltySearch, TargetModel):
    """Least squares with l1 and l2, with the `alpha` that cross-validation finds best; scikit-learn's, on any engine.

    Arguments:
        l1_ratio: as for `ElasticNet`.
        alphas: values of `alpha` to try, or how many below the least with which all coefficients are 0, down to a
            thousandth of it; for that l1_ratio must be greater than 0.
        cv: number of folds, 5 if None; or what splits samples into folds, as for scikit-learn.
        scoring: what is best: the name of a measure of scikit-learn's, or a scorer; None for the mean squared error.
        tol: as for `ElasticNet`, as are all the others.

    Attributes:
        alpha_: the best one; of equally good ones the greatest.
        alphas_: all that were tried, descending.
        scores_: their scores on each fold, shape (n_folds, n_alphas).
        coef_: as for `ElasticNet`, as are all the others, fitted with `alpha_` to all samples.
    """

    _plain, _penalty_name, _scored_by = ElasticNet, "alpha", "neg_mean_squared_error"

    l1_ratio: float = 0.5
    alphas: int | Sequence[float] = 100
    random_state: Any = None

    def _path(self, X: Any, y: Array, weights: Array | None) -> Sequence[float]:
        if np.ndim(self.alphas):
            return sorted(_strengths("alphas", self.alphas), reverse=True)
        count = check_size("alphas", self.alphas)
        l1_ratio = check_number("l1_ratio", self.l1_ratio, 1.0)
        if not l1_ratio:
            raise invalid("alphas", "must be numbers to try where l1_ratio is 0", count, "such as (0.01, 0.1)")
        center = np.average(y, axis=0, weights=weights) if self.fit_intercept else 0.0
        misses = ((y - center).T * (1.0 if weights is None else weights)).T
        total = len(y) if weights is None else weights.sum()
        most = float(np.abs(X.T @ misses).max()) / (total * l1_ratio)
        return np.geomspace(most, 1e-3 * most, count).tolist() if most else [1.0]


def _strengths(argument: str, given: Any) -> list[float]:
    positive = argument == "Cs"  # which may be infinite, too
    strengths = [
        check_number(f"{argument}[{place}]", one, infinite=positive, above=positive) for place, one in enumerate(given)
    ]
    if not strengths:
        raise invalid(argument, "must have at least one number", given)
    return strengths
