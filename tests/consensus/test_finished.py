"""Finished runs beside each other: with a coordinator and without one, in one table and one figure."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from erasurehead.consensus._experiment import ConsensusExperiment
from erasurehead.consensus._finished import compare_finished
from erasurehead.errors import DataError, InvalidArgument
from erasurehead.runs import Experiment, RunFolder

DELAYS = "shifted_exponential(shift=1.0, mean=1.0)"


def write_rows(place: Path, count: int) -> Path:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((count, 3))
    y = (X @ [1.0, -2.0, 0.5] + 0.3 * rng.standard_normal(count) > 0).astype(int)
    lines = ["a,b,c,y", *(",".join(map(str, [*x, label])) for x, label in zip(X.round(4), y, strict=True))]
    place.write_text("\n".join(lines))
    return place


def gathered(rows: Path, out: Path, delays: str = DELAYS, initial: str = "zeros", **problem: Any) -> Path:
    Experiment.from_config(
        {
            "scheme": "exact(load=2)",
            "data": {"source": str(rows)},
            "delays": {"model": delays, "late": "carry"},
            "run": {
                "workers": 4,
                "engine": "virtual",
                "steps": 12,
                "out": str(out),
                "evaluate_every": 3,
                "initial": initial,
            },
            "problem": problem,
        }
    ).run()
    return out


def among_peers(rows: Path, out: Path) -> Path:
    ConsensusExperiment.from_tables(
        {
            "consensus": {"peers": 4, "graph": "ring()", "rate": 1.0, "batch": 0},
            "data": {"source": str(rows)},
            "delays": {"model": DELAYS},
            "run": {"steps": 12, "out": str(out)},
        }
    ).run()
    return out


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("finished")
    rows = write_rows(place / "rows.csv", 160)
    gathered(rows, place / "coordinator")
    among_peers(rows, place / "peers")
    return place


def test_runs_of_both_kinds_stand_in_one_table(place: Path) -> None:
    compared = compare_finished([place / "coordinator", place / "peers"])
    coordinator, peers = compared.runs
    assert (coordinator.peers, peers.peers) == (False, True)
    assert coordinator.workers == peers.workers == 4
    assert compared.target is not None
    metric, goal = compared.target
    assert metric == "auc"
    assert all(time is not None for time in compared.times)
    assert compared.speed_ups[0] == 1.0
    summary = RunFolder.open(place / "peers").summary
    assert peers.final("loss") == summary["objective"]
    assert peers.seconds_per_step == summary["seconds_per_step"]
    run = RunFolder.open(place / "coordinator").run
    assert run.final is not None
    assert coordinator.final("loss") == run.final.objective
    assert coordinator.time_to(metric, goal) == run.time_to(metric, goal)
    text = compared.to_markdown()
    assert "dynamic(tree='measured') on ring()" in text
    assert "The loss of peers is that of their mean model" in text
    assert "is not fair" not in text


def test_a_target_may_be_named_and_must_have_been_measured(place: Path) -> None:
    folders = [place / "peers", place / "coordinator"]
    assert compare_finished(folders, "accuracy=0.8").target == ("accuracy", 0.8)
    assert compare_finished(folders, ("loss", 0.01)).times == [None, None]
    with pytest.raises(InvalidArgument, match=r"target must name what was measured of .*that is loss, auc"):
        compare_finished(folders, "mse=0.5")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"l1": 0.02},
            "not fair, as the runs differ in their problem: one: logistic, l2 0.01, linear; other: "
            "logistic, l2 0.01, l1 0.02, linear",
        ),
        ({"class_weight": "balanced"}, "logistic, l2 0.01, class weights balanced, linear"),
        ({"penalize_intercept": True}, "logistic, l2 0.01, on the intercept, too, linear"),
        ({"initial": "randn"}, "not fair, as the runs differ in their first model: one: zeros; other: randn"),
    ],
)
def test_other_objectives_and_first_models_are_no_fair_race(
    place: Path, tmp_path: Path, change: dict[str, Any], said: str
) -> None:
    """They were compared as if they were alike: only the loss and l2 were looked at."""
    rows = place / "rows.csv"
    one, other = gathered(rows, tmp_path / "one", l2=0.01), gathered(rows, tmp_path / "other", **{"l2": 0.01, **change})
    notes = [note for note in compare_finished([one, other]).notes if "not fair" in note]
    assert len(notes) == 1
    assert said in notes[0].replace("exact (1)", "one").replace("exact (2)", "other")


def test_an_unfair_comparison_is_noted_or_refused(place: Path, tmp_path: Path) -> None:
    other = gathered(place / "rows.csv", tmp_path / "other", "exponential(mean=0.5)")
    (said,) = [note for note in compare_finished([place / "peers", other]).notes if "is not fair" in note]
    assert "differ in their delays" in said
    few = gathered(write_rows(tmp_path / "few.csv", 80), tmp_path / "few")
    with pytest.raises(DataError, match="only runs on the same data can be compared"):
        compare_finished([place / "peers", few])
    with pytest.raises(InvalidArgument, match="runs must be two or more, but it is 1"):
        compare_finished([place / "peers"])
    RunFolder.create(tmp_path / "empty")
    with pytest.raises(DataError, match="still in progress, or was killed"):
        compare_finished([place / "peers", tmp_path / "empty"])


@pytest.mark.slow
def test_a_run_whose_settings_were_edited_is_refused(place: Path, tmp_path: Path) -> None:
    edited = shutil.copytree(place / "peers", tmp_path / "edited")
    (edited / "config.toml").write_text((edited / "config.toml").read_text() + "\n")
    with pytest.raises(DataError, match=r"config.toml is damaged, or was edited"):
        compare_finished([place / "peers", edited])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "name"), [("coordinator", "evaluations.jsonl"), ("coordinator", "config.toml"), ("peers", "means.jsonl")]
)
def test_a_run_that_has_lost_a_file_is_refused(place: Path, tmp_path: Path, kind: str, name: str) -> None:
    robbed = shutil.copytree(place / kind, tmp_path / "robbed")
    (robbed / name).unlink()
    with pytest.raises(DataError, match=rf"There is no {name} in '.*robbed' any more, which the run wrote"):
        compare_finished([place / "peers", robbed])


@pytest.mark.slow
@pytest.mark.parametrize("train", [gathered, among_peers])
def test_runs_on_rows_that_were_changed_in_between_are_refused(
    place: Path, tmp_path: Path, train: Callable[[Path, Path], Path]
) -> None:
    rows = tmp_path / "rows.csv"
    lines = (place / "rows.csv").read_text().splitlines()
    rows.write_text("\n".join([*lines[:-1], lines[1]]))  # as many rows, in a file of the same name
    changed = train(rows, tmp_path / "changed")
    with pytest.raises(DataError, match=r"both runs on rows \(128 rows\), but not on the same numbers"):
        compare_finished([place / "coordinator", changed])


@pytest.mark.slow
def test_the_command_compares_finished_runs(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    from ..typed import command_line

    monkeypatch.chdir(tmp_path)
    words = ["compare", str(place / "coordinator"), str(place / "peers")]
    command_line()([*words, "--target", "auc=0.8", "--out", "x", "--json"], standalone_mode=False)
    told = json.loads(capsys.readouterr().out)
    assert [run["peers"] for run in told["runs"]] == [False, True]
    assert sorted(Path(path).name for path in told["figures"]) == ["progress.png", "progress.svg"]
    assert "| exact |" in Path("x/comparison.md").read_text()
    command_line()([*words, "--out", "x", "--overwrite", "--no-figures"], standalone_mode=False)
    for more, said in (
        ([*words, "--scheme", "uncoded"], "--scheme must be left out, as nothing is trained"),
        ([*words, "--steps", "3"], "--steps must be left out, as nothing is trained"),
        ([*words, "run.toml"], "'run.toml' is not a run folder"),
        (["compare", "a.toml", "b.toml"], "RUN_FILE must be one run file, or the folders of finished runs"),
    ):
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            command_line()(more)
        assert ended.value.code == 2
        assert said in capsys.readouterr().err
