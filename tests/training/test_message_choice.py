"""Whether workers send sums or a message per task: chosen by what both take, and only where that pays."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from erasurehead import FaultPolicy, schemes
from erasurehead.delays import Delays, Exponential
from erasurehead.delays._fixed import Recorded
from erasurehead.engines import Engine, Order, ProcessEngine, VirtualEngine
from erasurehead.optimizers import QuasiNewton
from erasurehead.problems import LogisticRegression
from erasurehead.runs import Recorder, RunFolder, replay
from erasurehead.training import ArrivalRow, Callback, Resumption, Run, train
from erasurehead.training._assignment import Assignment
from erasurehead.training._orders import MessageChoice
from erasurehead.training._programs import build_programs, with_tasks
from erasurehead.training._round import RoundRunner
from erasurehead.training._workers import WorkerPool

from ..arrays import Array
from ..kept_states import KeptStates

pytestmark = pytest.mark.xdist_group("message choice")  # each process would make anew what runs are compared with

WORKERS, LOAD, PIECES = 30, 3, 6


def made() -> LogisticRegression:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((900, 30)) * np.geomspace(0.01, 10.0, 30)
    y = np.sign(X @ (rng.standard_normal(30) / np.geomspace(0.01, 10.0, 30)) + rng.standard_normal(900))
    one = LogisticRegression(X, y, l2=1e-5)
    one.outputs = 0  # without the curvature between columns, whose messages take longer
    return one


PROBLEM = made()


def law(seed: int, grows: bool = True) -> Exponential:
    return Exponential(0.5, seed=seed, scale_with_load=grows)


def fit(
    delays: Delays | None = None,
    late: str = "carry",
    choose: bool = True,
    engine: Engine | None = None,
    steps: int = 800,
    **others: Any,
) -> Run:
    scheme = schemes.adaptive(WORKERS, LOAD)
    if not choose:
        scheme = replace(scheme, by_task=None)  # and so with its tasks as they are
    engine = engine or VirtualEngine(delays or law(3), late, seconds_per_task=1e-5)
    return train(PROBLEM, scheme, QuasiNewton(PROBLEM.initial()), engine, steps, evaluate_every=0, **others)


@cache
def of_sums(seed: int, late: str, grows: bool = True) -> Run:
    """The run with a sum from each worker throughout, which several tests compare theirs with."""
    return fit(law(seed, grows), late, choose=False)


@cache
def chosen(seed: int, late: str) -> Run:
    """The run in which what is sent is chosen, where delays grow with the load."""
    return fit(law(seed), late)


def by_task(run: Run) -> list[bool]:
    return [bool(row.decision.get("by_task", False)) for row in run.steps]


@pytest.mark.parametrize("late", ["carry", "preempt"])
@pytest.mark.slow
def test_where_delays_grow_with_the_load_tasks_are_sent_one_by_one_and_training_is_sooner_at_the_optimum(
    late: str,
) -> None:
    ratios: list[float] = []
    back = 0
    for seed in (0, 1, 3):  # the last of which other tests have, too
        run, sums = chosen(seed, late), of_sums(seed, late)
        assert (run.ended, sums.ended) == ("converged", "converged")
        assert run.final is not None
        assert sums.final is not None
        assert run.final.objective == pytest.approx(sums.final.objective, rel=1e-9)
        assert not any(by_task(sums))
        changes = np.flatnonzero(np.diff(by_task(run)))
        back += len(changes) > 1
        ratios.append(sums.steps[-1].end / run.steps[-1].end)
        if len(changes):
            step = int(changes[0]) + 1
            rows = [row for row in run.arrivals if row.step >= step and not row.censored]
            assert {row.work for row in rows} == {1.0 / PIECES}
            assert set(range(PIECES)) <= {row.unit for row in rows} <= set(range(LOAD * PIECES))
            assert {row.step for row in rows} == set(range(step, len(run.steps)))
    assert np.median(ratios) > 1.08
    assert back == 0  # though it may be, by chance


@pytest.mark.parametrize("late", ["carry", "preempt"])
@pytest.mark.slow
def test_where_they_do_not_it_is_the_same_run_to_the_bit(late: str) -> None:
    tried = 0
    for seed in (0, 1) if late == "carry" else (2, 3):
        run, sums = fit(law(seed, grows=False), late), of_sums(seed, late, grows=False)
        if not any(by_task(run)):
            assert run.x.tobytes() == sums.x.tobytes()
            assert [row.end for row in run.steps] == [row.end for row in sums.steps]
            continue
        tried += 1
        assert sum(by_task(run)) <= 3
    assert tried == 0


@pytest.mark.parametrize("late", ["carry", "preempt"])
def test_messages_that_turn_out_to_take_as_long_as_sums_are_given_up_after_an_order(late: str) -> None:
    choice, rng = MessageChoice(LOAD, late), np.random.default_rng(1)
    for number, (curved, mean) in enumerate([*3 * [(True, 1.0)], (False, 0.5)]):
        assert not choice.by_task
        choice.learn(an_order(number, curved, False), drawn(rng, number, mean, False))
    assert choice.by_task
    choice.learn(an_order(4, False, True), drawn(rng, 4, 0.5, True))
    assert not choice.by_task
    for number in range(5, 40):
        choice.learn(an_order(number, False, False), drawn(rng, number, 5.0, False))
    assert not choice.by_task  # for good


def an_order(number: int, curved: bool, tasks: bool) -> Order:
    return Order(number, (), round=number, note={"curvature": curved, "by_task": tasks})


def drawn(rng: np.random.Generator, number: int, mean: float, tasks: bool) -> list[ArrivalRow]:
    """One round of idle workers, all of whose messages come; each takes an exponential time of a mean."""
    ends: list[list[float]] = np.cumsum(rng.exponential(mean, (WORKERS, LOAD if tasks else 1)), axis=1).tolist()
    return [
        ArrivalRow(number, number, worker, 0, unit, 1.0, 0.0, end)
        for worker, own in enumerate(ends)
        for unit, end in enumerate(own)
    ]


@settings(max_examples=20)
@given(
    st.integers(0, 2**31), st.sampled_from([True, False]), st.sampled_from(["carry", "preempt"]), st.floats(0.2, 5.0)
)
@pytest.mark.slow
def test_what_is_chosen_can_be_saved_at_any_time(seed: int, grows: bool, late: str, mean: float) -> None:
    choice = MessageChoice(LOAD, late)
    for order, rows in rounds(np.random.default_rng(seed), choice, grows, late, mean):
        again = MessageChoice(LOAD, late)
        again.restore(json.loads(json.dumps(choice.state())))
        again.learn(order, rows)
        choice.learn(order, rows)
        assert json.dumps(again.state()) == json.dumps(choice.state())


def rounds(
    rng: np.random.Generator, choice: MessageChoice, grows: bool, late: str, mean: float = 1.0
) -> Iterator[tuple[Order, list[ArrivalRow]]]:
    """Forty rounds, the first with curvatures, as they are asked for."""
    for number in range(40):
        size = (2.0 if number == 0 else 1.0 / LOAD if choice.by_task else 1.0) if grows else 1.0
        rows = drawn(rng, number, mean * size, choice.by_task)
        if late == "preempt" and not choice.by_task:  # the slower half is not waited for
            at = float(np.median([row.seconds for row in rows]))
            rows = [row if row.seconds <= at else replace(row, seconds=at, censored=True) for row in rows]
        yield an_order(number, number == 0, choice.by_task), rows


@pytest.mark.parametrize("late", ["carry", "preempt"])
@pytest.mark.slow
def test_it_is_hardly_ever_wrong_and_then_not_for_long(late: str) -> None:
    runs, tried, kept = 100, 0, 0
    for seed in range(runs):
        alike, growing = MessageChoice(LOAD, late), MessageChoice(LOAD, late)
        cut = 0
        for order, rows in rounds(np.random.default_rng(seed), alike, False, late):
            alike.learn(order, rows)
            cut += alike.by_task
        assert cut <= 1
        tried += cut
        for order, rows in rounds(np.random.default_rng(seed), growing, True, late):
            growing.learn(order, rows)
        kept += growing.by_task
    assert tried <= 0.05 * runs
    assert kept >= (0.8 if late == "carry" else 0.4) * runs  # of 30 messages with curvatures half came


@dataclass(frozen=True)
class Crowded(Delays):
    """Delays of messages, and machines so crowded that much work takes long, though that of a sum is not noticed."""

    seed: int

    def rows(
        self, first: int, count: int, n_workers: int, unit: int = 0, work: float | Array = 1.0, out: Array | None = None
    ) -> Array:
        drawn = Exponential(0.3, seed=self.seed).rows(first, count, n_workers, unit, work, out)
        drawn += 0.05 * np.maximum(0.0, np.asarray(work) / LOAD - 4.0)
        return drawn

    def __str__(self) -> str:
        return f"crowded({self.seed})"


@pytest.mark.slow
@pytest.mark.parametrize("late", ["carry", "preempt"])
def test_much_larger_orders_that_take_longer_do_not_make_workers_send_pieces(late: str) -> None:
    for seed in (0, 1) if late == "carry" else (2, 3):
        run, sums = fit(Crowded(seed), late), fit(Crowded(seed), late, choose=False)
        assert max(row.work for row in run.arrivals) > 20 * LOAD
        assert not any(by_task(run))
        assert [row.end for row in run.steps] == [row.end for row in sums.steps]


@pytest.mark.parametrize(
    ("rest", "work", "pays"),
    [(0.0, 1.0, True), (0.05, 1.0, True), (0.3, 0.3, False), (0.3, 0.06, False)],
)
def test_pieces_are_tried_where_what_else_a_message_takes_once_for_each_of_them_is_less_than_the_work(
    rest: float, work: float, pays: bool
) -> None:
    for tells in (True, False):
        choice, rng = MessageChoice(LOAD * PIECES, "carry", own=PIECES), np.random.default_rng(1)
        for number, times in enumerate([2.0, 64.0, 1.0, 64.0]):
            choice.learn(*an_asked_round(rng, number, choice, rest, work * times, times, tells))
        assert choice.work_odds > 3.0  # much more work takes longer in any case
        assert choice.undecided == (tells and not pays)
        assert choice.decide() == (pays or not tells)


def test_a_slow_start_does_not_keep_workers_from_sending_pieces() -> None:
    choice, rng = MessageChoice(LOAD * PIECES, "carry", own=PIECES), np.random.default_rng(1)
    choice.learn(*an_asked_round(rng, 0, choice, 1.0, 2.0, 2.0))
    for number in (1, 2):
        assert not choice.decide()
        choice.learn(*an_asked_round(rng, number, choice, 0.01, 1.0, 1.0))
    assert choice.decide()


def an_asked_round(
    rng: np.random.Generator,
    number: int,
    choice: MessageChoice,
    rest: float,
    work: float,
    times: float,
    tells: bool = True,
) -> tuple[Order, list[ArrivalRow]]:
    """A round whose messages take an exponential time of their own beside the work, of so many sums.

    If asked, they tell how long that was.
    """
    worked = work if tells and (number == 0 or choice.undecided) else None
    rows = [replace(row, seconds=row.seconds + work, worked=worked) for row in drawn(rng, number, rest, False)]
    own = {"own_model": {"steps": 1, "iterations": 57}} if times == 64.0 else {}
    return Order(number, (), round=number, note={"curvature": times == 2.0, **own}), rows


def test_quick_messages_are_never_cut() -> None:
    choice, rng = MessageChoice(LOAD, "carry"), np.random.default_rng(1)
    for number, (curved, mean) in enumerate([(True, 0.01)] + 40 * [(False, 0.005)]):
        choice.learn(an_order(number, curved, False), drawn(rng, number, mean, False))
        assert not choice.by_task


@pytest.mark.slow
@pytest.mark.parametrize("late", ["carry", "preempt"])
def test_it_goes_on_from_any_step_to_the_bit(late: str) -> None:
    change = by_task(chosen(3, late)).index(True)
    kept = KeptStates(*(change + after for after in ((-1, 1) if late == "carry" else (0, 3))))
    whole = fit(law(3), late, callbacks=[kept])
    for step in kept.steps:
        resume = Resumption(kept.at[step], whole.steps[:step], whole.arrivals)
        again = fit(law(3), late, resume=resume)
        assert again.x.tobytes() == whole.x.tobytes()
        assert [row.as_dict() for row in again.steps] == [row.as_dict() for row in whole.steps]


@pytest.mark.parametrize("late", ["carry", "preempt"])
@pytest.mark.slow
def test_it_is_replayed_to_the_bit(tmp_path: Path, late: str) -> None:
    first = fit(law(3), late, callbacks=[Recorder(RunFolder.create(tmp_path))])
    assert any(by_task(first))
    again = fit(engine=VirtualEngine(replay(tmp_path)))
    assert again.x.tobytes() == first.x.tobytes()
    assert by_task(again) == by_task(first)
    rows = [json.loads(json.dumps(row.as_dict())) for row in first.steps]
    table = Recorded.from_rows([row.as_dict() for row in first.arrivals], steps=rows)
    assert fit(engine=VirtualEngine(table)).x.tobytes() == first.x.tobytes()


class Kill(Callback):
    """Kills workers once tasks are sent one by one."""

    def __init__(self, engine: VirtualEngine) -> None:
        self.engine, self.killed = engine, 0

    def on_step_end(self, row: Any, x: Array) -> None:
        if row.decision.get("by_task", False) and self.killed < 5:
            self.engine.kill(2 * self.killed)
            self.killed += 1


@pytest.mark.slow
@pytest.mark.parametrize(("death", "late"), [("replace", "carry"), ("leave", "preempt"), ("spread", "carry")])
def test_workers_may_die_and_the_code_be_resized(death: Any, late: str) -> None:
    engine = VirtualEngine(law(3), late, seconds_per_task=1e-5)
    kill = Kill(engine)
    run = fit(engine=engine, callbacks=[kill], fault_policy=FaultPolicy(on_death=death))
    assert kill.killed == 5
    assert run.ended == "converged"
    assert by_task(run)[-1]
    sums = of_sums(3, late)
    assert run.final is not None
    assert sums.final is not None
    assert run.final.objective == pytest.approx(sums.final.objective, rel=1e-9)
    if death == "spread":
        assert run.steps[-1].workers == WORKERS - 5


def test_where_messages_are_compared_they_are_sums() -> None:
    run = fit(law(3), "preempt", fault_policy=FaultPolicy(verify=True), steps=60)
    assert not any(by_task(run))


@pytest.mark.processes
@pytest.mark.parametrize("curved", [False, True])
def test_real_workers_send_what_they_are_asked_for_round_by_round(curved: bool) -> None:
    scheme = schemes.adaptive(5, LOAD, n_tasks=6)
    assert scheme.by_task is not None
    programs, layout = build_programs(scheme.code, PROBLEM, curvature=True)
    programs, other = with_tasks(programs, layout, scheme.code, scheme.by_task.code)
    x = np.linspace(-0.1, 0.1, PROBLEM.n_parameters)
    with ProcessEngine(Exponential(0.005, seed=1)) as engine:
        pool = WorkerPool(engine, Assignment.first(scheme, programs, layout, other))
        rounds = RoundRunner(pool)
        pool.start()
        for number, tasks in enumerate([False, True, True, False]):
            pool.ask_by_task(tasks)
            kind = "curvature" if curved else "gradient"
            result = rounds.gather(Order(number, (x,), round=number, kind=kind, note={"by_task": tasks}))
            assert result.exact
            assert result.estimate is not None
            np.testing.assert_allclose(result.estimate[:-1], PROBLEM.gradient(x), rtol=1e-10, atol=1e-15)
            if curved:
                assert result.curvature is not None
                np.testing.assert_allclose(result.curvature[:-1], PROBLEM.curvature()[0], rtol=1e-10)
            works = {row.work for row in result.rows if not row.censored}
            assert works == {(1.0 if tasks else LOAD) * (2.0 if curved else 1.0)}
