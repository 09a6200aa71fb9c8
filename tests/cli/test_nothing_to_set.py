"""`erasurehead train --data my.csv --label y` and nothing else: it ends at the optimum, and says whether it has."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from erasurehead.runs import Experiment, RunFolder

from ..arrays import Array
from ..run_files import read_config
from .shop import Typed, write_shop

VIRTUAL = (
    "--engine",
    "virtual",
    "--workers",
    6,
)  # all that is said beside the data: thirty processes are slow to start


BENCHMARKS = Path(__file__).parents[2] / "benchmarks"

KINDS: Mapping[str, Mapping[str, Any]] = {
    "iris": {},
    "cancer_unscaled": {},
    "large_targets": {},
    "dense": {"samples": 300, "columns": 12, "redundant": 4},
    "categories": {"samples": 400, "towns": 60, "share": 0.05},
    "sparse_rows": {"samples": 400, "columns": 80, "density": 0.05},
}
"""Of the data sets that the benchmark measures on, and how large each is made here."""


def written(kind: str) -> list[str]:
    """Write a data set into the working folder, and return what the command line is told of it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCHMARKS))
        section = dict(getattr(importlib.import_module("own_data_sets"), kind)(**KINDS[kind]))
    given = ["--data", section.pop("source")]
    if target := section.pop("target", ""):
        given += ["--label", target]
    if section.pop("categorical", False):
        given.append("--categorical")
    if section:
        lines = ["[data]", *(f"{key} = {str(one).lower()}" for key, one in section.items())]
        Path("run.toml").write_text("\n".join(lines) + "\n")
        given.insert(0, "run.toml")
    return given


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
@pytest.mark.parametrize("kind", KINDS)
def test_it_ends_at_the_optimum_and_says_so(
    typed: Typed, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    given = written(kind)
    done = typed("train", *given, *VIRTUAL, "--out", "run", "-v")
    assert done.code == 0, done.err
    assert "quasi_newton; 6 workers on a virtual clock" in done.err
    assert "\nconverged; model and records in " in done.out
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
    assert "training has not converged: after 3 steps the gradient is " in again.err
    assert (again.json["ended"], again.json["status"]) == ("steps", "finished")
    goes_on = typed("train", "--resume", "short", "--steps", 300, "--json")
    assert goes_on.code == 0
    assert goes_on.json["ended"] == "converged"
    assert RunFolder.open("short").x.tobytes() == RunFolder.open("run").x.tobytes()


@pytest.mark.slow
@pytest.mark.processes
def test_real_workers_need_nothing_else_either(typed: Typed, shop: Path) -> None:
    done = typed("train", "--data", shop, "--label", "bought", "--categorical", "--workers", 4, "-v")
    assert done.code == 0
    assert "\nconverged; model and records in " in done.out
    assert "adaptive: " in done.err


@pytest.mark.parametrize("rows", [10, 20])
@pytest.mark.slow
def test_fewer_rows_than_workers_by_default_are_no_reason_to_say_how_many(
    typed: Typed, tmp_path: Path, rows: int
) -> None:
    write_shop(tmp_path / "shop.csv", n_rows=rows)
    given = ("--data", "shop.csv", "--label", "bought", "--categorical", "--engine", "virtual")
    given = (*given, "--delays", "exponential(mean=0.5)")  # without, there are no more than four
    done = typed("train", *given, "--out", "x", "--json")
    assert (done.code, done.json["ended"], done.json["workers"]) == (0, "converged", rows * 4 // 5)
    assert read_config("x/config.toml").run.workers == rows * 4 // 5
    again = typed("train", "x/config.toml", "--out", "y", "--json")
    assert again.json["objective"] == done.json["objective"]
    paper = typed("train", *given, "--preset", "paper", "--json")
    assert (paper.code, paper.json["workers"]) == (0, rows * 4 // 5)
    raced = typed("compare", *given, "--no-alone", "--no-figures", "--steps", 5, "--out", "z")
    assert (raced.code, f"{rows * 4 // 5} workers" in raced.out) == (0, True)
    assert typed("train", *given, "--workers", rows).code == 2  # more than there are rows for training


def test_a_run_that_begins_at_the_optimum_has_not_become_worse_by_rounding(typed: Typed, shop: Path) -> None:
    given = ("--data", shop, "--label", "bought", "--categorical", *VIRTUAL)
    assert typed("train", *given, "--out", "x").code == 0
    again = typed("train", *given, "--initial", "x")
    assert again.code == 0
    assert "\nconverged; model and records in " in again.out
    assert "has risen" not in again.err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("delays", "late"),
    [
        ("weibull(0.5, 0.3)", "preempt"),
        ("lognormal(0.1, 2.5)", "carry"),
        ("markov(0.1, 0.05, none(), exponential(3.0))", "preempt"),
    ],
)
def test_a_run_that_has_converged_is_not_said_to_have_risen_because_its_estimates_saw_other_rows(
    typed: Typed, tmp_path: Path, delays: str, late: str
) -> None:
    random, n = np.random.default_rng(0), 300
    z, b = random.integers(1, 6, n), random.normal(size=n)
    rows = [f"{p},{q:.3f},{k:d}\n" for p, q, k in zip(z, b, z % 2 + 0.3 * b > 0.5, strict=True)]
    (tmp_path / "t.csv").write_text("a,b,y\n" + "".join(rows))
    given = ("--data", tmp_path / "t.csv", "-w", 16, "--engine", "virtual", "--delays", delays, "--late", late)
    done = typed("train", *given, "--out", tmp_path / "o")
    assert done.code == 0
    assert "\nconverged; model and records in " in done.out
    run = RunFolder.open(tmp_path / "o").run
    suspected = run.suspected_rise
    assert suspected is not None  # otherwise this shows nothing
    assert not suspected[1]
    assert run.rise is None
    assert "risen" not in done.err


@pytest.mark.slow
def test_classes_that_the_data_tell_apart_have_no_optimum_without_a_penalty_and_it_says_so(
    typed: Typed, shop: Path
) -> None:
    rows = [line.split(",") for line in shop.read_text().splitlines()]
    shop.write_text("\n".join(f"{age},{town},{'no' if town == 'Ely' else said}" for age, town, _, said in rows))
    given = ("--data", shop, "--label", "bought", "--categorical", *VIRTUAL)
    free, held = typed("train", *given, "--l2", 0), typed("train", *given)
    assert free.code == held.code == 0
    assert "the objective has no minimum" in free.err
    assert "--l2 0.005" in free.err
    assert "converged" not in free.out
    assert "\nconverged; model and records in " in held.out
    assert "minimum" not in held.err
    finals = [RunFolder.open(path).run.final for path in sorted(Path("runs").iterdir())]
    assert [final is not None and final.without_minimum for final in finals] == [True, False]


def test_what_ended_a_run_too_early_is_named(typed: Typed, shop: Path) -> None:
    given = ("--data", shop, "--label", "bought", "--categorical", *VIRTUAL, "--delays", "exponential(mean=1)")
    done = typed("train", *given, "--max-seconds", 1)
    assert "ended after 1 s of training" in done.out
    assert "more time (--max-seconds) would bring it closer" in done.err
    assert "--steps" not in done.err


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
        "compare",
        "--data",
        shop,
        "--categorical",
        *VIRTUAL,
        "-s",
        "uncoded",
        "-s",
        "adaptive",
        "--no-figures",
        "--out",
        "c",
        "--json",
    )
    assert done.code == 0, done.err
    found = {path.parent.name: read_config(path).optimizer.name for path in Path("c").glob("*/config.toml")}
    assert found == {"uncoded": "nesterov", "adaptive": "quasi_newton", "adaptive-waiting-for-all": "quasi_newton"}
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
    assert second.json["steps"] <= 7
    assert second.json["objective"] == pytest.approx(before.summary["objective"], rel=1e-9)
