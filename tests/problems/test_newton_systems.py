"""Newton systems of a worker's own tasks: what they are, and that a rough solution is one of descent."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import sparse

from erasurehead.problems import LeastSquares, LogisticRegression, SoftmaxRegression
from erasurehead.problems._linear import LinearProblem
from erasurehead.problems._losses import LogisticLoss, SampleLoss, SoftmaxLoss, SquaredLoss
from erasurehead.problems._newton_systems import solve

from ..arrays import Array

N, D = 60, 7
KINDS = ("squares", "logistic", "softmax")


def made(kind: str, seed: int, as_sparse: bool = False, weighted: bool = False) -> LinearProblem:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N, D)) * (rng.random((N, D)) < 0.6) * np.geomspace(0.1, 10.0, D)
    rows: Any = sparse.csr_matrix(X) if as_sparse else X
    weights = rng.uniform(0.2, 3.0, N) if weighted else None
    if kind == "squares":
        return LeastSquares(rows, rng.standard_normal(N), l2=0.01, sample_weight=weights)
    if kind == "logistic":
        return LogisticRegression(rows, np.where(np.arange(N) % 3, 1.0, -1.0), l2=0.01, sample_weight=weights)
    return SoftmaxRegression(rows, np.arange(N) % 3, l2=0.01, sample_weight=weights)


def hessian(problem: LinearProblem, tasks: list[slice], x: Array) -> Array:
    """Return the second derivatives of some tasks' losses, by differences of gradients."""
    shard = problem.shard(tasks)
    places = np.arange(len(x)) if shard.support is None else np.asarray(shard.support)

    def gradient(point: Array) -> Array:
        out, whole = np.empty(len(places)), np.zeros(len(x))
        shard.combine(shard.take(point), np.ones(len(tasks)), 0, out)
        whole[places] = out
        return whole

    step = 1e-5
    columns = [(gradient(x + step * one) - gradient(x - step * one)) / (2.0 * step) for one in np.eye(len(x))]
    return np.stack(columns, axis=1)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("as_sparse", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("tasks", [[slice(10, 30)], [slice(0, 20), slice(40, 60)]])
def test_with_enough_products_it_is_the_newton_step_of_the_tasks_as_if_all_were_like_them(
    kind: str, as_sparse: bool, weighted: bool, tasks: list[slice]
) -> None:
    problem, damping = made(kind, 3, as_sparse, weighted), 0.3
    rng = np.random.default_rng(0)
    x, vector = rng.standard_normal(problem.n_parameters), rng.standard_normal(problem.n_parameters)
    shard = problem.shard(tasks)
    places = np.arange(len(x)) if shard.support is None else np.asarray(shard.support)
    out, bound = np.empty(len(places)), np.empty(len(places))
    shard.newton_step(shard.take(x), shard.take(vector), np.ones(len(tasks)), damping, 200, out)
    shard.curvature(np.ones(len(tasks)), bound)
    share = sum(problem.weight(one) for one in tasks) / problem.n_samples
    matrix = hessian(problem, tasks, x)[np.ix_(places, places)] / share
    matrix += damping * np.eye(len(places)) + 1e-4 * np.diag(bound) / share
    left = matrix @ out - vector[places]
    diagonal = 1.0001 * bound / share + damping
    assert left @ (left / diagonal) < 2e-6 * (vector[places] @ (vector[places] / diagonal))


def test_a_message_of_one_task_is_solved_from_the_shard_of_several() -> None:
    problem = made("logistic", 1)
    x, vector = np.linspace(-1.0, 1.0, D), np.linspace(1.0, 2.0, D)
    alone, among = np.empty(D), np.empty(D)
    problem.shard([slice(20, 40)]).newton_step(x, vector, np.ones(1), 0.1, 50, alone)
    both = problem.shard([slice(0, 20), slice(20, 40)])
    both.newton_step(x, vector, np.array([0.0, 1.0]), 0.1, 50, among)
    np.testing.assert_allclose(among, alone, rtol=1e-8)
    both.newton_step(x, vector, np.zeros(2), 0.1, 50, among)
    assert not among.any()


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**16), iterations=st.integers(1, 20), scale=st.floats(1e-6, 1e6))
def test_however_rough_it_is_one_of_descent(seed: int, iterations: int, scale: float) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((5, 8)) * (rng.random(8) < 0.7) * np.geomspace(1.0, 1e3, 8)
    vector = scale * rng.standard_normal(8)
    found = solve(lambda z: rows.T @ (rows @ z), (rows**2).sum(axis=0), 1e-3, vector, iterations)
    assert np.isfinite(found).all()
    assert found @ vector > 0.0


def test_what_overflows_is_left_at_zero() -> None:
    problem = made("squares", 1)
    out = np.ones(D)
    problem.shard([slice(0, 20)]).newton_step(np.zeros(D), np.full(D, 1e300), np.ones(1), 1e-300, 20, out)
    assert np.isfinite(out).all()
    solved = solve(lambda z: 0.0 * z, np.zeros(3), 0.0, np.ones(3), 5)
    assert not solved.any()


@pytest.mark.parametrize("loss", [SquaredLoss(), LogisticLoss(), SoftmaxLoss(3)])
@pytest.mark.parametrize("scale", [1.0, 50.0])
def test_the_second_derivatives_of_a_loss_are_how_its_derivatives_change(loss: SampleLoss, scale: float) -> None:
    rng = np.random.default_rng(2)
    margins = scale * rng.standard_normal((loss.n_outputs, 9))
    change = rng.standard_normal(margins.shape)
    labels = np.arange(9) % 3 if loss.n_outputs == 3 else np.where(np.arange(9) % 2, 1.0, -1.0)

    def derivatives(place: Array) -> Array:
        place = place.copy()
        loss.differentiate(place, labels, 1.0)
        return place

    step = 1e-6
    expected = (derivatives(margins + step * change) - derivatives(margins - step * change)) / (2.0 * step)
    np.testing.assert_allclose(loss.bend(margins, labels, change), expected, atol=1e-7)
    assert (
        np.abs(loss.bend(margins, labels, change)).sum(axis=0) <= 2.0 * loss.curvature * np.abs(change).sum(axis=0)
    ).all()
