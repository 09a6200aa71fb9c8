"""The minimum is scikit-learn's: penalties, weights and intercepts mean the same in both."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from scipy.special import logsumexp
from sklearn import linear_model  # pyright: ignore[reportMissingTypeStubs]  # ships none
from sklearn.exceptions import ConvergenceWarning  # pyright: ignore[reportMissingTypeStubs]

from erasurehead import sklearn

ROWS, COLUMNS = 120, 6
WEIGHTS = np.random.default_rng(2).integers(0, 4, ROWS) * 0.7
KINDS = ("plain", "unscaled", "collinear", "sparse")
SETTINGS = list(itertools.product(KINDS, (True, False), (None, WEIGHTS)))
NAMES = [
    f"{kind}-{'intercept' if free else 'none'}-{'equal' if w is None else 'weights'}" for kind, free, w in SETTINGS
]


def samples(kind: str) -> tuple[Any, Any]:
    """Return samples and targets: as they are, of other sizes and far from 0, with a sum of two columns, or sparse."""
    rng = np.random.default_rng(1)
    X: Any = rng.standard_normal((ROWS, COLUMNS))
    if kind == "collinear":
        X[:, -1] = X[:, 0] + X[:, 1]
    if kind == "sparse":
        X[np.abs(X) < 0.5] = 0.0
    y = X @ np.arange(1.0, COLUMNS + 1.0) / 3.0 + rng.standard_normal(ROWS) + 1.0
    if kind == "unscaled":
        X = X * np.logspace(-1.0, 2.0, COLUMNS) + np.logspace(2.0, 0.0, COLUMNS)
    return (sparse.csr_array(X) if kind == "sparse" else X), y


def logistic_objective(model: Any, X: Any, y: Any, weights: Any) -> float:
    """Return what scikit-learn minimises: C times the sum of the losses, plus the penalty."""
    margins = np.asarray(X @ model.coef_.T + model.intercept_)
    if margins.shape[1] == 1:
        margins = np.hstack([0.0 * margins, margins])
    losses = logsumexp(margins, axis=1) - margins[np.arange(len(y)), np.searchsorted(model.classes_, y)]
    total = float(losses @ (weights * [model.class_weight[label] for label in y]))
    l1 = float(model.l1_ratio * np.abs(model.coef_).sum())
    return model.C * total + l1 + 0.5 * (1.0 - model.l1_ratio) * float((model.coef_**2).sum())


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "free", "weights"), SETTINGS, ids=NAMES)
def test_logistic_regression_of_two_classes_and_of_three(kind: str, free: bool, weights: Any) -> None:
    X, numbers = samples(kind)
    for edges in ([1.0], [0.0, 2.0]):
        y = np.array(["c", "a", "b"])[np.digitize(numbers, edges)]
        settings: Any = {
            "C": 3.0,
            "fit_intercept": free,
            "class_weight": {label: ord(label) - 96.0 for label in set(y)},
        }
        theirs = linear_model.LogisticRegression(solver="newton-cholesky", tol=1e-12, max_iter=1000, **settings)
        theirs.fit(X, y, weights)
        ours = sklearn.LogisticRegression(tol=0.0, **settings).fit(X, y, weights)
        assert ours.converged_
        assert ours.classes_.tolist() == theirs.classes_.tolist()
        np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-5, atol=1e-7 * np.abs(theirs.coef_).max())
        np.testing.assert_allclose(ours.intercept_, theirs.intercept_, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), rtol=1e-5, atol=1e-9)
        counts = np.ones(ROWS) if weights is None else weights
        assert logistic_objective(ours, X, y, counts) <= logistic_objective(theirs, X, y, counts) * (1.0 + 1e-9)
        near = sklearn.LogisticRegression(tol=1e-6, **settings).fit(X, y, weights)
        assert logistic_objective(near, X, y, counts) <= logistic_objective(theirs, X, y, counts) * (1.0 + 1e-6)


@pytest.mark.parametrize("l1_ratio", [0.5, 1.0])
def test_logistic_regression_with_l1(l1_ratio: float) -> None:
    X, numbers = samples("plain")
    y, weights = numbers > 1.0, np.ones(ROWS)
    settings: Any = {"C": 0.05, "l1_ratio": l1_ratio, "class_weight": {False: 1.0, True: 3.0}}
    theirs = linear_model.LogisticRegression(solver="saga", tol=1e-10, max_iter=100_000, **settings).fit(X, y)
    ours = sklearn.LogisticRegression(tol=0.0, **settings).fit(X, y)
    assert ((ours.coef_ == 0.0) == (theirs.coef_ == 0.0)).all()
    assert (ours.coef_ == 0.0).any()
    assert logistic_objective(ours, X, y, weights) <= logistic_objective(theirs, X, y, weights) * (1.0 + 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "free", "weights"), SETTINGS, ids=NAMES)
def test_least_squares(kind: str, free: bool, weights: Any) -> None:
    X, y = samples(kind)
    total = ROWS if weights is None else weights.sum()

    def objective(model: Any, l1: float, l2: float) -> float:
        misses = float(np.average((X @ model.coef_ + model.intercept_ - y) ** 2, weights=weights))
        return misses + l1 * float(np.abs(model.coef_).sum()) + l2 * float((model.coef_**2).sum())

    exact: Any = {"tol": 1e-14, "max_iter": 20_000}
    for name, settings, theirs_only, l1, l2 in (
        ("LinearRegression", {}, {"tol": 1e-14}, 0.0, 0.0),
        ("Ridge", {"alpha": 2.0}, exact, 0.0, 2.0 / total),
        ("ElasticNet", {"alpha": 0.1, "l1_ratio": 0.7}, exact, 0.14, 0.03),
        ("ElasticNet", {"alpha": 0.1, "l1_ratio": 1.0}, exact, 0.2, 0.0),
    ):
        with warnings.catch_warnings(record=True) as not_converged:  # coordinate descent, on columns far from 0
            warnings.simplefilter("always", ConvergenceWarning)
            theirs = getattr(linear_model, name)(fit_intercept=free, **settings, **theirs_only).fit(X, y, weights)
        for tol in ({"tol": 0.0}, {}):
            ours = getattr(sklearn, name)(fit_intercept=free, **settings, **tol).fit(X, y, weights)
            assert ours.converged_
            assert ours.coef_.shape == theirs.coef_.shape
            assert isinstance(ours.intercept_, float)
            assert objective(ours, l1, l2) <= objective(theirs, l1, l2) * (1.0 + 1e-9)
            if not_converged:
                continue
            seen = slice(None) if weights is None else weights > 0.0
            np.testing.assert_allclose(ours.predict(X)[seen], theirs.predict(X)[seen], rtol=1e-5, atol=1e-5)
            if kind != "collinear" or name != "LinearRegression":  # which has many minima
                np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-4, atol=1e-6)


def test_balanced_classes_count_weights_as_scikit_learn_does() -> None:
    X, numbers = samples("plain")
    y = np.digitize(numbers, [-1.0, 3.0])
    theirs = linear_model.LogisticRegression(class_weight="balanced", tol=1e-12, solver="newton-cholesky").fit(
        X, y, WEIGHTS
    )
    ours = sklearn.LogisticRegression(class_weight="balanced", tol=0.0).fit(X, y, WEIGHTS)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["PoissonRegressor", "GammaRegressor"])
@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["alike", "weighted"])
@pytest.mark.parametrize("free", [True, False])
def test_models_of_logarithms(name: str, weights: Any, free: bool) -> None:
    X, numbers = samples("plain")
    y = np.random.default_rng(0).gamma(2.0, np.exp(0.3 * numbers / numbers.std() + 3.0))
    settings: Any = {"alpha": 0.01, "fit_intercept": free}
    theirs = getattr(linear_model, name)(tol=1e-12, max_iter=10_000, **settings).fit(X, y, weights)
    ours = getattr(sklearn, name)(tol=0.0, **settings).fit(X, y, weights)
    assert ours.converged_
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), rtol=1e-5)
    assert ours.score(X, y, weights) == pytest.approx(theirs.score(X, y, weights), abs=1e-6)
    again = getattr(sklearn, name)(warm_start=True, **settings).fit(X, y, weights).fit(X, y, weights)
    assert again.n_iter_ < ours.n_iter_
