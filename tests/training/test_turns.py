"""In which order workers take tasks that several hold: each computed once, and by those who are through first."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from erasurehead import FaultPolicy, codes, schemes
from erasurehead.codes import GradientCode
from erasurehead.datasets import shard
from erasurehead.delays import Delays, Exponential, Fixed
from erasurehead.engines import Order, ProcessEngine, VirtualEngine
from erasurehead.errors import InvalidArgument
from erasurehead.optimizers import GradientDescent, QuasiNewton
from erasurehead.problems import LogisticRegression, Problem, ShardedProblem
from erasurehead.schemes import parse_scheme
from erasurehead.testing._problems import Quadratic
from erasurehead.training import Callback, Run, train
from erasurehead.training._assignment import Assignment
from erasurehead.training._programs import build_programs
from erasurehead.training._round import RoundRunner
from erasurehead.training._stepped_run import SteppedRun
from erasurehead.training._turns import by_speed, duration
from erasurehead.training._workers import WorkerPool

from ..arrays import Array

WORKERS, MOST = 12, 30


def tasks_of(code: GradientCode) -> list[list[int]]:
    return [
        [int(code.tasks_of_message(row)[0]) for row in code.messages_of(worker).tolist()]
        for worker in range(code.n_workers)
    ]


def placed(n_workers: int, load: int, pieces: int) -> GradientCode:
    made = {"n_workers": n_workers, "load": load * pieces, "n_tasks": n_workers * pieces, "pieces": pieces}
    return codes.build("multi_message", **made)


@st.composite
def situations(draw: st.DrawFn) -> tuple[list[list[int]], list[float], set[int]]:
    n_workers = draw(st.integers(1, 9))
    code = placed(n_workers, draw(st.integers(1, n_workers)), draw(st.integers(1, 4)))
    seconds = draw(st.lists(st.floats(0.01, 10.0), min_size=n_workers, max_size=n_workers))
    return tasks_of(code), seconds, draw(st.sets(st.integers(0, n_workers - 1)))


@given(situations())
def test_each_task_is_in_a_share_and_no_shares_take_longer_than_each_doing_its_own(situation: Any) -> None:
    tasks, seconds, able = situation
    shares = by_speed(tasks, seconds, able)
    taken = Counter(own[place] for own, share in zip(tasks, shares, strict=True) for place in share)
    held = {task for position in able for task in tasks[position]}
    assert set(taken) == held
    first = {task: min((tasks[p].index(task), p) for p in able if task in tasks[p])[1] for task in held}
    each = [sum(owner == position for owner in first.values()) * seconds[position] for position in range(len(tasks))]
    alone = [share if all(taken[tasks[p][one]] == 1 for one in share) else [] for p, share in enumerate(shares)]
    assert duration(alone, seconds, able) <= max(each) * (1 + 1e-12)
    assert all(bool(share) == (position in able) for position, share in enumerate(shares))


@pytest.mark.parametrize(("n_workers", "load", "pieces"), [(12, 3, 6), (5, 2, 3), (4, 4, 2), (3, 1, 4)])
def test_equally_fast_workers_begin_with_what_is_first_in_their_rows(n_workers: int, load: int, pieces: int) -> None:
    tasks = tasks_of(placed(n_workers, load, pieces))
    assert by_speed(tasks, [0.3] * n_workers, range(n_workers)) == [[*range(pieces)]] * n_workers


@dataclass(frozen=True)
class Lasting(Delays):
    """A share takes a second, five times as long on some workers: always, or on others in each step.

    Arguments:
        slow: how many are slow; in each step as many on average if `lasts` is false.
        lasts: whether they always are.
        seed: of the draws.
    """

    slow: int
    lasts: bool = True
    seed: int = 0

    def rows(
        self,
        first: int,
        count: int,
        n_workers: int,
        unit: int = 0,
        work: float | Array = 1.0,
        out: Array | None = None,
    ) -> Array:
        drawn = np.empty((count, n_workers)) if out is None else out
        for step in range(count):
            rng = np.random.default_rng((self.seed, first + step))
            chances, begins = rng.random(MOST)[:n_workers], rng.exponential(0.1, MOST)[:n_workers]
            slow = np.arange(n_workers) < self.slow if self.lasts else chances < self.slow / WORKERS
            drawn[step] = work * np.where(slow, 5.0, 1.0) + (begins if unit == 0 else 0.0)
        return drawn

    def __str__(self) -> str:
        return f"lasting({self.slow}, {self.lasts}, {self.seed})"


def fit(scheme: schemes.Scheme, delays: Delays, steps: int, late: str = "preempt", **how: Any) -> Run:
    problem = Quadratic.random(4 * scheme.code.n_tasks, 4, seed=1)
    engine = VirtualEngine(delays, late)
    return train(
        problem, scheme, GradientDescent(np.zeros(4), 0.01), engine, steps, evaluate_every=0, tolerance=None, **how
    )


def mean(run: Run) -> float:
    return float(np.mean([row.waited for row in run.steps[10:]]))


@pytest.mark.slow
@pytest.mark.parametrize("late", ["preempt", "carry"])
def test_steps_are_as_long_as_they_should_be_where_slowness_lasts_and_where_nobody_is_slow(late: str) -> None:
    scheme = schemes.compute_once(WORKERS)
    slow, nobody = fit(scheme, Lasting(2), 60, late), fit(scheme, Lasting(0), 40, late)
    assert mean(slow) < 1.8
    assert mean(nobody) < (1.35 if late == "preempt" else 1.4)  # the task at hand is finished first
    assert slow.steps[-1].decision == {"turns": True}
    assert not any(row.decision for row in nobody.steps)
    fixed = fit(schemes.custom(scheme.code, "decodable()"), Lasting(2), 60, late)
    assert mean(slow) < 0.8 * mean(fixed)
    assert slow.x == pytest.approx(fixed.x, rel=1e-12)  # every step is exact


@pytest.mark.slow
def test_steps_are_as_long_as_they_should_be_where_slowness_does_not_last() -> None:
    scheme = schemes.compute_once(WORKERS)
    run = fit(scheme, Lasting(2, lasts=False), 150)
    fixed = fit(schemes.custom(scheme.code, "decodable()"), Lasting(2, lasts=False), 150)
    assert mean(run) < 0.85 * mean(fixed)
    assert run.x == pytest.approx(fixed.x, rel=1e-12)


def logistic(n_samples: int) -> LogisticRegression:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_samples, 4))
    return LogisticRegression(X, np.sign(X @ rng.standard_normal(4) + rng.standard_normal(n_samples)), l2=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("late", ["preempt", "carry"])
def test_adaptive_cuts_its_tasks_and_takes_the_pieces_in_the_order_that_is_faster(late: str) -> None:
    scheme, problem = schemes.adaptive(30), logistic(900)

    def run(scheme: schemes.Scheme) -> Run:
        engine = VirtualEngine(Lasting(2, seed=2), late)
        how: dict[str, Any] = {"evaluate_every": 0, "tolerance": None}
        return train(problem, scheme, QuasiNewton(problem.initial()), engine, 16, **how)

    whole, cut = run(replace(scheme, finer=None)), run(scheme)
    asked = [row for row in cut.steps if "by_task" in row.decision]
    assert len(asked) > 8
    assert asked[-1].decision["turns"] is True
    assert {row.work for row in cut.arrivals if row.step == asked[-1].step} == {1 / 6}
    assert cut.x == pytest.approx(whole.x, rel=1e-6)
    waited = [float(np.mean([row.waited for row in run.steps[-5:]])) for run in (whole, cut)]
    assert waited[1] < 0.85 * waited[0]


def test_tasks_are_cut_into_as_many_pieces_as_the_data_allow(tmp_path: Path) -> None:
    def pieces(scheme: schemes.Scheme, problem: Problem) -> int:
        run = SteppedRun(problem, scheme, QuasiNewton(problem.initial()), VirtualEngine(Lasting(0), "preempt"))
        return run.pool.assignment.code.n_tasks // scheme.code.n_tasks

    for load, n_samples, wanted in ((3, 900, 6), (3, 50, 4), (3, 20, 1), (5, 900, 4), (1, 900, 1)):
        assert pieces(schemes.adaptive(WORKERS, load), logistic(n_samples)) == wanted
    rows = np.random.default_rng(0).standard_normal((200, 3))
    np.savetxt(tmp_path / "rows.csv", np.column_stack([rows, rows.sum(axis=1) > 0]), delimiter=",")
    for n_stored, wanted in ((12, 6), (60, 6)):
        folder = shard(tmp_path / "rows.csv", n_stored, tmp_path / f"{n_stored}", task="logistic")
        assert pieces(schemes.adaptive(WORKERS), ShardedProblem(folder, l2=1e-3)) == wanted
    assert pieces(schemes.exact(WORKERS, 3), logistic(900)) == 1


class KillsTwo(Callback):
    def __init__(self, engine: VirtualEngine) -> None:
        self.engine = engine

    def on_step_end(self, row: Any, x: Array) -> None:
        if row.step == 5:
            for worker in (4, 5):
                self.engine.kill(worker, at=self.engine.now() + 0.3)  # in the middle of a step


@pytest.mark.parametrize("death", ["leave", "spread", "replace"])
def test_all_but_one_of_a_tasks_holders_may_die_at_once(death: Any) -> None:
    scheme = schemes.compute_once(WORKERS, load=3, pieces=2)
    engine = VirtualEngine(Lasting(2))
    problem = Quadratic.random(4 * scheme.code.n_tasks, 4, seed=1)
    how: dict[str, Any] = {"evaluate_every": 0, "tolerance": None}
    run = train(
        problem,
        scheme,
        GradientDescent(np.zeros(4), 0.01),
        engine,
        20,
        [KillsTwo(engine)],
        fault_policy=FaultPolicy(on_death=death),
        **how,
    )
    assert all(row.residual < 1e-12 and not row.lost for row in run.steps)
    undisturbed = fit(scheme, Lasting(2), 20)
    assert run.x == pytest.approx(undisturbed.x, rel=1e-12)
    assert run.steps[6].waited < 3.5
    if death == "spread":
        assert run.steps[-1].workers == WORKERS - 2


@pytest.mark.processes
def test_real_workers_take_their_tasks_in_the_order_that_they_are_asked_for() -> None:
    scheme = schemes.compute_once(4, load=2, pieces=2)
    problem = Quadratic.random(32, 4, seed=1)
    programs, layout = build_programs(scheme.code, problem)
    x = np.linspace(-0.1, 0.1, 4)
    turns = [[3, 1, 0, 2], [0, 1, 2, 3], [1, 0, 3, 2], [2, 3, 1, 0]]
    with ProcessEngine(Exponential(0.002, seed=1)) as engine:
        pool = WorkerPool(engine, Assignment.first(scheme, programs, layout))
        rounds = RoundRunner(pool)
        pool.start()
        for number, asked in enumerate([(), turns, ()]):
            pool.ask_in_turns(asked)
            note = {"turns": pool.assignment.places} if asked else {}
            result = rounds.gather(Order(number, (x,), round=number, note=note))
            assert result.exact
            for row in result.rows:
                worker, place = divmod(row.message, 4)
                assert row.unit == (turns[worker].index(place) if asked else place)
            came = [row for row in result.rows if not row.censored]
            assert [sorted(units) for units in ([row.unit for row in came if row.worker == w] for w in range(4))] == [
                [row.unit for row in came if row.worker == w] for w in range(4)
            ]


def test_time_may_stand_still_and_workers_may_never_answer() -> None:
    still = fit(schemes.compute_once(4), Fixed(((0.0,) * 4,)), 12)
    assert {row.waited for row in still.steps} == {0.0}
    silent = fit(schemes.compute_once(4), Fixed(((np.inf, 1.0, 1.0, 1.0),)), 12)
    assert all(row.residual < 1e-12 for row in silent.steps)
    assert silent.steps[-1].waited < silent.steps[0].waited  # its tasks are no longer left to it
    alone = fit(schemes.compute_once(1), Fixed(((1.0,),)), 3)
    assert alone.steps[-1].residual < 1e-12


def test_what_it_is_told() -> None:
    assert parse_scheme("compute_once", 12).code.loads.tolist() == [18] * 12
    assert parse_scheme("compute_once(load=2, pieces=4)", 6).code.tolerance == 1
    smaller = schemes.compute_once(6, load=2, pieces=2).resized(4)
    assert (smaller.turns, smaller.until_newer, smaller.code.n_tasks) == (True, True, 12)
    for wrong in ("load=13", "load=0", "pieces=0"):
        with pytest.raises(InvalidArgument, match=wrong.split("=")[0]):
            parse_scheme(f"compute_once({wrong})", 12)
