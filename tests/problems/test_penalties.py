"""Penalties against their definitions, and training with them against what is known of the minimum."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from erasurehead import engines, optimizers, schemes
from erasurehead.errors import InvalidArgument
from erasurehead.optimizers import FirstOrder, Optimizer
from erasurehead.problems import ElasticNet, LeastSquares, LogisticRegression, Penalty, _linear
from erasurehead.training import Run, train

from ..arrays import Array

RNG = np.random.default_rng(0)
X = np.hstack([RNG.standard_normal((60, 5)), np.ones((60, 1))])
Y = X @ np.array([2.0, 0.0, -1.0, 0.0, 0.0, 3.0]) + 0.1 * RNG.standard_normal(60)

factors = st.floats(0.0, 10.0)
vectors = st.lists(st.floats(-100, 100), min_size=3, max_size=3).map(np.array)


@given(factors, factors, vectors, st.floats(0.01, 10.0), vectors)
def test_the_proximal_point_is_the_minimum(l1: float, l2: float, x: Array, step: float, other: Array) -> None:
    for penalty in (ElasticNet(l1, 0.0, (1,)), ElasticNet(0.0, l2, (1,)), ElasticNet(l1, l2, (1,))):

        def sharp(z: Array, penalty: Penalty = penalty) -> float:
            return penalty.value(z) - ElasticNet(0.0, penalty.l2, (1,)).value(z)

        found = penalty.prox(x, step)
        best = step * sharp(found) + float((found - x) @ (found - x)) / 2
        assert best <= step * sharp(other) + float((other - x) @ (other - x)) / 2 + 1e-9 * (1 + best)
        assert found[1] == x[1]
        assert penalty.gradient(x)[1] == 0.0
        np.testing.assert_allclose(
            penalty.gradient(x), [2 * getattr(penalty, "l2", 0.0) * part for part in (x[0], 0.0, x[2])]
        )


def solved(problem: _linear.LinearProblem, optimizer: Optimizer, steps: int = 400) -> Run:
    return train(problem, schemes.uncoded(4), optimizer, engines.VirtualEngine(), steps, evaluate_every=0)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["GradientDescent", "HeavyBall", "Nesterov"])
def test_every_method_finds_the_minimum_with_l1_and_it_is_sparse(name: str) -> None:
    problem = LeastSquares(X, Y, penalty=ElasticNet(0.2), intercept=-1)
    options: dict[str, Any] = {"restart": True} if name == "Nesterov" else {}
    rate = 0.05 if name == "HeavyBall" else 0.2
    run = solved(problem, getattr(optimizers, name)(problem.initial(), rate=rate, **options))
    slope = problem.gradient(run.x)
    zero = run.x == 0.0
    assert zero.tolist() == [False, True, False, True, True, False]
    assert (np.abs(slope[zero]) <= 0.2).all()  # the conditions of the minimum
    np.testing.assert_allclose(slope[[0, 2]], -0.2 * np.sign(run.x[[0, 2]]), atol=1e-6)
    assert abs(slope[5]) < 1e-6  # the intercept is left alone
    assert run.final is not None
    assert run.final.gradient_norm < 1e-5
    assert run.final.objective == pytest.approx(problem.objective(run.x))


def test_an_elastic_net_is_the_minimum_that_scikit_learn_finds() -> None:
    from sklearn.linear_model import ElasticNet as Theirs

    l1, l2 = 0.1, 0.3  # theirs is half the mean of squares, and l1 and half of l2
    theirs = Theirs(alpha=l1 / 2 + l2, l1_ratio=(l1 / 2) / (l1 / 2 + l2), tol=1e-12, max_iter=100_000).fit(X[:, :5], Y)
    problem = LeastSquares(X, Y, penalty=ElasticNet(l1, l2), intercept=-1)
    run = solved(problem, optimizers.GradientDescent(problem.initial(), rate=0.2))
    np.testing.assert_allclose(run.x, [*theirs.coef_, theirs.intercept_], atol=1e-6)


def test_l2_as_an_object_is_l2_as_a_number_to_the_bit() -> None:
    labels = np.sign(Y)
    for intercept in (None, -1):
        number = LogisticRegression(X, labels, l2=0.1, intercept=intercept)
        thing = LogisticRegression(X, labels, penalty=ElasticNet(l2=0.1), intercept=intercept)
        assert thing.l2 == 0.1
        runs = [solved(one, optimizers.Nesterov(one.initial(), rate=1.0), 10) for one in (number, thing)]
        assert runs[0].x.tobytes() == runs[1].x.tobytes()


class Smooth(Penalty):
    """Huber's: quadratic near 0, linear far away."""

    sharp = False

    def value(self, x: Array) -> float:
        return float(np.where(np.abs(x) < 1, x**2 / 2, np.abs(x) - 0.5).sum())

    def gradient(self, x: Array) -> Array:
        return np.clip(x, -1, 1)

    def prox(self, x: Array, step: float) -> Array:
        return x


def test_a_penalty_of_ones_own_counts_without_any_l2() -> None:
    problem = LeastSquares(X, Y, penalty=Smooth())
    run = solved(problem, optimizers.GradientDescent(problem.initial(), rate=0.2))
    np.testing.assert_allclose(problem.gradient(run.x) + np.clip(run.x, -1, 1), np.zeros(6), atol=1e-6)


class Plain(FirstOrder):
    def move(self, gradient: Array, rate: float) -> Array:
        return self.x - rate * gradient


def test_what_cannot_be_is_refused_in_a_sentence() -> None:
    problem = LeastSquares(X, Y, penalty=ElasticNet(0.1))
    with pytest.raises(InvalidArgument, match=r"optimizer must be proximal for the penalty ElasticNet.*Plain"):
        solved(problem, Plain(problem.initial(), 0.1), 1)
    with pytest.raises(InvalidArgument, match="penalty must be able to leave the intercept out"):
        LeastSquares(X, Y, penalty=Smooth(), intercept=-1)
    with pytest.raises(InvalidArgument, match=r"l2 must be left out where a penalty is given.*ElasticNet"):
        LeastSquares(X, Y, l2=0.1, penalty=ElasticNet(0.1))
    with pytest.raises(InvalidArgument, match="penalty must be a penalty"):
        LeastSquares(X, Y, penalty="l1")  # pyright: ignore[reportArgumentType]
    for unknown in (6, -1):
        with pytest.raises(InvalidArgument, match=r"unpenalized must name parameters among 0\.\.5, got"):
            LeastSquares(X, Y, penalty=ElasticNet(0.1, unpenalized=(unknown,))).objective(np.zeros(6))
    for factor in (-1.0, np.nan, np.inf):
        with pytest.raises(InvalidArgument, match="l1 must be a finite number of at least 0"):
            ElasticNet(factor, 0.1)
