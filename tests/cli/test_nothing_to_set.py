"""`erasurehead train --data my.csv --label y` and nothing else: it ends at the optimum, and says whether it has."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn import datasets
from sklearn.datasets import dump_svmlight_file

from erasurehead._internal.arrays import Array
from erasurehead.runs import RunFolder
from erasurehead.runs.config import read_config
from erasurehead.runs.experiment import Experiment

from .shop import Typed

VIRTUAL = (
    "--engine",
    "virtual",
    "--workers",
    6,
)  # all that is said beside the data: thirty processes are slow to start


def table(name: str, X: Array, y: Array) -> tuple[str, ...]:
    columns = [f"c{number}" for number in range(X.shape[1])]
    lines = [",".join([*columns, "y"]), *(",".join(map(repr, row)) for row in np.column_stack([X, y]).tolist())]
    Path(name).write_text("\n".join(lines) + "\n")
    return "--data", name, "--label", "y"


def three_classes() -> tuple[str, ...]:
    return table("iris.csv", *datasets.load_iris(return_X_y=True))


def unscaled_columns() -> tuple[str, ...]:
    """Areas of thousands beside fractal dimensions of thousandths, as they are."""
    X, y = datasets.load_breast_cancer(return_X_y=True)
    Path("run.toml").write_text("[data]\nstandardize = false\n")
    return "run.toml", *table("cancer.csv", X, y)


def large_targets() -> tuple[str, ...]:
    X, y = datasets.load_diabetes(return_X_y=True)
    return table("diabetes.csv", X, 1e6 * y)


def dense() -> tuple[str, ...]:
    X, y = datasets.make_classification(300, 12, n_redundant=4, flip_y=0.1, random_state=0)
    return table("dense.csv", X, y)


def categories() -> tuple[str, ...]:
    """Towns of very different sizes, one-hot encoded: counts of columns differ as much."""
    rng = np.random.default_rng(0)
    towns, kinds = np.minimum(rng.geometric(0.05, 400), 60), rng.integers(4, size=400)
    late = rng.random(400) < 1.0 / (1.0 + np.exp(rng.standard_normal(61)[towns] - 0.5 * kinds))
    lines = ["town,kind,y", *(f"t{a},k{b},{'yes' if c else 'no'}" for a, b, c in zip(towns, kinds, late, strict=True))]
    Path("towns.csv").write_text("\n".join(lines) + "\n")
    return "--data", "towns.csv", "--label", "y", "--categorical"


def sparse_rows() -> tuple[str, ...]:
    rng = np.random.default_rng(0)
    X: Any = sparse.random_array((400, 80), density=0.05, rng=rng, format="csr")
    y = np.where(X @ rng.standard_normal(80) + 0.3 * rng.standard_normal(400) > 0.0, 1, -1)
    dump_svmlight_file(X, y, "rows.svm")
    return "--data", "rows.svm"


KINDS = (three_classes, unscaled_columns, large_targets, dense, categories, sparse_rows)


def least(problem: Any) -> float:
    """The minimum of the objective, by Newton's method with differences of gradients."""

    def slope(x: Array) -> Array:
        return problem.gradient(x) + problem.penalty_gradient(x)

    x = problem.initial()
    for _ in range(60):
        gradient, value = slope(x), problem.objective(x)
        moves = np.diag(1e-6 / np.sqrt(1e-6 + np.tile(squares(problem), len(x) // problem.n_features)))
        bends = np.array([(slope(x + move) - slope(x - move)) / (2.0 * move.sum()) for move in moves])
        scale = 1.0 / np.sqrt(np.maximum(np.diag(bends), 1e-12))
        step = scale * np.linalg.lstsq(scale[:, None] * bends * scale, scale * gradient, rcond=1e-10)[0]
        while problem.objective(x - step) > value + 1e-13 * abs(value):
            step /= 2.0
        x = x - step
        if step @ gradient <= 1e-10 * abs(value):
            return float(problem.objective(x))
    raise AssertionError("Newton's method has not converged")


def squares(problem: Any) -> Array:
    """Mean squares of the columns."""
    return problem._design.column_squares() / problem.n_samples


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_it_ends_at_the_optimum_and_says_so(
    typed: Typed, kind: Callable[[], tuple[str, ...]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    given = kind()
    done = typed("train", *given, *VIRTUAL, "--out", "run")
    assert done.code == 0, done.err
    assert "quasi_newton; 6 workers on a virtual clock" in done.err
    assert "ended as it has converged, after " in done.out
    for word in ("has not converged", "has risen", "--rate"):
        assert word not in done.err
    summary = RunFolder.open("run").summary
    assert summary["ended"] == "converged"
    lowest = least(Experiment.from_config(read_config("run/config.toml")).problem)
    assert summary["objective"] <= lowest + 1e-4 * abs(lowest)
    assert summary["steps"] < 200
    assert summary["steps_without_estimate"] == 0

    again = typed("train", *given, *VIRTUAL, "--steps", 3, "--out", "short", "--json")
    assert again.code == 0
    assert "training has not converged: after 3 steps the gradient has fallen to " in again.err
    assert (again.json["ended"], again.json["status"]) == ("steps", "finished")
    goes_on = typed("train", "--resume", "short", "--steps", 300, "--json")
    assert goes_on.code == 0
    assert goes_on.json["ended"] == "converged"
    assert RunFolder.open("short").x.tobytes() == RunFolder.open("run").x.tobytes()


@pytest.mark.slow
@pytest.mark.processes
def test_real_workers_need_nothing_else_either(typed: Typed, shop: Path) -> None:
    done = typed("train", "--data", shop, "--label", "bought", "--categorical", "--workers", 4)
    assert done.code == 0
    assert "ended as it has converged, after " in done.out
    assert "adaptive: " in done.out


def test_the_paper_s_settings_have_a_name(typed: Typed, shop: Path) -> None:
    done = typed("train", "--data", shop, "--categorical", "--preset", "paper", *VIRTUAL, "--steps", 5, "--out", "x")
    assert done.code == 0
    assert read_config("x/config.toml").scheme == "erasurehead(load=3, wait_for=2)"
    refused = typed("train", "--data", shop, "--preset", "best")
    assert refused.code == 2
    assert "--preset" in refused.sentence


@pytest.mark.slow
def test_a_comparison_gives_each_scheme_its_optimizer(typed: Typed, shop: Path) -> None:
    done = typed(
        "compare", "--data", shop, "--categorical", *VIRTUAL, "-s", "uncoded", "-s", "adaptive", "--out", "c",
        "--json",
    )  # fmt: skip
    assert done.code == 0, done.err
    found = {path.parent.name: read_config(path).optimizer.name for path in Path("c").glob("*/config.toml")}
    assert found == {"uncoded": "nesterov", "adaptive": "quasi_newton"}
    assert RunFolder.open("c/adaptive").summary["ended"] == "converged"


def test_a_finished_run_is_gone_on_from_and_begun_with(typed: Typed, shop: Path) -> None:
    typed("train", "--data", shop, "--categorical", *VIRTUAL, "--out", "first", "-q")
    before = RunFolder.open("first")
    more = typed("train", "--resume", "first", "--steps", 1200, "--json")
    assert more.code == 0, more.err
    assert more.json["objective"] == pytest.approx(before.summary["objective"], rel=1e-12)
    assert more.json["steps"] <= before.summary["steps"] + 3
    second = typed("train", "--data", shop, "--categorical", *VIRTUAL, "--initial", "first", "--out", "b", "--json")
    assert second.code == 0, second.err
    assert second.json["steps"] <= 6
    assert second.json["objective"] == pytest.approx(before.summary["objective"], rel=1e-9)
