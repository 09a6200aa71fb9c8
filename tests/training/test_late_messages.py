"""Late messages: checked, kept when the code is resized, counted, in one order whatever the order of their arrival."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from erasurehead import codes, delays, problems, schemes
from erasurehead.engines import Order, VirtualEngine
from erasurehead.errors import InvalidArgument
from erasurehead.faults import FaultPolicy
from erasurehead.optimizers import GradientDescent, QuasiNewton
from erasurehead.problems import Shard
from erasurehead.schemes import Aggregation, LateMessage
from erasurehead.testing._problems import Quadratic
from erasurehead.testing._programs import Timetable
from erasurehead.training import Callback, Run, train
from erasurehead.training._round import RoundRunner
from erasurehead.training._round_state import RoundResult

from ..arrays import Array

PROBLEM = Quadratic.random(24, 6, seed=4, l2=0.01)


class Keeps(Aggregation):
    """Keeps what it is told of, and decodes what is in time."""

    wants_late = True

    def __init__(self, greatest_age: float = float("inf")) -> None:
        self.greatest_age = greatest_age
        self.came: list[list[LateMessage]] = []
        self.arrived: list[dict[int, Array]] = []
        self._now: list[LateMessage] = []

    def late(self, message: LateMessage) -> None:
        self._now.append(message)

    def estimate(self, decoding: Any, vectors: Any, layout: Any, order: Order) -> Array | None:
        self.came.append(self._now)
        self._now = []
        self.arrived.append({message: vector.copy() for message, vector in vectors.arrived.items()})
        return schemes.uncoded(1).aggregation.estimate(decoding, vectors, layout, order)


def timetable(late: Mapping[tuple[int, int, int], float], workers: int = 6, steps: int = 40) -> Timetable:
    return Timetable({**{(w, s, 0): 1.0 for w in range(workers) for s in range(steps)}, **late})


def run_with(
    keeps: Aggregation,
    delays: Timetable,
    steps: int = 8,
    problem: Quadratic = PROBLEM,
    rule: str = "first(4)",
    code: codes.GradientCode | None = None,
    callbacks: Sequence[Callback] = (),
    wanted: Callable[[int], int | None] = lambda step: None,
    **policy: Any,
) -> Run:
    scheme = schemes.custom(code or codes.uncoded(6), rule, keeps)
    optimizer = GradientDescent(np.zeros(6), 0.1)
    engine = VirtualEngine(delays, "carry")
    return train(
        problem, scheme, optimizer, engine, steps, callbacks, 0, FaultPolicy(**policy) if policy else None, None, wanted
    )


def test_late_messages_say_what_they_are_and_are_copies() -> None:
    keeps = Keeps()
    models: list[Array] = [np.zeros(6)]

    class Models(Callback):
        def on_step_end(self, row: object, x: Array) -> None:
            models.append(x)

    run = run_with(keeps, timetable({(0, 0, 0): 3.5}), callbacks=[Models()])
    (step,) = [number for number, came in enumerate(keeps.came) if any((o.worker, o.step) == (0, 0) for o in came)]
    (late,) = [one for one in keeps.came[step] if (one.worker, one.step) == (0, 0)]
    assert (late.message, late.step, late.order_round, late.age) == (0, 0, 0, step)
    shard, out = PROBLEM.shard([slice(0, 4)]), np.empty(6)
    shard.combine(models[0], np.ones(1), 0, out)
    assert late.positions is None
    np.testing.assert_array_equal(late.vector[:-1], out)
    row = next(row for row in run.arrivals if row.late and (row.worker, row.step) == (0, 0))
    assert (row.round, row.taken, row.seconds) == (0, step, 3.5)
    assert run.steps[step].late == len(keeps.came[step])
    assert run.steps[step].received == 7 * 8 * (len(keeps.arrived[step]) + run.steps[step].late)


def test_every_message_that_is_in_can_be_read_whether_it_has_a_weight_or_not() -> None:
    keeps = Keeps()
    code = codes.fractional_repetition(6, 3)  # a second replica has no weight
    run = run_with(keeps, timetable({}), steps=3, rule="first(6)", code=code)
    assert all(sorted(arrived) == list(range(6)) for arrived in keeps.arrived)
    assert all(len(row.used) == 2 for row in run.steps)


def test_the_order_of_arrival_does_not_matter() -> None:
    """Two late messages change places within a step; the aggregation sees them in the order of steps and rows."""
    seen = []
    for first, second in ((3.2, 3.3), (3.3, 3.2)):
        keeps = Keeps()
        run_with(keeps, timetable({(0, 0, 0): first, (1, 0, 0): second}))
        seen.append([(one.step, one.message, one.vector.tolist()) for came in keeps.came for one in came])
    assert seen[0] == seen[1]
    assert any(one[:2] == (0, 0) for one in seen[0])


class Rotten(Quadratic):
    """The first task's gradient at the first model is no number."""

    def shard(self, tasks: Sequence[slice]) -> Shard:
        shard = super().shard(tasks)
        combine = shard.combine

        def rotten(local: Array, coefficients: Array, step: int, out: Array) -> float:
            loss = combine(local, coefficients, step, out)
            if step == 0 and tasks[0].start == 0:
                out[0] = np.nan
            return loss

        shard.combine = rotten  # type: ignore[method-assign]
        return shard


def test_a_late_message_that_is_no_number_spoils_no_memory() -> None:
    keeps = Keeps()
    run = run_with(keeps, timetable({(0, 0, 0): 3.5}), problem=Rotten(PROBLEM.rows, PROBLEM.centres, l2=0.01))
    assert all(np.isfinite(one.vector).all() for came in keeps.came for one in came)
    assert not any(one.worker == 0 and one.step == 0 for came in keeps.came for one in came)
    assert [row.refused for row in run.arrivals if row.late and (row.worker, row.step) == (0, 0)] == [True]
    assert [notice.worker for notice in run.notices if notice.kind == "refused"] == [0]


def test_a_message_in_time_without_a_weight_spoils_none_either() -> None:
    keeps = Keeps()
    code = codes.fractional_repetition(6, 3)
    problem = Rotten(PROBLEM.rows, PROBLEM.centres, l2=0.01)
    run_with(keeps, timetable({}), steps=3, problem=problem, rule="first(2)", code=code)
    assert all(np.isfinite(vector).all() for arrived in keeps.arrived for vector in arrived.values())


class Lies(VirtualEngine):
    """One worker's message to the first step is a lie; it can be seen only when it is compared."""

    def next_event(self, until: float | None = None) -> Any:
        event = super().next_event(until)
        if getattr(event, "step", None) == 0 and event.worker == 0 and hasattr(event, "read"):  # type: ignore[union-attr]
            honest = event.read  # type: ignore[union-attr]
            object.__setattr__(event, "read", lambda: honest() + 1.0)
        return event

    def release(self, arrived: Any) -> None:
        return


def test_a_late_lie_is_found_by_comparing_it_with_the_messages_of_its_round() -> None:
    keeps = Keeps()
    scheme = schemes.custom(codes.fractional_repetition(6, 3), "first(5)", keeps)
    engine = Lies(timetable({(0, 0, 0): 3.5}), "carry")
    policy = FaultPolicy(verify=True, on_death="leave")
    run = train(PROBLEM, scheme, GradientDescent(np.zeros(6), 0.1), engine, 6, fault_policy=policy)
    said = [(notice.kind, notice.worker) for notice in run.notices]
    assert said.index(("lied", 0)) < said.index(("refused", 0))
    assert not any(one.worker == 0 for came in keeps.came for one in came)


def test_what_is_late_is_not_lost_when_the_code_is_re_formed_if_somebody_still_says_it() -> None:
    """Eight workers over twelve tasks: what one of six has said is still said by somebody, or by nobody."""
    keeps = Keeps()
    late = {(worker, 0, 0): 4.5 + 0.01 * worker for worker in range(6)}
    run = run_with(
        keeps, timetable(late, workers=12), 12, wanted={0: 6, 1: 8}.get, code=codes.uncoded(6, 12), rule="deadline(1.5)"
    )
    assert run.steps[-1].workers == 8
    before, after = codes.uncoded(6, 12), codes.uncoded(8, 12)
    said = [after.tasks_of(position).tolist() for position in range(8)]
    kept = {worker for worker in range(6) if before.tasks_of(worker).tolist() in said}
    came = {one.worker: one for came in keeps.came for one in came if one.step == 0}
    answered = {row.worker for row in run.arrivals if row.late and row.step == 0}
    assert set(came) == kept & answered
    assert kept & answered
    for worker, one in came.items():
        assert after.tasks_of_message(one.message).tolist() == before.tasks_of(worker).tolist()


def test_messages_beyond_the_greatest_age_are_recorded_and_not_passed_on() -> None:
    keeps = Keeps(greatest_age=2)
    run = run_with(keeps, timetable({(0, 0, 0): 5.5}))
    assert [row.refused for row in run.arrivals if row.late and (row.worker, row.step) == (0, 0)] == [False]
    assert all(one.age <= 2 for came in keeps.came for one in came)


@pytest.mark.slow
@pytest.mark.parametrize("late", ["carry", "preempt"])
def test_rounds_are_remembered_while_somebody_is_at_them_and_no_longer(late: Any) -> None:
    delays = timetable({(0, 0, 0): 1500.5}, steps=1800)
    sizes: list[int] = []

    class Sizes(Callback):
        def on_state(self, step: int, state: Any) -> None:
            if step % 250 == 0:
                sizes.append(len(state()["rounds"]["late"]["rounds"]["begins"]))

    scheme = schemes.custom(codes.uncoded(6), "first(5)")
    engine = VirtualEngine(delays, late)
    policy = FaultPolicy(on_suspicion="ignore")
    run = train(PROBLEM, scheme, GradientDescent(np.zeros(6), 0.1), engine, 1800, [Sizes()], 0, policy)
    came = [row for row in run.arrivals if row.late and (row.worker, row.step) == (0, 0)]
    if late == "carry":
        assert [row.seconds for row in came] == [1500.5]
        assert max(sizes) == 1500  # all since the order that worker 0 is at
        assert sizes[-1] < 1500
    else:
        assert came == []
        assert max(sizes) == 1000


@pytest.mark.parametrize(
    ("late", "arrives"), [("preempt", False), ("drop(2)", False), ("drop(3)", True), ("carry", True)]
)
def test_work_is_dropped_when_it_is_more_than_so_many_rounds_old(late: str, arrives: bool) -> None:
    """Worker 0 is at order 0 until 3.5; order 3 is posted at 3.0."""
    scheme = schemes.custom(codes.uncoded(6), "first(5)")
    engine = VirtualEngine(timetable({(0, 0, 0): 3.5}), late)
    run = train(PROBLEM, scheme, GradientDescent(np.zeros(6), 0.1), engine, 8, evaluate_every=0)
    mine = [row for row in run.arrivals if row.worker == 0 and not (row.censored and not row.late)]
    assert any(row.step == 0 for row in mine) == arrives
    if late == "drop(2)":  # it begins with order 3 when that is posted, and is late with it
        assert min(row.step for row in mine) == 3


@pytest.mark.parametrize("late", ["drop", "drop()", "drop(-1)", "drop(1.5)", "queue", ""])
def test_what_is_no_way_with_late_work_is_refused(late: str) -> None:
    with pytest.raises(InvalidArgument, match=r"'preempt' or 'carry', or 'drop\(R\)'"):
        VirtualEngine(None, late)


@pytest.mark.parametrize("seed", [0, 4, 11])
def test_an_optimizer_is_told_late_of_the_tasks_of_the_current_code_only(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two parts have the same tasks, or none in common, also where the code is resized between message and answer."""
    gather, results = RoundRunner.gather, list[RoundResult]()

    def gathered(rounds: RoundRunner, *order: Any, **options: Any) -> RoundResult:
        results.append(gather(rounds, *order, **options))
        return results[-1]

    monkeypatch.setattr(RoundRunner, "gather", gathered)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((600, 8))
    problem = problems.LogisticRegression(X, np.sign(X @ rng.standard_normal(8)), l2=1 / 600)
    engine = VirtualEngine(delays.Exponential(mean=2.0, seed=seed), late="carry")
    dying = np.random.default_rng(seed)
    for worker in dying.choice(12, size=5, replace=False).tolist():
        engine.kill(worker, at=float(dying.uniform(0, 12)))
    optimizer, policy = QuasiNewton(problem.initial()), FaultPolicy(on_death="spread")
    train(problem, schemes.adaptive(12, load=1), optimizer, engine, 30, fault_policy=policy, tolerance=None)
    assert len({result.assignment.code.n_workers for result in results}) > 1
    for result in results:
        code = result.assignment.code
        tasks = [tuple(code.tasks_of_message(message).tolist()) for message in range(code.n_messages)]
        assert {part.tasks for part in (*result.parts, *result.late_parts)} <= {*tasks}
