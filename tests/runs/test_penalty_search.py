"""The penalty that cross-validation finds best: `l2 = "tuned"`."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import optimize

from erasurehead import training
from erasurehead._internal.signals import Terminated
from erasurehead.datasets import Dataset, read
from erasurehead.errors import InvalidArgument
from erasurehead.runs import Experiment, _penalty_search
from erasurehead.runs._config.sections import ProblemSection
from erasurehead.runs._penalty_search import PenaltySearch, search_penalty
from erasurehead.training import Callback, StepRow


def table(path: Path, n_rows: int, classes: int = 0, seed: int = 0) -> Path:
    """Write a table whose label depends on two of ten columns, with noise."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, 10))
    noisy = X[:, 0] - 0.5 * X[:, 1] + rng.standard_normal(n_rows)
    y = np.floor(classes * (noisy.argsort().argsort() / n_rows)) if classes else noisy
    np.savetxt(path, np.c_[X, y], delimiter=",", fmt="%.6g")
    return path


def refitted(data: Dataset, l2: float) -> float:
    """Return the loss of logistic regression on rows left out, by SciPy's BFGS, with the same folds."""
    X, y = np.asarray(data.X_train), np.asarray(data.y_train)
    mixed = np.random.default_rng(0).permutation(len(y))
    ordered, total = mixed[np.argsort(y[mixed], kind="stable")], 0.0
    for fold in range(5):
        out = ordered[fold::5]
        fitted = np.setdiff1d(ordered, out)

        def objective(x: Any, fitted: Any = fitted) -> float:
            return float(np.mean(np.logaddexp(0.0, -y[fitted] * (X[fitted] @ x))) + l2 * (x[:-1] @ x[:-1]))

        x = optimize.minimize(objective, np.zeros(X.shape[1]), tol=1e-10).x
        total += float(np.sum(np.logaddexp(0.0, -y[out] * (X[out] @ x))))
    return total / len(y)


@pytest.mark.slow
def test_the_losses_are_those_of_models_fitted_without_the_rows(tmp_path: Path) -> None:
    data = read(table(tmp_path / "a.csv", 60, 2))
    search = search_penalty(data, ProblemSection(loss="logistic"))
    assert search.losses == pytest.approx([refitted(data, l2) for l2 in search.path], rel=1e-5)
    assert search.l2 == search.path[int(np.argmin(search.losses))]
    assert list(search.path) == sorted(search.path, reverse=True)
    assert search.losses[-2:] >= (min(search.losses),) * 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("loss", "classes"), [("least_squares", 0), ("softmax", 3), ("huber(1.5)", 0), ("quantile(0.9)", 0), ("poisson", 4)]
)
def test_every_loss_is_tuned(tmp_path: Path, loss: str, classes: int) -> None:
    task = loss if loss == "softmax" else "least_squares"
    data = read(table(tmp_path / "a.csv", 80, classes), task=task)
    search = search_penalty(data, ProblemSection(loss=loss))
    assert np.isfinite(search.losses).all()
    assert min(search.losses) < search.losses[0]  # columns tell something


@pytest.mark.slow
def test_balanced_classes_and_an_l1_are_those_of_the_fits(tmp_path: Path) -> None:
    data = read(table(tmp_path / "a.csv", 80, 2))
    plain, balanced, sparse = (
        search_penalty(data, section).losses
        for section in (
            ProblemSection(loss="logistic"),
            ProblemSection(loss="logistic", class_weight="balanced"),
            ProblemSection(loss="logistic", l1=0.02),
        )
    )
    assert plain[0] != sparse[0]
    assert balanced[0] == pytest.approx(plain[0], rel=0.05)  # halves of the rows are of either class


@pytest.mark.slow
def test_a_run_has_the_number_and_how_it_was_found(tmp_path: Path) -> None:
    path = table(tmp_path / "a.csv", 100, 2)
    heard: list[str] = []
    run = {"engine": "in_process", "workers": 1, "steps": 3, "out": str(tmp_path / "out")}
    tables = {"data": {"source": str(path)}, "problem": {"l2": "tuned"}, "run": run}
    experiment = Experiment.from_config(tables, heard.append)
    search = experiment.search
    assert isinstance(search, PenaltySearch)
    assert experiment.config.problem.l2 == search.l2 == experiment.problem.l2
    assert [text.partition(" ")[0] for text in heard] == ["reading", "looking"]
    assert f"l2 {search.l2:.3g}, the best of {len(search.path)}" in str(search)
    assert json.loads(json.dumps(asdict(search)))["l2"] == search.l2
    experiment.run()
    again = Experiment.resume(tmp_path / "out", {"run": {"steps": 5}})
    assert again.search is None  # the folder has the number
    assert again.config.problem.l2 == search.l2


@pytest.mark.slow
def test_the_default_is_named_where_it_was_tried(tmp_path: Path) -> None:
    search = search_penalty(read(table(tmp_path / "a.csv", 60, 2)), ProblemSection(loss="logistic"))
    assert f"with the default {1 / 48:.3g}" in str(replace(search, path=(0.1, search.default), losses=(1.0, 2.0)))
    assert "the default" not in str(replace(search, path=(0.1, 0.05), losses=(1.0, 2.0)))
    assert str(replace(search, l2=search.default)).startswith(f"l2 {search.default:.3g} (the default), the best of ")


def test_too_few_rows_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match=r"^problem.l2 must be a number for fewer than 10 training rows"):
        search_penalty(read(table(tmp_path / "a.csv", 8, 2)), ProblemSection(loss="logistic"))


class _Stop(Callback):
    def on_step_end(self, row: StepRow, x: np.ndarray) -> None:
        raise Terminated


def test_what_interrupts_a_search_is_told_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = read(table(tmp_path / "a.csv", 60, 2))
    monkeypatch.setattr(_penalty_search, "train", partial(training.train, callbacks=[_Stop()]))
    with pytest.raises(KeyboardInterrupt, match=r"^stopped by SIGTERM$"):
        search_penalty(data, ProblemSection(loss="logistic"))
