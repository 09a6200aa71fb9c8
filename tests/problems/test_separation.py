"""Objectives without a minimum: classes that the data tell apart, with nothing that holds the model back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import sparse
from scipy.optimize import linprog

from erasurehead import optimizers, schemes
from erasurehead.engines import VirtualEngine
from erasurehead.problems import ElasticNet, LeastSquares, LogisticRegression, SoftmaxRegression
from erasurehead.problems._linear import LinearProblem
from erasurehead.training import train

from ..arrays import Array

RNG = np.random.default_rng(2)
X = RNG.standard_normal((90, 3))
NOISY = np.sign(X[:, 0] + RNG.standard_normal(90))
APART = np.sign(X @ [1.0, 2.0, -1.0])
ONES = np.ones((90, 1))
TOWN = np.where((np.arange(90) < 20) & (NOISY > 0.0), 1.0, 0.0)  # a category that occurs in one class alone
THREE = RNG.integers(0, 3, 90).astype(float)


def without_minimum(problem: LinearProblem) -> bool:
    optimizer = optimizers.QuasiNewton(problem.initial())
    found = train(problem, schemes.adaptive(6), optimizer, VirtualEngine(), 200, evaluate_every=0).final
    assert found is not None
    return found.without_minimum


def with_town(values: Array, *others: Array) -> Any:
    return np.column_stack([X, values, *others])


@pytest.mark.slow
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_a_run_on_classes_that_the_data_tell_apart_says_that_there_is_no_minimum(form: Any) -> None:
    assert without_minimum(LogisticRegression(form(X), APART))
    assert without_minimum(SoftmaxRegression(form(X), (X @ RNG.standard_normal((3, 3))).argmax(axis=1)))
    weights = np.linspace(0.0, 2.0, 90)
    assert without_minimum(LogisticRegression(form(X), APART, sample_weight=weights))
    # No category may lie on the wrong side, up to a border that the column of ones moves.
    assert without_minimum(LogisticRegression(form(with_town(TOWN)), NOISY))
    assert without_minimum(LogisticRegression(form(with_town(2.0 - TOWN, ONES)), NOISY))
    assert not without_minimum(LogisticRegression(form(with_town(2.0 - TOWN)), NOISY))
    missing = np.where(THREE == 1.0, 0.0, X[:, 1] > 0.0)
    assert without_minimum(SoftmaxRegression(form(with_town(missing)), THREE))
    assert without_minimum(SoftmaxRegression(form(np.c_[X, ONES]), THREE, n_classes=4))


@pytest.mark.slow
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_other_objectives_have_one(form: Any) -> None:
    assert not without_minimum(LogisticRegression(form(with_town(ONES)), NOISY))
    assert not without_minimum(SoftmaxRegression(form(with_town(ONES)), THREE))
    assert not without_minimum(LeastSquares(form(X), X @ np.ones(3)))  # 0 is reached
    penalty: Any
    for penalty in ({"l2": 1e-6}, {"penalty": ElasticNet(1e-3)}, {"penalty": ElasticNet(1e-3, 1e-3)}):
        assert not without_minimum(LogisticRegression(form(with_town(TOWN)), APART, **penalty))
    # An intercept without a penalty, and all samples that count in one class.
    one_class: Any = {"l2": 0.01, "intercept": -1, "class_weight": {-1.0: 0.0, 1.0: 1.0}}
    assert without_minimum(LogisticRegression(form(np.c_[X, ONES]), NOISY, **one_class))


@pytest.mark.slow
@settings(max_examples=60)
@given(st.integers(0, 2**32 - 1), st.integers(2, 3))
def test_it_is_never_said_of_an_objective_that_has_one(seed: int, n_classes: int) -> None:
    """A linear program finds whether there is a direction along which no sample's loss rises, and one's falls."""
    rng = np.random.default_rng(seed)
    n, p = int(rng.integers(6, 30)), int(rng.integers(1, 4))
    data = rng.integers(-1, 2, (n, p)).astype(float)
    labels = np.r_[np.arange(n_classes), rng.integers(0, n_classes, n - n_classes)]
    if n_classes == 2:
        signed = 2.0 * labels - 1.0
        problem: LinearProblem = LogisticRegression(data, signed)
        margins = signed[:, np.newaxis] * data
    else:
        problem = SoftmaxRegression(data, labels)
        own = np.zeros((n, n_classes, n_classes * p))
        for sample, label in enumerate(labels):
            for other in range(n_classes):
                own[sample, other, label * p : (label + 1) * p] += data[sample]
                own[sample, other, other * p : (other + 1) * p] -= data[sample]
        margins = own.reshape(-1, n_classes * p)
    bounds = np.r_[np.zeros(len(margins)), np.ones(len(margins))]
    found: Any = linprog(-margins.sum(axis=0), np.r_[-margins, margins], bounds, bounds=(None, None))
    exists = -found.fun > 1e-9
    said = without_minimum(problem)
    assert said if exists and p == 1 else exists or not said
