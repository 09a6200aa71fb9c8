"""The run folder: what was recorded is read back, whatever happened to the run, in whatever state its files are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from erasurehead import delays, engines, optimizers, schemes, training
from erasurehead.errors import DataError, Diverged, Unreachable
from erasurehead.faults import FaultPolicy
from erasurehead.runs import Recorder, RunFolder
from erasurehead.runs._names import ARRIVALS, MODEL, STEPS
from erasurehead.testing._problems import Quadratic
from erasurehead.training import ArrivalRow, Callback, Run, StepRow

STEPS_DONE = 6


def train(folder: RunFolder, *watching: Callback, rate: float = 0.1, scheme: schemes.Scheme | None = None) -> Run:
    problem = Quadratic.random(24, 5, seed=1, l2=0.01)
    return training.train(
        problem,
        scheme or schemes.erasurehead(6, load=2, wait_for=3),
        optimizers.Nesterov(problem.initial(), rate),
        engines.VirtualEngine(delays.Exponential(mean=0.5, seed=3), "carry"),
        STEPS_DONE,
        [Recorder(folder, {"data": {"name": "random"}}), *watching],
    )


def test_a_run_is_read_back_as_it_was(tmp_path: Path) -> None:
    run = train(RunFolder.create(tmp_path / "deep" / "run"))
    folder = RunFolder.open(tmp_path / "deep" / "run")
    again = folder.run
    assert again.x.tobytes() == run.x.tobytes()
    assert again.steps == list(run.steps)
    assert again.arrivals == list(run.arrivals)
    assert any(row.late for row in again.arrivals)
    assert again.evaluations == run.evaluations
    assert (again.scheme, again.engine, again.stopped) == (run.scheme, run.engine, "")
    assert (again.start_seconds, again.seconds_per_step) == (run.start_seconds, run.seconds_per_step)


@pytest.mark.parametrize("ending", [{"until": "gap < 0.5"}, {"max_seconds": 2.0}, {"tolerance": 0.99}, {}], ids=str)
def test_what_ended_a_run_is_read_back(ending: dict[str, Any], tmp_path: Path) -> None:
    problem = Quadratic.random(24, 5, seed=1, l2=0.01)
    optimizer = optimizers.GradientDescent(problem.initial(), 0.05)
    engine, recorder = engines.VirtualEngine(delays.Exponential(0.5)), Recorder(RunFolder.create(tmp_path / "run"))
    run = training.train(problem, schemes.exact(6, load=2), optimizer, engine, 30, [recorder], **ending)
    again = RunFolder.open(tmp_path / "run").run
    expected = next(iter(ending), "steps")
    assert again.ended == run.ended == ("converged" if expected == "tolerance" else expected)
    assert again.optimum == run.optimum
    assert list(again.measured) == list(run.measured)[-1:]


def test_the_summary_has_the_figures_of_the_run(tmp_path: Path) -> None:
    run = train(RunFolder.create(tmp_path))
    summary = RunFolder.open(tmp_path).summary
    assert (summary["status"], summary["reason"]) == ("finished", "")
    assert (summary["engine"], summary["scheme"], summary["workers"]) == ("virtual", "erasurehead", 6)
    assert (summary["steps"], summary["steps_planned"]) == (STEPS_DONE, STEPS_DONE)
    assert summary["data"] == {"name": "random"}
    assert summary["residual"] == pytest.approx(np.mean([row.residual for row in run.steps]))
    assert summary["bytes_per_step"] == pytest.approx(np.mean([row.received for row in run.steps]))
    assert summary["workers_waited_for"] == pytest.approx(np.mean([row.arrived for row in run.steps]))
    assert summary["metrics"] == run.evaluations[-1].metrics
    assert {"erasurehead", "python", "numpy", "scipy"} <= set(summary["versions"])


class _Look(Callback):
    """Reads the records back while the run goes on, as another process would."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.seen: list[Run] = []

    def on_step_end(self, row: StepRow, x: np.ndarray) -> None:
        self.seen.append(RunFolder.open(self.path).run)


def test_every_step_is_on_disk_when_it_is_done(tmp_path: Path) -> None:
    look = _Look(tmp_path)
    run = train(RunFolder.create(tmp_path), look)
    for number, seen in enumerate(look.seen, start=1):
        assert seen.steps == list(run.steps[:number])
        assert {row.step for row in seen.arrivals} == set(range(number))
        assert (seen.stopped, seen.x.size) == ("cut off, or still going on", 0)


def test_a_last_line_that_was_cut_off_is_passed_over(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path)
    run = train(folder)
    folder.rows_may_change()  # as while a run goes on, and when it was killed
    for name in (STEPS, ARRIVALS):
        path = tmp_path / name
        path.write_bytes(path.read_bytes()[:-20])
    again = RunFolder.open(tmp_path).run
    assert again.steps == list(run.steps[:-1])
    assert again.arrivals == list(run.arrivals[:-1])


def test_a_damaged_line_is_named(tmp_path: Path) -> None:
    train(RunFolder.create(tmp_path))
    path = tmp_path / STEPS
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([lines[0], "{broken\n", *lines[2:]]))
    with pytest.raises(DataError, match=rf"{STEPS}, line 2: not JSON"):
        _ = RunFolder.open(tmp_path).run
    RunFolder(tmp_path).rows_may_change()
    path.write_text('{"step": 1}\n')
    with pytest.raises(DataError, match="without 'round'"):
        _ = RunFolder.open(tmp_path).run


def test_keys_of_later_versions_are_passed_over(tmp_path: Path) -> None:
    run = train(RunFolder.create(tmp_path))
    path = tmp_path / STEPS
    rows = [json.loads(line) | {"mood": "good"} for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    RunFolder(tmp_path).rows_are_final()
    assert RunFolder.open(tmp_path).run.steps == list(run.steps)


class _Press(Callback):
    """Presses Ctrl-C in a step."""

    def on_step_end(self, row: StepRow, x: np.ndarray) -> None:
        if row.step == 2:
            raise KeyboardInterrupt


def test_after_ctrl_c_the_records_and_the_model_so_far_are_there(tmp_path: Path) -> None:
    run = train(RunFolder.create(tmp_path), _Press())
    folder = RunFolder.open(tmp_path)
    assert (folder.summary["status"], folder.summary["reason"]) == ("interrupted", "stopped by Ctrl-C")
    assert folder.run.status == "interrupted"
    assert [row.step for row in folder.run.steps] == [0, 1, 2]
    assert folder.run.stopped == "stopped by Ctrl-C"
    assert folder.x.tobytes() == run.x.tobytes()


class _Kill(Callback):
    """Ends two workers of one group before the first step."""

    def __init__(self, engine: engines.VirtualEngine) -> None:
        self.engine = engine

    def on_start(self, seconds: float) -> None:
        for worker in (0, 1):
            self.engine.kill(worker)


class _StopsWhileWaiting(Callback):
    """Ends a run as Ctrl-C does, when a message of an earlier step has come in: in the middle of the waiting."""

    def __init__(self) -> None:
        self.late: list[ArrivalRow] = []
        self.steps = 0

    def on_step_end(self, row: StepRow, x: object) -> None:
        self.steps += 1

    def on_arrival(self, row: ArrivalRow) -> None:
        if row.late:
            self.late.append(row)
            if self.steps == 3:
                raise KeyboardInterrupt


def test_what_came_late_after_the_last_step_is_recorded(tmp_path: Path) -> None:
    stop = _StopsWhileWaiting()
    run = train(RunFolder.create(tmp_path), stop)
    assert (len(run.steps), run.stopped) == (3, "stopped by Ctrl-C")
    assert [row for row in RunFolder.open(tmp_path).run.arrivals if row.late] == stop.late


def test_a_run_that_fails_says_why(tmp_path: Path) -> None:
    problem = Quadratic.random(24, 5, seed=1)
    engine = engines.VirtualEngine(delays.Exponential(mean=0.5, seed=3))
    watching = [Recorder(RunFolder.create(tmp_path)), _Kill(engine)]
    with pytest.raises(Unreachable) as caught:
        training.train(
            problem,
            schemes.exact(6, load=2),
            optimizers.Nesterov(problem.initial(), 0.1),
            engine,
            4,
            watching,
            fault_policy=FaultPolicy(on_death="leave"),
        )
    summary = RunFolder.open(tmp_path).summary
    assert (summary["status"], summary["reason"]) == ("unreachable", str(caught.value))


def test_a_run_that_diverges_leaves_valid_json(tmp_path: Path) -> None:
    with pytest.raises(Diverged), np.errstate(all="ignore"):
        train(RunFolder.create(tmp_path), rate=1e200)
    for path in tmp_path.glob("*.json*"):
        for line in path.read_text().splitlines() if path.suffix == ".jsonl" else [path.read_text()]:
            json.loads(line, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert RunFolder.open(tmp_path).summary["status"] == RunFolder.open(tmp_path).run.status == "diverged"


def test_what_is_no_run_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"is not a run folder: there is no steps\.jsonl"):
        RunFolder.open(tmp_path)


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path)
    with pytest.raises(DataError, match=r"no model.safetensors .* cut off, or is still going on"):
        _ = folder.x
    with pytest.raises(DataError, match=r"no encoding.json"):
        _ = folder.encoding
    assert (folder.summary, folder.tables, folder.run.steps) == ({}, {}, [])


def test_a_model_that_is_none_is_refused(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path)
    (tmp_path / MODEL).write_bytes(b"not a model")
    with pytest.raises(DataError, match="is not a model that erasurehead wrote"):
        _ = folder.x
