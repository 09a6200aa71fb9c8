"""The ErasureHead paper as one command: every exhibit is there, says what it is made of, and is what was run."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from statistics import fmean

import numpy as np
import pytest

from erasurehead.errors import DataError, InvalidArgument
from erasurehead.papers import reproduce
from erasurehead.papers._erasurehead import ERASUREHEAD
from erasurehead.papers._exhibit import Exhibit
from erasurehead.papers._reproduction import Reproduction
from erasurehead.training import Callback, StepRow

from ..arrays import Array
from .conftest import SMALL

EXHIBITS = ERASUREHEAD.figures
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("exhibits")]  # all exhibits are made once

PICTURES = [f"{figure}{letter}" for figure in "24" for letter in "abcdef"] + ["3a", "3b", "3c"]
TABLES = ["table1"]


def exhibit(reproduced: Reproduction, id: str) -> tuple[Exhibit, dict[str, Path]]:
    found, files = next((exhibit, files) for exhibit, files in reproduced.exhibits if exhibit.id == id)
    return found, {path.suffix: path for path in files}


def column(found: Exhibit, name: str, **where: object) -> Array:
    rows = [row for row in found.numbers.rows() if all(row[key] == value for key, value in where.items())]
    return np.array([row[name] for row in rows], dtype=np.float64)


def test_every_exhibit_of_the_paper_is_there(reproduced: Reproduction) -> None:
    assert set(EXHIBITS) == {*PICTURES, *TABLES}
    assert tuple(exhibit.id for exhibit, _ in reproduced.exhibits) == EXHIBITS


@pytest.mark.parametrize("id", PICTURES)
def test_pictures_are_drawn_with_their_numbers_beside_them(reproduced: Reproduction, id: str) -> None:
    _, files = exhibit(reproduced, id)
    assert set(files) == {".png", ".svg", ".csv"}
    assert files[".png"].read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("id", EXHIBITS)
def test_csv_has_the_numbers(reproduced: Reproduction, id: str) -> None:
    found, files = exhibit(reproduced, id)
    with files[".csv"].open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert rows == [{k: "" if v is None else str(v) for k, v in row.items()} for row in found.numbers.rows()]
    assert rows


@pytest.mark.parametrize("id", PICTURES)
def test_pictures_say_that_the_data_are_stand_ins_and_what_late_workers_do(reproduced: Reproduction, id: str) -> None:
    drawn = exhibit(reproduced, id)[1][".svg"].read_text(encoding="utf-8")  # letters are curves, texts are comments
    assert "(synthetic stand-in)" in drawn
    assert "not real, but a synthetic stand-in" in drawn
    assert "(preempt)" in drawn
    assert "virtual engine" in drawn
    assert "(real data)" not in drawn


def test_whole_figures_say_it_of_each_panel(reproduced: Reproduction) -> None:
    plates = {plate.name: next(path for path in files if path.suffix == ".svg") for plate, files in reproduced.plates}
    assert set(plates) == {"figure-2", "figure-3", "figure-4"}
    assert plates["figure-2"].read_text(encoding="utf-8").count("(synthetic stand-in) -->") == 6


def test_the_page_shows_everything(reproduced: Reproduction) -> None:
    page = (reproduced.folder / "reproduction.md").read_text(encoding="utf-8")
    for found, files in reproduced.exhibits:
        assert f"## {found.title}" in page
        assert all(path.name in page for path in files)
        command = f"erasurehead reproduce erasurehead --figure {found.id} --steps 12 --synthetic always --rows 600"
        assert f"Made by `{command}`" in page
    facts = json.loads((reproduced.folder / "reproduction.json").read_text())
    assert [item["figure"] for item in facts["exhibits"]] == list(EXHIBITS)


@pytest.mark.parametrize("id", ["2a", "2b", "2c", "4a", "4b", "4c"])
def test_exact_codes_learn_what_uncoded_learns_and_only_faster_or_slower(reproduced: Reproduction, id: str) -> None:
    found, _ = exhibit(reproduced, id)
    metric = list(found.numbers.columns)[-1]
    plain = column(found, metric, family="uncoded")
    assert len(plain) == SMALL["steps"] + 1
    for load in (2, 3):
        # The area under a curve is a count of pairs: rounding in the sums of gradients may turn a few of them.
        np.testing.assert_allclose(column(found, metric, family="exact", load=load), plain, rtol=1e-3)
        assert (np.diff(column(found, "seconds", family="exact", load=load)) > 0).all()
    assert not np.allclose(column(found, metric, family="erasurehead", load=2), plain, rtol=1e-3)


@pytest.mark.parametrize("id", ["2d", "2e", "2f"])
def test_time_per_step_is_the_mean_of_the_steps_and_theory_is_near(reproduced: Reproduction, id: str) -> None:
    found, _ = exhibit(reproduced, id)
    for row in found.summary.rows():
        seconds = column(found, "seconds", method=row["method"])
        assert row["mean seconds per step"] == pytest.approx(fmean(seconds))
        error, expected = row["standard error"], row["expected by theory"]
        assert isinstance(error, float)
        assert isinstance(expected, float)
        assert abs(fmean(seconds) - expected) < 4 * error
    uncoded = found.summary.rows()[0]["expected by theory"]
    assert uncoded == pytest.approx(0.5 * sum(1 / i for i in range(1, 31)), rel=0.01)  # and a little computing


def test_step_times_are_those_of_the_curves(reproduced: Reproduction) -> None:
    curves, steps = exhibit(reproduced, "2a")[0], exhibit(reproduced, "2d")[0]
    last = column(curves, "seconds", family="erasurehead", load=3)[-1]
    assert column(steps, "seconds", family="erasurehead", load=3).sum() == pytest.approx(last)


def test_without_delays_a_step_takes_the_computing_of_its_tasks(reproduced: Reproduction) -> None:
    found, _ = exhibit(reproduced, "4d")
    for load in (2, 3):
        assert column(found, "seconds", family="exact", load=load).min() > 0
    assert column(found, "seconds").max() < 0.5  # nobody is delayed


@pytest.mark.parametrize("id", ["3a", "3b", "3c"])
def test_speed_ups_are_over_uncoded_with_the_same_delays(reproduced: Reproduction, id: str) -> None:
    found, _ = exhibit(reproduced, id)
    plain = {row["seed"]: row["seconds_per_step"] for row in found.numbers.rows() if row["family"] == "uncoded"}
    assert len(plain) == 3
    for row in found.numbers.rows():
        seconds, own = plain[row["seed"]], row["seconds_per_step"]
        assert isinstance(seconds, float)
        assert isinstance(own, float)
        assert row["speed_up_per_step"] == pytest.approx(seconds / own)
        assert row["family"] != "uncoded" or row["speed_up_per_step"] == 1.0
    for load in (2, 3, 5):
        ours = column(found, "speed_up_per_step", family="erasurehead", load=load)
        assert (ours > column(found, "speed_up_per_step", family="exact", load=load)).all()


def test_table_1_says_what_differs(reproduced: Reproduction) -> None:
    found, _ = exhibit(reproduced, "table1")
    rows = {(row["data set"], row["entry"]): row for row in found.numbers.rows()}
    assert rows["Amazon", "# data points"]["here"] == "480"
    assert "a synthetic stand-in of 600 rows" in str(rows["Amazon", "# data points"]["difference"])
    assert rows["KC Housing", "learning rate"]["here"] == rows["KC Housing", "learning rate"]["paper"]


def test_the_real_data_are_used_where_they_are_and_said_to_be_real(data_folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    made = reproduce(
        "erasurehead",
        ["table1", "2b", "2f"],
        tmp_path / "real",
        path=str(data_folder),
        synthetic="never",
        steps=2,
    )
    rows = {(row["data set"], row["entry"]): row for row in exhibit(made, "table1")[0].numbers.rows()}
    for name in ("Amazon", "KC Housing"):
        for entry in ("# data points", "dimension", "model", "learning rate"):
            assert rows[name, entry]["here"] == rows[name, entry]["paper"], (name, entry)
    assert "(real data)" in exhibit(made, "2f")[1][".svg"].read_text(encoding="utf-8")
    part = exhibit(made, "2b")[1][".svg"].read_text(encoding="utf-8")
    if rows["Covertype", "# data points"]["here"] == "7,171":
        assert "(part of the real data)" in part
        assert "only the first 20,000 rows" in part


def test_without_stand_ins_missing_data_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="There is no amazon data"):
        reproduce(
            "erasurehead",
            ["2a"],
            tmp_path / "out",
            path=str(tmp_path / "empty"),
            synthetic="never",
            steps=1,
        )


def test_figures_are_selected_in_the_order_of_the_paper() -> None:
    assert ERASUREHEAD.select(["3", "table1", "2a", "2A"]) == ("table1", "2a", "3a", "3b", "3c")
    assert ERASUREHEAD.select([]) == EXHIBITS


@pytest.mark.parametrize("name", ["5a", "", "2g", "table2"])
def test_an_unknown_figure_is_refused_with_the_list(name: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        ERASUREHEAD.select(["2a", name])
    assert all(id in str(refused.value) for id in EXHIBITS)
    assert repr(name) in str(refused.value)


def test_settings_are_checked() -> None:
    with pytest.raises(InvalidArgument, match="engine must be one of virtual, processes"):
        reproduce("erasurehead", engine="cloud")
    with pytest.raises(InvalidArgument, match="steps must be at least 1"):
        reproduce("erasurehead", steps=0)


def test_a_used_folder_is_refused_before_anything_is_run(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("keep")
    with pytest.raises(InvalidArgument, match="already in use"):
        reproduce("erasurehead", ["2a"], tmp_path, **SMALL)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


class _Impatient(Callback):
    def on_step_end(self, row: StepRow, x: Array) -> None:
        raise KeyboardInterrupt


def test_what_is_finished_is_kept_when_the_user_stops(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        reproduce("erasurehead", ["table1", "2c"], tmp_path / "out", **SMALL, callbacks=[_Impatient()])
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"table-1.csv"}


@pytest.mark.slow
@pytest.mark.processes
def test_processes_are_timed_by_the_clock_on_the_wall(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    made = reproduce("erasurehead", ["4f"], tmp_path / "out", engine="processes", synthetic="always", rows=600, steps=2)
    found, files = exhibit(made, "4f")
    assert (column(found, "seconds") > 0).all()
    assert "processes engine" in files[".svg"].read_text(encoding="utf-8")
