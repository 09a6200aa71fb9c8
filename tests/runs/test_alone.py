"""One machine alone: what it says is what it came to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from scipy.optimize import minimize

from erasurehead.runs import Comparison, Experiment
from erasurehead.runs._alone import alone


def experiment(folder: Path, **more: Any) -> Experiment:
    data = {"source": "covertype", "synthetic": "always", "rows": 600}
    return Experiment.from_config({"data": data, "run": {"engine": "virtual", "out": str(folder / "run")}, **more})


def test_it_comes_to_the_minimum_and_to_the_target(tmp_path: Path) -> None:
    found = experiment(tmp_path)
    problem = found.problem
    solved, *rest = alone(found, ("auc", 0.6), seconds=30.0)

    def slope(x: Any) -> Any:
        return problem.gradient(x) + problem.penalty_gradient(x)

    least = minimize(problem.objective, problem.initial(), jac=slope, method="L-BFGS-B", options={"ftol": 1e-14})
    assert solved.method == "quasi_newton"
    assert solved.converged
    assert solved.objective == pytest.approx(least.fun, rel=1e-6)
    assert solved.to_target is not None
    assert 0 < solved.to_target <= solved.seconds
    for other in rest:  # scikit-learn, where it is installed, minimises the same
        assert other.objective == pytest.approx(least.fun, rel=0.02)
        assert other.to_target is None


def test_it_ends_when_its_time_is_up(tmp_path: Path) -> None:
    solved = alone(experiment(tmp_path), None, seconds=1e-9)[0]
    assert not solved.converged
    assert solved.to_target is None
    assert "has not converged in" in str(solved)


@pytest.mark.slow
def test_a_comparison_keeps_it_beside_its_table(tmp_path: Path) -> None:
    tables = {
        "data": {"source": "covertype", "synthetic": "always", "rows": 600},
        "run": {"engine": "virtual", "steps": 3, "out": str(tmp_path / "c")},
    }
    comparison = Comparison.from_config(tables, ["uncoded", "adaptive"])
    assert [(one.scheme.name, one.config.optimizer.name) for one in comparison.experiments] == [
        ("uncoded", "nesterov"),
        ("adaptive", "quasi_newton"),
        ("adaptive, waiting for all", "quasi_newton"),  # what its optimizer does if it waits for everybody
    ]
    trained = comparison.run()
    outcome = trained.report((), trained.alone(1.0))
    assert outcome.alone[0].method == "quasi_newton"
    (table,) = [path.read_text() for path in (tmp_path / "c").glob("*.md")]
    assert "One core of this machine alone" in table
    assert outcome.as_dict()["alone"][0]["seconds"] > 0
