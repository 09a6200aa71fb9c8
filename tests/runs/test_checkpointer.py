"""Checkpoints while training goes on: when they are made, what is left over, and that a run goes on from them."""

from __future__ import annotations

import shutil
import signal
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from erasurehead import delays, engines, optimizers, schemes, training
from erasurehead.errors import DataError, EngineError, InvalidArgument
from erasurehead.faults import FaultPolicy
from erasurehead.problems import LogisticRegression
from erasurehead.runs import Checkpointer, Recorder, RunFolder
from erasurehead.runs._checkpoints import checkpointer
from erasurehead.runs._checkpoints.store import CheckpointStore
from erasurehead.runs._names import ARRIVALS, EVALUATIONS, MODEL, STEPS
from erasurehead.testing._problems import Quadratic
from erasurehead.training import Callback, Run, StepRow

from ..arrays import Array
from ..bounded import PATIENCE

STEPS_DONE = 9


LEAVE = FaultPolicy(on_death="leave")


def train(
    recorder: Recorder,
    *watching: Callback,
    steps: int = STEPS_DONE,
    load: int = 2,
    fault_policy: FaultPolicy = LEAVE,
    **options: Any,
) -> Run:
    problem = Quadratic.random(24, 5, seed=1, l2=0.01)
    engine = engines.VirtualEngine(delays.Exponential(mean=0.5, seed=3), "carry")
    engine.kill(3, at=1.0)
    optimizer = optimizers.HeavyBall(problem.initial(), 0.1)
    checkpointer = Checkpointer(recorder, **{"every_steps": 1, "behind": 0, **options})
    return training.train(
        problem,
        schemes.erasurehead(6, load=load, wait_for=3),
        optimizer,
        engine,
        steps,
        [recorder, checkpointer, *watching],
        fault_policy=fault_policy,
        resume=recorder.resumption,
    )


class _Stop(Callback):
    """Presses Ctrl-C after a step."""

    def __init__(self, after: int) -> None:
        self.after = after

    def on_state(self, step: int, state: object) -> None:
        if step == self.after:
            raise KeyboardInterrupt


def begin(path: Path) -> Recorder:
    return Recorder(RunFolder.create(path))


def go_on(path: Path) -> Recorder:
    return Recorder.reopen(RunFolder.open(path))


def steps_saved(path: Path) -> list[int]:
    return sorted(int(file.stem.removeprefix("step-")) for file in (path / "checkpoints").glob("*.json"))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    path = tmp_path_factory.mktemp("whole") / "run"
    train(begin(path))
    return content(path)


def content(path: Path) -> dict[str, bytes]:
    return {name: (path / name).read_bytes() for name in (STEPS, ARRIVALS, EVALUATIONS, MODEL)}


def test_a_run_that_is_finished_leaves_one_checkpoint_and_no_threads(tmp_path: Path) -> None:
    before = threading.enumerate()
    train(begin(tmp_path / "run"))
    left = {path.name for path in (tmp_path / "run").iterdir()}
    assert left == {STEPS, ARRIVALS, EVALUATIONS, MODEL, "summary.json", "checksums.json", "checkpoints"}
    assert steps_saved(tmp_path / "run") == [STEPS_DONE]
    assert not [thread for thread in threading.enumerate() if thread not in before]


@pytest.mark.parametrize("after", [1, 4, STEPS_DONE - 1, STEPS_DONE])
def test_a_run_that_was_stopped_goes_on_to_the_bit(tmp_path: Path, whole: dict[str, bytes], after: int) -> None:
    run = train(begin(tmp_path / "run"), _Stop(after))
    assert run.stopped == "stopped by Ctrl-C"
    assert steps_saved(tmp_path / "run")[-1] == after
    run = train(go_on(tmp_path / "run"))
    assert content(tmp_path / "run") == whole
    folder = RunFolder.open(tmp_path / "run")
    assert folder.run.steps == run.steps
    assert folder.run.arrivals == run.arrivals
    assert (folder.summary["status"], folder.summary["resumed"]) == ("finished", [after])


def test_an_interrupt_is_put_off_to_the_end_of_a_step_and_saves_it(
    tmp_path: Path, whole: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """However seldom states are taken on the way: here none is."""

    class Press(Callback):
        def on_step_end(self, row: StepRow, x: Array) -> None:
            if row.step == 4:
                signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(checkpointer, "STATE_BUDGET", -1.0)
    run = train(begin(tmp_path / "run"), Press(), every_steps=0, every_seconds=0)
    assert (run.stopped, run.steps_taken) == ("stopped by Ctrl-C", 5)
    assert steps_saved(tmp_path / "run") == [5]
    train(go_on(tmp_path / "run"))
    assert content(tmp_path / "run") == whole


@pytest.mark.processes
@pytest.mark.parametrize(("seconds", "done"), [(0.002, True), (300.0, False)], ids=["short steps", "a long step"])
def test_with_real_workers_an_interrupt_ends_a_short_step_and_cuts_off_a_long_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float, done: bool
) -> None:
    class Press(Callback):
        def on_start(self, seconds: float) -> None:
            if not done:
                self.press()

        def on_step_end(self, row: StepRow, x: Array) -> None:
            if row.step == 4:
                self.press()

        def press(self) -> None:
            threading.Timer(0.1, signal.pthread_kill, (threading.main_thread().ident, signal.SIGINT)).start()

    monkeypatch.setattr(checkpointer, "STATE_BUDGET", -1.0)
    problem, recorder = Quadratic.random(24, 5, seed=1, l2=0.01), begin(tmp_path / "run")
    optimizer, engine = optimizers.HeavyBall(problem.initial(), 0.1), engines.ProcessEngine(delays.Exponential(seconds))
    saves = Checkpointer(recorder, every_steps=0, every_seconds=0)
    run = training.train(problem, schemes.uncoded(3), optimizer, engine, 10**6, [recorder, saves, Press()])
    assert run.stopped == "stopped by Ctrl-C"
    assert (run.steps_taken > 3) == done
    assert steps_saved(tmp_path / "run") == ([run.steps_taken] if done else [])


@pytest.mark.slow
@pytest.mark.parametrize(
    "fault_policy",
    [
        FaultPolicy(),
        FaultPolicy(on_death="spread"),
        FaultPolicy(on_death="spread", verify=True),
        FaultPolicy(on_suspicion="replace", suspect_after=1.0),
    ],
    ids=["replace", "spread", "verify", "suspect"],
)
def test_whatever_is_done_about_deaths_hangs_and_lies_is_gone_on_with(
    tmp_path: Path, fault_policy: FaultPolicy
) -> None:
    whole = train(begin(tmp_path / "whole"), fault_policy=fault_policy)
    assert whole.notices
    for after in (3, 4, 6):
        path = tmp_path / str(after)
        train(begin(path), _Stop(after), fault_policy=fault_policy)
        train(go_on(path), fault_policy=fault_policy)
        assert content(path) == content(tmp_path / "whole")


def test_a_run_can_be_cut_off_again_and_again(tmp_path: Path, whole: dict[str, bytes]) -> None:
    train(begin(tmp_path / "run"), _Stop(2))
    for after in (4, 5, 8):
        train(go_on(tmp_path / "run"), _Stop(after))
    train(go_on(tmp_path / "run"))
    assert content(tmp_path / "run") == whole
    assert RunFolder.open(tmp_path / "run").summary["resumed"] == [2, 4, 5, 8]


def test_a_run_that_is_finished_keeps_one_checkpoint_to_be_gone_on_with(tmp_path: Path) -> None:
    train(begin(tmp_path / "long"), steps=14)
    train(begin(tmp_path / "run"), every_steps=5)
    assert steps_saved(tmp_path / "run") == [9]
    train(go_on(tmp_path / "run"), steps=14)
    assert content(tmp_path / "run") == content(tmp_path / "long")


def test_when_checkpoints_are_made(tmp_path: Path) -> None:
    train(begin(tmp_path / "steps"), _Stop(8), every_steps=3, every_seconds=0.0, keep=9)
    assert steps_saved(tmp_path / "steps")[:2] == [3, 6]
    train(begin(tmp_path / "always"), _Stop(4), every_steps=0, every_seconds=1e-9, keep=9)
    assert steps_saved(tmp_path / "always") == [1, 2, 3, 4]
    train(begin(tmp_path / "end"), _Stop(4), every_steps=0, every_seconds=0.0)
    assert len(steps_saved(tmp_path / "end")) == 1  # the last state that was taken, which may be an earlier one


class _Slow(CheckpointStore):
    """A store on a disk that waits until it is let go, and tells how far training had come when it saved."""

    def __init__(self, run: Path) -> None:
        super().__init__(run)
        self.go, self.began, self.saved = threading.Semaphore(0), threading.Event(), list[int]()

    def save(self, step: int, *rest: Any, **more: Any) -> None:
        self.began.set()
        assert self.go.acquire(timeout=PATIENCE)
        super().save(step, *rest, **more)
        self.saved.append(step)


def test_training_is_never_further_ahead_of_the_disk_than_is_said(tmp_path: Path) -> None:
    recorder = begin(tmp_path / "run")
    recorder.store = store = _Slow(tmp_path / "run")
    checkpointer = Checkpointer(recorder, every_steps=1, behind=3)
    checkpointer.facts = {}
    recorder.on_setup(schemes.uncoded(2), 20)

    def settle(step: int) -> None:
        checkpointer.on_state(step, lambda: {"step": step})

    settle(1)
    assert store.began.wait(PATIENCE)
    for step in (2, 3):  # does not wait for the disk
        settle(step)
    held = threading.Thread(target=settle, args=(4,))
    held.start()
    held.join(0.05)
    assert held.is_alive()  # the first is three steps back
    store.go.release()
    held.join(PATIENCE)
    assert not held.is_alive()
    assert store.saved == [1]
    for _ in range(9):
        store.go.release()
    checkpointer.close()
    assert store.saved[-1] == 4
    assert len(store.saved) <= 3  # those in between were overtaken
    assert checkpointer.most_behind == 3
    recorder.end("interrupted", "")


def test_what_makes_the_run_another_one_is_refused(tmp_path: Path) -> None:
    train(begin(tmp_path / "run"), _Stop(4))
    recorder = go_on(tmp_path / "run")
    with pytest.raises(
        InvalidArgument, match=r"has changed: code was 'fractional_repetition\(.*load=2.* and is '.*load=3"
    ):
        train(recorder, load=3)
    recorder.end("failed", "")
    recorder = go_on(tmp_path / "run")
    with pytest.raises(InvalidArgument, match="has changed: data was 'mine' and is 'yours'"):
        check_facts(recorder, "yours")
    recorder.end("failed", "")


def check_facts(recorder: Recorder, data: str) -> None:
    assert recorder.checkpoint is not None
    recorder.checkpoint.facts["data"] = "mine"  # pyright: ignore[reportIndexIssue]
    train(recorder, facts={"data": data})


def test_a_folder_without_checkpoint_or_with_other_records_is_no_run_to_go_on_with(tmp_path: Path) -> None:
    train(begin(tmp_path / "done"))
    shutil.rmtree(tmp_path / "done" / "checkpoints")
    with pytest.raises(DataError, match="There is no checkpoint"):
        go_on(tmp_path / "done")
    train(begin(tmp_path / "run"), _Stop(4))
    path = tmp_path / "run" / STEPS
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([lines[1], lines[0], *lines[2:]]))
    with pytest.raises(DataError, match=r"steps.jsonl is damaged: its first \d+ bytes are not those"):
        go_on(tmp_path / "run")
    path.write_text("".join(lines))
    train(go_on(tmp_path / "run"))  # the lock was given back


def test_two_do_not_go_on_with_the_same_run(tmp_path: Path) -> None:
    train(begin(tmp_path / "run"), _Stop(4))
    first = go_on(tmp_path / "run")
    with pytest.raises(InvalidArgument, match="is still going on"):
        go_on(tmp_path / "run")
    train(first)


class _Refuse(Callback):
    def on_start(self, seconds: float) -> None:
        raise EngineError("no worker came up.")


def test_a_run_that_does_not_come_up_again_keeps_its_checkpoint(tmp_path: Path, whole: dict[str, bytes]) -> None:
    train(begin(tmp_path / "run"), _Stop(4))
    recorder = go_on(tmp_path / "run")
    with pytest.raises(EngineError):
        train(recorder, _Refuse())
    recorder.end("failed", "no worker came up.")
    train(go_on(tmp_path / "run"))
    assert content(tmp_path / "run") == whole


@pytest.mark.parametrize("options", [{"every_steps": -1}, {"every_seconds": np.inf}, {"behind": -1}, {"keep": 0}])
def test_settings_are_checked(tmp_path: Path, options: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument, match=f"{next(iter(options))} must be"):
        Checkpointer(begin(tmp_path / "run"), **options)


def test_a_run_that_was_cut_off_after_its_last_step_evaluates_the_same_last_model(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 4))
    y = np.sign(X @ np.array([1.0, -2.0, 0.5, 0.0]) + rng.normal(0, 0.5, 300))
    problem = LogisticRegression(X[:200], y[:200], l2=0.01, test=(X[200:], y[200:]))

    def solve(recorder: Recorder, *watching: Callback) -> Run:
        engine = engines.VirtualEngine(delays.Exponential(mean=0.5, seed=3))
        parts = problem, schemes.adaptive(6), optimizers.QuasiNewton(problem.initial()), engine
        callbacks = [recorder, Checkpointer(recorder, every_steps=1), *watching]
        return training.train(*parts, 100, callbacks, resume=recorder.resumption)

    whole = solve(begin(tmp_path / "whole"))
    assert whole.ended == "converged"
    assert solve(begin(tmp_path / "cut"), _Stop(len(whole.steps))).status == "interrupted"
    assert solve(go_on(tmp_path / "cut")).evaluations == whole.evaluations
