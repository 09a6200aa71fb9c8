"""The conformance tests of engines with fault injection, in addition to `EngineConformance`."""

from __future__ import annotations

import pytest

from erasurehead.engines import Died, Engine, Joined, VirtualEngine
from erasurehead.engines._fault_injection import injection
from erasurehead.errors import EngineError
from erasurehead.faults import FaultPolicy
from erasurehead.testing._driving import EngineSuite, arrivals, order, summed_steps, take
from erasurehead.testing._pacing import GRID, at_some_pace
from erasurehead.testing._programs import Echo, Timetable
from erasurehead.training import Callback
from erasurehead.training._rows import ArrivalRow


class FaultInjectionConformance(EngineSuite):
    """Conformance tests of engines whose workers can be killed and paused, in addition to `EngineConformance`.

    Attributes:
        detection_seconds: seconds within which a death must be detected. More than one second is only for suites that
            run beside other load; then another test, which runs alone, must check the one second.
    """

    detection_seconds = 1.0

    def test_a_death_is_detected_within_a_second(self) -> None:
        with self.echoes(3, Timetable({(0, 0, 0): 1e6})) as engine:
            engine.submit(order(0))
            begin = engine.now()
            injection(engine).kill(0)
            died = [event for event in take(engine, 3) if isinstance(event, Died)]
            assert [event.worker for event in died] == [0]
            assert died[0].time - begin < self.detection_seconds
            engine.submit(order(1))
            assert {event.worker for event in arrivals(engine, 2)} == {1, 2}

    @at_some_pace
    def test_a_replacement_joins_and_takes_the_current_order(self, pace: float) -> None:
        with self.echoes(2, Timetable({(0, 0, 0): 20 * pace * GRID})) as engine:
            engine.submit(order(0))
            (survivor,) = arrivals(engine, 1)
            injection(engine).kill(0)
            assert isinstance(take(engine, 1)[0], Died)
            engine.assign(0, Echo(9, (0,)))
            (joined,) = take(engine, 1)
            assert isinstance(joined, Joined)
            assert joined.worker == 0
            engine.submit(order(0, step=5), [0])
            (answer,) = arrivals(engine, 1)
            assert answer.order_round == 0
            assert answer.read()[1] == 9
            assert survivor.read()[1] == 1

    def test_a_paused_worker_is_silent_and_then_takes_the_newest_order(self) -> None:
        with self.echoes(2) as engine:
            injection(engine).pause(0)
            for number in range(3):
                engine.submit(order(number))
                assert arrivals(engine, 1)[0].worker == 1
            assert engine.next_event(engine.now() + GRID) is None
            injection(engine).proceed(0)
            (answer,) = arrivals(engine, 1)
            assert (answer.worker, answer.order_round) == (0, 2)
            assert answer.read().tolist() == [2, 0, 0, 2]

    def test_a_worker_that_hangs_can_be_replaced(self) -> None:
        with self.echoes(2) as engine:
            injection(engine).pause(0)
            engine.submit(order(0))
            assert arrivals(engine, 1)[0].worker == 1
            engine.assign(0, Echo(9, (0,)))
            (joined,) = take(engine, 1)
            assert isinstance(joined, Joined)
            assert joined.worker == 0
            engine.submit(order(0), [0])
            (answer,) = arrivals(engine, 1)
            assert answer.read()[1] == 9

    def test_the_sum_of_a_worker_that_dies_after_its_reports_comes_from_others(self) -> None:
        kills = _KillsWhenNamed(engine := self.make())
        run = summed_steps(engine, [kills], FaultPolicy(on_death="leave", on_suspicion="ignore"))
        assert run.x == pytest.approx(summed_steps(VirtualEngine()).x, rel=1e-12)
        assert len(run.steps) == 6
        assert all(row.residual < 1e-12 and not row.lost for row in run.steps)
        followed = [event for event in run.steps[2].events if event.kind in ("reported", "broken_off")]
        assert len(followed) > 1  # sums were asked for twice

    def test_waiting_without_any_workers_is_an_error(self) -> None:
        with self.echoes(1) as engine:
            injection(engine).kill(0)
            assert isinstance(take(engine, 1)[0], Died)
            engine.submit(order(0))
            with pytest.raises(EngineError, match="no worker"):
                engine.next_event(None)


class _KillsWhenNamed(Callback):
    """Kills, in the third step, the worker whose report came first, before it is asked for a sum."""

    def __init__(self, engine: Engine) -> None:
        self.engine, self.killed = engine, False

    def on_arrival(self, row: ArrivalRow) -> None:
        if row.step == 2 and row.used and not self.killed:
            self.killed = True
            injection(self.engine).kill(row.worker)
