"""Each file that a run folder, a comparison and a folder of shards hold, in each hostile form, met by every command.

Whatever it is: the command ends in time, with a sentence or as if nothing had been, and no foreign file is touched.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from erasurehead.datasets import shard
from erasurehead.errors import DataError, ErasureHeadError, InvalidArgument
from erasurehead.runs import Experiment, Recorder, RunFolder, TrainedModel, replay
from erasurehead.runs._config import merged
from erasurehead.runs._control import ask_for_workers
from erasurehead.runs._locks import FolderLock
from erasurehead.runs._names import make_folder
from erasurehead.runs._resuming import can_be_resumed
from erasurehead.training import Callback

from ..bounded import in_time
from .hostile import FORMS, SECRET, picture, remove

LINES = "size,rooms,price\n" + "".join(f"{30 + n % 70},{1 + n % 6},{90 + 2 * (n % 70)}\n" for n in range(60))


class _Stop(Callback):
    def on_state(self, step: int, state: object) -> None:
        if step == 3:
            raise KeyboardInterrupt


def experiment(data: Path, out: Path, **run: Any) -> Experiment:
    tables: dict[str, Any] = {
        "scheme": "uncoded",
        "data": {"source": str(data)},
        "run": {"engine": "virtual", "preset": "paper", "workers": 2, "steps": 6, "out": str(out)},
        "delays": {"model": "exponential(mean=0.5, seed=1)"},
        "checkpoints": {"every_steps": 1, "behind": 0},
    }
    return Experiment.from_config(merged(tables, {"run": run}))


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with data, and a run on them that was stopped in the middle."""
    place = tmp_path_factory.mktemp("stopped")
    (place / "homes.csv").write_text(LINES)
    experiment(place / "homes.csv", place / "run").run([_Stop()])
    return place


@pytest.fixture
def place(stopped: Path, tmp_path: Path) -> Path:
    """A copy of that run, and a foreign file beside it."""
    shutil.copytree(stopped / "run", tmp_path / "run")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "foreign").write_bytes(SECRET)
    return tmp_path


def _predict(run: Path, data: Path) -> None:
    TrainedModel.load(run).predict(str(data))


def _evaluate(run: Path, data: Path) -> None:
    TrainedModel.load(run).evaluate(str(data))


def _read(run: Path, data: Path) -> None:
    folder = RunFolder.open(run)
    assert folder.summary is not None
    assert folder.tables
    assert folder.run.steps


def _resume(run: Path, data: Path) -> None:
    Experiment.resume(run, {"data": {"source": str(data)}}).run()


def _overwrite(run: Path, data: Path) -> None:
    experiment(data, run, overwrite=True).run()


def _out(run: Path, data: Path) -> None:
    experiment(data, run).run()


COMMANDS: dict[str, Callable[[Path, Path], object]] = {
    "predict": _predict,
    "evaluate": _evaluate,
    "read": _read,
    "resize": lambda run, data: ask_for_workers(run, 3),
    "resume": _resume,
    "replay": lambda run, data: replay(run),
    "overwrite": _overwrite,
    "out": _out,
}

LOOKING = ("predict", "evaluate", "read", "replay", "out")
"""Those that leave the folder as it was, whatever comes of them: it is new for all others."""

OF_A_RUN = (
    "config.toml",
    "steps.jsonl",
    "arrivals.jsonl",
    "evaluations.jsonl",
    "model.safetensors",
    "encoding.json",
    "summary.json",
    "checksums.json",
    ".lock",
    "control.json",
    "checkpoints",
    "checkpoints/newest.json",
    "checkpoints/newest.safetensors",
    "checkpoints/step-0000099.json",
    ".summary.json.new",
    ".config.toml.new",
    ".checksums.json.new",
    "checkpoints/.step-0000004.json.new",
)


def _newest(run: Path, name: str) -> Path:
    """Return the path that a name of the table means in a run."""
    if name.startswith("checkpoints/newest."):
        return max((run / "checkpoints").glob(f"*{Path(name).suffix}"))
    return run / name


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", OF_A_RUN)
def test_no_command_follows_what_a_run_folder_holds_out_of_it(
    place: Path, stopped: Path, name: str, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    data, foreign = stopped / "homes.csv", picture(place / "elsewhere")
    run, honest = place / "run", place / "honest"
    run.rename(honest)
    for command in sorted(COMMANDS, key=LOOKING.__contains__, reverse=True):
        if not run.exists():
            shutil.copytree(honest, run)
            path = _newest(run, name)
            remove(path)
            FORMS[form](path, place / "elsewhere" / "foreign")
            before = picture(run)
        refused = ""
        with in_time():
            hopeful = can_be_resumed(run)
            assert picture(run) == before
            try:
                COMMANDS[command](run, data)
            except ErasureHeadError as error:
                refused = str(error)
                assert str(run) in refused, f"{command}: {refused}"
        if command == "resume":
            assert hopeful == (not refused), refused
        assert picture(place / "elsewhere") == foreign, f"{command} has touched a foreign file"
        if form == "folder" and os.path.lexists(path):
            assert (path / "thesis.tex").read_bytes() == SECRET
        if command in LOOKING or (refused and command in ("overwrite", "resize")):
            assert picture(run) == before, f"{command} has changed the folder"
        else:
            remove(run)


@pytest.mark.parametrize("name", [".lock", "steps.jsonl", "arrivals.jsonl"])
@pytest.mark.parametrize("form", ["link", "second name", "pipe", "folder"])
def test_what_is_written_in_place_is_refused_before_anything_is_touched(place: Path, name: str, form: str) -> None:
    path = place / "run" / name
    remove(path)
    FORMS[form](path, place / "elsewhere" / "foreign")
    before = picture(place)
    with pytest.raises(DataError, match=f"{name} cannot be (used|read): it (is a|has a second name)"):
        Experiment.resume(place / "run")
    with pytest.raises(DataError, match=f"{name} cannot be used: it (is a|has a second name)"):
        ask_for_workers(place / "run", 3)
    with pytest.raises(DataError, match=r"cannot be (used|read)"):
        Recorder.reopen(RunFolder(place / "run"))
    assert picture(place) == before


def test_a_lock_is_looked_at_without_a_trace(place: Path) -> None:
    lock = FolderLock(place / "run" / ".lock")
    before = picture(place)
    with pytest.raises(InvalidArgument, match="is still going on"):
        Experiment.resume(place / "run")
    with pytest.raises(InvalidArgument, match="is still going on"):
        make_folder(place / "run", overwrite=True)
    assert picture(place) == before
    lock.release()


def test_resuming_removes_no_file_of_the_users(place: Path, stopped: Path) -> None:
    strange = ["thesis.tex", "step-1.json", "step-0000001.json.bak", "tensors-0000001.safetensors~", ".step-1.json.new"]
    for name in strange:
        (place / "run" / "checkpoints" / name).write_bytes(SECRET)
    _resume(place / "run", stopped / "homes.csv")
    assert set(strange) <= set(os.listdir(place / "run" / "checkpoints"))
    assert all((place / "run" / "checkpoints" / name).read_bytes() == SECRET for name in strange)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["figures", "figures/progress.png", "comparison.json", "exact", "exact/steps.jsonl"])
def test_an_overwritten_comparison_is_looked_at_as_a_whole_before(tmp_path: Path, name: str, form: str) -> None:
    place = tmp_path / "comparison"
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "foreign").write_bytes(SECRET)
    for folder, file in (("figures", "progress.png"), ("exact", "steps.jsonl"), (".", "comparison.json")):
        (place / folder).mkdir(parents=True, exist_ok=True)
        (place / folder / file).write_text("{}\n")
    remove(place / name)
    FORMS[form](place / name, tmp_path / "elsewhere" / "foreign")
    before = picture(tmp_path)
    if form == "second name" and name not in ("figures", "exact"):  # only the name goes
        assert list(make_folder(place, overwrite=True).iterdir()) == []
        assert (tmp_path / "elsewhere" / "foreign").read_bytes() == SECRET
        return
    with pytest.raises(InvalidArgument, match="is not overwritten: it holds"):
        make_folder(place, overwrite=True)
    assert picture(tmp_path) == before


@pytest.mark.parametrize("form", [form for form in FORMS if form != "second name"])
@pytest.mark.parametrize("name", ["manifest.json", "task-00000.safetensors", "encoding.json", "test.safetensors"])
def test_shards_are_files_of_their_folder(tmp_path: Path, name: str, form: str) -> None:
    (tmp_path / "homes.csv").write_text(LINES)
    folder = shard(tmp_path / "homes.csv", 2, tmp_path / "shards")
    assert folder.check() == []
    (tmp_path / "elsewhere").mkdir()
    shutil.copy(folder.path / name, tmp_path / "elsewhere" / "foreign")  # the very bytes that are expected
    remove(folder.path / name)
    FORMS[form](folder.path / name, tmp_path / "elsewhere" / "foreign")
    with in_time():
        if name == "manifest.json":
            with pytest.raises(DataError, match=f"{name} cannot be read: it is a"):
                type(folder).open(folder.path)
        else:
            (said,) = type(folder).open(folder.path).check()
            assert f"{name} cannot be read: it is a" in said
