"""What is known of runs that are watched, against what they recorded."""

from __future__ import annotations

import base64
import json
import os
import shutil
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from erasurehead.errors import DataError
from erasurehead.runs import RunFolder
from erasurehead.watch._columns import GrowingColumns, WorkerSets, curve
from erasurehead.watch._runs import GONE, NOBODY, Excerpt
from erasurehead.watch._tail import Tail
from erasurehead.watch._watch import Watch

from ..typed import typed
from .conftest import trained


def seen(path: Path) -> Watch:
    watch = Watch(path)
    while watch.read(60.0):
        pass
    return watch


def cells(view: Mapping[str, Any]) -> np.ndarray[Any, Any]:
    data = np.frombuffer(base64.b64decode(view["heat"]), dtype=np.uint8)
    return data.reshape(view["high"] - view["low"], view["columns"])


def test_how_a_run_stands(run_folder: Path) -> None:
    rows = RunFolder.open(run_folder).step_rows()
    (run,) = seen(run_folder).about()["runs"]
    assert (run["name"], run["kind"], run["live"], run["problem"]) == ("run", "run", False, "")
    assert (run["steps"], run["n_workers"], run["seconds"]) == (30, 12, rows[-1].end)
    assert run["summary"]["status"] == "finished"
    assert (run["missing"], run["dead"]) == (rows[-1].missing, rows[-1].dead)
    assert run["recent"] == [sum(worker in row.missing for row in rows) for worker in range(12)]
    assert [notice["kind"] for notice in run["notices"]] == ["died", "joined"]
    assert run["states"] == "".join("l" if worker in rows[-1].missing else "-" for worker in range(12))
    assert (
        run["read"][0]
        == run["read"][1]
        == sum((run_folder / name).stat().st_size for name in ("steps.jsonl", "evaluations.jsonl"))
    )


def test_curves_are_what_was_recorded(run_folder: Path) -> None:
    folder = RunFolder.open(run_folder)
    rows, view = folder.step_rows(), seen(run_folder).view(0, Excerpt())
    assert (view["from"], view["to"]) == (0.0, rows[-1].end)
    assert view["curves"]["loss"]["v"] == pytest.approx([row.loss for row in rows])
    assert view["curves"]["loss"]["t"] == [row.begin for row in rows]
    for name, values in (("waited", [row.waited for row in rows]), ("received", [row.received for row in rows])):
        assert view["curves"][name]["v"] == pytest.approx(values)
        assert view["curves"][name]["t"] == [row.end for row in rows]
    assert view["curves"]["median"] == np.median([row.waited for row in rows])
    evaluations = folder.run.evaluations
    assert view["metrics"]["auc"]["v"] == pytest.approx([one.metrics["auc"] for one in evaluations])


def test_answers_and_heat_map_are_those_of_the_part_that_is_asked_for(run_folder: Path) -> None:
    folder = RunFolder.open(run_folder)
    rows = folder.step_rows()
    begin, end = (rows[10].begin + rows[10].end) / 2, (rows[12].begin + rows[12].end) / 2
    view = seen(run_folder).view(0, Excerpt(begin, end, 2, 7, columns=50))
    assert (view["low"], view["high"], view["steps"]["round"]) == (2, 7, [row.round for row in rows[10:13]])
    assert view["known"] == begin
    wanted = [row for row in folder.arrival_rows() if 10 <= row.step <= 12 and 2 <= row.worker < 7]
    assert [one[:3] for one in view["answers"]] == [[row.round, row.worker, row.message] for row in wanted]
    for column, time in enumerate(np.linspace(begin, end, 50, endpoint=False) + (end - begin) / 100):
        near = [row for row in rows if row.begin - (end - begin) / 100 < time < row.end + (end - begin) / 100]
        late = [100.0 * sum(worker in row.missing for row in near) / len(near) for worker in range(2, 7)]
        assert cells(view)[:, column].tolist() == np.round(late).tolist()


def test_too_many_answers_are_left_out_or_the_newest_ones_of_a_report(run_folder: Path) -> None:
    watch = seen(run_folder)
    assert "answers" not in watch.view(0, Excerpt(bars=100))
    newest = watch.view(0, Excerpt(bars=100, newest=True))
    assert newest["steps"]["round"] == [row.round for row in RunFolder.open(run_folder).step_rows()[-8:]]
    assert newest["known"] == newest["steps"]["begin"][0]


@pytest.mark.slow
def test_answers_are_found_in_a_long_file_without_reading_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = trained(tmp_path / "run", workers=30, steps=300)
    rows, arrivals = RunFolder.open(folder).step_rows(), RunFolder.open(folder).arrival_rows()
    watch, read = seen(folder), 0
    pread = os.pread

    def counted(file: int, size: int, place: int) -> bytes:
        nonlocal read
        read += size
        return pread(file, size, place)

    monkeypatch.setattr(os, "pread", counted)
    for step in (0, 1, 149, 299):
        view = watch.view(0, Excerpt(rows[step].begin + 1e-9, rows[step].end - 1e-9))
        assert len(view["answers"]) == sum(row.step == step for row in arrivals)
    assert read < 4 * 20 * 2 * (1 << 16) < 4 * (folder / "arrivals.jsonl").stat().st_size * 2


def test_rows_are_taken_in_as_they_are_written(run_folder: Path, tmp_path: Path) -> None:
    growing = tmp_path / "growing"
    shutil.copytree(run_folder, growing)
    lines = (run_folder / "steps.jsonl").read_bytes().splitlines(keepends=True)
    (growing / "steps.jsonl").write_bytes(b"".join(lines[:10]) + lines[10][:20])
    watch = seen(growing)
    assert watch.about()["runs"][0]["steps"] == 10
    with (growing / "steps.jsonl").open("ab") as file:
        file.write(lines[10][20:] + lines[11])
    seen_before = watch.wait(-1, 0.0)
    watch.read()
    assert watch.about()["runs"][0]["steps"] == 12
    assert watch.wait(seen_before, 0.0) > seen_before
    (growing / "steps.jsonl").write_bytes(b"".join(lines[:5]))  # resumed from a checkpoint
    while watch.read():
        pass
    assert watch.about()["runs"][0]["steps"] == 5
    (growing / "steps.jsonl").unlink()
    (growing / "steps.jsonl").write_bytes(b"".join(lines))  # another run has taken its place
    while watch.read():
        pass
    assert watch.about()["runs"][0]["steps"] == 30


def test_a_folder_that_is_removed_is_told_of_with_what_was_known(run_folder: Path) -> None:
    watch = seen(run_folder)
    shutil.rmtree(run_folder)
    watch.read()
    assert watch.about()["gone"].endswith(
        "cannot be read any more (No such file or directory): this is the last of it."
    )
    assert watch.about()["runs"][0]["steps"] == 30


def test_a_damaged_line_is_named(run_folder: Path) -> None:
    with (run_folder / "steps.jsonl").open("ab") as file:
        file.write(b"{[\n")
    assert "steps.jsonl, line 31: not JSON" in seen(run_folder).about()["runs"][0]["problem"]


def test_rows_that_a_finished_run_did_not_write_are_not_believed(run_folder: Path) -> None:
    assert not seen(run_folder).about()["runs"][0]["problem"]
    steps = run_folder / "steps.jsonl"
    steps.write_text("".join(steps.read_text().splitlines(keepends=True)[:20]))
    assert "steps.jsonl is damaged, or was edited" in seen(run_folder).about()["runs"][0]["problem"]


@pytest.mark.parametrize("field", ["missing", "dead"])
@pytest.mark.parametrize("value", ["[-1]", "[131072]", '["x"]', "[[1]]", '{"a":1}', "7", "[1e400]"])
def test_workers_that_cannot_be_are_refused(run_folder: Path, field: str, value: str) -> None:
    (run_folder / "steps.jsonl").write_text(f'{{"step":0,"begin":0,"end":1,"{field}":{value}}}\n')
    about = seen(run_folder).about()["runs"][0]
    assert "must be a list of numbers of workers" in about["problem"]
    assert about["n_workers"] == 12


def test_rows_of_any_shape_do_no_harm(run_folder: Path) -> None:
    rows = [
        {},
        {"step": "x", "begin": None, "end": [], "loss": {}, "notices": 3, "workers": 1e300, "metrics": 7, "kind": {}},
        {
            "step": 10**400 // 10**390,
            "end": 1e308,
            "workers": -5,
            "notices": [1, None, {"worker": "a"}, {"worker": -1}],
        },
        {"step": 2, "begin": 5.0, "end": 3.0, "waited": True, "missing": None, "rejected": "yes"},
    ]
    (run_folder / "steps.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    watch = seen(run_folder)
    assert watch.about()["runs"][0]["steps"] == 4
    for excerpt in (Excerpt(), Excerpt(-5.0, -6.0), Excerpt(1e9, 2e9, 50, 3), Excerpt(0.0, 0.0, -3, 1e9)):
        view = watch.view(0, excerpt)
        assert cells(view).shape == (view["high"] - view["low"], 400)


def test_an_empty_run_is_shown(tmp_path: Path) -> None:
    watch = seen(RunFolder.create(tmp_path / "new").path)
    assert watch.about()["runs"][0]["steps"] == 0
    assert watch.view(0, Excerpt())["curves"]["loss"]["t"] == []


def test_peers(tmp_path: Path) -> None:
    out = tmp_path / "peers"
    done = typed(
        "consensus",
        "--data",
        "covertype",
        "--synthetic",
        "always",
        "--rows",
        500,
        "--steps",
        12,
        "--out",
        out,
        "--policy",
        "full()",
        "--no-pictures",
        "-q",
    )
    assert done.code == 0, done.err
    lines = [json.loads(line) for line in (out / "peers.jsonl").read_text().splitlines()]
    watch = seen(out)
    (run,) = watch.about()["runs"]
    assert (run["kind"], run["n_workers"], run["steps"]) == ("peers", 10, len(lines) / 10)
    assert run["last"] == [max(row["end"] for row in lines if row["peer"] == peer) for peer in range(10)]
    end = run["seconds"]
    view = watch.view(0, Excerpt(end / 4, end / 2, 2, 5, columns=40))
    edges = np.linspace(end / 4, end / 2, 41)
    for index, peer in enumerate(range(2, 5)):
        own = [row for row in lines if row["peer"] == peer]
        begins, readys, ends = view["turns"][index]
        assert list(zip(begins, readys, ends, strict=True)) == [
            (row["begin"], row["ready"], row["end"]) for row in own if row["end"] > end / 4 and row["begin"] < end / 2
        ]
        for column, (left, right) in enumerate(pairwise(edges)):
            waited = sum(max(0.0, min(row["end"], right) - max(row["ready"], left)) for row in own)
            assert cells(view)[index, column] == pytest.approx(100 * waited / (right - left), abs=0.6)
    assert view["curves"]["loss"]["v"][0] <= 0.7


def test_peers_that_are_gone(tmp_path: Path) -> None:
    out = RunFolder.create(tmp_path / "run").path
    rows = [{"peer": peer, "begin": t, "ready": t + 0.5, "end": t + 1.0} for t in range(4) for peer in (0, 1)]
    (out / "peers.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (out / "view_changes.jsonl").write_text('{"time":1.0,"gone":[1]}\n{"time":3.0,"gone":[]}\n')
    watch = seen(out)
    assert cells(watch.view(0, Excerpt(columns=4))).tolist() == [[50] * 4, [50, GONE, GONE, 50]]
    assert watch.about()["runs"][0]["dead"] == []
    assert [notice["data"]["gone"] for notice in watch.about()["runs"][0]["notices"]] == [[1], []]


def test_a_team_of_networks(team_record: Path) -> None:
    watch = seen(team_record)
    (run,) = watch.about()["runs"]
    assert (run["kind"], run["steps"], run["n_workers"]) == ("team", 4, 3)
    assert (run["missing"], run["dead"], run["seconds"]) == ([0], [2], 3.5)  # clocks differ: 1 s, then 2.5 s
    view = watch.view(0, Excerpt(columns=7))
    assert cells(view)[:, 0].tolist() == [0, 0, 100]
    assert cells(view)[:, -1].tolist() == [100, 0, GONE]


def test_several_runs_share_an_axis(tmp_path: Path) -> None:
    for name, steps in (("one", 5), ("two", 30)):
        trained(tmp_path / "both" / name, steps=steps)
    watch = seen(tmp_path / "both")
    assert [run["name"] for run in watch.about()["runs"]] == ["one", "two"]
    assert watch.about()["first"] == 0
    view = watch.view(0, Excerpt())
    assert view["to"] == watch.runs[1].seconds > watch.runs[0].seconds
    assert [len(loss["v"]) for loss in view["losses"]] == [5, 30]
    assert cells(view)[:, -1].tolist() == [NOBODY] * 12
    trained(tmp_path / "both" / "three", steps=5)  # one that begins later
    watch._looked = -1e9
    watch.read()
    assert len(watch.runs) == 3


def test_faults_of_a_drill_are_marks(tmp_path: Path) -> None:
    for name in ("baseline", "faulty"):
        trained(tmp_path / "drill" / name, steps=5)
    (tmp_path / "drill" / "faults.toml").write_text('[[fault]]\nkind = "kill"\nat = 0.5\nworker = 3\n')
    about = seen(tmp_path / "drill").about()
    baseline, faulty = about["runs"]
    assert about["first"] == 1, "the rehearsal is what one wants to see"
    assert baseline["notices"] == []
    assert faulty["notices"][0] == {"kind": "fault", "time": 0.5, "worker": 3, "text": "injected: kill worker 3"}


def test_faults_stand_among_what_happened_in_the_order_of_time(tmp_path: Path) -> None:
    for name in ("baseline", "faulty"):
        trained(tmp_path / "drill" / name, steps=5)
    told = [{"kind": "died", "time": time, "worker": 3, "text": "worker 3 died"} for time in (0.5, 0.7)]
    steps = tmp_path / "drill" / "faulty" / "steps.jsonl"
    first, *others = steps.read_text().splitlines()
    steps.write_text("\n".join([json.dumps(json.loads(first) | {"notices": told}), *others]) + "\n")
    faults = "".join(f'[[fault]]\nkind = "kill"\nat = {at}\nworker = 3\n' for at in (0.5, 0.6, 0.9))
    (tmp_path / "drill" / "faults.toml").write_text(faults)
    notices = seen(tmp_path / "drill").about()["runs"][1]["notices"]
    assert [(notice["kind"], notice["time"]) for notice in notices] == [
        ("fault", 0.5),
        ("died", 0.5),
        ("fault", 0.6),
        ("died", 0.7),
        ("fault", 0.9),
    ]


def test_what_is_no_run_is_refused_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    os.mkfifo(tmp_path / "pipe")
    for name, said in (
        ("nowhere", "is not a run folder: it does not exist."),
        (
            "empty",
            "is not the folder of a run, a comparison or a drill: neither it nor a folder in it has steps.jsonl.",
        ),
        ("a.csv", "is not the record of a team of networks, as record= of team.optimizer names one; name such"),
        ("pipe", "is not a run folder: it is a file."),
    ):
        with pytest.raises(DataError, match="is not") as caught:
            Watch(tmp_path / name)
        assert said in str(caught.value)


def test_links_are_not_followed(run_folder: Path, tmp_path: Path) -> None:
    steps = run_folder / "steps.jsonl"
    steps.rename(tmp_path / "elsewhere.jsonl")
    steps.symlink_to(tmp_path / "elsewhere.jsonl")
    assert "links in this folder are not followed" in seen(run_folder).gone


def test_tails_read_lines_of_any_length_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("erasurehead.watch._tail._PIECE", 64)
    rows = [{"n": n, "text": "x" * (n % 200)} for n in range(500)]
    (tmp_path / "f").write_text("".join(json.dumps(row) + "\n" for row in rows) + '{"half')
    tail, found = Tail(tmp_path / "f"), list[dict[str, Any]]()
    for _ in range(2000):
        found += tail.read() or []
    assert found == rows
    assert tail.size - tail.done == len('{"half')


def test_curves_of_many_points_keep_mean_and_extremes() -> None:
    times = np.arange(1000.0)
    values = np.where(times == 555, 100.0, 1.0)
    values[0] = np.nan
    found = curve(times, values, (0.0, 1e9), 100)
    assert max(found["high"]) == 100.0
    assert max(found["v"]) == pytest.approx(10.9)
    assert min(found["low"]) == 1.0
    assert curve(times, values, (10.5, 12.5), 100)["t"] == [10.0, 11.0, 12.0, 13.0]
    assert curve(times[:0], times[:0], (0.0, 1.0), 100)["t"] == []


def test_sets_of_workers_grow_in_both_directions() -> None:
    rng, sets = np.random.default_rng(0), WorkerSets()
    given = [np.unique(rng.integers(0, most, 5)) for most in [10] * 1500 + [900] * 1500 + [20_000] * 10]
    for one in given:
        sets.add(one)
    for first, last in ((0, 3010), (1400, 1600), (3000, 3010), (7, 7)):
        expected = np.bincount(np.concatenate([np.zeros(0, int), *given[first:last]]), minlength=20_000)
        assert (sets.counts(first, last, 20_000) == expected).all()


def test_columns_grow() -> None:
    columns = GrowingColumns("a", "b")
    for number in range(3000):
        columns.add({"a": number, "b": "text", "c": 1})
    assert columns["a"].tolist() == list(range(3000))
    assert np.isnan(columns["b"]).all()
