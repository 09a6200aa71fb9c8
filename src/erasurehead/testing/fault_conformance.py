"""The requirements for engines with fault injection, as tests in addition to those of `EngineConformance`."""

from __future__ import annotations

import pytest

from erasurehead.engines.base import Died, Engine, Joined
from erasurehead.engines.fault_injection import FaultInjection
from erasurehead.errors import EngineError
from erasurehead.testing.driving import MakesEngines, arrivals, order, start, take
from erasurehead.testing.pacing import GRID, at_some_pace
from erasurehead.testing.programs import Echo, Timetable


class FaultInjectionConformance(MakesEngines):
    """Tests of engines whose workers can be killed and stopped, in addition to those of `EngineConformance`.

    Attributes:
        known_within: seconds within which a death must be known. More than one is only for suites that run beside much
            else; another test, which runs alone, must then hold the engine to one.
    """

    known_within = 1.0

    def test_a_killed_worker_is_known_within_a_second(self) -> None:
        with self.make(Timetable({(0, 0, 0): 1e6})) as engine:
            start(engine, [Echo(worker, (worker,)) for worker in range(3)])
            engine.submit(order(0))
            begin = engine.now()
            striking(engine).kill(0)
            died = [event for event in take(engine, 3) if isinstance(event, Died)]
            assert [event.worker for event in died] == [0]
            assert died[0].time - begin < self.known_within
            engine.submit(order(1))
            assert {event.worker for event in arrivals(engine, 2)} == {1, 2}

    @at_some_pace
    def test_a_replacement_joins_and_takes_the_current_order(self, pace: float) -> None:
        with self.make(Timetable({(0, 0, 0): 20 * pace * GRID})) as engine:
            start(engine, [Echo(worker, (worker,)) for worker in range(2)])
            engine.submit(order(0))
            (survivor,) = arrivals(engine, 1)
            striking(engine).kill(0)
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
        with self.make() as engine:
            start(engine, [Echo(worker, (worker,)) for worker in range(2)])
            striking(engine).pause(0)
            for number in range(3):
                engine.submit(order(number))
                assert [event.worker for event in arrivals(engine, 1)] == [1]
            assert engine.next_event(engine.now() + GRID) is None
            striking(engine).proceed(0)
            (answer,) = arrivals(engine, 1)
            assert (answer.worker, answer.order_round) == (0, 2)
            assert answer.read().tolist() == [2, 0, 0, 2]

    def test_a_worker_that_hangs_can_be_replaced(self) -> None:
        with self.make() as engine:
            start(engine, [Echo(worker, (worker,)) for worker in range(2)])
            striking(engine).pause(0)
            engine.submit(order(0))
            assert [event.worker for event in arrivals(engine, 1)] == [1]
            engine.assign(0, Echo(9, (0,)))
            (joined,) = take(engine, 1)
            assert isinstance(joined, Joined)
            assert joined.worker == 0
            engine.submit(order(0), [0])
            (answer,) = arrivals(engine, 1)
            assert answer.read()[1] == 9

    def test_nobody_left_is_an_error_not_an_endless_wait(self) -> None:
        with self.make() as engine:
            start(engine, [Echo(0, (0,))])
            striking(engine).kill(0)
            assert isinstance(take(engine, 1)[0], Died)
            engine.submit(order(0))
            with pytest.raises(EngineError, match="no worker"):
                engine.next_event(None)


def striking(engine: Engine) -> FaultInjection:
    """Return an engine as one with fault injection."""
    assert isinstance(engine, FaultInjection)
    return engine
