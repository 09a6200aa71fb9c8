"""A problem has data of its own: what becomes of X and y later, in place, does not change it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from erasurehead.problems import LeastSquares, LogisticRegression, SoftmaxRegression

RNG = np.random.default_rng(0)
DENSE = RNG.normal(size=(24, 3))
PATTERN = np.eye(3)[np.arange(24) % 3]

FORMS: dict[str, Callable[[], Any]] = {
    "dense": lambda: DENSE.copy(),
    "in columns": lambda: np.asfortranarray(DENSE),
    "float32": lambda: DENSE.astype(np.float32),
    "whole numbers": lambda: np.round(DENSE * 9).astype(np.int64),
    "a view": lambda: np.repeat(DENSE, 2, axis=0)[::2],
    "csr": lambda: sparse.csr_array(DENSE),
    "csr matrix": lambda: sparse.csr_matrix(DENSE),
    "csc": lambda: sparse.csc_array(DENSE),
    "coo": lambda: sparse.coo_array(DENSE),
    "pattern": lambda: sparse.csr_array(PATTERN),
    "pattern in columns": lambda: sparse.csc_array(PATTERN),
}

PROBLEMS: dict[str, tuple[Any, Callable[[], np.ndarray]]] = {
    "logistic": (LogisticRegression, lambda: np.where(np.arange(24) % 2, 1.0, -1.0)),
    "least squares": (LeastSquares, lambda: np.arange(24.0)),
    "softmax": (SoftmaxRegression, lambda: np.arange(24) % 3),
}


def spoil(values: Any) -> None:
    if sparse.issparse(values):
        values.data[:] = 7
        for name in ("indices", "row", "col"):
            if hasattr(values, name):
                getattr(values, name)[:] = 0
    else:
        values[:] = 7


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("what", ["X", "y", "test X", "test y", "a frozen view of X"])
def test_what_is_changed_in_place_later_changes_nothing(name: str, form: str, what: str) -> None:
    kind, labels = PROBLEMS[name]
    X, y, X_test, y_test = FORMS[form](), labels(), FORMS[form](), labels()
    given = X
    if what == "a frozen view of X" and not sparse.issparse(X):
        given = X.view()
        given.flags.writeable = False
    problem = kind(given, y, l2=0.1, test=(X_test, y_test))
    x = np.linspace(-1, 1, problem.n_parameters)
    before = problem.objective(x), problem.gradient(x).tolist(), problem.metrics(x)
    spoil({"X": X, "y": y, "test X": X_test, "test y": y_test, "a frozen view of X": X}[what])
    assert (problem.objective(x), problem.gradient(x).tolist(), problem.metrics(x)) == before
