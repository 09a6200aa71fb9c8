"""Newton steps of a few workers' own data: when they are asked for, and what they bring."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from erasurehead import FaultPolicy, schemes
from erasurehead.delays import Delays, Exponential, Fixed
from erasurehead.engines import Order, ProcessEngine, VirtualEngine
from erasurehead.optimizers import Optimizer, QuasiNewton
from erasurehead.optimizers._base import Answer, PartialGradient
from erasurehead.optimizers._local_newton import LocalNewton
from erasurehead.problems import LeastSquares, LogisticRegression, Problem
from erasurehead.runs import Recorder, RunFolder, replay
from erasurehead.training import Callback, Resumption, Run, StepRow, train

from ..arrays import Array
from ..kept_states import KeptStates

WORKERS = 30


def hard(order: str = "shuffled", loss: str = "squares") -> Problem:
    """Collinear columns of very different lengths, which gradients alone are slow on; without blocks of curvature."""
    one = collinear(order, loss)
    one.outputs = 0
    return one


def collinear(order: str, loss: str) -> Problem:
    rng = np.random.default_rng(1)
    turn = np.linalg.qr(rng.standard_normal((60, 60)))[0]
    X = rng.standard_normal((2400, 60)) * np.geomspace(1.0, 60.0, 60) @ turn
    y = X @ rng.standard_normal(60) / 60.0 + rng.standard_normal(2400)
    rows = np.argsort(y) if order == "sorted" else np.arange(2400)
    if loss == "squares":
        return LeastSquares(X[rows], y[rows], l2=1e-6)
    return LogisticRegression(X[rows], np.where(y[rows] > 0.0, 1.0, -1.0), l2=1e-4)


def without(problem: Problem) -> Problem:
    """Return the same problem, whose shards solve no Newton systems."""
    problem.newton = False
    return problem


def fit(problem: Problem, delays: Delays | None = None, late: str = "carry", steps: int = 3000, **others: Any) -> Run:
    engine = others.pop("engine", None) or VirtualEngine(
        delays or Exponential(0.5, seed=1), late, seconds_per_task=1e-5
    )
    scheme = others.pop("scheme", None) or schemes.adaptive(WORKERS)
    return train(problem, scheme, QuasiNewton(problem.initial()), engine, steps, evaluate_every=0, **others)


def newton(run: Run) -> list[int]:
    return [row.step for row in run.steps if row.kind == "newton"]


@pytest.mark.parametrize(("loss", "late", "seed"), [("squares", "preempt", 0), ("logistic", "carry", 1)])
@pytest.mark.slow
def test_what_is_slow_otherwise_is_at_the_optimum_far_sooner(loss: str, late: str, seed: int) -> None:
    run = fit(hard(loss=loss), Exponential(0.5, seed=seed), late)
    plain = fit(without(hard(loss=loss)), Exponential(0.5, seed=seed), late)
    assert (run.ended, plain.ended) == ("converged", "converged")
    assert run.final is not None
    assert plain.final is not None
    assert run.final.objective <= plain.final.objective + 1e-9 * plain.final.first_objective
    assert newton(run)
    assert not newton(plain)
    assert plain.steps[-1].end > 1.5 * run.steps[-1].end


@cache
def usual(late: str = "carry") -> Run:
    """What nothing happens to."""
    return fit(hard(), late=late)


@cache
def least() -> float:
    """The minimum of the problem, from gradients alone."""
    final = fit(without(hard()), Exponential(1e-3, seed=1), "preempt").final
    assert final is not None
    return final.objective


class Depths(Callback):
    """Takes the time at which each gap was first reached."""

    def __init__(self, problem: Problem) -> None:
        self.objective, self.times = problem.objective, dict[float, float]()
        self.first = problem.objective(problem.initial())

    def on_step_end(self, row: StepRow, x: Array) -> None:
        gap = (self.objective(x) - least()) / (self.first - least())
        for depth in (1e-3, 1e-6):
            if gap <= depth:
                self.times.setdefault(depth, row.end)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.slow
def test_where_each_worker_has_little_of_the_data_few_arrivals_go_on_for_longer(seed: int) -> None:
    scheme = schemes.adaptive(WORKERS, 1)
    found = Depths(hard()), Depths(hard())
    run = fit(hard(), Exponential(0.5, seed=seed), scheme=scheme, callbacks=found[:1])
    fit(without(hard()), Exponential(0.5, seed=seed), scheme=scheme, callbacks=found[1:])
    assert newton(run)
    ours, plain = (one.times for one in found)
    # Models of workers' own tasks, 80 samples of 60 columns each, are a worse beginning here than none.
    assert ours[1e-3] <= 1.7 * plain[1e-3]
    assert ours[1e-6] < 0.7 * plain[1e-6]


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "late"), [(0, "preempt"), (1, "carry"), (2, "preempt")])
def test_tasks_that_differ_are_at_the_optimum_all_the_same(seed: int, late: str) -> None:
    run = fit(hard("sorted"), Exponential(0.5, seed=seed), late)
    whole = fit(hard("sorted"), Exponential(0.5, seed=seed), "drop(1)")
    assert run.ended == whole.ended == "converged"
    assert run.final is not None
    assert whole.final is not None
    assert run.final.objective <= whole.final.objective + 1e-9 * whole.final.first_objective


@pytest.mark.slow
def test_their_rows_say_how_long_they_took_and_how_many_came() -> None:
    run = usual()
    steps = newton(run)
    assert len(steps) > 3
    for step in steps:
        before, row = run.steps[step - 1 : step + 1]
        assert before.decision["act"] == "solve"
        assert row.decision["act"] == "accept"
        assert 1 <= row.decision["steps"] <= 3
        assert row.loss is None
        assert row.gradient_norm is None
        assert row.stepped
        assert {after.kind for after in run.steps[step + 1 : step + 2]} <= {"gradient"}
    works = [max(one.work for one in run.arrivals if one.step == step) for step in steps]
    assert works[:3] == [9.0, 54.0, 774.0]  # of three tasks: two more products than asked for, with all others
    whole = np.median([row.waited for row in run.steps if row.kind == "gradient"])
    assert np.median([run.steps[step].waited for step in steps]) < 0.5 * whole


@pytest.mark.parametrize(("late", "seed"), [("preempt", 0), ("carry", 1), ("preempt", 2)])
@pytest.mark.slow
def test_where_times_grow_with_the_work_a_few_products_are_tried_at_most(late: str, seed: int) -> None:
    run = fit(hard(), Exponential(0.5, seed=seed, scale_with_load=True), late)
    assert run.ended == "converged"
    steps = newton(run)
    assert len(steps) <= 3
    assert all(one.work <= 54.0 for one in run.arrivals if one.step in steps)


@pytest.mark.slow
def test_where_nobody_is_slow_they_are_never_asked_for() -> None:
    for delays in (Fixed([[0.3] * WORKERS]), Fixed([[0.3] * WORKERS]) + Exponential(0.02, seed=1)):
        assert not newton(fit(hard(), delays))


@pytest.mark.slow
def test_an_answer_that_takes_too_long_is_not_waited_for_and_not_asked_for_again() -> None:
    """A gradient takes a hundredth of its delay, so that a solution takes several times as long as its delay."""
    engine = VirtualEngine(Exponential(0.5, seed=1), "preempt", seconds_per_task=0.002)
    run = fit(hard(), engine=engine)
    assert run.ended == "converged"
    whole = [row.waited for row in run.steps if row.kind == "gradient"]
    steps = newton(run)
    assert steps
    for step in steps:
        assert run.steps[step].waited <= 0.5 * max(whole) + 1e-9
    works = [max(one.work for one in run.arrivals if one.step == step) for step in steps]
    assert sum(work > 54.0 for work in works) <= 1


@pytest.mark.slow
def test_without_replicas_they_come_from_single_tasks() -> None:
    run = fit(hard(), scheme=schemes.adaptive(WORKERS, load=1))
    assert run.ended == "converged"
    assert newton(run)


@pytest.mark.slow
@pytest.mark.parametrize("late", ["preempt", "carry"])
def test_runs_with_them_are_replayed_to_the_bit(tmp_path: Path, late: str) -> None:
    first = fit(hard(), late=late, callbacks=[Recorder(RunFolder.create(tmp_path))])
    assert newton(first)
    again = fit(hard(), engine=VirtualEngine(replay(tmp_path)))
    assert again.x.tobytes() == first.x.tobytes()
    assert [row.as_dict() for row in again.steps] == [row.as_dict() for row in first.steps]


@pytest.mark.parametrize("late", ["preempt", "carry"])
@pytest.mark.slow
def test_runs_go_on_from_any_of_them_to_the_bit(late: str) -> None:
    first, *_, last = newton(usual(late))
    kept = KeptStates(*((first, last) if late == "carry" else (first - 1, first + 1, last + 1)))
    whole = fit(hard(), late=late, callbacks=[kept])
    assert len(kept.at) >= 2  # the last step may be one of them
    for step, state in kept.at.items():
        again = fit(hard(), late=late, resume=Resumption(state, whole.steps[:step], whole.arrivals))
        assert again.x.tobytes() == whole.x.tobytes()
        assert [row.as_dict() for row in again.steps] == [row.as_dict() for row in whole.steps]


class Kill(Callback):
    """Kills workers after each of the first rounds of Newton steps."""

    def __init__(self, engine: VirtualEngine) -> None:
        self.engine, self.killed = engine, 0

    def on_step_end(self, row: StepRow, x: Array) -> None:
        if row.kind == "newton" and self.killed < 4:
            self.engine.kill(3 * self.killed)
            self.killed += 1


@pytest.mark.slow
@pytest.mark.parametrize(("death", "late"), [("replace", "carry"), ("leave", "preempt"), ("spread", "carry")])
def test_workers_may_die_meanwhile(death: Any, late: str) -> None:
    engine = VirtualEngine(Exponential(0.5, seed=1), late, seconds_per_task=1e-5)
    kill = Kill(engine)
    run = fit(hard(), engine=engine, callbacks=[kill], fault_policy=FaultPolicy(on_death=death))
    assert kill.killed == 4
    assert run.ended == "converged"
    assert run.final is not None
    whole = usual().final
    assert whole is not None
    assert run.final.objective == pytest.approx(whole.objective, rel=1e-9)


class Asks(Optimizer):
    """Asks for nothing but Newton steps, and keeps what comes."""

    kinds = ("newton",)
    max_points = 2
    vector = np.linspace(-1.0, 1.0, 60)

    def __init__(self) -> None:
        super().__init__(np.full(60, 0.01))
        self.kept: list[PartialGradient] = []

    def ask(self) -> Order:
        note = {"arrivals": 1, "at_most": 30.0, "damping": 0.1, "iterations": 20}
        return Order(step=self.step, points=(self.x, self.vector), kind="newton", note=note)

    def tell(self, answer: Answer) -> None:
        assert answer.estimate is None
        self.kept += answer.parts
        self.step += 1


@pytest.mark.parametrize("load", [1, 3])
@pytest.mark.parametrize("real", [False, True])
def test_what_workers_send_is_the_newton_step_of_their_tasks(load: int, real: bool) -> None:
    problem, asks = hard(loss="logistic"), Asks()
    engine = ProcessEngine() if real else VirtualEngine(Exponential(0.5, seed=1))
    run = train(problem, schemes.adaptive(6, load), asks, engine, 4, evaluate_every=0)
    assert [(row.kind, row.loss, row.stepped) for row in run.steps] == 4 * [("newton", None, True)]
    assert len(asks.kept) >= 4
    for part in asks.kept:
        rows = [
            slice(400 * task, 400 * (task + 1))
            for task in sorted({task // (6 if load > 1 else 1) for task in part.tasks})
        ]
        expected = np.empty(60)
        problem.shard(rows).newton_step(asks.x, asks.vector, np.ones(len(rows)), 0.1, 20, expected)
        np.testing.assert_allclose(part.gradient, expected, rtol=1e-9, atol=1e-15)
        assert part.share == pytest.approx(load / 6)


# --- by itself ------------------------------------------------------------------------------------------------------


def part(share: float, step: Array) -> PartialGradient:
    return PartialGradient(0, (0,), share, step, 0.0)


def asked(waited: float = 1.0) -> LocalNewton:
    found = LocalNewton()
    found.begin(10.0, slow=True)
    found.hear_whole(waited)
    found.want(np.ones(3), [1.0])
    return found


def test_it_is_the_mean_of_the_steps_and_along_the_diagonal_where_a_part_has_no_data() -> None:
    found = asked()
    curvature, penalty = np.array([4.0, 2.0, 0.0]), np.array([0.5, 0.5, 0.0])
    parts = [part(0.5, np.array([0.2, 0.0, 0.0])), part(0.25, np.array([0.4, 0.8, 0.0]))]
    product, factors = found.answer(parts, 0.1, curvature, penalty) or (np.zeros(0), [])
    np.testing.assert_allclose(product, 0.5 * np.array([0.3, (1.0 / 1.5 + 0.8) / 2.0, 0.0]))
    assert factors == [1.0]
    assert not found.waits


@pytest.mark.parametrize(("waits", "iterations"), [([0.1], 16), ([0.3], 1), ([0.1, 0.1], 256), ([0.1, 0.6, 0.1], 1)])
def test_how_many_products_are_asked_for_depends_on_what_the_last_ones_took(
    waits: list[float], iterations: int
) -> None:
    found = asked()
    for waited in waits:
        found.want(np.ones(3), [])
        found.answer([part(1.0, np.ones(3))], waited, np.ones(3), np.zeros(3))
    assert not found.off
    found.want(np.ones(3), [])
    assert found.ask(0.0)[1]["iterations"] == iterations


@pytest.mark.parametrize(("n_parts", "arrivals"), [(1.0, 1), (4.0, 1), (7.0, 2), (10.0, 3), (100.0, 3)])
def test_few_are_waited_for_however_many_there_are(n_parts: float, arrivals: int) -> None:
    found = asked()
    found.begin(n_parts, slow=False)
    assert found.ask(0.0)[1]["arrivals"] == arrivals


@pytest.mark.parametrize(("factor", "off"), [(0.9, False), (0.97, True), (1.0, True)])
def test_they_are_given_up_if_what_they_promise_hardly_falls(factor: float, off: bool) -> None:
    found = asked()
    for number in range(40):
        found.expect(factor**number)
        assert not (found.off and number < 12)
    assert found.off == off


@pytest.mark.slow
def test_a_hard_problem_with_one_slow_worker_is_not_left_to_them() -> None:
    rng = np.random.default_rng(42)
    X = rng.standard_normal((90, 60))
    y = np.where(np.arange(90) < 87, -1.0, 1.0)  # three in ninety, and rows sorted
    problem = LogisticRegression(X, y, l2=1e-10)
    problem.outputs = 0
    slow = Fixed([[15.0, *[0.0] * 29]]) + Exponential(0.5, seed=42)
    run = fit(problem, slow, "preempt")
    assert len(newton(run)) < 60
    assert run.ended == "converged"


def test_if_one_product_is_too_many_they_are_given_up() -> None:
    found = asked()
    assert found.answer([], 0.5, np.ones(3), np.zeros(3)) is None
    assert found.off
    assert not found.worth_asking(-100.0)


@pytest.mark.parametrize(("odds", "first", "later"), [(-4.0, True, True), (0.5, True, False), (2.0, False, False)])
def test_they_are_asked_for_where_work_seems_to_take_no_time(odds: float, first: bool, later: bool) -> None:
    found = asked()
    assert found.worth_asking(odds) == first
    found.answer([part(1.0, np.ones(3))], 0.1, np.ones(3), np.zeros(3))
    assert found.worth_asking(odds) == later


@settings(max_examples=30, deadline=None)
@given(ideals=st.lists(st.floats(1e-12, 1e12), max_size=20))
def test_its_scale_is_bounded_and_its_state_is_whole(ideals: list[float]) -> None:
    found = asked()
    for ideal in ideals:
        found.learn(ideal)
    again = LocalNewton()
    again.restore(found.state())
    assert json.dumps(again.state(), default=lambda one: one.tolist()) == json.dumps(
        found.state(), default=lambda one: one.tolist()
    )
    assert 1e-3 <= found.state()["scale"] <= 1.5
