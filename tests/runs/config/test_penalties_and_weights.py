"""Keys of run files for l1 and class weights: they reach the problem, and are refused where nobody reads them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from erasurehead.errors import InvalidArgument
from erasurehead.problems import ElasticNet, LogisticRegression
from erasurehead.runs import Experiment


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((120, 4))
    y = np.where(X[:, 0] + 0.1 * rng.standard_normal(120) > 1.0, 1, -1)
    path = tmp_path_factory.mktemp("data") / "shop.csv"
    rows = [",".join([*(f"{number:.6f}" for number in row), str(label)]) for row, label in zip(X, y, strict=True)]
    path.write_text("\n".join(["a,b,c,d,bought", *rows]) + "\n")
    return path


def made(shop: Path, problem: dict[str, Any], optimizer: str | None = None) -> Experiment:
    run = {"engine": "virtual", "workers": 4, "steps": 200, "out": str(shop.parent / "run"), "overwrite": True}
    data = {"source": str(shop), "target": "bought"}
    return Experiment.from_config({"data": data, "problem": problem, "run": run, "optimizer": {"name": optimizer}})


def test_l1_reaches_the_problem_and_leaves_parameters_out(shop: Path) -> None:
    experiment = made(shop, {"l1": 0.05, "l2": 0.0})
    problem = experiment.problem
    assert isinstance(problem.regularizer, ElasticNet)
    assert (problem.regularizer.l1, problem.regularizer.l2) == (0.05, 0.0)
    assert len(problem.regularizer.unpenalized) == 1  # the intercept
    run = experiment.run()
    assert (run.x == 0.0).sum() == 3


def test_balanced_classes_weigh_the_same_and_the_step_size_is_safe(shop: Path) -> None:
    plain, balanced = (made(shop, problem, "nesterov") for problem in ({}, {"class_weight": "balanced"}))
    assert isinstance(balanced.problem, LogisticRegression)
    assert balanced.problem.heaviest > 2
    rates = [float(experiment.config.optimizer.rate or 0) for experiment in (plain, balanced)]
    assert rates[1] < rates[0] / 2
    x = np.zeros(5)
    assert balanced.problem.gradient(x)[-1] == pytest.approx(0.0, abs=1e-12)  # as many for as against
    assert plain.problem.gradient(x)[-1] != pytest.approx(0.0, abs=1e-3)


@pytest.mark.parametrize(
    ("problem", "said"),
    [
        ({"l1": -0.1}, "problem.l1 must be at least 0"),
        ({"l1": float("nan")}, "problem.l1 must be a finite number"),
        ({"class_weight": "fair"}, "problem.class_weight must be 'balanced'"),
        ({"class_weight": "balanced", "loss": "least_squares"}, "problem.class_weight must be left out for targets"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(shop: Path, problem: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidArgument, match=said):
        made(shop, problem)
