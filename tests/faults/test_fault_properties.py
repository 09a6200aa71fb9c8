"""Whatever befalls a run on the virtual clock: no step lost or doubled, none silently wrong, and an end to it.

Storms are drawn at random: kills at any time, of replacements too, hosts without room, workers that hang, fail, answer
NaN or lie, wishes for other numbers of workers, under every policy, with codes and rules of all kinds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings, strategies as st

from erasurehead import codes, schemes
from erasurehead._internal.partition import split_samples
from erasurehead.delays import Exponential
from erasurehead.engines import Joined, MessageSpec, Order, Program, VirtualEngine
from erasurehead.errors import Diverged, EngineError, ErasureHeadError, InvalidArgument, Unreachable
from erasurehead.faults import FaultPolicy
from erasurehead.optimizers import GradientDescent
from erasurehead.schemes import Aggregation, ByCoverage
from erasurehead.testing._problems import Quadratic
from erasurehead.training import ArrivalRow, Callback, Notice, Resumption, Run, StepRow, train

from ..arrays import Array

STEPS, RATE, MOST_EVENTS = 6, 0.1, 20_000
PROBLEMS = {
    False: Quadratic.random(37, 6, seed=4, l2=0.01),
    True: Quadratic.random(37, 6, seed=4, l2=0.01, density=0.4, sparse=True),
}
EXAMPLES = [family.example_code for family in codes.catalogue() if family.example_code.n_tasks <= 37]


class Faulty(Program):
    """Does what another program does, but for some steps."""

    pure = False

    def __init__(self, inner: Program, fault: str, steps: frozenset[int]) -> None:
        self.inner, self.fault, self.steps = inner, fault, steps

    @property
    def message_specs(self) -> Sequence[MessageSpec]:
        return [replace(spec, content=None) for spec in self.inner.message_specs]

    @property
    def input_size(self) -> int:
        return self.inner.input_size

    def remaining(self, order: Order, done: Sequence[MessageSpec]) -> Sequence[MessageSpec]:
        if self.fault == "remaining" and order.step in self.steps:
            raise ValueError("told to fail")
        return self.message_specs[len(done) :]

    def take(self, order: Order) -> Any:
        return order.step, self.inner.take(order)

    def compute(self, spec: MessageSpec, taken: Any, out: Array) -> None:
        step, inner = taken
        if self.fault == "compute" and step in self.steps:
            raise ValueError("told to fail")
        self.inner.compute(spec, inner, out)
        if step in self.steps:
            out[0] += {"nan": np.nan, "lie": 1.0 + step}.get(self.fault, 0.0)


@dataclass(frozen=True)
class Schedule:
    """What befalls a run."""

    code: codes.GradientCode
    rule: str
    aggregation: Aggregation
    fault_policy: FaultPolicy
    kills: Sequence[tuple[int, float]] = ()
    acts: Sequence[tuple[int, str, int]] = ()  # after so many steps, what, to whom
    wishes: Mapping[int, int] = field(default_factory=dict[int, int])
    faults: Mapping[int, tuple[str, frozenset[int]]] = field(default_factory=dict[int, Any])
    hosts: Mapping[str, int | None] | None = None
    late: str = "preempt"
    starting: float = 0.0  # seconds that a worker takes to start
    seed: int | None = 0  # of the delays
    sparse: bool = False

    def problem(self) -> Quadratic:
        return PROBLEMS[self.sparse]

    def has(self, *faults: str) -> bool:
        return any(fault in faults for fault, _ in self.faults.values())


class FaultyEngine(VirtualEngine):
    """A virtual engine in which starting takes time, and programs may be faulty. It bears so many events."""

    def __init__(self, schedule: Schedule) -> None:
        delays = None if schedule.seed is None else Exponential(mean=0.5, seed=schedule.seed)
        super().__init__(delays, schedule.late, 0.1, schedule.hosts)  # type: ignore[arg-type]
        self.schedule, self.events, self.hung = schedule, 0, set[int]()
        self.alive: set[int] | None = None  # who lived when it was closed

    def assign(self, worker: int, program: Program | None, host: str | None = None) -> None:
        self.hung.discard(worker)
        super().assign(worker, None if program is None else self._faulty(worker, program), host)

    def _faulty(self, worker: int, program: Program) -> Program:
        fault = self.schedule.faults.get(worker)
        return program if fault is None else Faulty(program, *fault)

    def restore(self, state: Any, programs: Mapping[int, Program]) -> None:
        super().restore(state, {worker: self._faulty(worker, program) for worker, program in programs.items()})

    def _push(self, time: float, worker: int, number: int, event: Any) -> None:
        if isinstance(event, Joined):
            time += self.schedule.starting
            event = replace(event, time=time)
        super()._push(time, worker, number, event)

    def next_event(self, until: float | None = None) -> Any:
        self.events += 1
        assert self.events < MOST_EVENTS, "there is no end to it"
        return super().next_event(until)

    def close(self) -> None:
        self.alive = set(self._workers) if self.alive is None else self.alive
        super().close()

    def act(self, what: str, worker: int) -> None:
        if what == "kill":
            self.kill(worker)
        elif what == "offer":
            self.offer(2, "new")
        elif what == "shrink":
            self._hosts = {name: room and max(1, room - 1) for name, room in self._hosts.items()}
        elif worker in self._workers and what == "pause":
            self.pause(worker)
            self.hung.add(worker)
        elif worker in self._workers:
            self.proceed(worker)
            self.hung.discard(worker)


class Spy(Aggregation):
    """Keeps what was decoded in each step."""

    def __init__(self, inner: Aggregation) -> None:
        self.inner = inner
        self.decoded: dict[int, tuple[int, Any]] = {}

    def estimate(self, decoding: Any, vectors: Sequence[Array], layout: Any, order: Order) -> Array | None:
        self.decoded[order.step] = order.round, decoding
        return self.inner.estimate(decoding, vectors, layout, order)


class Witness(Callback):
    """Keeps all that it is told, and the state after each step; and does what the schedule does."""

    def __init__(self, schedule: Schedule, engine: FaultyEngine) -> None:
        self.schedule, self.engine = schedule, engine
        self.rows: list[StepRow] = []
        self.arrivals: list[ArrivalRow] = []
        self.models: list[Array] = []
        self.said: list[str] = []
        self.states: list[tuple[Any, int]] = []

    def on_notice(self, notice: Notice) -> None:
        self.said.append(notice.text)

    def on_arrival(self, row: ArrivalRow) -> None:
        self.arrivals.append(row)

    def on_step_end(self, row: StepRow, x: Array) -> None:
        self.rows.append(row)
        self.models.append(x)

    def on_state(self, step: int, state: Any) -> None:
        for after, what, worker in self.schedule.acts:
            if after == step:
                self.engine.act(what, worker)
        self.states.append((state(), len(self.arrivals)))


@dataclass
class Outcome:
    run: Run | None
    error: ErasureHeadError | None
    witness: Witness
    spy: Spy
    engine: FaultyEngine


def go(schedule: Schedule, resume: Resumption | None = None) -> Outcome:
    spy, engine = Spy(schedule.aggregation), FaultyEngine(schedule)
    for worker, at in () if resume else schedule.kills:
        engine.kill(worker, at=at)
    witness = Witness(schedule, engine)
    run, error = None, None
    try:
        run = train(
            schedule.problem(),
            schemes.custom(schedule.code, schedule.rule, spy),
            GradientDescent(np.zeros(6), RATE),
            engine,
            STEPS,
            [witness],
            fault_policy=schedule.fault_policy,
            wanted=schedule.wishes.get,
            resume=resume,
        )
    except ErasureHeadError as caught:
        error = caught
    return Outcome(run, error, witness, spy, engine)


@st.composite
def schedules(draw: st.DrawFn) -> Schedule:
    """Draw a schedule."""
    n = draw(st.sampled_from([1, 2, 4, 6, 7, 9]))
    load = draw(st.integers(1, min(n, 3)))
    code = draw(
        st.sampled_from(
            [
                codes.uncoded(n),
                codes.uncoded(n, n + 5),
                codes.fractional_repetition(n, load),
                codes.build("exact_cyclic", max(n, 2), load - 1),
                draw(st.sampled_from(EXAMPLES)),
            ]
        )
    )
    n = code.n_workers
    few = draw(st.integers(1, n))
    rules = [
        "decodable()",
        f"first({few})",
        "fraction(0.7)",
        f"first({few}) | decodable()",
        "deadline(0.4)",
        "deadline(0.7) | decodable()",
        f"first({few}) & deadline(0.4)",
        "residual_below(1.0)",
        f"(first({few}) | decodable()) & confirmed(2)",
        f"(first({few}) | deadline(0.3)) & residual_below(1.5)",
    ]
    fault_policy = FaultPolicy(
        on_death=draw(st.sampled_from(["replace", "spread", "leave"])),
        replacements=draw(st.sampled_from([0, 1, 3])),
        on_loss=draw(st.sampled_from(["stop", "go_on"])),
        grow=draw(st.booleans()),
        on_suspicion=draw(st.sampled_from(["report", "replace", "ignore"])),
        suspect_after=draw(st.sampled_from([None, 1.5])),
        verify=draw(st.booleans()),
    )
    worker, step = st.integers(0, n + 1), st.integers(0, STEPS - 1)
    when = st.one_of(st.just(0.0), st.floats(0, 4).map(lambda at: round(at, 2)))
    faults = ["remaining", "compute", "nan", "lie"] if fault_policy.verify else ["remaining", "compute", "nan"]
    schedule = Schedule(
        code,
        draw(st.sampled_from(rules)),
        draw(st.sampled_from([schemes.uncoded(1).aggregation, ByCoverage()])),
        fault_policy,
        kills=draw(st.lists(st.tuples(worker, when), max_size=10)),
        acts=draw(
            st.lists(
                st.tuples(step, st.sampled_from(["kill", "pause", "proceed", "offer", "shrink"]), worker), max_size=4
            )
        ),
        wishes=draw(st.dictionaries(step, st.sampled_from([1, 2, 3, n + 1, n + 3, 50]), max_size=2)),
        faults=draw(
            st.dictionaries(worker, st.tuples(st.sampled_from(faults), st.frozensets(step, min_size=1)), max_size=2)
        ),
        hosts=draw(st.sampled_from([None, {"a": n}, {"a": n // 2 + 1, "b": n // 2 + 1}, {"a": None, "b": 2}])),
        late=draw(st.sampled_from(["preempt", "carry"])),
        starting=draw(st.sampled_from([0.0, 0.3, 2.0])),
        seed=draw(st.one_of(st.none(), st.integers(0, 1000))),
        sparse=draw(st.booleans()),
    )
    try:
        schemes.custom(schedule.code, schedule.rule)
    except InvalidArgument:
        assume(False)
    return schedule


def counted(decoding: Any, lost: Sequence[int], n_tasks: int) -> Array:
    """How often each task's piece is counted, shape (n_pieces, n_tasks, n_pieces)."""
    pieces = decoding.code.n_pieces
    left = [task for task in range(n_tasks) if task not in lost]
    table = np.zeros((pieces, n_tasks, pieces))
    table[:, left, :] = decoding.alpha.reshape(pieces, len(left), pieces)
    return table


def check_step(schedule: Schedule, row: StepRow, decoding: Any, before: Array, after: Array) -> None:
    """Work out residual, coverage and the new model anew, from who was counted how often."""
    n_tasks, problem = schedule.code.n_tasks, schedule.problem()
    assert row.used == decoding.used.tolist()
    assert list(decoding.code.parameters.get("lost", [])) == row.lost  # type: ignore[call-overload]
    table = counted(decoding, row.lost, n_tasks)
    pieces = len(table)
    target = np.repeat(np.eye(pieces)[:, None, :], n_tasks, axis=1)
    assert ((table - target) ** 2).sum() / pieces == pytest.approx(row.residual, abs=1e-6 * n_tasks)
    if len(decoding.messages):
        assert (table * target).sum() / (pieces * n_tasks) == pytest.approx(row.coverage, abs=1e-6)
    if not row.stepped:
        assert after.tobytes() == before.tobytes()
        return
    assert abs(row.coverage) > 1e-12  # what says nothing of the gradient is no step
    if pieces > 1 or schedule.has("lie"):
        return
    spans = split_samples(problem.n_samples, n_tasks)
    errors = problem.rows @ before - problem.centres
    partial = np.array([errors[span] @ problem.rows[span] for span in spans]) / problem.n_samples
    estimate = table[0, :, 0] @ partial
    if isinstance(schedule.aggregation, ByCoverage):
        estimate = estimate / decoding.coverage
    lost = sum(spans[task].stop - spans[task].start for task in row.lost)
    estimate = estimate * problem.n_samples / (problem.n_samples - lost)
    expected = before - RATE * (estimate + problem.penalty_gradient(before))
    np.testing.assert_allclose(after, expected, rtol=1e-6, atol=1e-6 * max(1.0, np.abs(expected).max()))


def check_records(row: StepRow, arrivals: Sequence[ArrivalRow]) -> None:
    mine = [arrival for arrival in arrivals if (arrival.step, arrival.round, arrival.late) == (row.step, row.round, 0)]
    assert len({arrival.message for arrival in mine}) == len(mine)
    assert sorted(arrival.message for arrival in mine if arrival.used) == row.used
    assert not any(arrival.used and arrival.censored for arrival in mine)
    assert row.missing == sorted({arrival.worker for arrival in mine if arrival.censored})
    assert not set(row.missing) & set(row.dead)
    assert row.arrived <= len({arrival.worker for arrival in mine if not arrival.censored})


def check_end(schedule: Schedule, outcome: Outcome) -> None:
    error, alive = outcome.error, outcome.engine.alive
    if error is None:
        assert len(outcome.witness.rows) == STEPS
    unfit = any("stays as it is" in text for text in outcome.witness.said)
    if isinstance(error, Unreachable) and not schedule.faults:
        if schedule.fault_policy.on_loss == "go_on" or (schedule.fault_policy.on_death != "leave" and not unfit):
            assert not alive  # as long as anybody lives, there is a way to go on
    elif isinstance(error, Diverged):
        assert schedule.has("nan", "lie")
    elif type(error) is EngineError:  # nobody was ever there; or someone who is needed hangs
        assert "did not start" in str(error) or outcome.engine.hung
    exact = schedule.rule == "decodable()" and schedule.fault_policy.on_loss == "stop" and not schedule.has("lie")
    if exact and outcome.run is not None:
        x, problem = np.zeros(6), schedule.problem()
        for _ in range(STEPS):
            x = x - RATE * (problem.gradient(x) + problem.penalty_gradient(x))
        np.testing.assert_allclose(outcome.run.x, x, rtol=1e-6, atol=1e-6)


@pytest.mark.slow
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(schedule=schedules())
def test_no_schedule_makes_a_step_wrong_without_a_word(schedule: Schedule) -> None:
    outcome = go(schedule)
    witness = outcome.witness
    rows = witness.rows
    assert [row.step for row in rows] == list(range(len(rows)))
    assert [row.round for row in rows] == sorted({row.round for row in rows})
    models = [np.zeros(6), *witness.models]
    for row in rows:
        number, decoding = outcome.spy.decoded[row.step]
        assert number == row.round
        check_step(schedule, row, decoding, models[row.step], models[row.step + 1])
        check_records(row, witness.arrivals)
    check_end(schedule, outcome)


def same(one: Sequence[Array], other: Sequence[Array]) -> bool:
    return [x.tobytes() for x in one] == [x.tobytes() for x in other]


@pytest.mark.slow
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(schedule=schedules(), after=st.integers(1, STEPS - 1))
def test_a_schedule_has_the_same_bits_again_and_when_it_is_resumed_in_the_midst_of_it(
    schedule: Schedule, after: int
) -> None:
    first, second = go(schedule), go(schedule)
    witness = first.witness
    assert same(witness.models, second.witness.models)
    assert (witness.rows, witness.arrivals) == (second.witness.rows, second.witness.arrivals)
    if after < len(witness.states):  # the first state is that before any step
        state, count = witness.states[after]
        resumed = go(schedule, Resumption(state, witness.rows[:after], witness.arrivals[:count]))
        assert str(resumed.error) == str(first.error)
        assert resumed.witness.rows == witness.rows[after:]
        assert resumed.witness.arrivals == witness.arrivals[count:]
        assert same(resumed.witness.models, witness.models[after:])
