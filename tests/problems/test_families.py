"""The losses of numbers: their derivatives, their texts, and the optima of scikit-learn's models."""

from __future__ import annotations

import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import (
    GammaRegressor,
    HuberRegressor,
    LinearRegression,
    PoissonRegressor,
    QuantileRegressor,
)
from sklearn.metrics import mean_gamma_deviance, mean_pinball_loss, mean_poisson_deviance

import erasurehead as eh
from erasurehead.errors import InvalidArgument
from erasurehead.problems._families import FAMILIES, FamilyLoss, read_loss, task_of
from erasurehead.problems._losses import NumberLoss

from ..arrays import Array

TEXTS = ("poisson", "gamma", "log_least_squares", "huber(0.7)", "quantile(0.8, width=0.2)")


def test_every_family_is_tested() -> None:
    assert {text.partition("(")[0] for text in TEXTS} == set(FAMILIES)


@pytest.mark.parametrize("text", TEXTS)
def test_slopes_and_bends_are_derivatives_of_the_loss(text: str) -> None:
    rng = np.random.default_rng(0)
    loss = read_loss(text)
    labels = loss.labels(rng.gamma(2.0, 1.0, 40), "y")
    margins, weights, step = rng.normal(size=(1, 40)), rng.random(40), 1e-6

    def slopes(place: Array) -> Array:
        place = place.copy()
        loss.differentiate(place, labels, weights)
        return place

    def value(place: Array) -> float:
        return loss.differentiate(place.copy(), labels, weights)

    for sample in range(40):
        move = np.zeros((1, 40))
        move[0, sample] = step
        expected = (value(margins + move) - value(margins - move)) / (2.0 * step)
        assert slopes(margins)[0, sample] == pytest.approx(expected, abs=1e-7)
    bends = (slopes(margins + step) - slopes(margins - step)) / (2.0 * step)
    assert loss.bend(margins, labels, np.ones((1, 40))) * weights == pytest.approx(bends, abs=1e-6)
    assert np.isscalar(loss.bounds(labels)) or np.shape(loss.bounds(labels)) == (40,)
    assert pickle.loads(pickle.dumps(loss)) == loss
    assert read_loss(loss.name) == loss
    assert task_of(text) == "least_squares"


X_FREE = np.random.default_rng(0).standard_normal((1200, 5))
X = np.hstack([X_FREE, np.ones((1200, 1))])
MEANS = np.exp(X @ np.array([0.5, -0.3, 0.2, 0.0, -0.4, 2.0]))


def targets(loss: str) -> Array:
    rng = np.random.default_rng(1)
    if loss == "poisson":
        return rng.poisson(MEANS).astype(np.float64)
    if loss in ("gamma", "log_least_squares"):
        return rng.gamma(2.0, MEANS / 2.0)
    return 10.0 * np.log(MEANS) + 3.0 * rng.standard_t(2, 1200)


def trained(problem: Any, scheme: Any = None, steps: int = 2000) -> Any:
    optimizer = eh.optimizers.QuasiNewton(problem.initial())
    engine = eh.engines.VirtualEngine(eh.delays.Exponential(0.5, seed=0))
    return eh.train(problem, scheme or eh.schemes.adaptive(6), optimizer, engine, steps=steps)


@pytest.mark.parametrize("scheme", [None, eh.schemes.exact(6, load=2)], ids=["adaptive", "exact"])
@pytest.mark.parametrize("loss", ["poisson", "gamma"])
def test_generalized_linear_models_end_at_scikit_learns_optimum(loss: str, scheme: Any) -> None:
    y, kind = targets(loss), {"poisson": PoissonRegressor, "gamma": GammaRegressor}[loss]
    other = kind(alpha=0.1, tol=1e-12, max_iter=10_000).fit(X_FREE, y)
    problem = eh.problems.Regression(X, y, loss=loss, l2=0.05, intercept=-1, test=(X, y))
    run = trained(problem, scheme)
    assert run.ended == "converged"
    np.testing.assert_allclose(run.x, [*other.coef_, other.intercept_], atol=1e-6)
    np.testing.assert_allclose(problem.model(run.x).predict(X), other.predict(X_FREE), rtol=1e-6)
    deviance = {"poisson": mean_poisson_deviance, "gamma": mean_gamma_deviance}[loss](y, other.predict(X_FREE))
    scores = problem.metrics(run.x)
    assert scores["deviance"] == pytest.approx(deviance, rel=1e-9)
    assert scores["rmse"] == pytest.approx(np.sqrt(np.mean((other.predict(X_FREE) - y) ** 2)), rel=1e-6)
    assert problem.training_metrics(run.x) == scores
    with warnings.catch_warnings(action="error"):
        assert not np.isfinite(problem.metrics(1e6 * np.ones_like(run.x))["deviance"])  # a model that has diverged


def test_huber_ends_at_scikit_learns_optimum_at_the_threshold_that_it_finds() -> None:
    y = targets("huber")
    other = HuberRegressor(alpha=0.3, tol=1e-12, max_iter=10_000).fit(X_FREE, y)
    scale = float(other.scale_)  # it is found together with the model; for that scale, both minimise the same
    loss = f"huber({1.35 * scale!r})"
    problem = eh.problems.Regression(X, y, loss=loss, l2=0.3 * scale / len(y), intercept=-1)
    run = trained(problem)
    assert run.ended == "converged"
    theirs = np.array([*other.coef_, other.intercept_])
    np.testing.assert_allclose(run.x, theirs, atol=1e-4)  # which its solver has found less exactly
    assert problem.objective(run.x) <= problem.objective(theirs) <= problem.objective(run.x) + 1e-9


@pytest.mark.parametrize("width", ["", ", width=0.01"])
def test_quantiles_are_above_scikit_learns_pinball_loss_by_at_most_half_of_the_width(width: str) -> None:
    y = targets("quantile")
    other = QuantileRegressor(quantile=0.8, alpha=0.0, solver="highs").fit(X_FREE, y)
    problem = eh.problems.Regression(X, y, loss=f"quantile(0.8{width})", intercept=-1, test=(X, y))
    run = trained(problem)
    assert run.ended == "converged"
    assert isinstance(problem.sample_loss, FamilyLoss)
    used = problem.sample_loss.given[1]
    assert used is not None
    least = mean_pinball_loss(y, other.predict(X_FREE), alpha=0.8)
    assert least <= problem.metrics(run.x)["pinball"] <= problem.loss(run.x) <= least + 0.5 * used
    assert np.mean(y < X @ run.x) == pytest.approx(0.8, abs=0.01)


def test_the_logarithm_of_the_target_is_fitted_by_least_squares_and_predicted_back() -> None:
    y = targets("log_least_squares")
    other = LinearRegression().fit(X_FREE, np.log(y))
    problem = eh.problems.Regression(X, y, loss="log_least_squares", intercept=-1, test=(X, y))
    run = trained(problem)
    np.testing.assert_allclose(run.x, [*other.coef_, other.intercept_], atol=1e-8)
    np.testing.assert_allclose(problem.model(run.x).predict(X), np.exp(other.predict(X_FREE)), rtol=1e-8)
    assert problem.metrics(run.x)["mae"] == pytest.approx(np.mean(np.abs(np.exp(other.predict(X_FREE)) - y)))


@pytest.mark.parametrize("loss", ["least_squares", *TEXTS])
def test_newton_steps_solve_the_system_of_second_derivatives(loss: str) -> None:
    problem = eh.problems.Regression(X, targets("gamma"), loss=loss)
    shard, x = problem.shard([slice(0, 1200)]), np.full(6, 0.1)
    vector, step, out = np.ones(6), 1e-6, np.empty(6)
    shard.newton_step(x, vector, np.ones(1), 0.1, 100, out)
    moved = (problem.gradient(x + step * out) - problem.gradient(x - step * out)) / (2.0 * step) + 0.1 * out
    bound = problem.curvature()[0]
    np.testing.assert_allclose(moved + 1e-4 * bound * out, vector, rtol=0.02, atol=0.02)


def test_a_folder_of_shards_takes_any_loss_of_numbers(tmp_path: Path) -> None:
    y = targets("poisson")
    np.save(tmp_path / "m.npy", np.column_stack([X_FREE, y]))
    folder = eh.datasets.shard(tmp_path / "m.npy", 4, tmp_path / "s", task="least_squares", test_fraction=None)
    problem = eh.problems.ShardedProblem(folder, loss="poisson", l2=0.01)
    run = trained(problem, eh.schemes.adaptive(4))
    whole = eh.problems.Regression(X, y, loss="poisson", l2=0.01, intercept=-1)
    assert run.ended == "converged"
    assert whole.objective(run.x) == pytest.approx(trained(whole).final.objective, rel=1e-9)
    assert problem.training_metrics(run.x) == pytest.approx(whole.training_metrics(run.x), rel=1e-9)
    with pytest.raises(InvalidArgument, match=r"loss must be for what .* is sharded for, least_squares"):
        eh.problems.ShardedProblem(folder, loss="logistic")


def test_defaults_depend_on_the_spread_of_the_labels_and_are_said_in_full() -> None:
    y = np.array([1.0, 2.0, 3.0, 4.0, 100.0])
    for text, said in (("huber", "huber(threshold=2.00151)"), ("quantile(0.9)", "quantile(level=0.9, width=0.014826)")):
        loss = read_loss(text)
        assert isinstance(loss, NumberLoss)
        assert loss.completed(y).name == said
    same = FamilyLoss("huber", (None,)).completed(np.ones(3))
    assert same.name == "huber(threshold=1.35)"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("hinge", "loss must be one of logistic, least_squares, softmax, poisson, gamma, .* but it is 'hinge'"),
        ("huber(-1)", r"loss 'huber\(-1\)': threshold must be above 0, but it is -1"),
        ("quantile(1.5)", r"loss 'quantile\(1.5\)': level must be above 0 and below 1, but it is 1.5"),
        ("poisson(2)", r"loss must be written poisson\(\)"),
        ("quantile(0.5, wide=1)", "which has no 'wide'"),
    ],
)
def test_what_is_no_loss_is_refused_in_a_sentence(text: str, sentence: str) -> None:
    with pytest.raises(InvalidArgument, match=sentence):
        read_loss(text)


@pytest.mark.parametrize(
    ("loss", "labels", "sentence"),
    [
        ("poisson", [1.0, -2.0], "every value of y must be at least 0 for the loss poisson, but it is -2.0"),
        ("gamma", [1.0, 0.0], "every value of y must be above 0 for the loss gamma, but it is 0.0"),
        ("log_least_squares", [0.0, 1.0], "must be above 0"),
        ("logistic", [1.0, -1.0], "loss must be one of numbers"),
    ],
)
def test_labels_that_a_loss_does_not_allow_are_refused(loss: str, labels: list[float], sentence: str) -> None:
    with pytest.raises(InvalidArgument, match=sentence):
        eh.problems.Regression(np.eye(2), labels, loss=loss)


def test_counts_of_zero_and_weights_are_allowed() -> None:
    y, weights = np.array([0.0, 2.0, 0.0, 1.0]), np.array([1.0, 2.0, 1.0, 1.0])
    ones = np.ones((4, 1))
    run = trained(eh.problems.Regression(ones, y, loss="poisson", sample_weight=weights), eh.schemes.adaptive(2))
    assert np.exp(run.x[0]) == pytest.approx(np.average(y, weights=weights))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("loss", ["poisson", "gamma", "log_least_squares"])
@pytest.mark.parametrize("unit", [1e-6, 1e4, 1e8])
def test_targets_of_any_size_are_reached_from_a_model_of_zeros(loss: str, unit: float) -> None:
    y = unit * np.random.default_rng(2).gamma(2.0, MEANS / 2.0)
    run = trained(eh.problems.Regression(X, y, loss=loss, intercept=-1))
    assert run.ended == "converged"
    assert np.exp(X @ run.x).mean() == pytest.approx(y.mean(), rel=0.5)
