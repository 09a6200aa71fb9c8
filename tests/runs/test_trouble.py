"""Disks that are full, read-only or gone: training ends with a sentence and its last good checkpoint, or goes on."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from erasurehead import delays, engines, optimizers, schemes, training
from erasurehead.errors import RecordsError
from erasurehead.runs import Checkpointer, Recorder, RunFolder
from erasurehead.runs._jsonl import read_lines
from erasurehead.runs._names import ARRIVALS, STEPS
from erasurehead.testing._problems import Quadratic
from erasurehead.training import Callback, Notice, Run

STEPS_DONE = 12
TROUBLE_AT = 6


class _At(Callback):
    """Does something when a step is done, and keeps the run as it ended."""

    def __init__(self, act: Callable[[], object], step: int = TROUBLE_AT) -> None:
        self.act, self.at = act, step
        self.run: Run | None = None

    def on_state(self, step: int, state: object) -> None:
        if step == self.at:
            self.act()

    def on_end(self, run: Run) -> None:
        self.run = run


def train(recorder: Recorder, *watching: Callback) -> Run:
    problem = Quadratic.random(24, 2000, seed=1, l2=0.01)
    return training.train(
        problem,
        schemes.erasurehead(6, load=2, wait_for=3),
        optimizers.Nesterov(problem.initial(), 1e-3),
        engines.VirtualEngine(delays.Exponential(mean=0.5, seed=3), "carry"),
        STEPS_DONE,
        [recorder, Checkpointer(recorder, every_steps=1, behind=0), *watching],
        resume=recorder.resumption,
    )


def _mount(*arguments: object) -> None:
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("only root can mount a file system of its own")
    done = subprocess.run(["mount", *map(str, arguments)], capture_output=True, text=True, timeout=20, check=False)
    if done.returncode:
        pytest.skip(f"no file system can be mounted here: {done.stderr.strip()}")


def _unmount(path: Path) -> None:
    subprocess.run(["umount", "-l", str(path)], timeout=20, check=False, capture_output=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of two megabytes."""
    path = tmp_path / "disk"
    path.mkdir()
    _mount("-t", "tmpfs", "-o", "size=2m", "none", path)
    yield path
    _unmount(path)


def fill(disk: Path) -> None:
    with (disk / "filler").open("wb", buffering=0) as file:
        try:
            while file.write(bytes(4096)):
                pass
        except OSError:
            return


def readable(run: Path) -> list[int]:
    """Return the steps on record; raises if a line is damaged."""
    for name in (STEPS, ARRIVALS):
        data = (run / name).read_bytes()
        assert not data or data.endswith(b"\n")
        read_lines(run / name)
    return [row["step"] for row in read_lines(run / STEPS)]


def whole(path: Path) -> Run:
    return train(Recorder(RunFolder.create(path)))


def test_a_full_disk_ends_training_cleanly_and_the_run_goes_on_when_there_is_room(disk: Path, tmp_path: Path) -> None:
    full = _At(lambda: fill(disk))
    told: list[Notice] = []
    recorder = Recorder(RunFolder.create(disk / "run"), notify=told.append)
    with pytest.raises(RecordsError, match=r"disk/run/.* cannot be written: No space left on device"):
        train(recorder, full)
    assert full.run is not None  # the model is not lost with its records
    assert full.run.x.any()
    assert "No space left" in full.run.stopped
    assert readable(disk / "run")[:TROUBLE_AT] == list(range(TROUBLE_AT))
    (disk / "filler").unlink()
    again = train(Recorder.reopen(RunFolder.open(disk / "run")))
    assert again.x.tobytes() == whole(tmp_path / "whole").x.tobytes()
    assert readable(disk / "run") == list(range(STEPS_DONE))


def test_a_disk_that_is_full_at_the_very_end_costs_nothing(disk: Path, tmp_path: Path) -> None:
    with pytest.raises(RecordsError, match="cannot be written: No space left on device"):
        train(Recorder(RunFolder.create(disk / "run")), _At(lambda: fill(disk), STEPS_DONE))
    assert RunFolder.open(disk / "run").summary["status"] != "finished"
    (disk / "filler").unlink()
    again = train(Recorder.reopen(RunFolder.open(disk / "run")))
    expected = whole(tmp_path / "whole")
    assert again.x.tobytes() == expected.x.tobytes()
    assert again.evaluations == expected.evaluations
    assert RunFolder.open(disk / "run").summary["status"] == "finished"


def test_a_full_disk_does_not_end_training_if_records_are_optional(disk: Path) -> None:
    told: list[Notice] = []
    recorder = Recorder(RunFolder.create(disk / "run"), required=False, notify=told.append)
    run = train(recorder, _At(lambda: fill(disk)))
    assert (len(run.steps), run.stopped) == (STEPS_DONE, "")
    assert [one for one in told if "Training goes on without" in one.text]
    assert len(told) <= 2  # once of the records, once of the checkpoints
    readable(disk / "run")


def test_checkpoints_that_cannot_be_written_end_training_with_the_records_whole(tmp_path: Path) -> None:
    run = tmp_path / "run"
    folder = run / "checkpoints"
    try:
        trouble = _At(lambda: _mount("--bind", "-o", "ro", folder, folder))
        with pytest.raises(RecordsError, match=r"checkpoints/tensors-.* cannot be written: Read-only file"):
            train(Recorder(RunFolder.create(run)), trouble)
    finally:
        _unmount(folder)
    assert readable(run) == list(range(TROUBLE_AT + 1))
    assert RunFolder.open(run).summary["status"] == "records"
    assert RunFolder.open(run).x.any()
    again = train(Recorder.reopen(RunFolder.open(run)))
    assert again.x.tobytes() == whole(tmp_path / "whole").x.tobytes()


def test_checkpoints_that_cannot_be_written_are_done_without_if_they_are_optional(tmp_path: Path) -> None:
    told: list[Notice] = []
    run = tmp_path / "run"
    recorder = Recorder(RunFolder.create(run), required=False, notify=told.append)
    trouble = _At(lambda: (shutil.rmtree(run / "checkpoints"), (run / "checkpoints").write_text("in the way")))
    assert train(recorder, trouble).stopped == ""
    assert len(told) == 1
    assert told[0].text.endswith("cannot be written: Not a directory. Training goes on without checkpoints.")
    assert readable(run) == list(range(STEPS_DONE))
    assert RunFolder.open(run).summary["status"] == "finished"


@pytest.mark.parametrize("required", [True, False])
def test_a_folder_that_is_removed_is_noticed(tmp_path: Path, required: bool) -> None:
    told: list[Notice] = []
    gone = _At(lambda: shutil.rmtree(tmp_path / "run"))
    recorder = Recorder(RunFolder.create(tmp_path / "run"), required=required, notify=told.append)
    if required:
        with pytest.raises(RecordsError, match=r"jsonl cannot be written: its folder was removed or moved while"):
            train(recorder, gone)
        assert gone.run is not None
        assert len(gone.run.steps) == TROUBLE_AT + 1
    else:
        assert len(train(recorder, gone).steps) == STEPS_DONE
        assert "Training goes on without records" in told[0].text
    assert not (tmp_path / "run").exists()


def _cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def _more(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b'{"n":"more"}\n')


@pytest.mark.slow
@pytest.mark.parametrize("name", [STEPS, ARRIVALS])
@pytest.mark.parametrize(
    ("act", "said"),
    [
        (lambda path: os.truncate(path, 0), "something else has changed it"),
        (_cut, "something else has changed it"),
        (_more, "something else has changed it"),
        (Path.unlink, "it was removed"),
    ],
)
@pytest.mark.parametrize("at", [TROUBLE_AT, STEPS_DONE])
def test_a_run_whose_rows_were_changed_ends_with_a_sentence_and_its_model(
    tmp_path: Path, name: str, act: Callable[[Path], object], said: str, at: int
) -> None:
    path = tmp_path / "run"
    recorder = Recorder(folder := RunFolder.create(path))
    with pytest.raises(RecordsError, match=f"{name} cannot be written: {said}"):
        train(recorder, _At(lambda: act(path / name), at))
    assert recorder.summary["status"] == folder.summary["status"] == "records"
    assert (folder.x == recorder.x).all()
    steps, whole_run = list(recorder.kept_rows()[0]), whole(tmp_path / "whole")
    assert steps == [row for row in whole_run.steps if row in steps]


def test_a_run_whose_rows_were_changed_goes_on_without_records_if_they_are_optional(tmp_path: Path) -> None:
    told: list[Notice] = []
    recorder = Recorder(RunFolder.create(tmp_path / "run"), required=False, notify=told.append)
    run = train(recorder, _At(lambda: os.truncate(tmp_path / "run" / STEPS, 0)))
    assert run.x.tobytes() == whole(tmp_path / "whole").x.tobytes()
    assert "Training goes on without records" in told[0].text


@pytest.mark.parametrize(
    ("act", "said"),
    [
        (lambda run: ((run / STEPS).rename(run / "old"), (run / STEPS).touch()), "another file was put in its place"),
        (lambda run: run.rename(run.with_name("moved")), "its folder was removed or moved"),
    ],
)
def test_a_run_whose_rows_were_replaced_ends_with_a_sentence(
    tmp_path: Path, act: Callable[[Path], object], said: str
) -> None:
    trouble = _At(lambda: act(tmp_path / "run"))
    with pytest.raises(RecordsError, match=f"jsonl cannot be written: {said} while the run went on"):
        train(Recorder(RunFolder.create(tmp_path / "run")), trouble)
    assert trouble.run is not None
    assert trouble.run.status == "records"
    assert [row.step for row in trouble.run.steps] == list(range(TROUBLE_AT + 1))


def test_a_file_that_may_not_be_written_to_any_more_is_written_through_the_descriptor(tmp_path: Path) -> None:
    trouble = _At(lambda: (tmp_path / "run" / STEPS).chmod(0o400))
    run = train(Recorder(RunFolder.create(tmp_path / "run")), trouble)
    assert readable(tmp_path / "run") == [row.step for row in run.steps] == list(range(STEPS_DONE))
