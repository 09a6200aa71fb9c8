"""The one loop on the virtual clock: what must always hold (DESIGN: exactness, staleness, deaths, honesty)."""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from erasurehead import codes, schemes
from erasurehead.engines import Order, VirtualEngine
from erasurehead.errors import DataError, Diverged, InvalidArgument, Unreachable
from erasurehead.faults import FaultPolicy
from erasurehead.optimizers import Answer, GradientDescent, Nesterov
from erasurehead.problems import Shard
from erasurehead.schemes import Aggregation, ByCoverage, LateMessage, wait_rules
from erasurehead.testing._problems import Quadratic
from erasurehead.testing._programs import Timetable
from erasurehead.training import Callback, Notice, Run, _waiting, train

from ..arrays import Array

LEAVE = FaultPolicy(on_death="leave")
PROBLEM = Quadratic.random(24, 6, seed=4, l2=0.01)


def descend(steps: int, rate: float = 0.1, problem: Quadratic = PROBLEM) -> Array:
    x = np.zeros(problem.n_parameters)
    for _ in range(steps):
        x = x - rate * (problem.gradient(x) + problem.penalty_gradient(x))
    return x


def plain_train(scheme: schemes.Scheme, engine: VirtualEngine, steps: int = 8, **others: object) -> Run:
    return train(PROBLEM, scheme, GradientDescent(np.zeros(6), 0.1), engine, steps, **others)  # type: ignore[arg-type]


def random_delays(n_workers: int, steps: int, seed: int) -> Timetable:
    rng = np.random.default_rng(seed)
    return Timetable({(w, s, 0): float(rng.exponential()) for w in range(n_workers) for s in range(steps)})


@pytest.mark.parametrize("late", ["preempt", "carry"])
@pytest.mark.parametrize(
    "scheme", [schemes.uncoded(6), schemes.exact(6, 3), schemes.exact(6, 3, code="cyclic")], ids=str
)
def test_exact_schemes_end_at_the_model_of_plain_gradient_descent(scheme: schemes.Scheme, late: str) -> None:
    run = plain_train(scheme, VirtualEngine(random_delays(6, 8, seed=1), late))  # type: ignore[arg-type]
    np.testing.assert_allclose(run.x, descend(8), rtol=1e-9)
    assert all(row.residual < 1e-12 for row in run.steps)


@settings(max_examples=25)
@given(seed=st.integers(0, 10**6), wait_for=st.integers(1, 6))
def test_a_step_lasts_as_long_as_the_order_statistic_or_the_last_group(seed: int, wait_for: int) -> None:
    delays = random_delays(6, 5, seed)
    run = plain_train(schemes.erasurehead(6, 2, wait_for), VirtualEngine(delays), steps=5)
    for row in run.steps:
        times = delays.row(row.step, 6)
        all_groups = max(times[:2].min(), times[2:4].min(), times[4:].min())
        assert row.waited == pytest.approx(min(np.sort(times)[wait_for - 1], all_groups))
        assert row.coverage == pytest.approx(1 - row.residual / 6)
    assert run.seconds == pytest.approx(sum(row.waited for row in run.steps))


def test_the_recorded_loss_is_the_objective_where_the_step_began() -> None:
    run = plain_train(schemes.uncoded(6), VirtualEngine())
    assert run.losses == pytest.approx([PROBLEM.objective(descend(step)) for step in range(8)])
    assert [e.metrics["objective"] for e in run.evaluations] == pytest.approx(
        [PROBLEM.objective(descend(step)) for step in range(9)]
    )


def test_the_same_seed_gives_the_same_bits() -> None:
    def once() -> Run:
        return plain_train(schemes.erasurehead(6, 2, 3), VirtualEngine(random_delays(6, 8, 7), "carry"))

    first, second = once(), once()
    assert first.x.tobytes() == second.x.tobytes()
    assert list(first.steps) == list(second.steps)
    assert list(first.arrivals) == list(second.arrivals)


class _Watch(Aggregation):
    """Sees which messages count, and which are late."""

    def __init__(self, wants_late: bool) -> None:
        self.wants_late = wants_late
        self.counted: list[tuple[int, float]] = []
        self.late_rounds: list[int] = []

    def late(self, message: LateMessage) -> None:
        self.late_rounds.append(message.order_round)

    def estimate(self, decoding: object, vectors: Sequence[Array], layout: Any, order: Order) -> Array | None:
        return schemes.uncoded(1).aggregation.estimate(decoding, vectors, layout, order)  # type: ignore[arg-type]


@pytest.mark.parametrize("wants_late", [False, True])
def test_a_message_of_an_earlier_order_never_counts_in_a_later_one(wants_late: bool) -> None:
    # Worker 0 is stuck with step 0 until step 3; what it then sends belongs to the model of step 0.
    delays = Timetable({(0, 0, 0): 3.5, **{(w, s, 0): 1.0 for w in range(1, 6) for s in range(6)}})
    watch = _Watch(wants_late)
    scheme = schemes.custom(codes.uncoded(6), "first(5)", watch)
    run = plain_train(scheme, VirtualEngine(delays, "carry"), steps=6)
    late = [row for row in run.arrivals if row.late]
    assert [(row.step, row.seconds) for row in late if row.worker == 0] == [(0, 3.5)]
    assert watch.late_rounds == ([row.round for row in late] if wants_late else [])
    assert not any(row.used for row in late)
    assert all(0 not in row.used for row in run.steps[:3])
    for row in run.steps:
        used = [a.message for a in run.arrivals if a.step == row.step and a.used]
        assert sorted(used) == row.used
    # Worker 0 takes the newest order, of step 3, at 3.5, and answers it (no delay) before the others at 4.0.
    assert 0 in run.steps[3].used


def test_what_was_not_waited_for_is_recorded_as_censored() -> None:
    delays = Timetable({(w, 0, 0): float(w) for w in range(6)})
    run = plain_train(schemes.custom(codes.uncoded(6), "first(3)"), VirtualEngine(delays), steps=1)
    assert [(row.worker, row.seconds, row.censored) for row in run.arrivals] == [
        (0, 0.0, False),
        (1, 1.0, False),
        (2, 2.0, False),
        (3, 2.0, True),
        (4, 2.0, True),
        (5, 2.0, True),
    ]
    assert run.steps[0].missing == [3, 4, 5]


def test_a_death_costs_its_messages_and_nothing_else() -> None:
    engine = VirtualEngine(Timetable({(w, s, 0): 1.0 for w in range(6) for s in range(8)}))
    engine.kill(2, at=3.5)
    run = plain_train(schemes.exact(6, 3), engine, fault_policy=LEAVE)
    np.testing.assert_allclose(run.x, descend(8), rtol=1e-9)
    assert run.seconds == pytest.approx(8.0)
    assert [2 in row.dead for row in run.steps] == [False] * 3 + [True] * 5
    assert [(one.kind, one.worker) for one in run.steps[3].notices] == [("died", 2)]
    assert all(2 not in row.missing for row in run.steps[3:])


class _Silent(Callback):
    def __init__(self) -> None:
        self.run: Run | None = None

    def on_end(self, run: Run) -> None:
        self.run = run


def test_no_rule_waits_for_the_dead_and_the_error_names_what_is_lost() -> None:
    engine = VirtualEngine(Timetable({(w, s, 0): 1.0 for w in range(6) for s in range(8)}))
    engine.kill(4, at=2.5)
    engine.kill(5, at=2.6)
    witness = _Silent()
    with pytest.raises(Unreachable, match=r"step 2: .* workers 4, 5 will not answer, and tasks 4, 5 are lost"):
        plain_train(schemes.exact(6, 2), engine, callbacks=[witness], fault_policy=LEAVE)
    assert witness.run is not None
    assert len(witness.run.steps) == 2
    assert "cannot be met" in witness.run.stopped


def test_erasurehead_goes_on_when_a_whole_group_is_dead_and_says_so_in_every_record() -> None:
    engine = VirtualEngine(Timetable({(w, s, 0): 1.0 for w in range(6) for s in range(8)}))
    engine.kill(0, at=0.5)
    engine.kill(1, at=0.5)
    run = plain_train(schemes.erasurehead(6, 2, wait_for=4), engine, fault_policy=LEAVE)
    assert all(row.residual == pytest.approx(2.0) for row in run.steps)
    assert all(row.coverage == pytest.approx(2 / 3) for row in run.steps)
    remaining = Quadratic(PROBLEM.rows[8:], PROBLEM.centres[8:], l2=0.01)
    np.testing.assert_allclose(run.x, descend(8, problem=remaining), rtol=1e-9)


@pytest.mark.parametrize("rescale", ["none", "coverage", "expectation"])
def test_nothing_arrived_means_no_step_not_a_zero_step(rescale: str) -> None:
    from erasurehead.schemes._aggregation import rescaling

    code = codes.fractional_repetition(6, 2)
    delays = Timetable({(w, 1, 0): 9.0 for w in range(6)})
    scheme = schemes.custom(
        code, wait_rules.decodable() | wait_rules.parse("deadline(2.0)"), rescaling(rescale, code, 3)
    )
    run = train(PROBLEM, scheme, Nesterov(np.ones(6), 0.1), VirtualEngine(delays), 2)
    assert [row.stepped for row in run.steps] == [True, False]
    assert run.steps[1].waited == pytest.approx(2.0)
    assert run.steps[1].loss is None
    assert run.steps[1].residual == pytest.approx(6.0)
    once = train(PROBLEM, scheme, Nesterov(np.ones(6), 0.1), VirtualEngine(delays), 1)
    assert run.x.tobytes() == once.x.tobytes()


def test_a_deadline_does_not_go_on_without_any_worker() -> None:
    engine = VirtualEngine(Timetable({(w, s, 0): 1.0 for w in range(6) for s in range(8)}))
    for worker in range(6):
        engine.kill(worker, at=1.5)
    with pytest.raises(Unreachable, match=r"step 1: .* 0 of 6 workers are left"):
        plain_train(schemes.custom(codes.uncoded(6), "deadline(3.0) | decodable()"), engine, fault_policy=LEAVE)


class _Poisoned(Quadratic):
    """A problem one of whose tasks answers NaN."""

    def shard(self, tasks: Sequence[slice]) -> Shard:
        shard = super().shard(tasks)
        if tasks[0].start == 0:
            combine = shard.combine

            def poisoned(local: Array, coefficients: Array, step: int, out: Array) -> float:
                combine(local, coefficients, step, out)
                out[0] = np.nan
                return 0.0

            shard.combine = poisoned  # type: ignore[method-assign]
        return shard


def test_messages_that_are_not_finite_are_refused_named_and_counted_as_erasures() -> None:
    problem = _Poisoned(PROBLEM.rows, PROBLEM.centres)
    scheme = schemes.custom(codes.uncoded(6), "first(4)", ByCoverage())
    in_order = VirtualEngine(Timetable({(w, s, 0): 0.1 * (w + 1) for w in range(6) for s in range(3)}))
    run = train(problem, scheme, GradientDescent(np.zeros(6), 0.1), in_order, 3)
    assert np.isfinite(run.x).all()
    for row in run.steps:
        assert [one.text for one in row.notices] == ["message 0 of worker 0 is refused: its vector is not finite"]
        assert row.used == [1, 2, 3, 4]
    said = r"cannot be met any more: worker 0 will .*task 0 is lost with it.* 1 message was refused"
    with pytest.raises(Unreachable, match=said):
        train(problem, schemes.uncoded(6), GradientDescent(np.zeros(6), 0.1), VirtualEngine(), 3)


@pytest.mark.parametrize("wait_for", [1, 2])
def test_one_bad_worker_is_not_taken_for_a_diverged_model(wait_for: int) -> None:
    problem = _Poisoned(PROBLEM.rows, PROBLEM.centres)
    scheme = schemes.ignore_stragglers(6, wait_for)
    in_order = VirtualEngine(Timetable({(w, s, 0): 0.1 * (w + 1) for w in range(6) for s in range(3)}))
    run = train(problem, scheme, GradientDescent(np.zeros(6), 0.1), in_order, 3)
    assert all(0 not in row.used and len(row.used) == wait_for for row in run.steps)


@pytest.mark.parametrize(
    ("start", "rate", "workers", "said"),
    [
        (1.0, 1e200, 6, "6 messages are all not finite: the model has diverged; take a smaller step size"),
        (1.0, 1e200, 1, "only message is not finite: the model has diverged; take a smaller step size"),
        (100.0, 1e308, 6, "model that it ends with is not finite: the model has diverged; take a smaller step size"),
        (1e300, 1e10, 6, r"6 messages are all not finite: the model has not moved yet, [^;]*\.$"),
    ],
)
def test_a_model_that_diverges_is_said_so_and_why(start: float, rate: float, workers: int, said: str) -> None:
    witness = _Silent()
    optimizer = GradientDescent(np.full(6, start), rate)
    with (
        pytest.raises(Diverged, match=said),
        np.errstate(over="ignore", invalid="ignore"),
    ):
        train(PROBLEM, schemes.uncoded(workers), optimizer, VirtualEngine(), 50, [witness])
    assert witness.run is not None
    assert "not finite" in witness.run.stopped


@pytest.mark.parametrize(("steep", "error"), [(4, Diverged), (2, Unreachable)])
def test_most_messages_that_overflow_are_the_fault_of_no_worker_and_a_few_are(
    steep: int, error: type[Exception]
) -> None:
    rows = PROBLEM.rows.copy()
    rows[: steep * len(rows) // 6] *= 1e20  # their tasks overflow when those of the others do not yet
    witness = _Silent()
    with pytest.raises(error) as caught, np.errstate(over="ignore", invalid="ignore"):
        train(
            Quadratic(rows, PROBLEM.centres),
            schemes.uncoded(6),
            GradientDescent(np.full(6, 1e145), 1e-3),
            VirtualEngine(),
            50,
            [witness],
        )
    assert witness.run is not None
    assert witness.run.status == ("diverged" if error is Diverged else "unreachable")
    assert ("the vectors of 4 of 6 messages are not finite: the model has not moved yet" in str(caught.value)) == (
        steep > 3
    )


class _TwoPoints(GradientDescent):
    """Asks for the difference of the gradients at the model and at its first model, as SVRG does."""

    max_points = 2

    def __init__(self, x: Array, rate: float) -> None:
        super().__init__(x, rate)
        self.anchor = self.x
        self.told: list[Array] = []

    def ask(self) -> Order:
        return Order(self.step, (self.x + 1.0, self.anchor), coefficients=(1.0, -1.0))

    def tell(self, answer: Answer) -> None:
        assert answer.estimate is not None
        self.told.append(answer.estimate)
        super().tell(answer)


def test_an_order_of_two_points_gets_their_combination_and_claims_no_loss() -> None:
    optimizer = _TwoPoints(np.zeros(6), 0.1)
    run = train(PROBLEM, schemes.exact(6, 3), optimizer, VirtualEngine(), 2)

    def full(x: Array) -> Array:
        return PROBLEM.gradient(x) + PROBLEM.penalty_gradient(x)

    np.testing.assert_allclose(optimizer.told[0], full(np.ones(6)) - full(np.zeros(6)))
    assert [row.loss for row in run.steps] == [None, None]


def test_models_kept_for_evaluation_are_thinned_out_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("erasurehead.training._evaluation.MOST_BYTES", 10 * 6 * 8)
    run = plain_train(schemes.uncoded(6), VirtualEngine(), steps=50)
    steps = [evaluation.step for evaluation in run.evaluations]
    assert len(steps) <= 10
    assert steps == [0, 8, 16, 24, 32, 40, 48, 50]


def test_bad_arguments_are_refused_before_any_worker_starts() -> None:
    engine = VirtualEngine()
    with pytest.raises(InvalidArgument, match="steps must be at least 1"):
        train(PROBLEM, schemes.uncoded(6), GradientDescent(np.zeros(6), 0.1), engine, 0)
    engine = VirtualEngine()
    with pytest.raises(InvalidArgument, match="optimizer must hold a model of 6 parameters, got 5"):
        train(PROBLEM, schemes.uncoded(6), GradientDescent(np.zeros(5), 0.1), engine, 1)
    with pytest.raises(InvalidArgument, match="n_tasks must be at most"):
        train(PROBLEM, schemes.uncoded(25), GradientDescent(np.zeros(6), 0.1), engine, 1)
    assert engine.now() == 0.0


def test_an_optimizer_that_has_taken_its_steps_is_not_used_again() -> None:
    optimizer = GradientDescent(np.zeros(6), 0.1)
    train(PROBLEM, schemes.uncoded(6), optimizer, VirtualEngine(), 3)
    with pytest.raises(InvalidArgument, match="optimizer must have taken fewer than the 3 steps asked for, got 3"):
        train(PROBLEM, schemes.uncoded(6), optimizer, VirtualEngine(), 3)
    assert len(train(PROBLEM, schemes.uncoded(6), optimizer, VirtualEngine(), 5).steps) == 2


class _Own(GradientDescent):
    """An optimizer of somebody's own, with a mistake in what it does after a step."""

    def __init__(self, x: Array, mistake: Callable[[_Own], None]) -> None:
        super().__init__(x, 0.1)
        self.mistake = mistake

    def tell(self, answer: Answer) -> None:
        super().tell(answer)
        self.mistake(self)


class _AsksNothing(GradientDescent):
    def ask(self) -> Any:
        return None


class _HoldsNothing(GradientDescent):
    def __init__(self) -> None:
        pass


class _HoldsLittle(GradientDescent):
    def __init__(self, x: Array) -> None:
        self.x, self.step = x, 0


def does(name: str, value: Callable[[_Own], Any]) -> Callable[[_Own], None]:
    return lambda optimizer: setattr(optimizer, name, value(optimizer))


@pytest.mark.parametrize(
    ("optimizer", "said"),
    [
        (
            _Own(np.zeros(6), does("step", lambda own: own.step - 1)),
            "count each answer as a step, got 0; tell ends with",
        ),
        (
            _Own(np.zeros(6), does("step", lambda own: own.step + 1)),
            "count each answer as a step, got 2; tell ends with",
        ),
        (_Own(np.zeros(6), does("x", lambda own: own.x[1:])), r"leave a model of shape \(6,\) in x, got array"),
        (_Own(np.zeros(6), does("x", lambda own: own.x.tolist())), r"leave a model of shape \(6,\) in x, got \[0"),
        (_AsksNothing(np.zeros(6), 0.1), "return an order when it is asked"),
        (
            _HoldsNothing(),
            r"be given its first model by Optimizer\.__init__, .*'_HoldsNothing'; its own",
        ),
        (_HoldsLittle(np.zeros(6)), r"be given its first model by Optimizer\.__init__, .*'_HoldsLittle'; its own"),
    ],
)
def test_mistakes_of_an_optimizer_of_your_own_are_named(optimizer: GradientDescent, said: str) -> None:
    with pytest.raises(InvalidArgument, match=f"optimizer must {said}"):
        train(PROBLEM, schemes.uncoded(6), optimizer, VirtualEngine(), 8)


@pytest.mark.parametrize(
    "support", [[0, 1, 2, 3, 4, -1], [0, 1, 2, 3, 5, 4], [0, 1, 1, 2, 3, 4], [1, 2, 3, 4, 5, 6], [0.0, 1.0]]
)
def test_a_support_that_is_no_ascending_list_of_parameters_is_refused(support: list[float]) -> None:
    class Elsewhere(Quadratic):
        def shard(self, tasks: Sequence[slice]) -> Shard:
            shard = super().shard(tasks)
            shard.support = np.array(support)
            return shard

    with pytest.raises(InvalidArgument, match=r"problem must have shards whose support is ascending places"):
        train(
            Elsewhere(PROBLEM.rows, PROBLEM.centres),
            schemes.uncoded(6),
            GradientDescent(np.zeros(6), 0.1),
            VirtualEngine(),
            8,
        )


class _Scaled(Quadratic):
    """A problem whose shards compute a multiple of their part, which may be another in each step."""

    def __init__(self, factor: float) -> None:
        super().__init__(PROBLEM.rows, PROBLEM.centres)
        self.factor = factor

    def shard(self, tasks: Sequence[slice]) -> Shard:
        shard = super().shard(tasks)
        right = shard.combine

        def combine(local: Array, coefficients: Array, step: int, out: Array) -> float:
            return right(local, coefficients * (1.0 if step else self.factor), step, out)

        shard.combine = combine  # type: ignore[method-assign]
        return shard


@pytest.mark.parametrize("factor", [6.0, 0.5])  # divided by a shard's own samples, or a loss without its half
def test_a_problem_of_your_own_whose_shards_do_not_add_up_to_it_is_refused_before_it_starts(factor: float) -> None:
    watched = _Silent()
    with pytest.raises(
        InvalidArgument, match=r"combine\(\.\.\.\) of .* as loss\(x\) does, but the shards do not add up"
    ):
        train(_Scaled(factor), schemes.uncoded(6), GradientDescent(np.zeros(6), 0.01), VirtualEngine(), 8, [watched])
    assert watched.run is None


@pytest.mark.parametrize("factor", [0.7, 1.0, 1.4])
def test_shards_of_your_own_may_draw_their_samples(factor: float) -> None:
    train(_Scaled(factor), schemes.uncoded(6), GradientDescent(np.zeros(6), 0.01), VirtualEngine(), 8)


class _SaysYes(type(wait_rules.first(1))):  # type: ignore[misc]
    def verdict(self, view: Any) -> Any:
        return bool(view.finished >= 2)


def test_a_rule_of_your_own_that_gives_no_verdict_is_named() -> None:
    with pytest.raises(
        InvalidArgument, match=r"verdict\(view\) of the wait rule first\(2\) must be a Verdict, but it is F"
    ):
        plain_train(schemes.custom(codes.uncoded(6), _SaysYes(2)), VirtualEngine())


@pytest.mark.parametrize(
    ("argument", "value", "said"),
    [
        ("fault_policy", True, "fault_policy must be a FaultPolicy, or None, but it is True"),
        ("resume", "runs/1", "resume must be a Resumption, or None, but it is 'runs/1'"),
        ("wanted", 3, "wanted must be a function of the step, but it is 3"),
        ("wanted", lambda step: 0, "wanted must be at least 1, but it is 0"),
        ("wanted", lambda step: "3", "wanted must be a whole number, but it is '3'"),
    ],
)
def test_options_of_another_kind_are_refused(argument: str, value: object, said: str) -> None:
    with pytest.raises(InvalidArgument, match=said):
        plain_train(schemes.uncoded(6), VirtualEngine(), **{argument: value})


class _Ailing(Quadratic):
    """A problem one of whose tasks fails, for reasons of which the list says one a step; "" for no failure."""

    reasons = ("torn", "torn", "torn", "worn", "worn", "", "worn", "worn")

    def shard(self, tasks: Sequence[slice]) -> Shard:
        shard = super().shard(tasks)
        if tasks[0].start == 0:
            combine = shard.combine

            def ailing(local: Array, coefficients: Array, step: int, out: Array) -> float:
                if self.reasons[step]:
                    raise DataError(self.reasons[step])
                return combine(local, coefficients, step, out)

            shard.combine = ailing  # type: ignore[method-assign]
        return shard


class _Heard(Callback):
    def __init__(self) -> None:
        self.notices: list[str] = []

    def on_notice(self, notice: Notice) -> None:
        self.notices.append(notice.text)


def test_a_failure_of_every_step_is_recorded_each_time_and_said_once_until_it_changes() -> None:
    problem, heard = _Ailing(PROBLEM.rows, PROBLEM.centres), _Heard()
    scheme = schemes.custom(codes.uncoded(6), "decodable() | first(5)", ByCoverage())
    delays = Timetable({(w, s, 0): 1.0 for w in range(1, 6) for s in range(8)})
    run = train(problem, scheme, GradientDescent(np.zeros(6), 0.1), VirtualEngine(delays), 8, [heard])
    said = "message 0 of worker 0 is refused: DataError:"
    torn, worn = f"{said} torn", f"{said} worn"
    assert [notice.text for notice in run.notices] == [torn] * 3 + [worn] * 4
    assert [row.failures for row in run.steps] == [1, 1, 1, 1, 1, 0, 1, 1]
    assert heard.notices == [torn, worn, worn]


@pytest.mark.parametrize(("workers", "said"), [(2, "1 of 2 workers is left"), (3, "2 of 3 workers are left")])
def test_one_worker_is_left_and_several_are(workers: int, said: str) -> None:
    engine = VirtualEngine(Timetable({(w, s, 0): 1.0 for w in range(workers) for s in range(8)}))
    engine.kill(1, at=2.5)
    with pytest.raises(Unreachable, match=rf"worker 1 will not answer, and task 1 is lost with it; {said}"):
        train(PROBLEM, schemes.uncoded(workers), GradientDescent(np.zeros(6), 0.1), engine, 8, fault_policy=LEAVE)


@pytest.mark.parametrize(("short", "taken"), [(60.0, 5), (-1.0, 4)])
def test_an_interrupt_is_put_off_to_the_end_of_a_step_unless_that_takes_long(
    short: float, taken: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def press(step: int) -> None:
        if step == 4:
            signal.raise_signal(signal.SIGINT)

    told: list[int] = []

    class Told(Callback):
        def on_state(self, step: int, state: Callable[[], Any]) -> None:
            told.append(step)

    monkeypatch.setattr(_waiting, "SHORT", short)
    run = plain_train(schemes.uncoded(6), VirtualEngine(), callbacks=[Told()], wanted=press)
    assert (run.stopped, run.steps_taken) == ("stopped by Ctrl-C", taken)
    assert told == [0, 1, 2, 3, 4] + [5, 5] * (taken == 5)  # once more, for whoever saves the newest state
