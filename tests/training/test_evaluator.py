"""Targets that are measured beside training, in a process of its own, where there is a core to spare."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from erasurehead import engines, schemes
from erasurehead.cli._findings import measured_text
from erasurehead.delays import Exponential
from erasurehead.optimizers import GradientDescent
from erasurehead.runs import Recorder, RunFolder
from erasurehead.testing._problems import Quadratic
from erasurehead.training import Callback, Resumption, Run, StepRow, train
from erasurehead.training._evaluator import Evaluator, EvaluatorLost, Measured, Metric, spare_core

from ..arrays import Array

PROBLEM = Quadratic.random(24, 6, seed=4, l2=0.01)
FIRST = PROBLEM.objective(PROBLEM.initial())


class Started(Evaluator):
    """An evaluator that can be found."""

    one: Started | None = None

    def __init__(self, metric: Metric) -> None:
        super().__init__(metric)
        Started.one = self
        self.number = self.pid


@pytest.fixture(autouse=True)
def cores(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], None]]:
    """Let this machine have as many cores as a test says; by default eight."""

    def have(count: int) -> None:
        monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(count)), raising=False)

    have(8)
    Started.one = None
    monkeypatch.setattr("erasurehead.training._stopping.Evaluator", Started)
    yield have
    if Started.one is not None:
        assert not Path(f"/proc/{Started.one.number}").exists()


class Models(Callback):
    """Keeps the models and states, and does something after a step."""

    def __init__(self, then: Callable[[int], None] = lambda step: None) -> None:
        self.seen: list[Array] = [PROBLEM.initial()]
        self.states: list[Any] = []
        self.then = then

    def on_step_end(self, row: StepRow, x: Array) -> None:
        self.seen.append(x)
        self.then(row.step + 1)

    def on_state(self, step: int, state: Any) -> None:
        self.states.append(state())


MANY = 4000
"""Steps that a run ends long before, even where nobody has measured it for a while."""


def go(steps: int = MANY, *watching: Callback, problem: Any = PROBLEM, **others: Any) -> Run:
    engine = others.pop("engine", None) or engines.ProcessEngine(Exponential(0.002, seed=1))
    optimizer = GradientDescent(PROBLEM.initial(), 0.1)
    return train(problem, schemes.exact(2, 2), optimizer, engine, steps, watching, evaluate_every=1, **others)


@pytest.mark.parametrize(("count", "here", "spare"), [(4, 2, True), (3, 2, False), (1, 0, False), (2, 0, True)])
def test_a_core_is_spare_beyond_those_of_the_workers_here_and_of_the_coordinator(
    cores: Callable[[int], None], count: int, here: int, spare: bool
) -> None:
    cores(count)
    assert spare_core(["elsewhere"] * 9 + [socket.gethostname()] * here) == spare


@pytest.mark.processes
def test_what_is_measured_beside_is_of_the_model_that_was_judged(tmp_path: Path) -> None:
    models, recorder = Models(), Recorder(RunFolder.create(tmp_path / "run"))
    run = go(MANY, models, recorder, until="gap < 1e-3")
    assert run.ended == "until"
    assert run.optimum is not None
    assert all(one.beside for one in run.measured)
    assert run.measured[-1].value < 1e-3 <= min([1.0, *(one.value for one in run.measured[:-1])])
    assert run.measured[-1].step <= len(run.steps) < MANY
    for one in run.measured:
        assert one.time == run.steps[one.step - 1].end
        assert one.value == pytest.approx(run.optimum.gap(PROBLEM.objective(models.seen[one.step])), rel=1e-9)
    steps = [one.step for one in run.measured]
    assert steps == sorted(set(steps))
    summary = recorder.summary
    assert summary["measuring_seconds"] == 0.0
    assert summary["measuring_seconds_beside"] == pytest.approx(sum(one.seconds for one in run.measured))
    assert not run.notices


@pytest.mark.processes
def test_the_last_model_is_judged_too(cores: Callable[[int], None]) -> None:
    run = go(5, until=f"objective < {1e-9 * FIRST}")
    assert (run.ended, run.measured[-1].step, run.measured[-1].beside) == ("steps", 5, True)
    cores(3)  # one for each worker, and one for the coordinator
    run = go(5, until=f"objective < {1e-9 * FIRST}")
    assert [(one.step, one.beside) for one in run.measured] == [(step, False) for step in range(1, 6)]
    assert [one.time for one in run.measured] == [row.end for row in run.steps]


@pytest.mark.processes
def test_when_the_process_dies_the_target_is_measured_between_steps_and_nothing_is_missed() -> None:
    def kill(step: int) -> None:
        if step == 4:
            assert Started.one is not None
            os.kill(Started.one.pid, signal.SIGKILL)

    run = go(MANY, Models(kill), until="gap < 1e-3")
    assert run.ended == "until"
    (said,) = [notice for notice in run.notices if notice.kind == "measured_between"]
    assert said.reason == "killed by SIGKILL"
    between = [one.step for one in run.measured if not one.beside]
    assert between == list(range(between[0], len(run.steps) + 1))
    assert run.measured[-1].step == len(run.steps)
    assert run.measured[-1].value < 1e-3


class Stuck(Quadratic):
    """A problem that cannot be sent anywhere but to its shards."""

    def __init__(self) -> None:
        super().__init__(PROBLEM.rows, PROBLEM.centres, l2=0.01)
        self.lock = threading.Lock()


@pytest.mark.processes
def test_a_problem_that_cannot_be_sent_is_measured_between_steps() -> None:
    run = go(MANY, problem=Stuck(), until="gap < 1e-3")
    assert run.ended == "until"
    assert not any(one.beside for one in run.measured)
    (said,) = [notice for notice in run.notices if notice.kind == "measured_between"]
    assert "cannot pickle" in said.reason


@pytest.mark.processes
def test_ctrl_c_ends_it_with_the_run_and_a_resumed_run_goes_on_with_it() -> None:
    def interrupt(step: int) -> None:
        if step == 6:
            raise KeyboardInterrupt

    models = Models(interrupt)
    run = go(MANY, models, until="gap < 1e-3")
    assert (run.status, len(run.steps)) == ("interrupted", 6)
    state = models.states[5]
    again = go(MANY, until="gap < 1e-3", resume=Resumption(state, run.steps[:5], []))
    assert again.ended == "until"
    assert [one.step for one in again.measured][: len(state["stopping"]["measured"])] == [
        one[0] for one in state["stopping"]["measured"]
    ]
    assert again.measured[-1].beside


@pytest.mark.processes
def test_of_models_that_come_faster_than_they_are_measured_the_newest_is() -> None:
    evaluator = Evaluator(Metric(PROBLEM, "objective"))
    try:
        for step in range(1, 200):
            evaluator.give(step, float(step), np.full(6, float(step)))
        found = evaluator.answers(wait=True)
        assert 1 <= len(found) < 199
        assert (found[-1].step, found[-1].time) == (199, 199.0)
        assert found[-1].value == PROBLEM.objective(np.full(6, 199.0))
        assert evaluator.unmeasured is None
        os.kill(evaluator.pid, signal.SIGKILL)
        evaluator.give(200, 200.0, np.zeros(6))
        with pytest.raises(EvaluatorLost, match="SIGKILL"):
            evaluator.answers(wait=True)
        assert evaluator.unmeasured is not None
        assert evaluator.unmeasured[0] == 200
    finally:
        evaluator.close()
        evaluator.close()


def test_virtual_runs_measure_in_place_and_end_at_the_same_step_every_time() -> None:
    runs = [go(MANY, until="gap < 1e-3", engine=engines.VirtualEngine(Exponential(0.5, seed=1))) for _ in range(2)]
    assert Started.one is None
    assert runs[0].ended == "until"
    assert len(runs[0].steps) == len(runs[1].steps) == runs[0].measured[-1].step
    assert not any(one.beside for one in runs[0].measured)


def test_what_measuring_took_is_said_apart() -> None:
    def said(engine: str, *beside: bool) -> str:
        measured = [Measured(step, 1.0, 0.5, 0.25, one) for step, one in enumerate(beside)]
        return measured_text(Run("scheme", engine, np.zeros(1), measured=measured))

    assert said("processes", True, False, True) == (
        "the target was measured 2 times beside training (500 ms) and 1 times between steps (250 ms)"
    )
    assert said("processes") == said("virtual", False) == ""
