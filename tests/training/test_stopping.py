"""Runs that end before their last step: by a target, by patience, by the clock, by a gradient that has vanished."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from erasurehead import delays, engines, problems, schemes
from erasurehead.engines import VirtualEngine
from erasurehead.errors import InvalidArgument
from erasurehead.optimizers import GradientDescent
from erasurehead.runs import Checkpointer, Experiment, Recorder, RunFolder
from erasurehead.testing._pacing import at_some_pace
from erasurehead.testing._problems import Quadratic
from erasurehead.testing._programs import Timetable
from erasurehead.training import Callback, Resumption, Run, find_optimum, train

PROBLEM = Quadratic.random(24, 6, seed=4, l2=0.01)
RNG = np.random.default_rng(1)
X = RNG.standard_normal((120, 5))
Y = np.sign(X @ np.arange(5.0) + RNG.standard_normal(120))


def go(steps: int = 2000, problem: Any = PROBLEM, scheme: schemes.Scheme | None = None, **others: Any) -> Run:
    engine = others.pop("engine", None) or VirtualEngine(delays.Exponential(0.5, seed=1))
    optimizer = GradientDescent(problem.initial(), 0.2)
    return train(problem, scheme or schemes.exact(6, 2), optimizer, engine, steps, **others)


def beginning_at(size: float) -> Any:
    """Return `go` from a first model of numbers of that size, which is not at hand when the run is resumed."""

    def far(steps: int, **others: Any) -> Run:
        first = PROBLEM.initial() + (0.0 if "resume" in others else size)
        engine = VirtualEngine(delays.parse("none()"))
        return train(PROBLEM, schemes.uncoded(6), GradientDescent(first, 0.2), engine, steps, **others)

    return far


def least(problem: Any) -> float:
    """Return the least objective, by the normal equations."""
    n, zero = problem.n_parameters, np.zeros(problem.n_parameters)
    both = lambda x: problem.gradient(x) + problem.penalty_gradient(x)  # noqa: E731
    matrix = np.stack([both(e) - both(zero) for e in np.eye(n)], axis=1)
    return problem.objective(np.linalg.solve(matrix, -both(zero)))


def test_the_gap_is_that_of_the_full_objective_and_the_run_ends_at_the_first_model_within_it() -> None:
    run = go(until="gap < 1e-3")
    assert run.optimum is not None
    assert run.optimum.objective == pytest.approx(least(PROBLEM), rel=1e-12)
    first = PROBLEM.objective(PROBLEM.initial())
    gaps = [(PROBLEM.objective(PROBLEM.initial()) - least(PROBLEM)) / (first - least(PROBLEM))]
    gaps += [one.value for one in run.measured]
    assert run.ended == "until"
    assert (gaps[-1] < 1e-3) == (len(run.measured) == len(run.steps))
    assert all(gap >= 1e-3 for gap in gaps[:-1])
    assert gaps[-1] == pytest.approx((PROBLEM.objective(run.x) - least(PROBLEM)) / (first - least(PROBLEM)), rel=1e-6)
    assert run.evaluations[-1].step == len(run.steps)
    assert not run.stopped
    again = go(until="gap < 1e-3")
    assert again.x.tobytes() == run.x.tobytes()
    assert list(again.steps) == list(run.steps)


def test_a_run_with_a_target_takes_the_same_steps_as_one_without_up_to_there() -> None:
    first = PROBLEM.objective(PROBLEM.initial())
    run = go(until=f"objective < {least(PROBLEM) + 0.05 * (first - least(PROBLEM))!r}")
    free = go(len(run.steps))
    assert free.x.tobytes() == run.x.tobytes()
    assert list(free.steps) == list(run.steps)
    assert free.ended == "steps"


def test_metrics_of_the_problem_are_targets_too() -> None:
    problem = problems.LogisticRegression(X, Y, l2=0.01, test=(X[:60], Y[:60]))
    run = go(problem=problem, until="log_loss < 0.4", evaluate_every=3)
    assert run.ended == "until"
    assert len(run.steps) % 3 == 0
    assert run.evaluations[-1].metrics["log_loss"] < 0.4 <= run.evaluations[-2].metrics["log_loss"]


def test_patience_ends_a_run_that_gets_no_better() -> None:
    run = go(scheme=schemes.ignore_stragglers(6, 2), patience=15)
    best = min(run.measured, key=lambda one: one.value)
    assert run.ended == "patience"
    assert len(run.steps) == best.step + 15


def test_time_ends_a_run_in_the_middle_of_a_step() -> None:
    table = Timetable({(worker, step, 0): 1.0 for worker in range(6) for step in range(9)} | {(3, 4, 0): 500.0})
    run = go(engine=VirtualEngine(table), scheme=schemes.uncoded(6), max_seconds=10.0)
    assert (run.ended, len(run.steps), run.seconds) == ("max_seconds", 4, 4.0)
    run = go(engine=VirtualEngine(table), scheme=schemes.uncoded(6), max_seconds=3.0)
    assert (run.ended, len(run.steps)) == ("max_seconds", 3)


@pytest.mark.slow
def test_an_exact_gradient_that_has_vanished_ends_a_run_and_an_estimate_does_not() -> None:
    run = go()
    assert run.ended == "converged"
    assert run.steps[-1].gradient_norm is not None
    assert run.steps[-1].gradient_norm <= 1e-12 * float(run.steps[0].gradient_norm or 0.0)
    assert go(300, tolerance=None).ended == "steps"
    assert go(60, scheme=schemes.ignore_stragglers(6, 2), tolerance=0.9).ended == "steps"
    sampled = Quadratic(PROBLEM.rows, PROBLEM.centres, l2=0.01)
    sampled.stochastic = True
    assert go(300, problem=sampled).ended == "steps"


@pytest.mark.slow
def test_with_l1_a_gradient_has_vanished_when_the_shortest_subgradient_has() -> None:
    problem = problems.LogisticRegression(X, Y, penalty=problems.ElasticNet(0.05))
    runs = {tolerance: go(problem=problem, tolerance=tolerance) for tolerance in (1e-2, 1e-6)}
    first = np.linalg.norm(problem.regularizer.residual(problem.initial(), problem.gradient(problem.initial())))
    for tolerance, run in runs.items():
        assert run.ended == "converged"
        left = np.linalg.norm(problem.regularizer.residual(run.x, problem.gradient(run.x)))
        assert left <= 1.1 * tolerance * first
        assert (run.x == 0.0).any()  # where the gradient itself has not vanished
        assert np.linalg.norm(problem.gradient(run.x)) > 0.01
    assert len(runs[1e-2].steps) < len(runs[1e-6].steps) < 2000


@pytest.mark.slow
def test_a_gradient_that_is_short_beside_that_of_a_huge_first_model_ends_no_run() -> None:
    far = beginning_at(1e12)
    states = States()
    run = far(500, callbacks=[states])
    norms = [float(row.gradient_norm or 0.0) for row in run.steps]
    assert min(norms) <= 1e-12 * norms[0]
    assert run.ended == "steps"
    again = far(505, resume=Resumption(states.taken[-1], run.steps, []))  # which judges once more
    assert len(again.steps) == 505


class States(Callback):
    def __init__(self) -> None:
        self.taken: list[Any] = []

    def on_state(self, step: int, state: Any) -> None:
        self.taken.append(state())


@pytest.mark.parametrize("how", [{"until": "gap < 1e-2"}, {"patience": 15}, {"max_seconds": 12.0}])
def test_a_resumed_run_ends_where_the_whole_one_does(how: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    states = States()
    scheme = schemes.ignore_stragglers(6, 4) if "patience" in how else None
    whole = go(scheme=scheme, callbacks=[states], **how)
    monkeypatch.setattr("erasurehead.training._stopping.find_optimum", None)  # it is kept with the run
    for step in (len(whole.steps) // 2,):
        again = go(scheme=scheme, resume=Resumption(states.taken[step], whole.steps[:step], []), **how)
        assert (again.ended, len(again.steps)) == (whole.ended, len(whole.steps))
        assert again.x.tobytes() == whole.x.tobytes()
        assert [(one.step, one.value) for one in again.measured] == [(one.step, one.value) for one in whole.measured]


class Killed(BaseException):
    """Ends a run as SIGKILL does: nothing is evaluated, nor is its end written down."""


class DiesAtTheEnd(Callback):
    """Dies when all steps are done and saved."""

    def __init__(self, steps: int) -> None:
        self.steps = steps

    def on_last_step(self, step: int) -> None:
        self.steps = step

    def on_state(self, step: int, state: object) -> None:
        if step == self.steps:
            raise Killed


@pytest.mark.parametrize(
    "how",
    [{"steps": 9}, {"until": "gap < 0.5"}, {"patience": 5}, {"max_seconds": 4.4}, {"tolerance": 0.5}],
    ids=lambda how: next(iter(how)),
)
def test_a_run_that_is_killed_after_its_last_step_ends_as_the_whole_one_does(
    how: dict[str, Any], tmp_path: Path
) -> None:
    scheme = schemes.ignore_stragglers(6, 4) if {"patience", "max_seconds"} & how.keys() else None

    def train_in(path: Path, *others: Callback, resumed: bool = False) -> tuple[str | None, dict[str, bytes]]:
        folder = RunFolder.open(path) if resumed else RunFolder.create(path)
        recorder = Recorder.reopen(folder) if resumed else Recorder(folder)
        keeper = Checkpointer(recorder, every_seconds=0)  # so that the last state is the one that is saved
        engine = VirtualEngine(delays.Exponential(0.5, seed=2), "carry")
        callbacks = [recorder, keeper, *others]
        try:
            run = go(**how, scheme=scheme, engine=engine, callbacks=callbacks, resume=recorder.resumption)
        except Killed:
            keeper.close()
            recorder.end("failed", "")
            return None, {}
        assert max(int(one.stem.removeprefix("step-")) for one in path.glob("checkpoints/step-*.json")) == len(
            run.steps
        )  # so that it can be given more
        if "max_seconds" in how and not resumed:  # messages came late in the step that was cut off
            assert run.arrivals[-1].taken > run.steps[-1].round
        written = ("steps.jsonl", "arrivals.jsonl", "evaluations.jsonl", "model.safetensors")
        return run.ended, {name: (path / name).read_bytes() for name in written}

    whole = train_in(tmp_path / "whole")
    assert whole[0] == ("converged" if "tolerance" in how else next(iter(how)))
    train_in(tmp_path / "killed", DiesAtTheEnd(how.get("steps", -1)))
    assert train_in(tmp_path / "killed", resumed=True) == whole


def test_what_was_measured_of_another_metric_ends_no_run() -> None:
    states = States()
    whole = go(40, until="gap < 0.5", callbacks=[states])
    resume = Resumption(states.taken[-1], whole.steps, [])
    longer = go(40, until="objective < 1e-9", resume=resume, tolerance=None)
    assert (whole.ended, longer.ended) == ("until", "steps")
    assert longer.measured[0].step == len(whole.steps) + 1


@pytest.mark.slow
def test_a_run_that_ended_early_is_finished_and_can_go_on(tmp_path: Path) -> None:
    recorder = Recorder(RunFolder.create(tmp_path / "run"))
    keeper = Checkpointer(recorder, every_steps=7, every_seconds=0)
    run = go(300, callbacks=[recorder, keeper], until="gap < 1e-2", tolerance=None)
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert (summary["status"], summary["ended"], summary["steps"]) == ("finished", "until", len(run.steps))
    assert summary["optimum"]["objective"] == pytest.approx(least(PROBLEM))
    assert summary["measured"]["value"] < 1e-2
    again = Recorder.reopen(RunFolder.open(tmp_path / "run"))
    assert again.checkpoint is not None
    assert again.checkpoint.step == len(run.steps)
    longer = go(300, callbacks=[again], resume=again.resumption, tolerance=None)
    whole = go(300, tolerance=None)
    assert longer.x.tobytes() == whole.x.tobytes()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"until": "gap"}, "gap < 1e-3"),
        ({"until": "gap > 0.5"}, "below"),
        ({"until": "gap < 0"}, "greater than 0"),
        ({"until": "gap < nan"}, "a number"),
        ({"until": "speed < 1"}, "gap, objective"),
        ({"until": 3}, "a metric"),
        ({"patience": 0}, "patience"),
        ({"max_seconds": 0.0}, "max_seconds"),
        ({"max_seconds": float("inf")}, "max_seconds"),
        ({"tolerance": -1.0}, "tolerance"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_starts(arguments: dict[str, Any], said: str) -> None:
    class Never(VirtualEngine):
        def assign(self, *_: object, **__: object) -> None:
            raise AssertionError

    with pytest.raises(InvalidArgument, match=said):
        go(engine=Never(), **arguments)


def test_a_gap_that_cannot_be_had_is_refused_in_a_sentence() -> None:

    class Elsewhere(Quadratic):
        def exact(self, points: Any, without: Any = ()) -> Any:
            return [replace(found, n_samples=found.n_samples - 5) for found in super().exact(points, without)]

    with pytest.raises(InvalidArgument, match="19 of 24 samples are in reach"):
        find_optimum(Elsewhere(PROBLEM.rows, PROBLEM.centres, l2=0.01), np.zeros(6))
    with pytest.raises(InvalidArgument, match="the first model is the minimum"):
        find_optimum(Quadratic(PROBLEM.rows, 0.0 * PROBLEM.centres, l2=0.01), np.zeros(6))
    bent = Quadratic(PROBLEM.rows, PROBLEM.centres, l2=0.01)
    bent.convex = False
    with pytest.raises(InvalidArgument, match="may not be convex"):
        go(problem=bent, until="gap < 1e-3")


def test_run_files_know_them_and_published_settings_keep_their_steps() -> None:
    tables = {"scheme": "uncoded()", "data": {"source": "kc_housing", "synthetic": "always", "rows": 600}}
    run = {"engine": "virtual", "workers": 3, "steps": 4, "evaluate_every": 0}
    experiment = Experiment.from_config({**tables, "run": {**run, "until": "objective < 1e9"}})
    assert experiment._tolerance is None
    found = Experiment.from_config({**tables, "run": {**run, "until": "objective < 1e9"}})
    ended = train(found.problem, found.scheme, found.optimizer(), found.engine(), 4, until=found.config.run.until)
    assert (ended.ended, len(ended.steps)) == ("until", 1)
    with pytest.raises(InvalidArgument, match=r"run\.until"):
        Experiment.from_config({**tables, "run": {**run, "until": "objective"}})


@pytest.mark.processes
@at_some_pace
def test_who_is_late_now_can_be_read_while_a_step_is_waited_for(tmp_path: Path, pace: float) -> None:
    path, seen = tmp_path / str(pace), list[Any]()
    folder, waiting = RunFolder.create(path), path / "waiting.json"

    class Reads(Callback):
        def on_wait(self, step: int, missing: Any, elapsed: float) -> None:
            if waiting.is_file():
                seen.append(json.loads(waiting.read_text()))

    slow = Timetable({(1, 1, 0): 1.3 * pace})
    engine = engines.ProcessEngine(slow)
    go(3, engine=engine, scheme=schemes.uncoded(3), callbacks=[Recorder(folder), Reads()], evaluate_every=0)
    assert any(one["step"] == 1 and one["missing"] == [1] for one in seen)
    assert not waiting.exists()


def test_the_optimum_of_a_plain_problem_is_found_where_objectives_drown_in_rounding() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((3000, 20)) * np.logspace(0, -1, 20)
    score = X @ np.linspace(1.0, 4.0, 20) + 0.5 * rng.standard_normal(3000)
    problem = problems.LogisticRegression(X, np.sign(score), l2=1e-3)
    found = find_optimum(problem, problem.initial())
    assert found.gradient_left <= 1e-9


@pytest.mark.parametrize("spread", [0, 3, 6])
def test_the_optimum_is_the_least_of_all_whatever_units_columns_are_in(spread: int) -> None:
    """Where columns differ by 12 powers of ten, a gradient can be short and the objective far from its minimum."""
    rng = np.random.default_rng(0)
    units = 10.0 ** np.linspace(-spread, spread, 6)
    X = rng.standard_normal((300, 6))
    y = X @ rng.standard_normal(6) + rng.standard_normal(300)
    found = find_optimum(problems.LeastSquares(X * units, y, l2=0.0), np.zeros(6))
    solved = np.linalg.lstsq(X, y, rcond=None)[0]
    least = problems.LeastSquares(X, y, l2=0.0).objective(solved)
    assert found.objective == pytest.approx(least, rel=1e-12)
