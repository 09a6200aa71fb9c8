"""Quasi-Newton steps under l1: the matrix, the model that a step minimises, and whole runs against other solvers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import ElasticNet as PeersElasticNet, LassoLars

from erasurehead import schemes
from erasurehead.engines import VirtualEngine
from erasurehead.optimizers import QuasiNewton
from erasurehead.optimizers._lbfgs_matrix import LBFGSMatrix
from erasurehead.optimizers._lbfgs_memory import LBFGSMemory
from erasurehead.optimizers._sharp_steps import sharp_step
from erasurehead.problems import ElasticNet, LeastSquares, LogisticRegression, Penalty
from erasurehead.training import Run, train

from ..arrays import Array


def pairs(count: int, size: int, seed: int = 0) -> tuple[list[Array], list[Array]]:
    rng = np.random.default_rng(seed)
    root = rng.standard_normal((size, size))
    steps = list(rng.standard_normal((count, size)) * 10.0 ** rng.uniform(-6, 2, (count, 1)))
    return steps, [root @ (root.T @ step) for step in steps]


def updated(diagonal: Array, steps: list[Array], changes: list[Array]) -> Array:
    """Return the matrix of BFGS by its definition, one update after the other."""
    found = np.diag(diagonal)
    for step, change in zip(steps, changes, strict=True):
        moved = found @ step
        found += np.outer(change, change) / (change @ step) - np.outer(moved, moved) / (step @ moved)
    return found


@pytest.mark.parametrize(("count", "size"), [(0, 4), (1, 4), (3, 12), (6, 7), (20, 9)])
def test_the_matrix_is_that_of_bfgs(count: int, size: int) -> None:
    steps, changes = pairs(count, size)
    diagonal = np.linspace(0.5, 3.0, size)
    bent = [float(step @ change) for step, change in zip(steps, changes, strict=True)]
    matrix, dense = LBFGSMatrix(diagonal, steps, changes, bent), updated(diagonal, steps, changes)
    vector = np.sin(np.arange(size))
    size_of = np.abs(dense).max()
    assert matrix.times(vector) == pytest.approx(dense @ vector, abs=1e-9 * size_of)
    assert dense @ matrix.solve(vector) == pytest.approx(vector, abs=1e-6)
    for columns in (np.array([0, 2]), np.arange(size - 1)):
        part = dense[np.ix_(columns, columns)]
        assert part @ matrix.within(columns).solve(vector[columns]) == pytest.approx(vector[columns], abs=1e-6)


def test_the_matrix_maps_the_newest_step_to_its_change() -> None:
    memory = LBFGSMemory()
    for step, change in zip(*pairs(5, 8), strict=True):
        memory.remember(step, change)
    step, change = (one[-1] for one in pairs(5, 8))
    assert memory.matrix(8).times(step) == pytest.approx(change)


@pytest.mark.parametrize(
    "penalty", [ElasticNet(0.3), ElasticNet(0.3, unpenalized=(1, 5)), ElasticNet(0.5, 0.0), ElasticNet(50.0)]
)
def test_a_step_is_to_where_the_model_is_least(penalty: Penalty) -> None:
    size = 12
    steps, changes = pairs(4, size, seed=3)
    bent = [float(step @ change) for step, change in zip(steps, changes, strict=True)]
    diagonal = np.linspace(5.0, 9.0, size)
    rng = np.random.default_rng(1)
    x, gradient = rng.standard_normal(size) * (rng.random(size) < 0.5), rng.standard_normal(size)
    dense = updated(diagonal, steps, changes)

    def value(step: Array) -> float:
        return float(gradient @ step + step @ dense @ step / 2) + penalty.value(x + step) - penalty.value(x)

    step, slope = sharp_step(penalty, LBFGSMatrix(diagonal, steps, changes, bent), x, gradient)
    best, rate = np.zeros(size), 1.0 / float(np.linalg.norm(dense, 2))
    for _ in range(4_000):
        best = penalty.prox(x + best - rate * (gradient + dense @ best), rate) - x
    assert slope == pytest.approx(float(gradient @ step) + penalty.value(x + step) - penalty.value(x))
    assert value(step) <= 0.98 * value(best) < 0.0


def data(rows: int, columns: int, common: float = 0.0) -> tuple[Array, Array]:
    rng = np.random.default_rng(1)
    X = rng.standard_normal((rows, columns)) + common * rng.standard_normal((rows, 1))
    score = X[:, :5] @ np.array([2.0, -1.0, 3.0, 0.5, -2.0]) + 0.3 * rng.standard_normal(rows)
    return X, score


def solved(one: Any) -> Run:
    optimizer = QuasiNewton(one.initial())
    return train(one, schemes.uncoded(4), optimizer, VirtualEngine(), steps=1_000, evaluate_every=100)


def objective(one: Any, x: Array) -> float:
    return one.loss(x) + one.penalty(x)


@pytest.mark.parametrize(
    ("rows", "columns", "l1", "common", "most"),
    [
        (40, 60, 0.1, 0.0, 40),
        (40, 60, 0.01, 3.0, 120),
        (40, 60, 1e-3, 0.0, 200),
        (40, 60, 1e-4, 3.0, 1000),
        (40, 200, 0.01, 0.0, 200),
        (200, 60, 1e-3, 3.0, 200),
    ],
)
@pytest.mark.slow
def test_more_columns_than_rows_end_at_the_optimum_of_scikit_learn(
    rows: int, columns: int, l1: float, common: float, most: int
) -> None:
    X, y = data(rows, columns, common)
    peer = LassoLars(alpha=l1 / 2.0, fit_intercept=False, max_iter=10_000).fit(X, y)  # exact, and at once
    one = LeastSquares(X, y, penalty=ElasticNet(l1))
    run = solved(one)
    assert run.ended == "converged"
    assert len(run.steps) <= most
    assert objective(one, run.x) <= objective(one, peer.coef_) * (1.0 + 1e-8)


@pytest.mark.slow
def test_elastic_nets_end_at_the_optimum_of_scikit_learn() -> None:
    X, y = data(40, 120)
    peer = PeersElasticNet(alpha=0.011, l1_ratio=0.01 / 0.011, fit_intercept=False, tol=1e-13, max_iter=10**6).fit(X, y)
    one = LeastSquares(X, y, penalty=ElasticNet(0.02, 0.001))
    run = solved(one)
    assert run.ended == "converged"
    assert objective(one, run.x) <= objective(one, peer.coef_) * (1.0 + 1e-8)
    assert run.x == pytest.approx(peer.coef_, abs=1e-5)


@pytest.mark.parametrize(("l1", "most"), [(0.1, 30), (0.01, 80), (1e-3, 100), (1e-4, 120)])
def test_logistic_regression_ends_where_no_subgradient_is_left(l1: float, most: int) -> None:
    X, score = data(40, 200)
    one = LogisticRegression(X, np.where(score > 0.0, 1.0, -1.0), penalty=ElasticNet(l1, unpenalized=(7,)))
    run = solved(one)
    assert run.ended == "converged"
    assert len(run.steps) <= most
    left = one.regularizer.steepest(run.x, one.gradient(run.x))
    assert left is not None
    assert float(np.abs(left).max()) <= 1e-4 * l1
    assert (run.x == 0.0).sum() > 150
