"""An engine with a fault schedule: a peer of all engines when it is empty, and faults as they should be when not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from erasurehead import schemes
from erasurehead.delays import Delays
from erasurehead.drills import Fault, FaultyEngine
from erasurehead.drills._schedule import OF_WORKERS
from erasurehead.engines import Arrived, Engine, VirtualEngine
from erasurehead.faults import FaultPolicy
from erasurehead.testing import EngineConformance, FaultInjectionConformance
from erasurehead.testing._driving import arrivals, order, start
from erasurehead.testing._programs import Echo, Timetable
from erasurehead.training import Callback, Resumption

from .schedules import GROUPS, STEPS, WORKERS, descend, scheme, taken

pytestmark = pytest.mark.slow


class TestCalm(EngineConformance, FaultInjectionConformance):
    """An engine without a fault schedule is as good as the one inside."""

    def make(self, delays: Delays | None = None, late: str = "preempt") -> Engine:
        return FaultyEngine(VirtualEngine(delays, late), [])


def drawn(seed: int, seconds: float = 18.0) -> Sequence[Fault]:
    return Fault.drawn(seed, WORKERS, seconds, OF_WORKERS, GROUPS)


@settings(max_examples=60)
@given(seed=st.integers(0, 10**6), late=st.sampled_from(["preempt", "drop(2)", "carry"]))
def test_whatever_the_schedule_an_exact_scheme_ends_at_the_model_of_plain_descent(seed: int, late: str) -> None:
    found = taken(drawn(seed), late=late)
    np.testing.assert_allclose(found.run.x, descend(), rtol=1e-9)
    assert [row.step for row in found.run.steps] == list(range(STEPS))
    assert all(row.residual < 1e-9 and row.stepped for row in found.run.steps)


@settings(max_examples=10)
@given(seed=st.integers(0, 10**6))
def test_the_same_seed_gives_the_same_log_and_the_same_bits(seed: int) -> None:
    one, other = taken(drawn(seed)), taken(drawn(seed))
    assert [entry for entry in one.log if "cost" not in entry.get("text", "")] == [
        entry for entry in other.log if "cost" not in entry.get("text", "")
    ]
    assert np.array_equal(one.run.x, other.run.x)
    assert one.run.seconds == other.run.seconds


def test_a_kill_is_injected_on_time_noticed_and_made_good() -> None:
    found = taken([Fault("kill", 2.25, 4)])
    assert found.of("injected") == [{"what": "injected", "time": 2.25, "fault": 0}]
    assert found.of("died") == [{"what": "died", "time": 2.25, "worker": 4, "text": "killed"}]
    assert [entry["worker"] for entry in found.of("joined")] == [4]
    assert "worker 4 died: killed; another takes its place" in found.said


def test_time_stands_still_for_nobody_when_all_are_stopped() -> None:
    """No event comes, and yet the faults end on time."""
    baseline = taken([])
    found = taken([Fault("stop", 3.0, worker, 50.0) for worker in range(WORKERS)])
    assert [entry["time"] for entry in found.of("over")] == [53.0] * WORKERS
    assert found.run.seconds == pytest.approx(baseline.run.seconds + 50.0, abs=5.0)
    np.testing.assert_allclose(found.run.x, descend(), rtol=1e-9)


@pytest.mark.parametrize("kind", ["stop", "disconnect"])
def test_who_is_silent_is_suspected_and_cleared(kind: Any) -> None:
    found = taken([Fault(kind, 5.0, 4, 12.0)], fault_policy=FaultPolicy())
    assert "worker 4 is suspected to hang" in found.said
    assert "worker 4 does not hang" in found.said
    late = [row.begin for row in found.run.steps if 4 in row.missing]
    assert len([begin for begin in late if 5.0 <= begin < 16.0]) > 3


def test_a_suspect_that_is_replaced_suffers_no_more() -> None:
    found = taken([Fault("stop", 5.0, 4, 12.0)], fault_policy=FaultPolicy(on_suspicion="replace"))
    assert [entry["text"] for entry in found.of("over")] == ["with its process"]
    assert [entry["worker"] for entry in found.of("joined")] == [4]
    np.testing.assert_allclose(found.run.x, descend(), rtol=1e-9)


def test_faults_that_strike_nobody_are_said() -> None:
    found = taken([Fault("corrupt", 1.0, 0, lie="flip"), Fault("kill", 15.0, 0)])
    assert found.of("missed") == [{"what": "missed", "time": 15.0, "fault": 1, "text": "worker 0 is not there"}]


def _schedule(engine: Engine, *faults: Fault) -> FaultyEngine:
    return FaultyEngine(engine, faults)


class TestSlow:
    """Slowness is seconds more for each message, and what they do under both kinds of late work."""

    def test_messages_come_later_by_so_much(self) -> None:
        engine = _schedule(VirtualEngine(Timetable({(0, 0, 0): 1.0})), Fault("slow", 0.5, 0, 9.0, by=2.0))
        with engine:
            start(engine, [Echo(0, (0,)), Echo(1, (1,))])
            engine.submit(order(0))
            first, second = arrivals(engine, 2)
            assert (first.worker, first.time) == (1, 0.0)
            assert (second.worker, second.time, second.read().tolist()) == (0, 3.0, [0, 0, 0, 0])

    def test_under_preempt_a_late_message_is_dropped_when_a_newer_order_is_out(self) -> None:
        with _schedule(VirtualEngine(), Fault("slow", 0.0, 0, 3.0, by=2.0)) as engine:
            start(engine, [Echo(0, (0,)), Echo(1, (1,))])
            engine.submit(order(0))
            assert [event.worker for event in arrivals(engine, 1)] == [1]
            engine.submit(order(1))
            assert [event.worker for event in arrivals(engine, 1)] == [1]
            (late,) = arrivals(engine, 1)
            assert (late.worker, late.order_round, late.time) == (0, 1, 2.0)

    def test_under_drop_it_comes_late_unless_it_is_too_old_by_then(self) -> None:
        for late, came in (("drop(1)", [(0, 2, 2.0)]), ("drop(2)", [(0, 0, 2.0), (0, 2, 4.0)])):
            with _schedule(VirtualEngine(late=late), Fault("slow", 0.0, 0, 3.0, by=2.0)) as engine:
                start(engine, [Echo(0, (0,)), Echo(1, (1,))])
                for number in range(3):
                    engine.submit(order(number))
                    assert [event.worker for event in arrivals(engine, 1)] == [1]
                found = arrivals(engine, len(came))
                assert [(event.worker, event.order_round, event.time) for event in found] == came
                step = float(found[0].order_round)  # which is its point, too
                assert found[0].read().tolist() == [step, 0, 0, step]

    def test_under_carry_it_comes_late_and_then_the_newest_order_is_taken(self) -> None:
        with _schedule(VirtualEngine(late="carry"), Fault("slow", 0.0, 0, 3.0, by=2.0)) as engine:
            start(engine, [Echo(0, (0,)), Echo(1, (1,))])
            for number in range(3):
                engine.submit(order(number))
                assert [event.worker for event in arrivals(engine, 1)] == [1]
            late, newest = arrivals(engine, 2)
            assert (late.worker, late.order_round, late.time, late.read().tolist()) == (0, 0, 2.0, [0, 0, 0, 0])
            assert (newest.order_round, newest.time, newest.read()[0]) == (2, 4.0, 2)
            engine.release(late)
            with pytest.raises(Exception, match="released"):
                late.read()


def test_a_cut_holds_back_both_ways_and_heals_with_the_current_order() -> None:
    with _schedule(VirtualEngine(Timetable({(0, 0, 0): 1.0})), Fault("disconnect", 0.5, 0, 4.0)) as engine:
        start(engine, [Echo(0, (0,)), Echo(1, (1,))])
        engine.submit(order(0))
        assert arrivals(engine, 1)[0].worker == 1
        assert engine.next_event(3.0) is None  # worker 0 has answered, but it does not get through
        (healed,) = arrivals(engine, 1)
        assert (healed.worker, healed.order_round, healed.time) == (0, 0, 4.5)
    with _schedule(VirtualEngine(), Fault("disconnect", 0.0, 0, 4.0)) as engine:
        start(engine, [Echo(0, (0,)), Echo(1, (1,))])
        for number in range(3):
            engine.submit(order(number))
            assert arrivals(engine, 1)[0].worker == 1
            assert engine.next_event(number + 1.0) is None
        (healed,) = arrivals(engine, 1)
        assert (healed.worker, healed.order_round, healed.time, healed.read()[0]) == (0, 2, 4.0, 2)


@pytest.mark.parametrize(("lie", "vector"), [("flip", [-2, 0, 0, -2]), ("scale", [2000, 0, 0, 2000])])
def test_liars_lie_from_the_next_order_on_and_nobody_else_does(lie: str, vector: list[float]) -> None:
    with _schedule(VirtualEngine(), Fault("corrupt", 0.5, 0, 1.5, lie=lie)) as engine:
        start(engine, [Echo(0, (0,), length=4), Echo(1, (1,), length=4)])
        said: list[list[float]] = []
        for number in (1, 2, 3):
            engine.submit(order(number))
            said += [event.read().tolist() for event in arrivals(engine, 2) if event.worker == 0]
            assert engine.next_event(1.2 * number) is None
        assert said == [[1, 0, 0, 1], vector, [3, 0, 0, 3]]


class _Saving(Callback):
    """Keeps the state after some step."""

    def __init__(self, after: int) -> None:
        self.after = after
        self.state: Any = None

    def on_state(self, step: int, state: Callable[[], Any]) -> None:
        if step == self.after:
            self.state = state()


@settings(max_examples=40)
@given(
    seed=st.integers(0, 10**6), after=st.integers(1, STEPS - 1), late=st.sampled_from(["preempt", "drop(2)", "carry"])
)
def test_a_run_resumed_in_mid_schedule_ends_with_the_same_bits(seed: int, after: int, late: str) -> None:
    saving = _Saving(after)
    whole = taken(drawn(seed), late=late, callbacks=[saving])
    resumed = taken(
        drawn(seed),
        late=late,
        resume=Resumption(saving.state, whole.run.steps[:after], []),  # type: ignore[arg-type]
    )
    assert np.array_equal(whole.run.x, resumed.run.x)
    assert [row.end for row in whole.run.steps] == [row.end for row in resumed.run.steps]


def test_an_engine_without_state_goes_on_where_the_schedule_was() -> None:
    log: list[dict[str, Any]] = []
    schedule = [Fault("kill", 1.0, 0), Fault("stop", 3.0, 0, 4.0), Fault("kill", 6.0, 1)]
    engine = FaultyEngine(VirtualEngine(), schedule, elapsed=5.0, record=log.append)
    with engine:
        start(engine, [Echo(0, (0,)), Echo(1, (1,))])
        engine.submit(order(0))
        assert engine.time == 5.0
        assert all(isinstance(event, Arrived) for event in arrivals(engine, 2))
        event = engine.next_event(60.0)
        assert event is not None
        assert (event.time, engine.time) == (1.0, 6.0)
    assert [(entry["what"], entry.get("fault")) for entry in log] == [("injected", 2)]


def test_without_verification_the_same_lies_spoil_the_model() -> None:
    liar = [Fault("corrupt", 1.0, 0, lie="flip")]
    assert np.allclose(taken(liar).run.x, descend(), rtol=1e-9)
    blind = taken(liar, scheme("decodable()"), fault_policy=FaultPolicy())
    assert not np.allclose(blind.run.x, descend(), rtol=1e-3)


def test_a_schedule_breaks_what_promises_nothing() -> None:
    found = taken(
        [Fault("kill", 2.0, 0)], schemes.uncoded(WORKERS), fault_policy=FaultPolicy(on_death="leave", on_loss="go_on")
    )
    assert found.run.steps[-1].lost == [0]
