"""What the output says of where workers are and how many, and of where the time of a command goes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from erasurehead.runs import Experiment

from ..run_files import read_config
from .shop import Typed


@pytest.fixture(autouse=True)
def two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run on a machine of two cores."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1}, raising=False)


def test_small_data_are_trained_on_in_this_process_and_that_is_said(typed: Typed, shop: Path) -> None:
    done = typed("train", "--data", shop, "--categorical", "--out", "x", "--verbose")
    assert done.code == 0
    assert "in this process: a pass over the data takes " in done.err
    assert ", starting 2 workers about 420 ms" in done.err
    assert "starting 1 worker" not in done.err
    assert "not distributed: 2 workers take 420 ms to start, a pass over the data " in done.out
    assert "\nconverged; model and records in " in done.out
    assert read_config("x/config.toml").run.engine == "in_process"
    assert typed("predict", "x", shop).code == 0
    assert typed("compare", "x", "x", "--no-figures").code == 0


def test_one_worker_that_is_asked_for_is_this_process(typed: Typed, shop: Path) -> None:
    done = typed("train", "--data", shop, "--categorical", "-w", 1, "-v")
    assert "not distributed: there is one worker" in done.out
    assert "in this process: there is nobody to share the work with" in done.err


def test_the_time_is_told_in_total_and_in_parts(typed: Typed, shop: Path) -> None:
    done = typed("train", "--data", shop, "--categorical", "--json")
    spent = done.json["wall"]
    assert list(spent) == [f"{part}_seconds" for part in ("reading", "starting", "training", "evaluating", "total")]
    assert sum([*spent.values()][:-1]) == pytest.approx(spent["total_seconds"])
    assert spent["training_seconds"] >= done.json["seconds"] > 0.0
    told = typed("train", "--data", shop, "--categorical").out
    assert "\ntook " in told
    assert ": reading " in told


def test_a_run_that_has_converged_says_that_nothing_is_left_to_do(typed: Typed, shop: Path) -> None:
    assert typed("train", "--data", shop, "--categorical", "--out", "x").code == 0
    done = typed("train", "--resume", "x", "--engine", "processes")
    assert done.code == 0
    assert "nothing was left to do, and no worker was started" in done.out
    assert "starting" not in done.err


@pytest.mark.slow
@pytest.mark.processes
def test_more_processes_than_cores_are_said_to_wait_for_each_other_with_the_remedy(typed: Typed, shop: Path) -> None:
    given = ("train", "--data", shop, "--categorical", "--steps", 2)
    said = "processes share 2 cores, and no delays are injected: workers wait for cores, not for stragglers; "
    assert f"3 {said}--workers 2 trains faster" in typed(*given, "-w", 3).err
    assert f"3 {said}a scheme that 2 workers can run trains faster" in typed(*given, "-s", "exact(load=3)").err
    for fine in (("-w", 2), ("-w", 3, "--delays", "exponential(mean=0.01)"), ("-w", 3, "--engine", "virtual")):
        assert "share 2 cores" not in typed(*given, *fine).err


def test_tasks_of_shards_are_dealt_out_evenly_over_no_more_workers_than_cores(
    typed: Typed, shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert typed("shard", shop, "--categorical", "--tasks", 6, "--out", "shards").code == 0
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(4)), raising=False)
    run = Experiment.from_config({"data": {"source": "shards"}}).config.run
    assert (run.engine, run.workers) == ("processes", 3)  # each reads its own part


def test_schemes_are_raced_by_as_many_workers_as_all_of_them_need(typed: Typed, shop: Path) -> None:
    given = ("compare", "--data", shop, "--categorical", "--no-alone", "--no-figures", "--steps", 3, "--json")
    own = typed(*given, "--engine", "virtual", "--delays", "none()", "-s", "uncoded", "-s", "exact(load=6)")
    assert own.code == 0
    assert read_config(Path(own.json["schemes"][0]["folder"]) / "config.toml").run.workers == 6
    published = typed(*given, "--engine", "virtual")
    assert read_config(Path(published.json["schemes"][0]["folder"]) / "config.toml").run.workers == 30


def test_a_plan_is_for_the_workers_of_its_trace_or_for_thirty(typed: Typed, tmp_path: Path) -> None:
    given = ("--scheme", "uncoded", "--seconds-per-task", 0.01, "--no-figures")
    done = typed("plan", "--delays", "exponential(mean=0.5)", *given, "--out", "p")
    assert done.code == 0
    assert "30 workers (the default; see --workers)" in done.err
    assert read_config("p/run.toml").run.workers == 30
    rows = [f"{step},{worker},{0.1 + 0.01 * ((step * worker) % 7)}" for step in range(40) for worker in range(5)]
    (tmp_path / "trace.csv").write_text("step,worker,seconds\n" + "\n".join(rows) + "\n")
    done = typed("plan", "--trace", "trace.csv", *given, "--out", "q")
    assert "5 workers (as in the trace)" in done.err
    assert read_config("q/run.toml").run.workers == 5


def test_help_says_no_default_that_runs_do_not_have(typed: Typed) -> None:
    keys = {key["key"]: key for key in typed("config", "keys", "run", "--json").json["keys"]}
    assert all(keys[f"run.{name}"]["default"] is None for name in ("engine", "workers", "steps"))
    assert "by default 5000 for quasi_newton" in keys["run.steps"]["text"]
    assert "one for each usable core" in keys["run.workers"]["text"]
