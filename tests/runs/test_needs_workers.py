"""When a run trains in its own process: nobody can be late, and starting workers would take longer than training."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from erasurehead.errors import InvalidArgument
from erasurehead.problems import LogisticRegression
from erasurehead.runs import Experiment
from erasurehead.runs._config import merged, read_config
from erasurehead.runs._config.checking import build_config
from erasurehead.runs._needs_workers import unshared_training

from ..arrays import Array


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of 200 rows, on a machine of two cores."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1}, raising=False)
    rng = np.random.default_rng(3)
    X = rng.standard_normal((200, 4))
    y = (X @ [1.0, -2.0, 0.5, 0.0] + rng.logistic(size=200) > 0).astype(int)
    lines = ["a,b,c,d,y", *(",".join(map(str, [*row, label])) for row, label in zip(X.round(4), y, strict=True))]
    (tmp_path / "table.csv").write_text("\n".join(lines) + "\n")
    return tmp_path / "table.csv"


def experiment(table: Path, more: Mapping[str, Any], out: Path | None = None) -> Experiment:
    given: Mapping[str, Any] = {"data": {"source": str(table)}, "run": {"out": str(out)} if out else {}}
    return Experiment.from_config(merged(given, more))


def test_nothing_said_trains_a_small_table_in_this_process(table: Path) -> None:
    found = experiment(table, {})
    assert (found.config.run.engine, found.config.run.workers, found.config.scheme) == (
        "in_process",
        1,
        "adaptive(load=1)",
    )
    assert found.unshared is not None
    assert found.unshared.workers == 2
    assert 0.0 < found.unshared.pass_seconds < found.unshared.start_seconds


@pytest.mark.parametrize(
    ("more", "engine", "workers"),
    [
        ({"run": {"engine": "processes"}}, "processes", 2),
        ({"run": {"engine": "virtual"}}, "virtual", 4),
        ({"run": {"workers": 3}}, "processes", 3),
        ({"run": {"workers": 1}}, "in_process", 1),
        ({"run": {"preset": "paper"}}, "processes", 30),
        ({"run": {"wire": "cast('float32')"}}, "processes", 2),
        ({"delays": {"model": "exponential(mean=0.1)"}}, "processes", 2),
        ({"delays": {"model": "exponential(mean=0.1)"}, "run": {"engine": "virtual"}}, "virtual", 30),
        ({"delays": {"model": "none()"}}, "in_process", 1),
        ({"faults": {"replacements": 1}, "scheme": "exact(load=3)"}, "processes", 3),
        ({"faults": {"on_death": "spread"}}, "processes", 2),
        ({"scheme": "uncoded"}, "in_process", 1),
        ({"scheme": "adaptive()"}, "in_process", 1),
        ({"scheme": "adaptive(load=2)"}, "processes", 2),
        ({"scheme": "exact(load=3)"}, "processes", 3),  # as many as it needs
        ({"scheme": "erasurehead(load=2, wait_for=11)"}, "processes", 11),
        (
            {"scheme": "asynchronous", "delays": {"late": "carry"}},
            "processes",
            2,
        ),  # its point is that workers do not wait for each other
        ({"optimizer": {"rate": 0.1}}, "in_process", 1),
    ],
)
def test_whatever_needs_workers_starts_them_as_many_as_there_are_cores_or_the_scheme_needs(
    table: Path, more: Mapping[str, Any], engine: str, workers: int
) -> None:
    found = experiment(table, more)
    assert (found.config.run.engine, found.config.run.workers) == (engine, workers)
    assert found.scheme.code.n_workers == workers
    assert (found.unshared is None) == (engine != "in_process")


class Slow(LogisticRegression):
    """Its passes take as long as it is told: a gradient of 0.1 s, by a clock of its own."""

    seconds = 0.0

    def exact(self, points: Any, without: Any = ()) -> Any:
        type(self).seconds += 0.1
        return super().exact(points, without)


def test_long_passes_are_worth_starting_workers_unless_there_is_one_core(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("erasurehead.runs._needs_workers.perf_counter", lambda: Slow.seconds)
    X: Array = np.eye(8)
    problem = Slow(X, np.array([1.0, -1.0] * 4), l2=0.1)
    asked = build_config({"data": {"source": "x.csv"}})
    assert unshared_training(asked, 2, problem) is None
    assert unshared_training(asked, 1, problem) is not None
    assert unshared_training(build_config({"data": {"source": "x.csv"}, "run": {"steps": 3}}), 2, problem) is not None


def test_the_folder_is_that_of_any_run_and_a_resumed_one_stays_what_it_was(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = experiment(table, {"run": {"steps": 4}}, tmp_path / "run")
    first.run()
    kept = read_config(tmp_path / "run" / "config.toml").run
    assert (kept.engine, kept.workers, kept.steps) == ("in_process", 1, 4)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(64)), raising=False)  # on another machine
    resumed = Experiment.resume(tmp_path / "run", {"run": {"steps": 300}})
    assert (resumed.config.run.engine, resumed.config.run.workers) == ("in_process", 1)
    done = resumed.run()
    assert (done.ended, done.summary["resumed"]) == ("converged", [4])
    whole = experiment(table, {"run": {"engine": "virtual", "workers": 1, "steps": 300}}, tmp_path / "virtual").run()
    assert done.x.tobytes() == whole.x.tobytes()
    assert len(done.steps) == len(whole.steps)
    with pytest.raises(InvalidArgument, match="workers"):
        Experiment.resume(tmp_path / "run", {"run": {"workers": 2}})


class _Started(Exception):
    """A worker was started."""


def test_a_run_that_has_converged_starts_no_worker_when_it_is_resumed(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = experiment(table, {"scheme": "uncoded", "optimizer": {"name": "quasi_newton"}}, tmp_path / "run").run()
    assert done.ended == "converged"

    def refuse(*given: Any) -> None:
        raise _Started

    for engine in ("in_process.InProcessEngine", "processes.engine.ProcessEngine"):
        monkeypatch.setattr(f"erasurehead.engines._{engine}.assign", refuse)
    for engine in ("in_process", "processes"):  # where it runs may change
        again = Experiment.resume(tmp_path / "run", {"run": {"engine": engine}}).run()
        assert (again.ended, again.status, len(again.steps)) == ("converged", "finished", len(done.steps))
        assert again.x.tobytes() == done.x.tobytes()
    cut = experiment(table, {"run": {"steps": 4}}, tmp_path / "cut")
    with pytest.raises(_Started):  # this one has something left to do
        cut.run()
