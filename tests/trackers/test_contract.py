"""What trackers are told of a run, and that none of them ends one, whatever it does."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from erasurehead import consensus, optimizers, problems, train
from erasurehead.errors import EngineError, InvalidArgument
from erasurehead.runs import Comparison, Experiment, RunFolder
from erasurehead.runs._config.checking import build_config
from erasurehead.trackers import MLflow, TensorBoard, Tracker, WandB, _background as showing
from erasurehead.trackers._tracked_run import TRACKED, Point, TrackedRun
from erasurehead.trackers._tracker import measured

from ..bounded import PATIENCE, PROMPT, in_time
from ..typed import typed
from .made import Heard, Kept, Stop, experiment, trained


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(showing, "_PAUSE", 0.01)


def test_each_step_is_shown_once_with_the_clock_of_the_run() -> None:
    kept = Kept()
    run = trained(kept)
    assert kept.steps() == [row.step + 1.0 for row in run.steps]
    for entry, row in zip(kept.entries, run.steps, strict=False):
        assert entry.seconds == row.end
        assert entry.time - kept.entries[0].time == pytest.approx(row.end - run.steps[0].end, abs=1e-5)
        assert entry.values["loss"] == row.loss
        assert (entry.values["waited"], entry.values["received"]) == (row.waited, row.received)
        assert (entry.values["arrived"], entry.values["missing"]) == (row.arrived, len(row.missing))
        assert (entry.values["used"], entry.values["dead"]) == (len(row.used), 0)
    shown = [entry for entry in kept.entries if entry.kind == "evaluation"]
    assert [entry.step for entry in shown] == [*(one.step for one in run.evaluations), run.steps_taken]
    assert shown[3].values == {f"test/{name}": value for name, value in run.evaluations[3].metrics.items()}
    assert shown[-1].values == {"objective": run.objective}
    assert kept.ended == [("finished", [])]
    assert kept.runs[0].settings["steps"] == "8"
    assert threading.main_thread() not in kept.threads


def test_what_happens_to_workers_is_shown_as_texts() -> None:
    kept = Kept()
    run = trained(kept, kill=3)
    (entry,) = [entry for entry in kept.entries if entry.kind == "died"]
    (notice,) = [notice for notice in run.notices if notice.kind == "died"]
    assert (entry.text, entry.seconds, entry.step) == (notice.text, notice.time, (notice.step or 0) + 1)
    assert not entry.values


def test_one_tracker_shows_several_runs_one_after_the_other() -> None:
    kept = Kept()
    trained(kept, steps=3)
    trained(kept, steps=2)
    assert kept.steps() == [1, 2, 3, 1, 2]
    assert len(kept.runs) == len(kept.ended) == 2


# --- in a folder ------------------------------------------------------------------------------------------------------


def test_a_recorded_run_is_shown_with_its_settings_and_small_files(tmp_path: Path) -> None:
    kept = Kept(files=True)
    experiment(tmp_path).run([kept])
    (run,) = kept.runs
    assert (run.name, run.group, run.settings["run.workers"]) == ("run", "", "6")
    assert not {"run.out", "run.track", "run.overwrite"} & run.settings.keys()
    assert "None" not in run.settings.values()
    assert kept.ended == [("finished", ["config.toml", "summary.json", "evaluations.jsonl"])]
    assert json.loads((tmp_path / "run" / TRACKED).read_text())["kept"]["id"] == "number 1"
    assert RunFolder.open(tmp_path / "run").run.steps_taken == 10


@pytest.mark.parametrize("error", [KeyboardInterrupt, EngineError])
def test_a_resumed_run_goes_on_without_a_step_twice(tmp_path: Path, error: type[BaseException]) -> None:
    before = Kept()
    try:
        experiment(tmp_path).run([before, Stop(5, error)])  # whose newest checkpoint is that of the step before
    except EngineError:
        assert error is EngineError
    assert before.ended == [("interrupted" if error is KeyboardInterrupt else "failed", [])]
    after = Kept()
    Experiment.resume(tmp_path / "run").run([after])
    assert after.known == ["number 1"]
    assert [*before.steps(), *after.steps()] == list(range(1, 11))
    evaluated = [*before.steps("evaluation"), *after.steps("evaluation")]
    assert sorted({*evaluated}) == list(range(11))
    assert len(evaluated) - len({*evaluated}) <= 2  # the last model of each part, with its objective
    assert after.entries[0].time > before.entries[0].time


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{",
        '{"kept": 3}',
        '{"kept": {"id": "x", "step": "far"}}',
        '{"kept": {"x": 1}}',
        '{"kept": null}',
        "\x00",
    ],
)
def test_a_damaged_note_of_what_was_shown_begins_anew(tmp_path: Path, text: str) -> None:
    (tmp_path / TRACKED).write_text(text)
    assert TrackedRun("run", {}, folder=tmp_path).shown("kept").id == ""


def test_a_folder_that_cannot_be_written_to_does_not_stop_a_tracker(tmp_path: Path) -> None:
    run = TrackedRun("run", {}, folder=tmp_path / "gone")
    run.shown("kept").step = 3
    run.keep()
    (tmp_path / TRACKED).mkdir()
    TrackedRun("run", {}, folder=tmp_path).keep()


def test_a_comparison_is_one_group_with_a_run_for_each_scheme(tmp_path: Path) -> None:
    config = experiment(tmp_path).config.model_dump()
    config["run"] = {**config["run"], "out": str(tmp_path / "race"), "steps": 3, "preset": None}
    kept = Kept()
    Comparison.from_config(config, ["uncoded", "exact(load=2)"]).run([kept])
    assert [(run.group, run.name) for run in kept.runs] == [("race", "uncoded"), ("race", "exact")]
    assert kept.steps() == [1, 2, 3] * 2
    assert [status for status, _ in kept.ended] == ["finished"] * 2


def test_an_overwritten_folder_is_another_run(tmp_path: Path) -> None:
    experiment(tmp_path).run([Kept()])
    kept = Kept()
    experiment(tmp_path, overwrite=True).run([kept])
    assert kept.known == [""]
    assert kept.steps() == list(range(1, 11))


# --- without a coordinator --------------------------------------------------------------------------------------------


def test_peers_are_shown_at_each_evaluation() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((120, 3))
    problem = problems.LogisticRegression(X, np.sign(X @ [1.0, 2.0, 3.0]), l2=1e-2, test=(X, np.sign(X[:, 0])))
    kept = Kept()
    run = consensus.train(
        problem,
        "ring()",
        "dynamic()",
        peers=4,
        steps=6,
        rate=0.5,
        delays="exponential(mean=1.0)",
        faults=[consensus.Crash(peer=2, at=2.0)],
        callbacks=[kept],
    )
    shown = [entry for entry in kept.entries if entry.kind == "step"]
    assert [(entry.step, entry.seconds) for entry in shown] == [(row.step, row.time) for row in run.means]
    assert [entry.values["objective"] for entry in shown] == [row.objective for row in run.means]
    assert {"distance", "waited", "links", "peers", "test/auc"} <= shown[-1].values.keys()
    assert "waited" not in shown[0].values
    assert [entry.text for entry in kept.entries if entry.kind == "died"] == ["peers that are gone: 2"]
    assert kept.ended == [("finished", [])]
    assert kept.runs[0].settings["graph"] == str(run.graph)


# --- trackers that fail ---------------------------------------------------------------------------------------------


class Failing(Kept):
    """Raises in one of its hooks."""

    def __init__(self, where: str, error: BaseException, patience: float = 30.0) -> None:
        super().__init__(patience)
        self.where, self.error = where, error

    def open(self, run: TrackedRun, known: str) -> str:
        self._at("open")
        return super().open(run, known)

    def write(self, points: Sequence[Point]) -> None:
        self._at("write")
        super().write(points)

    def close(self, status: str, files: Sequence[Path]) -> None:
        self._at("close")
        super().close(status, files)

    def _at(self, where: str) -> None:
        if self.where == where:
            raise self.error


ERRORS = [
    (OSError(28, "No space left on device"), "OSError: [Errno 28] No space left on device"),
    (ConnectionRefusedError("no\nserver"), "ConnectionRefusedError: no server"),
    (SystemExit(3), "SystemExit: 3"),
    (KeyboardInterrupt(), "KeyboardInterrupt"),
    (ModuleNotFoundError("No module named 'kept'", name="kept"), "kept is not installed (pip install kept)"),
    (
        ModuleNotFoundError("No module named 'alembic'", name="alembic"),
        "alembic is not installed (pip install kept)",
    ),
    (ValueError("x" * 1000), f"ValueError: {'x' * 288}"),
]


@pytest.mark.parametrize("where", ["open", "write", "close"])
@pytest.mark.parametrize(("error", "reason"), ERRORS, ids=lambda value: type(value).__name__)
def test_one_that_fails_is_put_aside_with_one_notice(where: str, error: BaseException, reason: str) -> None:
    heard, other = Heard(), Kept()
    failing = Failing(where, error)
    run = trained(failing, heard, other)
    expected = f"kept is put aside, and the run goes on without it: {reason}"
    assert heard.texts() == [expected]
    assert run.steps_taken == 8
    assert run.x.tolist() == trained().x.tolist()
    assert other.steps() == list(range(1, 9))
    recorded = [notice for notice in run.notices if notice.kind == "untracked"]
    assert [notice.text for notice in recorded] == [expected]  # also of what fails after the last step
    if where == "open":  # it is said before the run starts
        assert recorded[0].data == {"tracker": "kept", "reason": reason, "left_out": 0}
        assert run.steps[0].notices == recorded
    assert (failing.ended == []) == (where in ("open", "write", "close"))


def test_a_notice_of_a_tracker_is_recorded_with_the_step(monkeypatch: pytest.MonkeyPatch) -> None:
    failing = Failing("write", RuntimeError("away"))
    over = threading.Event()
    fail = failing._at
    monkeypatch.setattr(failing, "_at", lambda where: (over.wait(PROMPT), fail(where)) if where == "write" else None)

    class Slow(Heard):
        def on_step_end(self, row: Any, x: Any) -> None:
            if row.step == 1:
                over.set()
                for one in threading.enumerate():
                    if one.name == "tracker kept":
                        one.join(PROMPT)  # by when it is put aside

    run = trained(failing, Slow())
    (notice,) = [notice for notice in run.notices if notice.kind == "untracked"]
    assert (notice.step, run.steps[2].notices) == (2, [notice])


@pytest.mark.parametrize("where", ["open", "write", "close"])
def test_one_that_hangs_is_put_aside_in_time(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if where != "open":  # while training goes on, no time passes: on a slow machine it takes longer than the patience
        monkeypatch.setattr(showing, "time", SimpleNamespace(monotonic=lambda: 0.0))
    release = threading.Event()
    heard = Heard()
    hanging = Failing(where, RuntimeError(), patience=0.3)
    hanging._at = lambda now: release.wait(PATIENCE) if now == where else None  # type: ignore[method-assign]
    begin = time.monotonic()
    run = trained(hanging, heard)
    assert time.monotonic() - begin < PROMPT
    (text,) = heard.texts()
    assert ("it has not answered for 0.3 s" in text) == (where == "open")
    assert ("it had not written everything 0.3 s after the end" in text) == (where != "open")
    assert run.steps_taken == 8
    release.set()
    time.sleep(0.1)
    if where != "close":  # one that comes back is not called any more
        assert hanging.ended == []


def test_training_does_not_wait_for_one_that_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """What does not fit is counted, and said at the end."""
    monkeypatch.setattr(showing, "MOST", 3)
    held = threading.Event()

    class Slow(Kept):
        def write(self, points: Sequence[Point]) -> None:
            assert held.wait(PROMPT)
            super().write(points)

    class Release(Heard):
        def on_step_end(self, row: Any, x: Any) -> None:
            if row.step == 39:
                held.set()

    slow, heard = Slow(), Release()
    with in_time():
        trained(slow, heard, steps=40)
    (notice,) = [notice for notice in heard.notices if notice.kind == "untracked"]
    left_out = notice.data["left_out"]
    assert notice.text == f"kept could not keep up: it was to show {left_out} more"
    assert left_out > 30
    assert slow.ended == [("finished", [])]


def test_the_notice_is_in_the_records_of_a_run(tmp_path: Path) -> None:
    experiment(tmp_path).run([Failing("open", OSError("away"))])
    (row,) = [row for row in RunFolder.open(tmp_path / "run").step_rows() if row.noticed("untracked")]
    assert row.step == 0
    assert row.noticed("untracked")[0].text == "kept is put aside, and the run goes on without it: OSError: away"


def test_one_of_ones_own_need_not_call_the_first_init() -> None:
    class Counted(Tracker):
        def __init__(self, shown: list[float]) -> None:  # does not call super().__init__
            self.shown = shown

        def open(self, run: TrackedRun, known: str) -> None: ...

        def write(self, points: Sequence[Point]) -> None:
            self.shown += [point.step for point in points if point.kind == "step"]

        def close(self, status: str, files: Sequence[Path]) -> None: ...

    shown: list[float] = []
    trained(Counted(shown), steps=3)
    assert shown == [1.0, 2.0, 3.0]


@pytest.mark.parametrize("patience", [0.0, -1.0, float("nan"), float("inf")])
def test_patience_is_a_number_of_seconds(patience: float) -> None:
    with pytest.raises(InvalidArgument, match="patience must be a positive number of seconds"):
        Kept(patience)


@pytest.mark.parametrize("package", ["tensorboard", "mlflow", "wandb"])
def test_a_package_that_is_missing_is_said_before_the_run_starts(
    package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    class Missing(MetaPathFinder):
        def find_spec(self, name: str, path: object, target: object = None) -> None:
            if name.partition(".")[0] == package:
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [Missing(), *sys.meta_path])
    heard = Heard()
    run = experiment(tmp_path, track=[package]).run([heard])
    (text,) = heard.texts()
    assert text.endswith(f"the run goes on without it: {package} is not installed (pip install {package})")
    assert run.steps[0].noticed("untracked")
    assert run.status == "finished"


def test_nothing_is_left_running() -> None:
    before = {*threading.enumerate()}
    trained(Kept(), Failing("open", OSError()), Failing("write", OSError()))
    for one in {*threading.enumerate()} - before:
        one.join(PROMPT)  # it may be at its end
    assert not {*threading.enumerate()} - before


# --- hostile values ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("auc", "auc"),
        ("a/../b", "a_2f_2e_2e_2fb"),
        ("..", "_2e_2e"),
        ("", "_"),
        ("😀", "_1f600"),
        ("größe 1", "größe 1"),
        ("\udc80\n<b>", "_dc80_a_3cb_3e"),
        ("x" * 300, "x" * 100),
    ],
)
def test_names_of_metrics_are_tame(name: str, expected: str) -> None:
    assert measured({name: 0.5}) == {f"test/{expected}": 0.5}


def test_values_that_are_no_numbers_end_no_run() -> None:
    heard, kept = Heard(), Kept()
    kept.begin("run", {})
    kept.show(Point(1, 0.0, {"a": float("nan"), "b": float("-inf"), "c": np.float32(2)}))
    kept.show(Point(2, 0.0, {"a": "many"}))  # type: ignore[dict-item]
    kept.end("finished")
    (notice,) = kept.own_notices()
    assert "could not convert string to float: 'many'" in notice.text
    assert heard.notices == []


# --- what is imported ---------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_no_package_of_a_tracker_is_loaded_before_it_is_used() -> None:
    code = (
        "import sys, erasurehead as eh, erasurehead.trackers as t, erasurehead.runs._config.checking\n"
        "eh.Experiment, t.TensorBoard('x'), t.MLflow('y'), t.WandB()\n"
        "erasurehead.runs._config.checking.build_config({'run': {'track': ['wandb']}})\n"
        "print(sorted({'tensorboard', 'mlflow', 'wandb', 'google'} & {*sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_run_file_names_trackers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    config = build_config({"run": {"track": ["tensorboard", "MLflow = x", "mlflow=http://127.0.0.1:1", "wandb"]}})
    here = tmp_path.resolve()
    assert config.run.track == (
        f"tensorboard={here}/tensorboard",
        f"mlflow={here}/x",
        "mlflow=http://127.0.0.1:1",
        "wandb=erasurehead",
    )
    assert build_config(config.model_dump()) == config


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("comet", "run.track must be tensorboard, mlflow or wandb, or such as tensorboard=FOLDER"),
        ("tensorboard=", "run.track must be tensorboard, mlflow or wandb"),
        (
            "mlflow=http://me:secret@host/",
            "run.track must hold no password: MLflow takes it from MLFLOW_TRACKING_PASSWORD",
        ),
    ],
)
def test_another_tracker_is_an_error(text: str, rule: str) -> None:
    with pytest.raises(InvalidArgument, match=rule):
        build_config({"run": {"track": [text]}})


def test_trackers_of_settings_are_made_for_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    def make(text: str) -> Tracker:
        made.append(text)
        return Kept()

    monkeypatch.setattr("erasurehead.runs._recording.tracker_of", make)
    experiment(tmp_path, track=["wandb", "wandb=erasurehead", "wandb=other"]).run()
    assert made == ["wandb=erasurehead", "wandb=other"]


# --- arguments ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: WandB(mode="onlin"), "mode must be one of offline, online, but it is 'onlin'."),  # type: ignore[arg-type]
        (lambda: WandB(mode=5), "mode must be one of offline, online, but it is 5."),  # type: ignore[arg-type]
        (lambda: WandB(""), "project must be a name of 1 to 128 characters, but it is ''."),
        (lambda: WandB(" "), "project must be a name of 1 to 128 characters, but it is ' '."),
        (lambda: WandB(5), "project must be a name of 1 to 128 characters, but it is 5."),  # type: ignore[arg-type]
        (lambda: WandB("a/b"), "project must be a name without the characters / \\ # ? % :, but it is 'a/b'."),
        (lambda: TensorBoard(None), "folder must be the path of a folder; None is not one."),  # type: ignore[arg-type]
        (lambda: TensorBoard(5), "folder must be the path of a folder, but it is 5."),  # type: ignore[arg-type]
        (lambda: TensorBoard(""), "folder must be the path of a folder, but it is ''."),
        (lambda: TensorBoard("s3://a"), "folder must be the path of a folder on this machine, but it is 's3://a'."),
        (lambda: MLflow(""), "where must be a folder, or the address of a server or a database, but it is ''."),
        (
            lambda: MLflow("ftp://x"),
            "where must be a folder, or the address of a server or a database, but it is 'ftp://x'; addresses begin "
            "with one of http, https, databricks, file, sqlite, postgresql, mysql, mssql.",
        ),
    ],
)
def test_arguments_that_no_run_could_use_are_refused_at_once(make: Callable[[], Tracker], message: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        make()
    assert str(refused.value) == message


@pytest.mark.parametrize("where", ["ml", Path("ml"), "https://x", "sqlite:///x.db", "mysql+pymysql://x", "file:///x"])
def test_places_that_mlflow_knows_are_taken(where: str | Path) -> None:
    assert str(MLflow(where)).startswith("mlflow=")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "wandb=a/b",
            "erasurehead: --track must be such as wandb=PROJECT, and PROJECT must be a name without the characters "
            "/ \\ # ? % :, but it is 'wandb=a/b'.",
        ),
        (
            "mlflow=ftp://x",
            "erasurehead: --track must be such as mlflow=WHERE, and WHERE must be a folder, or the address of a server "
            "or a database, but it is 'mlflow=ftp://x'.",
        ),
    ],
)
def test_the_command_line_refuses_them_as_well(text: str, message: str) -> None:
    done = typed("train", "--engine", "virtual", "--track", text)
    assert (done.code, done.err.strip()) == (2, message)


def test_callbacks_are_a_list_of_objects(tmp_path: Path) -> None:
    problem, recorded = problems.LeastSquares(np.eye(4), [1.0] * 4), experiment(tmp_path)
    config = recorded.config.model_dump()
    config["run"] = {**config["run"], "out": str(tmp_path / "race"), "preset": None}
    race = Comparison.from_config(config, ["uncoded"])
    optimizer = optimizers.GradientDescent(problem.initial(), 0.1)
    callers: list[Callable[[Any], object]] = [
        lambda callbacks: train(problem, "uncoded", optimizer, "virtual", 2, callbacks),
        lambda callbacks: consensus.train(problem, "ring()", peers=4, steps=2, rate=0.1, callbacks=callbacks),
        recorded.run,
        race.run,
    ]
    for call in callers:
        with pytest.raises(InvalidArgument, match=r"^callbacks must be a list of callbacks, but .*=\[\.\.\.\]\.$"):
            call(Kept())
        with pytest.raises(InvalidArgument, match=r"^callbacks must hold objects of classes .* object: Kept\(\)\.$"):
            call([Kept])
    assert {path.name for path in tmp_path.iterdir()} == {"homes.csv"}


@pytest.mark.parametrize("command", ["train", "compare"])
def test_a_tracker_is_waited_for_by_name_and_json_has_the_notice_that_it_is_put_aside(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    source = experiment(tmp_path).config.data.source
    common = ("--data", source, "--engine", "virtual", "-w", 4, "--steps", 3, "--out", tmp_path / "one", "--json")
    more = () if command == "train" else ("-s", "uncoded", "--no-figures", "--no-alone")
    done = typed(command, *common, *more, "--track", "wandb")
    assert done.code == 0
    notice = (
        "wandb=erasurehead is put aside, and the run goes on without it: wandb is not installed (pip install wandb)"
    )
    assert done.json["warnings"].count(notice) == 1
    assert done.err.count(notice) == 1
    before, _, after = done.err.partition("waiting for wandb=erasurehead ...\n")
    assert notice not in before
    assert notice in after


@pytest.mark.parametrize("where", ["ml", "sqlite:///ml.db"])
def test_mlflow_skinny_alone_says_what_it_lacks(where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "mlflow.entities", SimpleNamespace(Metric=None))
    monkeypatch.setitem(sys.modules, "alembic", None)
    heard, tracker = Heard(), MLflow(where)
    trained(tracker, heard)
    assert heard.texts() == [
        f"{tracker} is put aside, and the run goes on without it: "
        "mlflow-skinny can only write to a server; this needs all of it (pip install mlflow)"
    ]
    assert not [*tmp_path.iterdir()]
