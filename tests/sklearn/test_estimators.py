"""Estimators: when they end and warn, where they run, and that they fit among scikit-learn's other parts."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import sklearn.exceptions
from scipy import sparse
from sklearn import linear_model  # pyright: ignore[reportMissingTypeStubs]
from sklearn.base import clone  # pyright: ignore[reportMissingTypeStubs]  # ships none
from sklearn.model_selection import GridSearchCV, cross_val_score  # pyright: ignore[reportMissingTypeStubs]
from sklearn.pipeline import make_pipeline  # pyright: ignore[reportMissingTypeStubs]
from sklearn.preprocessing import StandardScaler  # pyright: ignore[reportMissingTypeStubs]

import erasurehead.sklearn as ours
from erasurehead import delays, engines, schemes
from erasurehead.errors import InvalidArgument

RNG = np.random.default_rng(0)
X = RNG.standard_normal((200, 5)) + np.arange(5.0)
MARGINS = X @ [1.0, -2.0, 0.5, 0.0, 1.0]
CLASSES = np.where(MARGINS + RNG.logistic(size=200) > MARGINS.mean(), "yes", "no")
TARGETS = MARGINS + RNG.standard_normal(200)


def warned(fit: Callable[[], Any]) -> str:
    with pytest.warns(sklearn.exceptions.ConvergenceWarning) as said:
        model = fit()
    assert not model.converged_
    return str(said[0].message)


def test_a_minimum_that_was_not_reached_is_a_warning_that_says_what_to_do() -> None:
    said = warned(lambda: ours.LogisticRegression(max_iter=3).fit(X, CLASSES))
    assert said.startswith("the minimum was not reached in max_iter=3 passes over the samples: its gradient is still ")
    assert (
        "Increase max_iter or tol=0.0001, bring columns to one scale (sklearn.preprocessing.StandardScaler), or" in said
    )
    said = warned(lambda: ours.LogisticRegression(C=np.inf).fit([[0.0], [1.0], [2.0]], [0, 1, 1]))
    assert said.startswith("the objective has no minimum: the samples tell the classes apart")


@pytest.mark.slow
def test_columns_that_say_nearly_the_same_are_a_warning_and_those_that_say_the_same_are_none() -> None:
    twins = X + 1e-10 * RNG.standard_normal(X.shape)
    model = ours.LinearRegression()
    said = warned(lambda: model.fit(np.c_[X, twins], 1e10 * (twins - X) @ np.ones(5) + TARGETS))
    assert said.startswith("the minimum was not reached: nearly collinear columns. ")
    assert model.fit(np.c_[X, X[:, 0]], TARGETS).converged_
    dummies = np.eye(3)[RNG.integers(3, size=200)]  # they add up to the intercept
    assert model.fit(np.c_[X, dummies], TARGETS).converged_


def test_tol_is_a_share_of_the_gradient_at_zero_also_with_l1_and_a_warm_start() -> None:
    passes: dict[float, list[int]] = {}
    for tol in (1e-2, 1e-6, 0.0):
        squares = ours.ElasticNet(alpha=0.05, tol=tol).fit(X, TARGETS)
        logistic = ours.LogisticRegression(tol=tol, warm_start=True).fit(X, CLASSES)
        assert squares.converged_
        assert logistic.converged_
        passes[tol] = [squares.n_iter_, int(logistic.n_iter_[0])]
        if tol == 1e-6:
            assert logistic.fit(X, CLASSES).n_iter_[0] <= 2
            assert logistic.set_params(C=1.1).fit(X, CLASSES).n_iter_[0] < passes[tol][1]
    assert all(passes[1e-2][place] < passes[1e-6][place] < passes[0.0][place] for place in (0, 1))


def test_a_warm_start_begins_where_the_fit_before_has_ended() -> None:
    for model, y in (
        (ours.Ridge(warm_start=True), np.column_stack([TARGETS, -TARGETS])),
        (ours.LogisticRegression(warm_start=True, tol=1e-9), np.digitize(TARGETS, [0.0, 3.0])),
    ):
        first = model.fit(X, y).coef_
        assert np.all(model.fit(X, y).n_iter_ <= 3)
        np.testing.assert_allclose(model.coef_, first, rtol=1e-6)
        other = model.fit(X[:, :3], y)  # of another size: from 0
        assert other.coef_.shape[1] == 3
        assert other.converged_


def test_several_targets_have_shapes_of_their_own() -> None:
    both = ours.Ridge().fit(X, np.column_stack([TARGETS, 2.0 * TARGETS]))
    one = ours.Ridge().fit(X, TARGETS)
    assert (both.coef_.shape, both.intercept_.shape, both.n_iter_.shape) == ((2, 5), (2,), (2,))
    np.testing.assert_allclose(both.coef_, [one.coef_, 2.0 * one.coef_])
    np.testing.assert_allclose(both.predict(X)[:, 1], 2.0 * one.predict(X))
    assert both.score(X, np.column_stack([TARGETS, 2.0 * TARGETS])) == pytest.approx(one.score(X, TARGETS))


@pytest.mark.parametrize("name", ["LinearRegression", "Ridge", "ElasticNet", "RidgeCV"])
@pytest.mark.parametrize("free", [True, False])
def test_one_column_of_targets_has_the_shapes_that_scikit_learn_gives_it(name: str, free: bool) -> None:
    column = TARGETS[:, None]
    theirs, found = (getattr(room, name)(fit_intercept=free).fit(X, column) for room in (linear_model, ours))
    for shape in (lambda model: np.shape(model.coef_), lambda model: np.shape(model.intercept_)):
        assert shape(found) == shape(theirs)
    predicted = found.predict(X)
    assert predicted.shape == theirs.predict(X).shape
    alone = getattr(ours, name)(fit_intercept=free).fit(X, TARGETS)
    np.testing.assert_allclose(predicted.ravel(), alone.predict(X), rtol=1e-7)
    assert found.score(X, column) == pytest.approx(alone.score(X, TARGETS))
    if name != "RidgeCV":
        again = found.set_params(warm_start=True).fit(X, column)
        np.testing.assert_allclose(again.predict(X), predicted, rtol=1e-7)


def test_they_fit_into_pipelines_searches_and_frames() -> None:
    frame = pd.DataFrame(X, columns=list("abcde"))
    search = GridSearchCV(
        make_pipeline(StandardScaler(), ours.LogisticRegression()), {"logisticregression__C": [1e-4, 1.0]}
    )
    search.fit(frame, CLASSES)
    assert search.best_params_ == {"logisticregression__C": 1.0}
    assert cross_val_score(ours.Ridge(), frame, TARGETS, cv=3).min() > 0.5
    model = ours.LogisticRegression().fit(frame, CLASSES)
    assert model.feature_names_in_.tolist() == list("abcde")
    assert list(model.classes_) == ["no", "yes"]
    again = pickle.loads(pickle.dumps(model))
    assert (again.predict_proba(frame) == model.predict_proba(frame)).all()
    np.testing.assert_allclose(np.exp(model.predict_log_proba(frame)), model.predict_proba(frame))


def test_weights_are_routed() -> None:
    with sklearn.config_context(enable_metadata_routing=True):
        model = ours.LogisticRegression().set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        weights = np.where(np.arange(200) % 2, 1.0, 0.0)
        search = GridSearchCV(model, {"C": [1.0]}, cv=2).fit(X, CLASSES, sample_weight=weights)
    half = ours.LogisticRegression().fit(X[1::2], CLASSES[1::2])
    np.testing.assert_allclose(search.best_estimator_.coef_, half.coef_, rtol=1e-4)


@pytest.mark.parametrize("engine", ["in_process", engines.VirtualEngine(delays.Exponential(0.5, seed=0))])
def test_an_engine_by_name_or_as_an_object_is_used_for_any_number_of_fits(engine: Any) -> None:
    alone = ours.LogisticRegression(tol=1e-9).fit(X, CLASSES)
    model = clone(ours.LogisticRegression(engine=engine, n_workers=4, tol=1e-9))
    for samples in (X, sparse.csr_array(X), X):
        np.testing.assert_allclose(model.fit(samples, CLASSES).coef_, alone.coef_, rtol=1e-5)
    others = ours.LogisticRegression(engine=engine, scheme=schemes.uncoded(3), tol=1e-9)
    np.testing.assert_allclose(others.fit(X, CLASSES).coef_, alone.coef_, rtol=1e-5)


@pytest.mark.slow
@pytest.mark.processes
def test_processes_find_the_same_minimum() -> None:
    model = ours.ElasticNet(alpha=0.1, engine=engines.ProcessEngine(), n_workers=2)
    for _ in range(2):
        np.testing.assert_allclose(
            model.fit(X, TARGETS).coef_, ours.ElasticNet(alpha=0.1).fit(X, TARGETS).coef_, rtol=1e-6
        )


def test_a_copy_of_an_engine_is_a_new_one_with_the_same_settings() -> None:
    engine = engines.VirtualEngine("exponential(mean=0.5, seed=3)", late="carry", seconds_per_task=0.25)
    engine.close()
    for other in (copy.deepcopy(engine), pickle.loads(pickle.dumps(engine))):
        assert (str(other.delays), other.late) == ("exponential(mean=0.5, seed=3)", "carry")
        assert other.state() is not None  # it is open


def test_an_interrupted_fit_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(engines.InProcessEngine, "next_event", interrupt)
    with pytest.raises(KeyboardInterrupt):
        ours.Ridge().fit(X, TARGETS)


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (ours.LogisticRegression(C=0.0), "C must be a number greater than 0, but it is 0.0."),
        (ours.LogisticRegression(l1_ratio=1.5), "l1_ratio must be a number from 0 to 1, but it is 1.5."),
        (ours.LogisticRegression(tol=-1.0), "tol must be a finite number of at least 0, but it is -1.0."),
        (ours.LogisticRegression(max_iter=0), "max_iter must be at least 1, but it is 0."),
        (ours.LogisticRegression(engine="moon"), "engine must be one of processes, in_process, virtual, mpi, ray"),
        (ours.LogisticRegression(n_workers=2, scheme=schemes.uncoded(2)), "n_workers must be left out where the"),
        (ours.LogisticRegressionCV(Cs=[]), "Cs must have at least one number"),
        (ours.LogisticRegressionCV(Cs=[1.0, -1.0]), "Cs[1] must be a number greater than 0, but it is -1.0."),
    ],
)
def test_what_cannot_be_is_refused_by_its_name(model: Any, said: str) -> None:
    with pytest.raises(InvalidArgument) as error:
        model.fit(X, CLASSES)
    assert str(error.value).startswith(said)


def test_the_only_class_is_named_as_it_was_given() -> None:
    with pytest.raises(ValueError, match=r"but there is 1 class: 'yes'\.$"):
        ours.LogisticRegression().fit([[1.0], [2.0]], np.array(["yes", "yes"]))


@pytest.mark.slow
def test_a_search_takes_the_penalty_that_scores_best() -> None:
    y = X[:, 0] + 3.0 * RNG.standard_normal(200)
    net = ours.ElasticNetCV(alphas=8, cv=4).fit(X, y)
    assert net.scores_.shape == (4, 8)
    assert net.alpha_ == net.alphas_[net.scores_.mean(axis=0).argmax()]
    assert (ours.ElasticNet(alpha=1.001 * net.alphas_[0]).fit(X, y).coef_ == 0.0).all()
    assert (ours.ElasticNet(alpha=0.999 * net.alphas_[0]).fit(X, y).coef_ != 0.0).any()
    np.testing.assert_allclose(net.coef_, ours.ElasticNet(alpha=net.alpha_).fit(X, y).coef_)
    ridge = ours.RidgeCV(alphas=[1.0, 100.0, 1e4], cv=4).fit(X, y)
    scores = [
        cross_val_score(ours.Ridge(alpha=alpha), X, y, cv=4, scoring="neg_mean_squared_error")
        for alpha in ridge.alphas_
    ]
    np.testing.assert_allclose(ridge.scores_.T, scores, rtol=1e-6)
    logistic = ours.LogisticRegressionCV(Cs=[1.0, 1e-5], cv=3, scoring="neg_log_loss").fit(X, CLASSES)
    assert logistic.C_ == 1.0
    assert logistic.Cs_.tolist() == [1e-5, 1.0]
    counted = ours.LogisticRegressionCV(Cs=3, cv=2).fit(X, CLASSES)
    np.testing.assert_allclose(counted.Cs_, [1e-4, 1.0, 1e4])
