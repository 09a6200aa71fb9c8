"""Who does what next, where several workers hold a task: late tasks are done twice, and none that is there already."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings, strategies as st

from erasurehead import FaultPolicy, schemes
from erasurehead.delays import Delays, Exponential, Fixed
from erasurehead.engines import Arrived, Engine, MessageSpec, ProcessEngine, VirtualEngine
from erasurehead.optimizers import GradientDescent
from erasurehead.schemes import Scheme, wait_rules
from erasurehead.testing._problems import Quadratic
from erasurehead.training import Callback, Run, train
from erasurehead.training._handout import Handout

from ..arrays import Array


def fit(scheme: Scheme, engine: Engine, steps: int = 6, callbacks: Sequence[Callback] = (), **how: Any) -> Run:
    problem = Quadratic.random(4 * scheme.code.n_tasks, 4, seed=1)
    optimizer = GradientDescent(np.zeros(4), 0.01)
    return train(problem, scheme, optimizer, engine, steps, callbacks, evaluate_every=0, tolerance=None, **how)


def gradient_descent(scheme: Scheme, steps: int = 6) -> Array:
    return fit(replace(scheme, turns=False), VirtualEngine(), steps).x


class Kills(Callback):
    """Ends workers in the middle of a step, some time after the one before has ended."""

    def __init__(self, engine: VirtualEngine, workers: Sequence[int], after: float) -> None:
        self.engine, self.workers, self.after = engine, workers, after

    def on_step_end(self, row: Any, x: Array) -> None:
        if row.step == 1:
            for worker in self.workers:
                self.engine.kill(worker, at=self.engine.now() + self.after)


def chosen(remaining: Sequence[MessageSpec], told: int | None) -> MessageSpec | None:
    """What a worker takes next, as the contract of `Engine.redirect` has it; None if it pauses."""
    named = told if told is None or told >= 0 else -1 - told
    first = [spec for spec in remaining if spec.message == named]
    return first[0] if first else None if told is not None and told < 0 else remaining[0]


class Late(VirtualEngine):
    """Workers hear of the newest advice only with every second message, as when they are faster than it crosses."""

    def __init__(self, delays: Delays, late: Any) -> None:
        super().__init__(delays, late)
        self.kept: dict[int, tuple[int, int]] = {}
        self.came = Counter[int]()

    def redirect(self, worker: int, order_round: int, message: int) -> None:
        self.kept[worker] = order_round, message

    def next_event(self, until: float | None = None) -> Any:
        event = super().next_event(until)
        for worker, (order_round, message) in self.kept.items():
            self.came[worker] += isinstance(event, Arrived) and event.worker == worker
            if not isinstance(event, Arrived) or self.came[worker] % 2 == 0:
                super().redirect(worker, order_round, message)
        return event


class Never(VirtualEngine):
    """Workers go on in their orders, as on an engine that passes no advice on."""

    redirect = Engine.redirect


@settings(max_examples=60, deadline=None)
@given(
    kind=st.sampled_from([VirtualEngine, Late, Never]),
    n_workers=st.integers(3, 8),
    pieces=st.integers(1, 4),
    seed=st.integers(0, 10_000),
    late=st.sampled_from(["preempt", "carry", "drop(1)"]),
    sums=st.booleans(),
    dead=st.integers(0, 2),
    after=st.floats(0.0, 2.0),
    death=st.sampled_from(["leave", "spread", "replace"]),
)
def test_steps_are_exact_whoever_is_late_and_dies_when(
    kind: type[VirtualEngine],
    n_workers: int,
    pieces: int,
    seed: int,
    late: Any,
    sums: bool,
    dead: int,
    after: float,
    death: Any,
) -> None:
    scheme = schemes.compute_once(n_workers, load=3, pieces=pieces, sums=sums)
    engine = kind(Exponential(mean=1.0, seed=seed, scale_with_load=True), late)
    workers = np.random.default_rng(seed).permutation(n_workers)[:dead].tolist()
    run = fit(scheme, engine, callbacks=[Kills(engine, workers, after)], fault_policy=FaultPolicy(on_death=death))
    assert all(row.residual < 1e-12 and not row.lost for row in run.steps)
    assert run.x == pytest.approx(gradient_descent(scheme), rel=1e-11)


@given(n_workers=st.integers(2, 9), load=st.integers(1, 4), pieces=st.integers(1, 4), seed=st.integers(0, 10_000))
def test_nobody_begins_what_is_there_already(n_workers: int, load: int, pieces: int, seed: int) -> None:
    scheme = schemes.compute_once(n_workers, load=min(load, n_workers), pieces=pieces)
    run = fit(scheme, VirtualEngine(Exponential(mean=1.0, seed=seed, scale_with_load=True)))
    for step in range(len(run.steps)):
        came = sorted(
            (row for row in run.arrivals if row.step == step and not row.censored), key=lambda row: row.seconds
        )
        first, free = dict[int, float](), dict[int, float]()
        for row in came:
            (task,) = scheme.code.tasks_of_message(row.message).tolist()
            assert first.setdefault(task, row.seconds) >= free.get(row.worker, 0.0)
            free[row.worker] = row.seconds


def test_who_is_through_repeats_what_is_late_and_what_nobody_has_begun_before_that() -> None:
    scheme = schemes.compute_once(3, load=3, pieces=3)
    one_slow = Fixed(((1.0, 1.0, 10.0),))  # seconds of each message
    run = fit(scheme, VirtualEngine(one_slow), steps=1)
    (step,) = run.steps
    assert step.waited == 5.0  # each its own three, the two of the slow one that it has not begun, and then that, too
    came = [(row.worker, row.message, row.seconds) for row in run.arrivals if not row.censored]
    assert sorted(came) == [
        (0, 0, 1),
        (0, 1, 2),
        (0, 2, 3),
        (0, 7, 4),
        (1, 9, 1),
        (1, 10, 2),
        (1, 11, 3),
        (1, 12, 4),
        (1, 14, 5),
    ]


def test_workers_that_pause_are_not_missed_and_not_suspected() -> None:
    scheme = schemes.compute_once(6, load=2, pieces=2)  # workers 2 and 3 hold nothing that the slow one holds
    policy = FaultPolicy(on_suspicion="report", suspect_after=5.0)
    run = fit(scheme, VirtualEngine(Fixed(((1.0, 1.0, 1.0, 1.0, 1.0, 4.0),))), fault_policy=policy)
    assert not [notice for notice in run.notices if notice.kind == "suspected"]
    last = len(run.steps) - 1
    assert not {2, 3} & set(run.steps[last].missing)
    assert not [row for row in run.arrivals if row.step == last and row.worker in (2, 3) and row.censored]


class Spoils(VirtualEngine):
    """Messages of a worker hold nothing that is a number, in one step."""

    def next_event(self, until: float | None = None) -> Any:
        event = super().next_event(until)
        if isinstance(event, Arrived) and event.worker == 0 and event.step == 2:
            return replace(event, read=lambda: np.full(event.spec.length, np.nan))
        return event


def test_what_is_refused_is_done_again_by_workers_that_had_paused() -> None:
    scheme = schemes.compute_once(4, load=2, pieces=3)
    run = fit(scheme, Spoils(Exponential(1.0, seed=2, scale_with_load=True)))
    assert [notice.kind for notice in run.notices].count("refused") >= 1
    assert all(row.residual < 1e-12 for row in run.steps)
    assert run.x == pytest.approx(gradient_descent(scheme), rel=1e-11)


def test_a_rule_that_wants_more_than_each_task_once_gets_it() -> None:
    scheme = schemes.compute_once(4, load=2, pieces=2)
    rule = wait_rules.first(4) & wait_rules.decodable()
    more = replace(scheme, rules=dict.fromkeys(scheme.rules, rule))
    run = fit(more, VirtualEngine(Fixed(((0.1, 1.0, 1.0, 9.0),))))
    assert all(row.arrived == 4 for row in run.steps)


@pytest.mark.processes
def test_real_workers_repeat_what_is_late_and_end_with_the_same_model() -> None:
    scheme = schemes.compute_once(4, load=3, pieces=2)
    slow = Fixed(((0.0, 0.0, 0.0, 30.0),))
    run = fit(scheme, ProcessEngine(slow), steps=4)
    assert run.x == pytest.approx(gradient_descent(scheme, 4), rel=1e-12)
    assert all(row.waited < 30.0 for row in run.steps)


@settings(max_examples=200, deadline=None)
@given(n_workers=st.integers(3, 6), load=st.integers(2, 3), pieces=st.integers(1, 4), seed=st.integers(0, 2**32))
@example(4, 3, 4, 1)  # in these, a worker pauses that is taken to be at something else, if it is not said after what
@example(5, 2, 4, 28)
@example(5, 2, 3, 117)
def test_each_task_comes_however_late_messages_are_read_and_advice_is_replaced_unread(
    n_workers: int, load: int, pieces: int, seed: int
) -> None:
    """Workers read the newest advice between two messages, and the coordinator any time later what they have sent."""
    code, random = schemes.compute_once(n_workers, load=load, pieces=pieces).code, Random(seed)
    left = [[MessageSpec(row, 1.0, 1) for row in code.messages_of(worker).tolist()] for worker in range(n_workers)]
    at: list[MessageSpec | None] = [own[0] for own in left]
    advice: list[int | None] = [None] * n_workers
    unread, clock = list[int](), count()
    speeds = [random.choice((1, 1, 1, 5, 20)) for _ in range(n_workers)]

    def tell(worker: int, message: int) -> None:
        advice[worker] = message

    def nothing(workers: Sequence[int]) -> None:
        return

    workers = SimpleNamespace(
        code=code, turns=(), worker_ids=[*range(n_workers)], messages_of_rows=[*range(code.n_messages)]
    )
    handout = Handout(workers, range(n_workers), lambda: float(next(clock)), tell, nothing, nothing)  # pyright: ignore
    while not handout.over:
        able = [worker for worker, own in enumerate(left) if at[worker] or (own and chosen(own, advice[worker]))]
        assert able or unread, "all pause, and a task is not there"
        if unread and (not able or random.random() < 0.5):
            for _ in range(min(random.randint(1, 2), len(unread))):
                handout.arrived(unread.pop(0))
            continue
        worker = random.choices(able, [speeds[one] for one in able])[0]
        if (spec := at[worker]) is not None:
            left[worker].remove(spec)
            unread.append(spec.message)
        at[worker] = chosen(left[worker], advice[worker]) if left[worker] else None


class Slow(Delays):
    """One worker is slow, another one in each step."""

    def rows(
        self, first: int, count: int, n_workers: int, unit: int = 0, work: float | Array = 1.0, out: Array | None = None
    ) -> Array:
        drawn = np.empty((count, n_workers)) if out is None else out
        for row in range(count):
            drawn[row] = work * np.where(np.arange(n_workers) == (first + row) % 12, 5.0, 1.0)
        return drawn

    def __str__(self) -> str:
        return "another slow one each time"


def test_steps_take_little_longer_than_if_all_were_known_though_another_worker_is_slow_each_time() -> None:
    scheme = schemes.compute_once(12, load=3, pieces=6)
    run = fit(scheme, VirtualEngine(Slow()), steps=20)
    assert max(row.waited for row in run.steps) < 2.0  # a share takes 1, and 5 on the slow one
