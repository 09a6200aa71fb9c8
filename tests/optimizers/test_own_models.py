"""Models of workers' own tasks, with which steps from few arrivals begin where work takes no time to speak of."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest

from erasurehead import schemes
from erasurehead.delays import Delays, Exponential, parse
from erasurehead.engines import Engine, InProcessEngine, Order, ProcessEngine, VirtualEngine
from erasurehead.optimizers import Optimizer, QuasiNewton
from erasurehead.optimizers._base import Answer, PartialGradient
from erasurehead.optimizers._order_kinds import OWN_MODEL
from erasurehead.problems import LeastSquares, LogisticRegression, Problem, Regression
from erasurehead.training import Run, train
from erasurehead.training._programs import own_model

from ..arrays import Array

WORKERS = 30


def problem_of(loss: str = "squares", order: str = "shuffled", n_samples: int = 3000, columns: int = 40) -> Problem:
    """Columns of very different lengths that depend on each other, which gradients alone are slow on."""
    rng = np.random.default_rng(1)
    turn = np.linalg.qr(rng.standard_normal((columns, columns)))[0]
    X = rng.standard_normal((n_samples, columns)) * np.geomspace(1.0, 30.0, columns) @ turn
    score = X @ rng.standard_normal(columns) / 30.0 + rng.standard_normal(n_samples)
    rows = np.argsort(score) if order == "sorted" else np.arange(n_samples)
    X, score = X[rows], score[rows]
    if loss == "logistic":
        return LogisticRegression(X, np.where(score > 0.0, 1.0, -1.0), l2=1e-4)
    return LeastSquares(X, score, l2=1e-6)


def without(problem: Problem) -> Problem:
    """Return the same problem, whose shards solve nothing."""
    problem.newton = False
    return problem


def fit(
    problem: Problem,
    late: Any = "carry",
    delays: Delays | None = None,
    seed: int = 0,
    pace: float = 1e-5,
    **others: Any,
) -> Run:
    engine = VirtualEngine(delays or Exponential(0.5, seed=seed), late, seconds_per_task=pace)
    engine = others.pop("engine", engine)
    scheme = schemes.adaptive(WORKERS)
    return train(problem, scheme, QuasiNewton(problem.initial()), engine, 2000, **{"evaluate_every": 0, **others})


def heavy(run: Run) -> list[int]:
    """Return the steps whose orders ask for models of workers' own."""
    return sorted({row.step for row in run.arrivals if row.work > 30.0 and not row.censored})


@pytest.mark.slow
@pytest.mark.parametrize("late", ["preempt", "carry"])
@pytest.mark.parametrize("loss", ["squares", "logistic"])
def test_a_rough_model_is_there_far_sooner(loss: str, late: str) -> None:
    sooner, gap = 0, 1e-1 if (loss, late) == ("logistic", "preempt") else 3e-2
    for seed in range(5):
        runs = [
            fit(make(problem_of(loss)), late, seed=seed, until=f"gap < {gap}", evaluate_every=1)
            for make in (without, lambda same: same)
        ]
        before, now = (run.steps[-1].end for run in runs)
        sooner += now < 0.7 * before
    assert sooner >= 4


@pytest.mark.slow
@pytest.mark.parametrize(
    ("loss", "order", "late"),
    [  # each two values of any two of them
        ("squares", "shuffled", "preempt"),
        ("squares", "sorted", "carry"),
        ("logistic", "shuffled", "carry"),
        ("logistic", "sorted", "preempt"),
    ],
)
def test_they_end_at_the_same_optimum(loss: str, order: str, late: str) -> None:
    run, whole = fit(problem_of(loss, order), late), fit(problem_of(loss, order), "drop(1)")
    assert (run.ended, whole.ended) == ("converged", "converged")
    assert run.final is not None
    assert whole.final is not None
    assert run.final.objective == pytest.approx(whole.final.objective, rel=1e-8)
    said = {row.decision["own"] for row in run.steps if "own" in row.decision}
    assert said  # they were asked for
    if order == "shuffled" or late == "carry":
        assert (-1 in said) == (order == "sorted")  # and where tasks differ, were of no use


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "late"),
    [("slow work", "preempt"), ("delays that grow with the load", "carry"), ("nobody slow", "preempt")],
)
def test_they_are_not_asked_for_where_work_takes_time_or_nobody_is_slow(how: str, late: str) -> None:
    delays = {
        "slow work": Exponential(0.5, seed=1),
        "delays that grow with the load": Exponential(0.5, seed=1, scale_with_load=True),
        "nobody slow": parse("none()"),
    }[how]
    run = fit(problem_of(), late, delays, pace=0.01 if how == "slow work" else 1e-5)
    assert run.ended == "converged"
    assert not any("own" in row.decision for row in run.steps)


def test_they_are_not_asked_for_where_workers_take_our_own_time() -> None:
    run = fit(problem_of(), engine=InProcessEngine(Exponential(0.02, seed=1)), max_seconds=5.0)
    assert all(row.worked is None for row in run.arrivals)
    assert not any("own" in row.decision for row in run.steps)


def test_as_many_are_asked_for_as_are_of_use() -> None:
    run = fit(problem_of())
    asked = heavy(run)
    assert asked[0] == 1
    assert len(asked) < 10
    assert max(row.decision.get("own", 0) for row in run.steps) >= 3


# --- what workers send ----------------------------------------------------------------------------------------------


class Asks(Optimizer):
    """Asks for nothing but models of workers' own, and keeps what comes."""

    kinds = ("early", "curvature")
    asked: ClassVar = {"steps": 3, "iterations": 30, "damping": 0.01, "share": 0.5}

    def __init__(self, x: Array) -> None:
        super().__init__(x)
        self.kept: list[PartialGradient] = []

    def ask(self) -> Order:
        note = {"arrivals": 1, "probing": False, "while_it_pays": False, "curvature": True, OWN_MODEL: self.asked}
        return Order(step=self.step, points=(self.x,), kind="early", note=note)

    def tell(self, answer: Answer) -> None:
        self.kept += answer.parts
        self.step += 1


@pytest.mark.parametrize("loss", ["squares", "logistic"])
@pytest.mark.parametrize("real", [False, True])
def test_a_message_says_where_its_tasks_are_better_and_how_they_bend_the_objective_there(loss: str, real: bool) -> None:
    problem = problem_of(loss)
    asks = Asks(np.full(40, 0.01))
    engine: Engine = ProcessEngine() if real else VirtualEngine(Exponential(0.5, seed=1))
    train(problem, schemes.adaptive(6, 3), asks, engine, 3, evaluate_every=0)
    assert len(asks.kept) >= 3
    for part in asks.kept:
        shard = problem.shard(
            [slice(500 * task, 500 * (task + 1)) for task in sorted({task // 6 for task in part.tasks})]
        )
        ones, slope = np.ones(3), np.empty(40)
        assert part.loss == pytest.approx(shard.combine(asks.x, ones, 0, slope), rel=1e-9)
        np.testing.assert_allclose(part.gradient, slope, rtol=1e-9, atol=1e-12)
        assert part.own is not None
        point, there, loss_there = part.own
        expected = own_model(shard, asks.x, ones, Asks.asked)
        np.testing.assert_allclose(point, expected, rtol=1e-9, atol=1e-12)
        assert loss_there == pytest.approx(shard.combine(point, ones, 0, slope), rel=1e-9)
        np.testing.assert_allclose(there, slope, rtol=1e-6, atol=1e-9)
        assert np.linalg.norm(slope / 0.5 + 0.01 * point) < 0.05 * np.linalg.norm(part.gradient)
        assert loss_there < part.loss


def test_a_model_of_its_own_is_never_worse_than_the_one_it_begins_with() -> None:
    """Newton steps of a Poisson loss may lead to where numbers overflow."""
    problem = Regression(np.full((100, 1), 5.0), np.full(100, 5000.0), loss="poisson")
    shard, slope = problem.shard([slice(0, 100)]), np.empty(1)
    found = own_model(shard, np.zeros(1), np.ones(1), {"steps": 3, "iterations": 5, "damping": 0.0, "share": 1.0})
    assert shard.combine(found, np.ones(1), 0, slope) <= shard.combine(np.zeros(1), np.ones(1), 0, slope)


# --- how long they worked -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("grows", "least"), [(False, 6e-4), (True, 0.0)])
def test_the_first_messages_say_how_long_their_workers_computed(grows: bool, least: float) -> None:
    run = fit(problem_of(), delays=Exponential(0.5, seed=1, scale_with_load=grows), pace=1e-4, max_seconds=2.0)
    first = [row for row in run.arrivals if row.step == 0 and not row.censored]
    assert first
    for row in first:
        assert row.worked == pytest.approx(row.seconds if grows else least, rel=1e-9)
    assert all(row.worked is None for row in run.arrivals if row.step > 3)


@pytest.mark.parametrize("grows", [False, True])
def test_real_workers_count_delays_that_grow_with_the_work_as_work(grows: bool) -> None:
    delays = Exponential(0.1, seed=1, scale_with_load=grows)
    run = train(problem_of(), schemes.adaptive(4), QuasiNewton(np.zeros(40)), ProcessEngine(delays), 3)
    first = [row for row in run.arrivals if row.step == 0 and not row.censored]
    assert first
    for row in first:
        assert row.worked is not None
        assert 0.0 < row.worked <= row.seconds
        injected = delays.seconds(row.worker, 0, row.unit, row.work)
        assert (row.worked >= injected) if grows else (row.worked <= row.seconds - injected + 1e-3)
