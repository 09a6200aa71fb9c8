"""Tests that rank 0 of a job runs while the other ranks serve; `test_mpi.py` starts the job. Not collected otherwise.

Some of them kill ranks, which are missing from then on: the job has spares.
"""

from __future__ import annotations

import mmap
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import cloudpickle
import numpy as np
import pytest

from erasurehead import FaultPolicy, codes, consensus, schemes
from erasurehead.consensus import Policy
from erasurehead.delays import Delays, Exponential
from erasurehead.delays._fixed import Recorded
from erasurehead.engines import Arrived, Died, Engine, Joined, MessageSpec, MPIEngine, Order, Program, VirtualEngine
from erasurehead.engines._base import QUESTIONS, NoRoom
from erasurehead.engines._engine_around import EngineAround, ProgramAround
from erasurehead.engines._mpi.job import serve
from erasurehead.engines._wired_engine import WiredProgram
from erasurehead.errors import EngineError
from erasurehead.optimizers import GradientDescent, Nesterov
from erasurehead.problems import LogisticRegression
from erasurehead.testing import EngineConformance, FaultInjectionConformance
from erasurehead.testing._driving import PATIENCE, arrivals, order, start, take
from erasurehead.testing._pacing import at_some_pace
from erasurehead.testing._problems import Quadratic
from erasurehead.testing._programs import Echo, Faulty, Timetable
from erasurehead.training import Callback, Resumption, Run, train

from ..arrays import Array
from ..consensus import scripted
from ..consensus.conformance import PeerConformance

GRID = 0.06  # seconds between two injected delays

if __name__ in sys.modules:
    for module in (sys.modules[__name__], scripted):
        cloudpickle.register_pickle_by_value(module)  # the other ranks cannot import this file


class TestConformance(EngineConformance, FaultInjectionConformance):
    detection_seconds = 30.0  # within a second: in `test_mpi.py`, where nothing else runs

    def make(self, delays: Delays | None = None, late: str = "preempt") -> MPIEngine:
        return MPIEngine(delays, late)


class TestConformanceOfWhatTravels(EngineConformance, FaultInjectionConformance):
    """The same with models and messages that MPI carries, as between machines."""

    detection_seconds = 30.0

    def make(self, delays: Delays | None = None, late: str = "preempt") -> MPIEngine:
        return MPIEngine(delays, late, share=False)


class TestPeers(PeerConformance):
    def train(self, problem: LogisticRegression, graph: str, policy: Policy | str, **settings: Any) -> Any:
        return consensus.train(problem, graph, policy, engine="mpi", **settings)


@dataclass(eq=False)
class Probe(Echo):
    """Answers the sum of an array that it holds, whether that can be written, and the threads of its libraries."""

    data: Array = field(default_factory=lambda: np.ones(12_345))

    def compute(self, spec: MessageSpec, taken: Any, out: Array) -> None:
        from threadpoolctl import threadpool_info

        threads = max(library["num_threads"] for library in threadpool_info())
        out[:] = [self.data.sum(), self.data.flags.writeable, threads, len(self.data)]


class Unopenable(Echo):
    """Cannot be unpickled."""

    def __setstate__(self, state: object) -> None:
        raise RuntimeError("no room at the inn")


@dataclass(eq=False)
class Big(Faulty):
    """Messages so large that they cross in several pieces, and that a torn one would be seen."""

    length: int = 50_000


@dataclass(eq=False)
class Mixed(Echo):
    """Tells its last message anew each time, shorter than announced, and of another type."""

    def remaining(self, order: Order, done: Any) -> Any:
        left = super().remaining(order, done)
        return [*left[:-1], MessageSpec(left[-1].message, 1.0, 2, "float32")] if left else []

    def compute(self, spec: MessageSpec, taken: Any, out: Array) -> None:
        out[:] = spec.message


class TestOwn:
    """What the conformance suite does not ask."""

    def test_data_cross_whole_and_read_only_and_a_rank_has_one_blas_thread(self) -> None:
        with MPIEngine() as engine:
            start(engine, [Probe(0, (0,)), Probe(1, (1,), data=np.full(4097, 2.0))])
            engine.submit(order(0))
            answers = {event.worker: event.read().tolist() for event in arrivals(engine, 2)}
        assert answers == {0: [12_345.0, 0.0, 1.0, 12_345.0], 1: [8194.0, 0.0, 1.0, 4097.0]}

    def test_a_part_may_differ_from_its_announcement(self) -> None:
        with MPIEngine() as engine:
            start(engine, [Mixed(0, (7, 8))])
            engine.submit(order(0))
            whole, short = (event.read() for event in arrivals(engine, 2))
            assert (whole.tolist(), whole.dtype) == ([7.0] * 4, np.float64)
            assert (short.tolist(), short.dtype) == ([8.0] * 2, np.float32)

    @pytest.mark.parametrize("share", [True, False])
    def test_vectors_lie_in_memory_that_both_see_unless_they_travel(self, share: bool) -> None:
        with MPIEngine(share=share) as engine:
            start(engine, [Echo(0, (0,))])
            engine.submit(order(0))
            (event,) = arrivals(engine, 1)
            assert isinstance(base_of(event.read()), mmap.mmap) == share

    @pytest.mark.parametrize("share", [True, False])
    @at_some_pace
    def test_a_busy_worker_answers_its_newest_order_though_others_have_had_newer_ones(
        self, share: bool, pace: float
    ) -> None:
        grid = pace * GRID
        with MPIEngine(Timetable({(0, 0, 0): 5 * grid}), "carry", share=share) as engine:
            start(engine, [Echo(worker, (worker,)) for worker in range(2)])
            engine.submit(order(0), [0])
            assert engine.next_event(engine.now() + 2 * grid) is None
            engine.submit(order(1), [0])
            for number in (2, 3):
                engine.submit(order(number), [1])
                (event,) = arrivals(engine, 1)
                assert (event.worker, event.order_round) == (1, number)
            found = [(event.worker, event.order_round, event.read().tolist()) for event in arrivals(engine, 2)]
            assert found == [(0, 0, [0, 0, 0, 0]), (0, 1, [1, 0, 0, 1])]

    @pytest.mark.parametrize("share", [True, False])
    @pytest.mark.parametrize("late", ["preempt", "carry"])
    def test_messages_are_whole_under_a_burst_of_orders(self, late: str, share: bool) -> None:
        with MPIEngine(late=late, share=share) as engine:
            start(engine, [Big(worker, (worker,), n_parameters=20_000) for worker in range(4)])
            newest = dict.fromkeys(range(4), -1)
            for number in range(150):
                engine.submit(order(number, n_parameters=20_000))
                while (event := engine.next_event(engine.now() + 0.002)) is not None:
                    check_whole(engine, event, newest)
            deadline = engine.now() + PATIENCE
            while min(newest.values()) < 149:
                check_whole(engine, engine.next_event(deadline), newest)

    @pytest.mark.parametrize("share", [True, False])
    def test_a_rank_that_dies_with_large_messages_half_way_costs_nothing_else(self, share: bool) -> None:
        length = 2_000_000
        with MPIEngine(share=share) as engine:
            start(engine, [Big(worker, (worker,), length=length, n_parameters=length) for worker in range(3)])
            engine.submit(order(0, n_parameters=length))
            assert engine.next_event(engine.now()) is None  # the orders are on their way, or the answers are
            engine.kill(1)
            events = take(engine, 3)
            (died,) = (event for event in events if isinstance(event, Died))
            assert died.worker == 1
            answered = {event.worker: event.read() for event in events if isinstance(event, Arrived)}
            assert set(answered) == {0, 2}
            for worker, vector in answered.items():
                assert (vector.reshape(-1, 4) == [0, worker, worker, 0]).all()
            engine.submit(order(1, n_parameters=length))
            assert {event.worker for event in arrivals(engine, 2)} == {0, 2}

    def test_one_engine_at_a_time_uses_the_ranks(self) -> None:
        with MPIEngine() as engine, MPIEngine() as other:
            start(engine, [Echo(0, (0,))])
            with pytest.raises(EngineError, match="another MPIEngine uses these ranks"):
                other.hosts()
            engine.close()
            start(other, [Echo(0, (0,))])

    def test_rank_0_does_not_serve(self) -> None:
        with pytest.raises(EngineError, match="rank 0 coordinates"):
            serve()

    @pytest.mark.parametrize("late", ["preempt", "carry"])
    @pytest.mark.parametrize("name", ["erasurehead", "exact"])
    @at_some_pace
    def test_training_stops_on_the_same_arrivals_as_on_the_virtual_clock_and_reaches_the_same_bits(
        self, name: str, late: str, pace: float
    ) -> None:
        grid = pace * GRID
        scheme = schemes.erasurehead(6, 2, 2) if name == "erasurehead" else schemes.exact(6, 3)
        delays = grid_delays(6, 3, grid) if late == "preempt" else Timetable({(5, 0, 0): 2 * grid, (2, 1, 0): 3 * grid})
        virtual, real = (short_train(scheme, make(delays, late)) for make in (VirtualEngine, MPIEngine))
        if late == "preempt":
            assert [row.used for row in real.steps] == [row.used for row in virtual.steps]
            assert real.x.tobytes() == virtual.x.tobytes()
            assert real.losses.tobytes() == virtual.losses.tobytes()
        elif name == "exact":
            np.testing.assert_allclose(real.x, virtual.x, rtol=1e-12)

    def test_the_virtual_engine_replays_a_run_to_the_same_bits(self) -> None:
        rng = np.random.default_rng(3)
        delays = Timetable({(w, s, 0): float(rng.exponential(0.02)) for s in range(20) for w in range(6)})
        scheme = schemes.erasurehead(6, 2, 2)
        real = short_train(scheme, MPIEngine(delays), 20)
        recorded = {(a.worker, a.step, a.unit): float("inf") if a.censored else a.seconds for a in real.arrivals}
        replayed = short_train(scheme, VirtualEngine(Timetable(recorded)), 20)
        assert [row.used for row in replayed.steps] == [row.used for row in real.steps]
        assert replayed.x.tobytes() == real.x.tobytes()

    def test_asynchronous_training_is_replayed_to_the_same_bits(self) -> None:
        check_asynchronous(MPIEngine)

    @pytest.mark.parametrize("late", ["preempt", "carry"])
    def test_workers_of_nested_codes_report_and_a_run_is_replayed_to_the_same_bits(self, late: str) -> None:
        check_nested(MPIEngine, late)

    @pytest.mark.parametrize("late", ["preempt", "carry"])
    def test_liars_are_questioned_and_a_run_is_replayed_to_the_same_bits(self, late: str) -> None:
        check_liars(MPIEngine, late)


class TestAllRanks:
    """What takes every rank that lives; the last of all, when those are few."""

    def test_a_worker_that_cannot_start_says_why_and_its_rank_is_free_again(self) -> None:
        with MPIEngine() as engine:
            for _ in range(2 * sum(n or 0 for n in engine.hosts().values())):
                engine.assign(0, Unopenable(0, (0,)))
                (event,) = take(engine, 1)
                assert isinstance(event, Died)
                assert "no room at the inn" in event.reason

    def test_there_is_room_for_as_many_workers_as_ranks_live(self) -> None:
        with MPIEngine() as engine:
            (room,) = engine.hosts().values()
            assert room is not None
            start(engine, [Echo(worker, (worker,)) for worker in range(room)])
            with pytest.raises(NoRoom, match=rf"worker {room} cannot be started: .* {room} live, and none is idle"):
                engine.assign(room, Echo(room, (room,)))
            engine.assign(0, None)
            engine.assign(room, Echo(room, (room,)))
            assert isinstance(take(engine, 1)[0], Joined)

    @pytest.mark.parametrize("late", ["preempt", "carry"])
    def test_a_program_is_replaced_even_where_an_endless_delay_is_sat_out(self, late: str) -> None:
        with MPIEngine(Timetable({(0, 0, 0): 1e6}), late) as engine:
            room = sum(n or 0 for n in engine.hosts().values())
            start(engine, [Echo(worker, (worker,)) for worker in range(room)])  # no rank is left to go to
            engine.submit(order(0))
            arrivals(engine, room - 1)
            engine.assign(0, Echo(9, (0,)))
            assert isinstance(take(engine, 1)[0], Joined)
            engine.submit(order(1))
            assert {event.worker: event.read()[1] for event in arrivals(engine, room)}[0] == 9


def check_asynchronous(make: Callable[[Delays, str], Engine]) -> None:
    """Train asynchronously, and replay it from its records; go on with the replay from its middle."""
    delays, states = Exponential(0.01, seed=1), list[Any]()

    class States(Callback):
        def on_state(self, step: int, state: Any) -> None:
            states.append(state())

    def go(engine: Engine, *watching: Callback, resume: Resumption | None = None) -> Run:
        optimizer = GradientDescent(np.ones(40), 0.02)
        return train(PROBLEM, schemes.asynchronous(3, 6), optimizer, engine, 30, watching, resume=resume)

    real = go(make(delays, "carry"))
    assert any(row.late for row in real.arrivals)
    script = Recorded.from_rows([row.as_dict() for row in real.arrivals], steps=[row.as_dict() for row in real.steps])
    again = go(VirtualEngine(script), States())
    assert again.x.tobytes() == real.x.tobytes()
    assert [(row.used, row.late, row.waited) for row in again.steps] == [
        (row.used, row.late, row.waited) for row in real.steps
    ]
    rest = go(VirtualEngine(script), resume=Resumption(states[15], again.steps[:15], []))
    assert rest.x.tobytes() == real.x.tobytes()


@at_some_pace
def check_nested(make: Callable[[Delays, str], Engine], late: str = "preempt", *, pace: float) -> None:
    """Train with a nested code where nobody is late, then one, then two workers, and replay it from its records."""
    long, workers = 300.0 if late == "preempt" else 1.5 * pace, 5
    delays = Timetable({(worker, step, 0): long for worker, step in [(1, 1), (0, 2), (3, 2)]})

    def go(engine: Engine, scheme: schemes.Scheme = schemes.nested(workers, load=3)) -> Run:
        return train(PROBLEM, scheme, GradientDescent(np.ones(40), 0.02), engine, 4)

    real, whole = go(make(delays, late)), go(VirtualEngine(), schemes.uncoded(workers))
    np.testing.assert_allclose(real.x, whole.x, rtol=1e-9)
    least = [0, 1, 2, 0] if late == "preempt" else [0, 1, 1, 0]
    assert all(row.decision["tolerance"] >= few for row, few in zip(real.steps, least, strict=True))
    assert all(row.residual < 1e-9 and (row.waited < long or late == "carry") for row in real.steps)
    answers = [row for row in real.arrivals if row.used]
    assert {row.work for row in answers} == {row.decision["tolerance"] + 1.0 for row in real.steps}
    reports = [row for row in real.arrivals if row.round not in {row.round for row in answers}]
    assert not any(row.used for row in reports)
    assert sum(row.received for row in real.steps) < 0.5 * 8 * 41 * len(reports)  # they are not the vectors
    script = Recorded.from_rows([row.as_dict() for row in real.arrivals], steps=[row.as_dict() for row in real.steps])
    again = go(VirtualEngine(script))
    assert again.x.tobytes() == real.x.tobytes()
    assert [(row.used, row.late, row.waited, row.decision) for row in again.steps] == [
        (row.used, row.late, row.waited, row.decision) for row in real.steps
    ]


@dataclass(frozen=True)
class Lie:
    """What a worker lies in some steps.

    Attributes:
        by: what it adds to the first element of its message.
        answers: how it answers questions: `"alike"` adds the same to whatever it sends, `"truth"` answers as honest
            workers do, `"task"` as if it believed the lie, in its first task, `"noise"` at random, `"nan"` and `"huge"`
            with no number, and with one that is too large; `"fails"` raises; `"waits"` is silent.
        steps: the steps; None for all.
    """

    by: float = 0.5
    answers: str = "alike"
    steps: frozenset[int] | None = None

    def of(self, order: Order) -> bool:
        """Return whether an order is answered by a lie."""
        return self.steps is None or order.step in self.steps


class LyingProgram(ProgramAround):
    """A program whose worker lies."""

    def __init__(self, program: Program, lie: Lie) -> None:
        super().__init__(program)
        self.lie = lie

    def remaining(self, order: Order, done: Any) -> Any:
        sent = self.program.remaining(order, done)
        return [replace(spec, content=None) for spec in sent] if self.lie.of(order) else sent

    def take(self, order: Order) -> Any:
        return replace(order, points=()), self.program.take(order)

    def compute(self, spec: MessageSpec, taken: Any, out: Array) -> None:
        order, inner = taken
        self.program.compute(spec, inner, out)
        if not self.lie.of(order):
            return
        asked = {number: rest for number, *rest in order.note.get(QUESTIONS, ())}
        how = self.lie.answers if asked else "alike"
        if how == "fails":
            raise ValueError("none of your business")
        if how == "waits":
            time.sleep(3.0)
        elif how == "noise":
            out[0] = np.random.default_rng(order.round).standard_normal()
        elif how in ("nan", "huge"):
            out[0] = {"nan": np.nan, "huge": 1e300}[how]
        elif how == "alike" or (how == "task" and asked[spec.message][0] == 0):
            out[0] += self.lie.by


class LyingEngine(EngineAround):
    """An engine some of whose workers lie."""

    name = "lying"

    def __init__(self, engine: Engine, lies: Mapping[int, Lie]) -> None:
        super().__init__(engine)
        self.lies = lies

    def around(self, worker: int, program: Program) -> Program:
        if worker not in self.lies:
            return program
        if isinstance(program, WiredProgram):  # a lie is told before it is encoded
            return WiredProgram(LyingProgram(program.program, self.lies[worker]), program.wire)
        return LyingProgram(program, self.lies[worker])


def check_liars(make: Callable[[Delays, str], Engine], late: str = "preempt") -> None:
    """Train with two liars, one of whom begins in the last step, and replay it from its records."""
    lies = {2: Lie(0.5, "truth", frozenset({2})), 5: Lie(-1e-3, "alike", frozenset({5}))}
    delays = Timetable({(worker, step, 0): 0.01 * (worker % 3) for worker in range(6) for step in range(6)})
    scheme = schemes.custom(codes.fractional_repetition(6, load=2), "decodable() & confirmed(2)")

    def go(engine: Engine) -> Run:
        policy = FaultPolicy(verify=True)
        return train(
            PROBLEM, scheme, GradientDescent(np.ones(40), 0.02), LyingEngine(engine, lies), 6, fault_policy=policy
        )

    real, whole = (
        go(make(delays, late)),
        train(PROBLEM, schemes.uncoded(6), GradientDescent(np.ones(40), 0.02), VirtualEngine(), 6),
    )
    np.testing.assert_allclose(real.x, whole.x, rtol=1e-9)
    assert [row.workers_noticed("lied") for row in real.steps] == [[], [], [2], [], [], [5]]
    assert sum(event.kind == "asked" for row in real.steps for event in row.events) == 2
    rows = [row.as_dict() for row in real.steps]
    again = go(VirtualEngine(Recorded.from_rows([row.as_dict() for row in real.arrivals], steps=rows)))
    assert again.x.tobytes() == real.x.tobytes()
    assert [(row.used, row.late, row.waited, row.end, row.events) for row in again.steps] == [
        (row.used, row.late, row.waited, row.end, row.events) for row in real.steps
    ]


PROBLEM = Quadratic.random(48, 40, seed=4, density=0.2, l2=0.01, sparse=True)


def grid_delays(n_workers: int, steps: int, grid: float) -> Timetable:
    """Delays of all workers in a step: multiples of the grid in random order."""
    rng = np.random.default_rng(11)
    return Timetable({(w, s, 0): grid * k for s in range(steps) for w, k in enumerate(rng.permutation(n_workers))})


def short_train(scheme: schemes.Scheme, engine: Engine, steps: int = 3) -> Run:
    return train(PROBLEM, scheme, Nesterov(np.ones(40), 0.05), engine, steps)


def base_of(vector: Any) -> Any:
    """Return what owns the memory of an array."""
    while isinstance(vector, np.ndarray):
        vector = vector.base
    return vector.obj if isinstance(vector, memoryview) else vector


def check_whole(engine: Engine, event: object, newest: dict[int, int]) -> None:
    """A message is whole, of the order that it says, and newer than what its worker sent before."""
    assert isinstance(event, Arrived), event
    step, worker, message, point = event.read().reshape(-1, 4).T
    for column, value in ((step, event.step), (worker, event.worker), (message, event.worker)):
        assert (column == value).all()
    assert (point == event.order_round).all()
    assert event.order_round > newest[event.worker]
    newest[event.worker] = event.order_round
    engine.release(event)
