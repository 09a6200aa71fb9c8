"""An experiment that was cut off goes on, in another process as it were, to the same bits; and to no other ones."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from erasurehead._internal.signals import Terminated
from erasurehead._internal.storage.folders import Folder
from erasurehead.errors import DataError, EngineError, InvalidArgument, RecordsError
from erasurehead.runs import Experiment, RunFolder
from erasurehead.runs._checkpoints.manifests import VERSION, read_manifest
from erasurehead.runs._checkpoints.store import CheckpointStore
from erasurehead.runs._config import merged
from erasurehead.runs._names import ARRIVALS, CONFIG, ENCODING, EVALUATIONS, MODEL, STEPS, SUMMARY
from erasurehead.training import Callback, Notice


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def homes(name: str = "homes.csv", n_rows: int = 120, seed: int = 3) -> str:
    rng = np.random.default_rng(seed)
    lines = ["size,rooms,price"]
    for _ in range(n_rows):
        size, rooms = rng.uniform(30, 200), rng.integers(1, 7)
        lines.append(f"{size:.1f},{rooms},{2.5 * size + 10 * rooms + rng.normal():.2f}")
    Path(name).write_text("\n".join(lines) + "\n")
    return name


def begin(out: str, *tables: dict[str, Any]) -> Experiment:
    whole: dict[str, Any] = {
        "data": {"source": homes()},
        "run": {
            "engine": "virtual",
            "workers": 6,
            "steps": 10,
            "out": out,
            "evaluate_every": 2,
            "preset": "paper",
        },
        "delays": {"model": "exponential(mean=0.5, seed=1)", "late": "carry"},
        "checkpoints": {"every_steps": 1, "behind": 0},
    }
    for table in tables:
        whole = merged(whole, table)
    return Experiment.from_config(whole)


class _Stop(Callback):
    def __init__(self, after: int, error: Callable[[object], BaseException] = KeyboardInterrupt) -> None:
        self.after, self.error = after, error

    def on_state(self, step: int, state: object) -> None:
        if step == self.after:
            raise self.error("told to fail")


def cut(out: str, *tables: dict[str, Any], after: int = 5) -> None:
    """Leave a run behind that was stopped after a step, whose checkpoint the step before was the last of."""
    run = begin(out, *tables).run([_Stop(after)])
    assert run.stopped


def content(out: str) -> dict[str, bytes]:
    return {name: (Path(out) / name).read_bytes() for name in (STEPS, ARRIVALS, EVALUATIONS, MODEL)}


def test_a_run_that_was_cut_off_ends_as_if_it_had_not_been() -> None:
    begin("whole").run()
    cut("run")
    run = Experiment.resume("run").run()
    assert content("run") == content("whole")
    assert (Path("run") / CONFIG).read_text() == (Path("whole") / CONFIG).read_text()
    summary = RunFolder.open("run").summary
    assert summary["resumed"] == [4]
    whole = RunFolder.open("whole").summary
    assert {**summary, "resumed": [], "data": whole["data"]} == whole
    assert run.evaluations == RunFolder.open("whole").run.evaluations


def test_more_steps_may_be_asked_for() -> None:
    begin("whole", {"run": {"steps": 16}}).run()
    cut("run")
    Experiment.resume("run", {"run": {"steps": 16}}).run()
    assert content("run") == content("whole")
    assert RunFolder.open("run").tables["run"]["steps"] == 16


def test_what_ends_a_run_from_outside_is_gone_on_from() -> None:
    begin("whole").run()
    with pytest.raises(EngineError):
        begin("run").run([_Stop(6, EngineError)])
    assert RunFolder.open("run").summary["status"] == "failed"
    Experiment.resume("run").run()
    assert content("run") == content("whole")


def test_the_last_good_checkpoint_is_named_where_records_fail() -> None:
    with pytest.raises(RecordsError, match=r"told to fail The last good checkpoint is that of step 4\."):
        begin("run").run([_Stop(5, RecordsError)])


def test_where_it_runs_may_change_and_where_the_data_are() -> None:
    cut("run")
    Path("homes.csv").rename("moved.csv")
    with pytest.raises(DataError, match="There is no file"):
        Experiment.resume("run")
    moved = Experiment.resume("run", {"data": {"source": "moved.csv"}, "run": {"engine": "processes"}})
    assert moved.config.run.engine == "processes"


@pytest.mark.processes
@pytest.mark.parametrize("first", ["virtual", "processes"])
def test_on_real_workers_the_same_arrivals_give_the_same_model(first: str) -> None:
    quick = {"run": {"engine": first}, "delays": {"model": "exponential(mean=0.02, seed=1)", "late": "preempt"}}
    cut("run", quick)
    run = Experiment.resume("run", {"run": {"engine": "processes"}}).run()
    assert [row.step for row in run.steps] == list(range(10))
    assert run.steps == RunFolder.open("run").run.steps
    times = [time for row in run.steps for time in (row.begin, row.end)]
    assert times == sorted(times)
    replayed = {"run": {"engine": "virtual"}, "delays": {"model": "recorded('run/arrivals.jsonl')"}}
    begin("unbroken", quick, replayed).run()
    assert (Path("unbroken") / MODEL).read_bytes() == (Path("run") / MODEL).read_bytes()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"scheme": "exact(load=2)"}, "scheme was 'erasurehead(load=3, wait_for=2)' and is 'exact(load=2)'"),
        ({"problem": {"l2": 0.5}}, "problem.l2 was 0.010416666666666666 and is 0.5"),
        ({"optimizer": {"name": "gradient_descent"}}, "optimizer.name was 'nesterov' and is 'gradient_descent'"),
        ({"delays": {"late": "preempt"}}, "delays.late was 'carry' and is 'preempt'"),
        ({"run": {"workers": 5}}, "run.workers was 6 and is 5"),
        ({"run": {"evaluate_every": 3}}, "run.evaluate_every was 2 and is 3"),
        ({"data": {"test_fraction": 0.3}}, "data.test_fraction was 0.2 and is 0.3"),
        ({"run": {"steps": 3}}, "run.steps must be at least the 4 steps that are done, but it is 3"),
        ({"run": {"out": "other"}}, "must be left out when a run is resumed in its own folder"),
        ({"run": {"step": 9}}, "There is no key 'step' in [run]"),
    ],
)
def test_what_would_make_it_another_run_is_refused(changes: dict[str, Any], said: str) -> None:
    cut("run")
    before = content("run")
    with pytest.raises(InvalidArgument) as caught:
        Experiment.resume("run", changes)
    assert said in str(caught.value)
    assert content("run") == before


def test_other_data_are_refused_where_a_single_number_differs() -> None:
    cut("run")
    text = Path("homes.csv").read_text()
    Path("homes.csv").write_text(text[:-3] + ("8" if text[-3] != "8" else "7") + text[-2:])
    with pytest.raises(
        InvalidArgument, match=r"has changed: data was '96 x 3, 24 for testing \(\w{16}\)' and is '96 x 3"
    ):
        Experiment.resume("run")
    homes(n_rows=130)
    with pytest.raises(InvalidArgument, match=r"data was '96 x 3.* and is '104 x 3"):
        Experiment.resume("run")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("size,rooms", "rooms,size", "column 1 was 'size' and is 'rooms'; column 2 was 'rooms' and is 'size'"),
        ("price", "cost", "the label was 'price' and is 'cost'"),
    ],
)
def test_columns_of_the_same_numbers_under_other_names_are_refused(old: str, new: str, said: str) -> None:
    cut("run")
    path = Path("homes.csv")
    path.write_text(path.read_text().replace(old, new, 1))
    with pytest.raises(InvalidArgument, match=said):
        Experiment.resume("run")
    (Path("run") / ENCODING).unlink()  # which said how it was
    with pytest.raises(InvalidArgument, match="what the columns and labels mean was"):
        Experiment.resume("run")


def test_delays_of_a_file_that_has_changed_are_refused() -> None:
    trace = Path("trace.csv")
    rows = [f"{step},{worker},{1.0 + 0.1 * worker + step:.1f}" for step in range(4) for worker in range(6)]
    trace.write_text("\n".join(["step,worker,seconds", *rows]))
    cut("run", {"delays": {"model": "trace('trace.csv')"}})
    trace.write_text("\n".join(["step,worker,seconds", *rows[:-1], "3,5,2.0"]))
    with pytest.raises(InvalidArgument, match=r"has changed: what delays.model draws was '\w{16}' and is '\w{16}'"):
        Experiment.resume("run")


def test_a_setting_that_was_edited_in_the_folder_is_noticed() -> None:
    cut("run")
    path = Path("run") / CONFIG
    path.write_text(path.read_text().replace("seed=1", "seed=2"))
    with pytest.raises(InvalidArgument, match=r"delays.model was 'exponential.*seed=1.*seed=2"):
        Experiment.resume("run")


def test_a_run_that_is_finished_is_not_gone_on_with() -> None:
    begin("run").run()
    with pytest.raises(InvalidArgument, match="must be more than the 10 steps after which the run in 'run' finished"):
        Experiment.resume("run")
    begin("bare", {"checkpoints": {"keep_finished": False}}).run()
    assert not (Path("bare") / "checkpoints").exists()
    with pytest.raises(InvalidArgument, match=r"its last checkpoint is gone.*keep_finished.*--initial bare"):
        Experiment.resume("bare", {"run": {"steps": 20}})


@pytest.mark.slow
@pytest.mark.parametrize("checkpoints", [{"every_steps": 1}, {"every_steps": 0, "every_seconds": 0.0}, {"keep": 3}])
@pytest.mark.parametrize("evaluate_every", [0, 2, 7])
def test_a_finished_run_is_continued_as_if_more_steps_had_been_asked_for_from_the_start(
    checkpoints: dict[str, Any], evaluate_every: int
) -> None:
    tables = {"checkpoints": checkpoints, "run": {"evaluate_every": evaluate_every}}
    begin("whole", tables, {"run": {"steps": 20}}).run()
    begin("run", tables).run()
    assert [path.name for path in (Path("run") / "checkpoints").glob("*.json")] == ["step-0000010.json"]
    run = Experiment.resume("run", {"run": {"steps": 12}}).run()
    run = Experiment.resume("run", {"run": {"steps": 20}}).run()
    assert content("run") == content("whole")
    summary, whole = RunFolder.open("run").summary, RunFolder.open("whole").summary
    assert summary["resumed"] == [10, 12]
    assert {**summary, "resumed": [], "data": whole["data"]} == whole
    known = RunFolder.open("whole").run
    assert (run.steps, run.arrivals, run.final) == (known.steps, known.arrivals, known.final)
    assert run.evaluations == known.evaluations
    assert all(RunFolder.open("run").damage(name) == "" for name in (*content("run"), SUMMARY, CONFIG, ENCODING))


@pytest.mark.slow
def test_a_finished_run_keeps_no_model_for_each_evaluation() -> None:
    begin("run", {"run": {"steps": 40, "evaluate_every": 1}}).run()
    Experiment.resume("run", {"run": {"steps": 44}}).run()
    store = CheckpointStore(Path("run"))
    state = store.load().state
    kept = [row["tuple"] for row in state["snapshots"]["kept"]]
    assert [step for step, _, _ in kept] == list(range(45))
    assert [dict(held["map"]) for _, _, held in kept] == [one.metrics for one in RunFolder.open("run").run.evaluations]


@pytest.mark.slow
@pytest.mark.parametrize(
    "ended", [KeyboardInterrupt, lambda text: Terminated(signal.SIGTERM), EngineError], ids=["ctrl-c", "term", "error"]
)
def test_what_was_evaluated_is_not_lost_when_a_continued_run_is_cut_off(
    ended: Callable[[object], BaseException],
) -> None:
    begin("whole", {"run": {"steps": 20}}).run()
    begin("run").run()
    longer = Experiment.resume("run", {"run": {"steps": 20}})
    with contextlib.suppress(EngineError):
        longer.run([_Stop(14, ended)])
    before = [one.step for one in RunFolder.open("run").run.evaluations]
    assert before[:6] == [0, 2, 4, 6, 8, 10]
    Experiment.resume("run").run()
    assert content("run") == content("whole")


@pytest.mark.processes
def test_a_finished_run_on_real_workers_just_goes_on() -> None:
    begin("run", {"run": {"engine": "processes"}, "delays": {"model": "none()", "late": "preempt"}}).run()
    before = RunFolder.open("run").run
    run = Experiment.resume("run", {"run": {"steps": 16}}).run()
    assert run.steps[:10] == before.steps
    assert [row.step for row in run.steps] == list(range(16))
    assert run.evaluations[:6] == before.evaluations
    assert [one.step for one in run.evaluations] == list(range(0, 17, 2))


def test_a_folder_without_a_run_or_without_a_checkpoint_is_said() -> None:
    Path("empty").mkdir()
    for folder in ("empty", "nowhere"):
        with pytest.raises(DataError, match=f"'{folder}' is not a run folder"):
            Experiment.resume(folder)
    cut("run", {"checkpoints": {"every_steps": 0}})
    (Path("run") / CONFIG).rename("config.toml")
    with pytest.raises(DataError, match=r"There is no config.toml in 'run': a run that was started from Python"):
        Experiment.resume("run")
    Path("config.toml").rename(Path("run") / CONFIG)
    for file in (Path("run") / "checkpoints").iterdir():
        file.unlink()
    with pytest.raises(DataError, match="There is no checkpoint in 'run'"):
        Experiment.resume("run")


class _Notices(Callback):
    def __init__(self) -> None:
        self.said: list[str] = []

    def on_notice(self, notice: Notice) -> None:
        self.said.append(notice.text)


def test_an_older_checkpoint_is_gone_on_from_if_the_newest_is_damaged_and_that_is_said() -> None:
    begin("whole").run()
    cut("run")
    newest = sorted((Path("run") / "checkpoints").glob("*.json"))[-1]
    newest.write_bytes(newest.read_bytes()[:-9])
    notices = _Notices()
    Experiment.resume("run").run([notices])
    assert any("the run continues from an older checkpoint" in said and newest.name in said for said in notices.said)
    assert content("run") == content("whole")


def test_a_run_of_an_earlier_version_is_said_to_be_one_whatever_its_settings_are_called() -> None:
    cut("run")
    for manifest in (Path("run") / "checkpoints").glob("*.json"):
        text = manifest.read_text()
        manifest.write_text(text.replace(f'"version":{VERSION}', '"version":3', 1))
    config = Path("run") / CONFIG
    config.write_text(config.read_text().replace("[run]", "death = 'leave'\n[run]", 1))
    with pytest.raises(DataError, match=f"has version 3 of the format, of which .* reads {VERSION}; go on with"):
        Experiment.resume("run")


def test_a_state_that_does_not_fit_the_run_is_a_sentence() -> None:
    cut("run")
    newest = sorted((Path("run") / "checkpoints").glob("*.json"))[-1]
    with Folder.open(newest.parent) as folder:
        manifest = read_manifest(folder, newest.name)
        del manifest.state["optimizer"]
        manifest.write(folder)
    with pytest.raises(DataError, match="does not fit"):
        Experiment.resume("run").run()


def test_data_from_standard_input_are_read_from_there_again(monkeypatch: pytest.MonkeyPatch) -> None:
    name = homes()
    Path("empty.csv").touch()
    with Path(name).open() as first, Path(name).open() as again, Path("empty.csv").open() as empty:
        monkeypatch.setattr("sys.stdin", first)
        begin("x", {"data": {"source": "-"}}).run()
        monkeypatch.setattr("sys.stdin", again)
        assert Experiment.resume("x", {"run": {"steps": 12}}).config.data.source == "-"
        monkeypatch.setattr("sys.stdin", empty)
        with pytest.raises(DataError, match="stdin is empty"):
            Experiment.resume("x", {"run": {"steps": 12}})
