# scikit-learn ships no types
# pyright: reportMissingTypeStubs=false, reportUnknownVariableType=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false
"""Logistic regression of two classes or more, by scikit-learn's names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, Self

import numpy as np
from scipy.special import expit, log_expit, log_softmax, softmax
from sklearn.base import ClassifierMixin
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets

from erasurehead._internal.arrays import Array, IntArray
from erasurehead.problems import _linear as problems
from erasurehead.problems._sample_weights import balanced
from erasurehead.sklearn._base import LinearEstimator
from erasurehead.sklearn._solving import SampleMatrix, check_number


@dataclass(eq=False, repr=False, kw_only=True)
class LogisticModel(ClassifierMixin, LinearEstimator):
    """A logistic model of two classes, or a softmax model of more: its predictions."""

    l1_ratio: float = 0.0
    tol: float = 1e-4
    class_weight: Mapping[Any, float] | Literal["balanced"] | None = None
    random_state: Any = None

    def decision_function(self, X: Any) -> Array:
        """Return how far samples are on the side of the second class, or of each class.

        Arguments:
            X: samples x features.

        Returns:
            Coefficients times features plus intercept, shape (n_samples,); for more than two classes
            (n_samples, n_classes).
        """
        margins = self._margins(X)
        return margins[:, 0] if margins.shape[1] == 1 else margins

    def predict(self, X: Any) -> Any:
        """Return the likeliest class of each sample, shape (n_samples,)."""
        margins = self.decision_function(X)
        places = (margins > 0.0).astype(np.int64) if margins.ndim == 1 else margins.argmax(axis=1)
        return self.classes_[places]

    def predict_proba(self, X: Any) -> Array:
        """Return the probability of each class, in the order of `classes_`, shape (n_samples, n_classes)."""
        margins = self.decision_function(X)
        return np.column_stack([expit(-margins), expit(margins)]) if margins.ndim == 1 else softmax(margins, axis=1)

    def predict_log_proba(self, X: Any) -> Array:
        """Return the logarithms of `predict_proba`, which do not underflow, shape (n_samples, n_classes)."""
        margins = self.decision_function(X)
        if margins.ndim == 1:
            return np.column_stack([log_expit(-margins), log_expit(margins)])
        return log_softmax(margins, axis=1)


@dataclass(eq=False, repr=False, kw_only=True)
class LogisticRegression(LogisticModel):
    """Logistic regression, of more than two classes as softmax regression: scikit-learn's, on any engine.

    It minimises what scikit-learn's `LogisticRegression` minimises: `C` times the sum of the samples' losses, times
    their weights, plus `(1 - l1_ratio) / 2 * ||coef_||^2 + l1_ratio * sum |coef_|`.

    >>> from erasurehead.sklearn import LogisticRegression
    >>> model = LogisticRegression(C=10.0).fit([[0.0], [1.0], [2.0], [3.0]], ["no", "no", "yes", "yes"])
    >>> model.predict([[0.4], [2.6]]).tolist(), model.converged_
    (['no', 'yes'], True)

    Arguments:
        C: one over the strength of the penalty, greater than 0; `numpy.inf` for none.
        l1_ratio: share of l1 in the penalty, from 0 to 1: with some of it, coefficients become exactly 0.
        tol: ends when the norm of the gradient is this fraction of what it is where all coefficients are 0, at
            least 0; 0 for as near to the minimum as rounding allows.
        max_iter: most passes over the samples.
        fit_intercept: whether there is a constant term, which is not penalised.
        class_weight: factor by class, as a dict (1 for classes that are not in it), or `"balanced"`; None for 1.
        warm_start: whether `fit` begins with the coefficients of the fit before, if they are of as many.
        random_state: not used, as nothing is random; it is there so that code for scikit-learn need not be changed.
        engine: where workers run: None for this process, where nothing is started; `"processes"`, `"mpi"` or `"ray"`,
            or an engine object, for samples whose passes take longer than starting workers. Each fit takes a copy of an
            object.
        n_workers: number of workers; None for one in this process, elsewhere as many as can compute at once.
        scheme: who computes what, and when to stop waiting: a scheme, or its text.

    Attributes:
        classes_: the classes, ascending.
        coef_: shape (1, n_features) for two classes, (n_classes, n_features) for more.
        intercept_: shape (1,) or (n_classes,).
        n_iter_: passes over the samples, shape (1,).
        converged_: whether the minimum was reached to `tol`; if not, `fit` has warned.
        n_features_in_: number of features.
        feature_names_in_: their names; only of data frames, whose names are texts.

    Raises:
        InvalidArgument: from `fit`, if an argument is out of its range. It is a ValueError.
    """

    C: float = 1.0
    warm_start: bool = False

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Find the coefficients.

        Arguments:
            X: samples x features; an array, a data frame, or a sparse matrix.
            y: their classes, numbers or texts, at least two of them, shape (n_samples,).
            sample_weight: how much each sample counts, at least 0, shape (n_samples,); None for 1.

        Returns:
            The estimator itself.
        """
        C, l1_ratio = check_number("C", self.C, infinite=True, above=True), check_number("l1_ratio", self.l1_ratio, 1.0)
        solver = self._solver
        matrix, y = self._checked(X, y)
        check_classification_targets(y)
        self.classes_, places = np.unique(y, return_inverse=True)
        n_classes = len(self.classes_)
        if n_classes < 2:
            (only,) = self.classes_.tolist()
            raise ValueError(f"y must have samples of at least 2 classes, but there is 1 class: {only!r}.")
        samples = SampleMatrix(matrix, self._weighted(sample_weight, matrix, y, places), self.fit_intercept)
        if n_classes == 2:
            build, labels = problems.LogisticRegression, np.where(places == 1, 1.0, -1.0)
        else:
            build, labels = partial(problems.SoftmaxRegression, n_classes=n_classes), places.astype(np.float64)
        n_outputs = 1 if n_classes == 2 else n_classes
        factor = 1.0 / (C * samples.total)
        start = None
        if self.warm_start and getattr(self, "coef_", np.empty(0)).shape == (n_outputs, samples.n_features):
            start = self.coef_, self.intercept_
        model = samples.solve(solver, build, labels, l1_ratio * factor, 0.5 * (1.0 - l1_ratio) * factor, start)
        self.coef_, self.intercept_ = model.coef, model.intercept
        if n_classes > 2:  # only their differences count
            self.intercept_ = model.intercept - model.intercept.mean()
        self.n_iter_, self.converged_ = np.array([model.n_iter]), model.converged
        return self

    def _weighted(self, sample_weight: Any, X: Any, y: Array, places: IntArray) -> Array | None:
        """Return the weights of the samples, those of their classes included; None if all are 1."""
        weights = self._weights(sample_weight, X)
        if self.class_weight is None:
            return weights
        if self.class_weight == "balanced":
            factors = balanced(places, len(self.classes_), weights)
        else:
            factors = compute_class_weight(self.class_weight, classes=self.classes_, y=y)
        return factors[places] if weights is None else weights * factors[places]
