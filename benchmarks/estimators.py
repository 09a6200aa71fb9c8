"""The estimators beside scikit-learn's lbfgs, in one process where nothing is slow: seconds, passes, and objectives.

Both fit in turn, as they are by default, and both with `tol=1e-8`. lbfgs stops at a gradient of `tol` in the units of
the data, and ours at that share of the first one; so each line also says how far the objectives are above the lowest
one that is known. The data are drawn: dense and sparse, of two classes and of three, from 10,000 rows on.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import logsumexp
from sklearn.linear_model import LogisticRegression as Theirs

from common import interleave, ratio, report
from erasurehead.sklearn import LogisticRegression

TARGET = "<= 2"
WAYS: dict[str, dict[str, float]] = {"default": {}, "tol=1e-8": {"tol": 1e-8}}


def dense(rows: int, columns: int, classes: int = 2) -> tuple[Any, Any]:
    """Return samples whose columns are correlated, and classes that they tell apart with some noise."""
    rng = np.random.default_rng(columns)
    X = rng.standard_normal((rows, columns)) @ (
        np.eye(columns) + rng.standard_normal((columns, columns)) / columns**0.5
    )
    scores = X @ rng.standard_normal((columns, classes)) / columns**0.5 + rng.gumbel(size=(rows, classes))
    return X, scores.argmax(axis=1)


def one_hot(rows: int, columns: int, ones: int = 8) -> tuple[Any, Any]:
    """Return samples with a few ones each, in columns of which some are much more frequent than others."""
    rng = np.random.default_rng(0)
    places = (columns * rng.random((rows, ones)) ** 4).astype(np.int64)
    X = sparse.csr_array((np.ones(rows * ones), places.ravel(), ones * np.arange(rows + 1)), shape=(rows, columns))
    X.sum_duplicates()
    weights = rng.standard_normal(columns)
    return X, (X @ weights / ones**0.5 + rng.logistic(size=rows) > 0.0).astype(int)


SETS: dict[str, Callable[[], tuple[Any, Any]]] = {
    "dense 1e4 x 20": partial(dense, 10_000, 20),
    "dense 1e4 x 100": partial(dense, 10_000, 100),
    "dense 1e5 x 50": partial(dense, 100_000, 50),
    "dense 2e4 x 50, 3 classes": partial(dense, 20_000, 50, 3),
    "sparse 1e5 x 2e4": partial(one_hot, 100_000, 20_000),
}


def objective(model: Any, X: Any, y: Any) -> float:
    """Return what both minimise."""
    margins = np.asarray(X @ model.coef_.T + model.intercept_)
    if margins.shape[1] == 1:
        margins = np.hstack([0.0 * margins, margins])
    losses = logsumexp(margins, axis=1) - margins[np.arange(len(y)), y]
    return model.C * float(losses.sum()) + 0.5 * float((model.coef_**2).sum())


def main() -> None:
    """Print the ratios."""
    ratios: dict[str, float] = {}
    for name, draw in SETS.items():
        X, y = draw()
        lowest = objective(LogisticRegression(tol=0.0).fit(X, y), X, y)
        for way, settings in WAYS.items():
            ours, theirs = LogisticRegression(**settings), Theirs(max_iter=10_000, **settings)
            seconds = interleave({"ours": partial(ours.fit, X, y), "lbfgs": partial(theirs.fit, X, y)})
            passes = {side: int(np.max(model.n_iter_)) for side, model in (("ours", ours), ("lbfgs", theirs))}
            above = [objective(model, X, y) / lowest - 1.0 for model in (ours, theirs)]
            print(
                f"{name}, {way}: {passes['ours']} passes and {passes['lbfgs']} iterations, objectives {above[0]:.1e} "
                f"and {above[1]:.1e} above the lowest, {np.median(seconds['ours']):.3g} s and "
                f"{np.median(seconds['lbfgs']):.3g} s"
            )
            ratios[f"{name}, {way}"] = ratio(seconds, "ours", "lbfgs")
    report("estimators", ratios, dict.fromkeys(ratios, TARGET))


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # lbfgs says where it ends without having converged
    main()
