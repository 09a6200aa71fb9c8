"""TensorBoard, MLflow and Weights & Biases themselves, what was written read back with what they bring for that."""

from __future__ import annotations

import json
import math
import socket
import subprocess
import sys
from collections.abc import Generator, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from erasurehead.runs import Experiment, RunFolder
from erasurehead.trackers import MLflow, TensorBoard, Tracker, WandB, _background as showing
from erasurehead.trackers._tracked_run import Point
from erasurehead.trackers._tracker import measured

from ..typed import typed
from .made import Heard, Stop, experiment, trained

needs = {
    name: pytest.mark.skipif(find_spec(name) is None, reason=f"{name} is not installed")
    for name in ("tensorboard", "mlflow", "wandb", "alembic")
}
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # those of the packages

HOSTILE = [
    Point(1, 0.5, {"loss": math.nan, **measured({"a/../😀": math.inf, "\udc80": -math.inf})}),
    Point(2, 1.0, {"loss": 1e300, **measured({"": 0.0})}),
    Point(2, 1.0, {}, "died", "worker 3 died: <script>alert(1)</script> | 😀\n| a"),
    Point(2, 1.0, {}, "died", "worker 4 died: killed"),
]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(showing, "_PAUSE", 0.05)
    return tmp_path


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail whatever connects to other machines, or asks for their addresses."""
    connect = socket.socket.connect

    def guarded(own: socket.socket, address: Any) -> None:
        if own.family != socket.AF_UNIX and address[0] not in ("127.0.0.1", "::1", "localhost"):
            raise AssertionError(f"{address} is asked for")
        connect(own, address)

    monkeypatch.setattr(socket.socket, "connect", guarded)


def shown(tracker: Tracker, points: Sequence[Point] = HOSTILE) -> None:
    """Show entries in a run that is called as people should not call one."""
    tracker.begin("a/b 😀", {"scheme": "x" * 10_000, "run.workers": "3", "odd": "a\n| b"})
    for point in points:
        tracker.show(point)
    tracker.end("finished")
    assert [notice.text for notice in tracker.own_notices()] == []


def twice(tracker: Tracker, place: Path) -> None:
    """Show a run that is cut off after step 5, whose newest checkpoint is that of step 4, and resumed."""
    experiment(place).run([tracker, Stop(5)])
    heard = Heard()
    run = Experiment.resume(place / "run").run([tracker, heard])
    assert run.status == "finished"
    assert heard.texts() == []


# --- TensorBoard ------------------------------------------------------------------------------------------------------


def events(place: Path) -> Any:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(str(place), size_guidance={"scalars": 0, "tensors": 0})
    found.Reload()
    return found


def said(found: Any, tag: str) -> list[tuple[int, str]]:
    return [(one.step, one.tensor_proto.string_val[0].decode()) for one in found.Tensors(f"{tag}/text_summary")]


@needs["tensorboard"]
def test_tensorboard_reads_what_was_written(tmp_path: Path) -> None:
    run = trained(TensorBoard(tmp_path / "tb"), kill=3)
    found = events(tmp_path / "tb" / run.scheme)
    losses = found.Scalars("loss")
    assert [one.step for one in losses] == [row.step + 1 for row in run.steps]
    assert [one.value for one in losses] == pytest.approx([row.loss for row in run.steps], rel=1e-6)
    assert [one.wall_time - losses[0].wall_time for one in losses] == pytest.approx(
        [row.end - run.steps[0].end for row in run.steps], abs=1e-5
    )
    assert len(found.Scalars("test/auc")) == len(run.evaluations)
    assert {notice.kind for notice in run.notices} == {"died", "joined"}
    for notice in run.notices:
        assert said(found, notice.kind) == [((notice.step or 0) + 1, notice.text)]
    assert "steps = 8" in said(found, "settings")[0][1]


@needs["tensorboard"]
def test_tensorboard_takes_what_is_hostile(tmp_path: Path) -> None:
    tracker = TensorBoard(tmp_path)
    shown(tracker)
    shown(tracker)  # another folder for another run of the same name
    assert len([*tmp_path.iterdir()]) == 2
    found = events(tmp_path / "a-b 😀")
    (first, second), (away,) = found.Scalars("loss"), found.Scalars("test/a_2f_2e_2e_2f_1f600")
    assert math.isnan(first.value)
    assert (second.value, away.value) == (math.inf, math.inf)  # of single precision
    assert [step for step, _ in said(found, "died")] == [2, 2]
    assert all(line.startswith("    ") for line in said(found, "settings")[0][1].split("\n"))


@needs["tensorboard"]
def test_tensorboard_goes_on_with_a_resumed_run(tmp_path: Path) -> None:
    twice(TensorBoard(tmp_path / "tb"), tmp_path)
    assert [path.name for path in (tmp_path / "tb").iterdir()] == ["run"]
    found = events(tmp_path / "tb" / "run")
    assert [one.step for one in found.Scalars("loss")] == list(range(1, 11))
    run = RunFolder.open(tmp_path / "run").run
    assert [one.value for one in found.Scalars("waited")] == pytest.approx([row.waited for row in run.steps], rel=1e-6)


@needs["tensorboard"]
def test_a_folder_of_tensorboard_stays_where_it_belongs(tmp_path: Path) -> None:
    tracker = TensorBoard(tmp_path / "tb")
    experiment(tmp_path).run([tracker, Stop(5)])
    noted = tmp_path / "run" / "trackers.json"
    for elsewhere in ("../../gone", "/gone"):
        noted.write_text(noted.read_text().replace('"id": "run"', f'"id": "{elsewhere}"'))
        Experiment.resume(tmp_path / "run").run([tracker, Stop(7)])
    assert {path.name for path in tmp_path.iterdir()} == {"homes.csv", "run", "tb"}
    assert not Path("/gone").exists()


@needs["tensorboard"]
def test_a_folder_that_cannot_be_made_is_a_notice(tmp_path: Path) -> None:
    (tmp_path / "tb").write_text("")
    heard = Heard()
    trained(TensorBoard(tmp_path / "tb"), heard)
    (text,) = heard.texts()
    assert "the run goes on without it: NotADirectoryError: " in text


# --- MLflow -----------------------------------------------------------------------------------------------------------


def runs_of(where: str, experiment: str = "erasurehead") -> tuple[Any, list[Any]]:
    from mlflow import MlflowClient

    client = MlflowClient(where)
    return client, list(client.search_runs([client.get_experiment_by_name(experiment).experiment_id]))


@pytest.fixture(params=["files", pytest.param("database", marks=needs["alembic"])])
def store(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> tuple[str, str]:
    """Where to track, and the address of what is there then: files, which mlflow-skinny has, too, or a database."""
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    place = tmp_path / "ml"
    if request.param == "files":
        return place.as_uri(), place.as_uri()
    return str(place), f"sqlite:///{place / 'mlflow.db'}"


@needs["mlflow"]
def test_mlflow_reads_what_was_written(tmp_path: Path, store: tuple[str, str]) -> None:
    experiment(tmp_path).run([MLflow(store[0], "houses", files=True)])
    client, (run,) = runs_of(store[1], "houses")
    recorded = RunFolder.open(tmp_path / "run").run
    assert (run.info.run_name, run.info.status) == ("run", "FINISHED")
    assert run.data.params["run.workers"] == "6"
    losses = client.get_metric_history(run.info.run_id, "loss")
    assert [(one.step, one.value) for one in losses] == [(row.step + 1, row.loss) for row in recorded.steps]
    assert (losses[-1].timestamp - losses[0].timestamp) / 1000 == pytest.approx(
        recorded.steps[-1].end - recorded.steps[0].end, abs=0.002
    )
    assert run.data.metrics["test/r2"] == recorded.evaluations[-1].metrics["r2"]
    names = {file.path for file in client.list_artifacts(run.info.run_id)}
    assert names == {"config.toml", "summary.json", "evaluations.jsonl"}
    assert {path.name for path in tmp_path.iterdir()} == {"homes.csv", "run", "ml"}


@needs["mlflow"]
def test_mlflow_takes_what_is_hostile(tmp_path: Path, store: tuple[str, str]) -> None:
    shown(MLflow(store[0]))
    client, (run,) = runs_of(store[1])
    first, second = client.get_metric_history(run.info.run_id, "loss")
    assert math.isnan(first.value)
    assert second.value == 1e300
    assert client.get_metric_history(run.info.run_id, "test/a_2f_2e_2e_2f_1f600")[0].value > 1e300
    notices = [text for key, text in run.data.tags.items() if key.startswith("died 1.000 s ")]
    assert sorted(notices) == sorted(entry.text for entry in HOSTILE[2:])
    assert len(run.data.params["scheme"]) == 6000


@needs["mlflow"]
def test_mlflow_goes_on_with_a_resumed_run(tmp_path: Path, store: tuple[str, str]) -> None:
    twice(MLflow(store[0]), tmp_path)
    client, (run,) = runs_of(store[1])
    assert [one.step for one in client.get_metric_history(run.info.run_id, "loss")] == list(range(1, 11))
    assert run.info.status == "FINISHED"


@needs["mlflow"]
def test_a_server_that_is_away_does_not_hold_a_run_up() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        heard = Heard()
        run = trained(MLflow(f"http://127.0.0.1:{free.getsockname()[1]}", patience=1.0), heard)
    (text,) = heard.texts()
    assert "is put aside, and the run goes on without it: " in text
    assert run.steps_taken == 8


@needs["mlflow"]
def test_a_run_of_the_script_s_own_is_left_alone(tmp_path: Path, store: tuple[str, str]) -> None:
    import mlflow

    mlflow.set_tracking_uri((tmp_path / "own").as_uri())
    with mlflow.start_run() as own:
        trained(MLflow(store[0]))
        active = mlflow.active_run()
        assert active is not None
        assert active.info.run_id == own.info.run_id
    assert len(runs_of(store[1])[1]) == 1


# --- Weights & Biases -------------------------------------------------------------------------------------------------


def end_service() -> None:
    """End the process that wandb starts, and that writes its files, as it ends with this one."""
    if "wandb" in sys.modules:
        sys.modules["wandb"].teardown()


@pytest.fixture(scope="module", autouse=True)
def no_service() -> Generator[None]:
    """Leave no process of wandb behind."""
    yield
    end_service()


_BLOCK = 1 << 15
_LAST = {1, 4}  # kinds of pieces that end a record: one that is whole, and the last of several


def scanned(data: bytes) -> Iterator[bytes]:
    """Yield the records of a file of wandb, which is a log of LevelDB behind seven bytes of its own."""
    assert data.startswith(b":W&B")
    place, record = 7, b""
    while place + 7 <= len(data):
        if _BLOCK - place % _BLOCK < 7:  # the rest of a block in which no piece can begin
            place += _BLOCK - place % _BLOCK
            continue
        length, kind = int.from_bytes(data[place + 4 : place + 6], "little"), data[place + 6]
        record += data[place + 7 : place + 7 + length]
        place += 7 + length
        if kind in _LAST:
            yield record
            record = b""


def offline(place: Path) -> list[dict[str, Any]]:
    """Return what is in the files of runs that were kept on this machine, in order: their records as plain data."""
    from google.protobuf.json_format import MessageToDict
    from wandb.proto.wandb_internal_pb2 import Record

    end_service()
    records: list[dict[str, Any]] = []
    for path in sorted(place.glob("offline-run-*/run-*.wandb"), key=lambda path: path.stat().st_mtime_ns):
        records += [MessageToDict(Record.FromString(data)) for data in scanned(path.read_bytes())]
    return records


def rows(records: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for record in records:
        items = record.get("history", {}).get("item", [])
        if items:
            found.append({(item.get("key") or item["nestedKey"][0]): json.loads(item["valueJson"]) for item in items})
    return found


@needs["wandb"]
def test_wandb_reads_what_was_written(tmp_path: Path) -> None:
    experiment(tmp_path).run([WandB("houses", files=True)])
    records = offline(tmp_path / "wandb")
    recorded = RunFolder.open(tmp_path / "run").run
    (run,) = [record["run"] for record in records if "run" in record]
    assert (run["project"], run["displayName"]) == ("houses", "run")
    settings = {item["key"]: json.loads(item["valueJson"]) for item in run["config"]["update"]}
    assert settings["run.workers"] == "6"
    steps = [row for row in rows(records) if "loss" in row]
    assert [(row["step"], row["seconds"], row["loss"]) for row in steps] == [
        (row.step + 1, row.end, row.loss) for row in recorded.steps
    ]
    assert [row["test/r2"] for row in rows(records) if "test/r2" in row] == [
        one.metrics["r2"] for one in recorded.evaluations
    ]
    (kept,) = (tmp_path / "wandb").glob("offline-run-*/files")
    assert {"config.toml", "summary.json"} <= {path.name for path in kept.iterdir()}


@needs["wandb"]
def test_wandb_takes_what_is_hostile(tmp_path: Path) -> None:
    shown(WandB())
    found = rows(offline(tmp_path / "wandb"))
    assert math.isnan(found[0]["loss"])
    assert math.isinf(found[0]["test/a_2f_2e_2e_2f_1f600"])
    assert [row["notice/died"] for row in found if "notice/died" in row] == [entry.text for entry in HOSTILE[2:]]


@needs["wandb"]
def test_wandb_goes_on_with_a_resumed_run(tmp_path: Path) -> None:
    twice(WandB(), tmp_path)
    records = offline(tmp_path / "wandb")
    assert len({record["run"]["runId"] for record in records if "run" in record}) == 1
    assert [row["step"] for row in rows(records) if "loss" in row] == list(range(1, 11))


# --- the command line -------------------------------------------------------------------------------------------------


def own_lines(text: str) -> list[str]:
    """Return what was said, without what MLflow says when it makes a database."""
    return [line for line in text.splitlines() if " INFO mlflow." not in line]


@needs["tensorboard"]
@needs["mlflow"]
@needs["wandb"]
def test_a_comparison_is_tracked_from_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    source = experiment(tmp_path).config.data.source
    where = "ml" if find_spec("alembic") else (tmp_path / "ml").as_uri()
    track = ("--track", "tensorboard", "--track", f"mlflow={where}", "--track", "wandb=houses")
    common = ("--data", source, "--engine", "virtual", "-w", 4, "--steps", 3, "--out", "race", "-q", "--no-figures")
    done = typed("compare", *common, "--no-alone", "-s", "uncoded", "-s", "exact(load=2)", *track)
    assert (done.code, own_lines(done.err)) == (0, [])
    assert {path.name for path in (tmp_path / "tensorboard" / "race").iterdir()} == {"uncoded", "exact"}
    _, found = runs_of("sqlite:///ml/mlflow.db" if find_spec("alembic") else where)
    assert {(run.info.run_name, run.data.tags["group"]) for run in found} == {("uncoded", "race"), ("exact", "race")}
    assert len([*(tmp_path / "wandb").glob("offline-run-*")]) == 2
    again = typed("compare", *common, "--no-alone", "-s", "uncoded", "-s", "exact(load=2)", "--overwrite", *track)
    assert (again.code, own_lines(again.err)) == (0, [])


@needs["tensorboard"]
def test_peers_are_tracked_and_go_on_from_the_command_line(tmp_path: Path) -> None:
    source = experiment(tmp_path).config.data.source
    common = ("consensus", "--no-against-full", "--no-pictures", "-q")
    begin = ("--data", source, "--peers", 4, "--graph", "ring()", "--steps", 4, "--out", "peers", "--rate", 1e-6)
    assert typed(*common, *begin, "--track", "tensorboard=tb").code == 0
    assert typed(*common, "--resume", "peers", "--steps", 8).code == 0
    found = events(tmp_path / "tb" / "peers")
    assert [one.step for one in found.Scalars("objective")] == [0, 2, 4, 6, 8]
    (first, begun), (later, resumed) = said(found, "settings")
    assert (first, later) == (0, 4)
    assert "run.steps = 4" in begun
    assert "run.steps = 8" in resumed


def test_without_the_packages_the_command_line_says_so_once_and_goes_on(tmp_path: Path) -> None:
    source = experiment(tmp_path).config.data.source
    code = (
        "import sys; sys.modules['wandb'] = None\n"
        "from erasurehead.cli import main; sys.argv = ['erasurehead', *sys.argv[1:]]; main()"
    )
    arguments = ("train", "--data", source, "--engine", "virtual", "-w", "4", "--steps", "3", "--out", "one", "-q")
    command = [sys.executable, "-c", code, *arguments, "--track", "wandb"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    (line,) = [line for line in done.stderr.splitlines() if "wandb" in line]
    assert line == (
        "wandb=erasurehead is put aside, and the run goes on without it: wandb is not installed (pip install wandb)"
    )
    unknown = subprocess.run([*command[:-1], "comet"], capture_output=True, text=True, check=False)
    assert unknown.returncode == 2
    assert unknown.stderr.strip() == (
        "erasurehead: --track must be tensorboard, mlflow or wandb, or such as tensorboard=FOLDER, but it is 'comet'."
    )
