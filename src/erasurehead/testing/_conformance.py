"""The conformance tests of engines: subclass `EngineConformance`, define how to make the engine, and run pytest.

::

    class TestMyEngine(EngineConformance):
        def make(self, delays=None, late="preempt"):
            return MyEngine(delays, late)
"""

from __future__ import annotations

import time

import numpy as np
import pytest

from erasurehead._internal.arrays import dtype_of
from erasurehead._internal.late_work import LateWork
from erasurehead.delays import Exponential, Fixed
from erasurehead.delays._clock import AlongClock
from erasurehead.delays._fixed import Recorded
from erasurehead.delays._script import Script, ScriptedMessage, ScriptedRound
from erasurehead.engines import Arrived, Engine, Failed, Joined, Order, Program, VirtualEngine
from erasurehead.engines._base import TURNS, UNTIL_NEWER, Event, MessageLost, then_pause
from erasurehead.errors import EngineError, InvalidArgument
from erasurehead.testing._driving import EngineSuite, arrivals, by_worker, order, start, summed_steps, take
from erasurehead.testing._pacing import GRID, at_some_pace
from erasurehead.testing._programs import (
    ConstantAnswer,
    Echo,
    Faulty,
    Growing,
    Raising,
    Reader,
    Sized,
    Stateful,
    Timetable,
    Typed,
)


class EngineConformance(EngineSuite):
    """Conformance tests of `Engine`. Each test makes and closes an engine of its own."""

    def test_every_worker_answers_every_order_once_and_correctly(self) -> None:
        with self.echoes(4) as engine:
            for number in range(5):
                begin = engine.now()
                engine.submit(order(number))
                events = arrivals(engine, 4)
                assert sorted(event.worker for event in events) == [0, 1, 2, 3]
                for event in events:
                    assert event.read().tolist() == [number, event.worker, event.worker, number]
                    assert (event.order_round, event.step) == (number, number)
                    assert begin <= event.started <= event.time <= engine.now()
                assert [event.time for event in events] == sorted(event.time for event in events)

    @at_some_pace
    def test_workers_arrive_in_the_order_of_their_delays(self, pace: float) -> None:
        grid = pace * GRID
        delays = Timetable({(0, 0, 0): 3 * grid, (1, 0, 0): 1 * grid, (2, 0, 0): 2 * grid})
        with self.echoes(3, delays) as engine:
            begin = engine.now()
            engine.submit(order(0))
            events = arrivals(engine, 3)
            assert [event.worker for event in events] == [1, 2, 0]
            for event, multiple in zip(events, (1, 2, 3), strict=True):
                assert multiple * grid <= event.time - begin < (multiple + 1) * grid

    @at_some_pace
    def test_several_messages_arrive_in_order_each_with_its_own_delay(self, pace: float) -> None:
        grid = pace * GRID
        delays = Timetable({(0, 0, 0): grid, (0, 0, 1): grid, (1, 0, 0): 1.5 * grid})
        with self.make(delays) as engine:
            start(engine, [Echo(0, (7, 5)), Echo(1, (6,))])
            engine.submit(order(0))
            events = arrivals(engine, 3)
            assert [event.spec.message for event in events] == [7, 6, 5]
            assert [event.read()[2] for event in events] == [7, 6, 5]

    @at_some_pace
    def test_what_a_worker_has_done_before_costs_no_delay_anew(self, pace: float) -> None:
        grid = pace * GRID
        delays = Timetable({(0, 0, unit): grid if unit == 0 else 300.0 for unit in range(3)})
        with self.make(delays) as engine:
            start(engine, [Growing(0, (0, 1, 2))])
            for number in range(2):
                begin = engine.now()
                engine.submit(Order(0, order(number).points, round=number))
                events = arrivals(engine, 3)
                assert [event.spec.message for event in events] == [0, 1, 2]
                assert [event.spec.prior for event in events] == [0.0, 1.0, 2.0]
                assert all(grid <= event.time - begin < 3 * grid for event in events)

    @pytest.mark.parametrize("late", ["preempt", "carry", "drop(1)"])
    @at_some_pace
    def test_a_worker_sends_on_until_a_newer_order_is_out_and_takes_that_next(
        self, late: LateWork, pace: float
    ) -> None:
        grid = pace * GRID
        delays = Timetable({(0, 0, unit): 2 * grid for unit in range(1, 9)})
        with self.make(delays, late) as engine:
            start(engine, [Echo(0, tuple(range(9)))])
            engine.submit(Order(0, order(0).points, round=0, note={UNTIL_NEWER: True}))
            assert [event.spec.message for event in arrivals(engine, 3)] == [0, 1, 2]
            assert engine.next_event(engine.now() + grid) is None  # by then the worker is at the fourth
            engine.submit(order(1))
            under_way = [] if late == "preempt" else [(0, 3)]
            events = arrivals(engine, 9 + len(under_way))
            assert [(event.order_round, event.spec.message) for event in events] == [
                *under_way,
                *((1, message) for message in range(9)),
            ]

    @at_some_pace
    def test_a_note_says_in_which_order_messages_are_sent(self, pace: float) -> None:
        grid = pace * GRID
        delays = Timetable({(0, step, 0): grid for step in range(2)})
        with self.make(delays) as engine:
            start(engine, [Echo(0, (0, 1, 2))])
            for number, turns in enumerate(([2, 0, 1], None)):
                begin, note = engine.now(), {TURNS: turns} if turns else {}
                engine.submit(Order(number, order(number).points, round=number, note=note))
                events = arrivals(engine, 3)
                assert [event.spec.message for event in events] == ([1, 2, 0] if turns else [0, 1, 2])
                assert [event.read()[2] for event in events] == ([1, 2, 0] if turns else [0, 1, 2])
                assert events[0].time - begin >= grid  # whichever is the first has the delay of the first

    @pytest.mark.parametrize("late", ["preempt", "carry", "drop(1)"])
    @at_some_pace
    def test_a_worker_takes_next_where_it_is_redirected_or_pauses_until_it_is_told_more(
        self, late: LateWork, pace: float
    ) -> None:
        grid = pace * GRID
        delays = Timetable({(0, step, unit): 2 * grid for step in range(2) for unit in range(1, 4)})
        with self.make(delays, late) as engine:
            if type(engine).redirect is Engine.redirect:
                pytest.skip("this engine passes no advice on to workers")
            start(engine, [Echo(0, (0, 1, 2, 3))])

            def then(message: int, order_round: int = 0) -> None:
                """The message comes; then a time passes in which its worker is at the next one, or pauses."""
                (event,) = arrivals(engine, 1)
                assert (event.order_round, event.spec.message) == (order_round, message)
                assert engine.next_event(engine.now() + grid) is None

            engine.submit(Order(0, order(0).points, round=0, note={UNTIL_NEWER: True}))
            then(0)
            for number, message in ((0, 3), (1, then_pause(0)), (0, 3)):  # it is at no other order
                engine.redirect(0, number, message)
            then(1)
            engine.redirect(0, 0, then_pause(3))
            then(3)
            assert engine.next_event(engine.now() + 2 * grid) is None
            engine.redirect(0, 0, 2)
            then(2)
            engine.submit(Order(1, order(1).points, round=1, note={UNTIL_NEWER: True}))
            then(0, 1)
            engine.redirect(0, 1, then_pause(3))  # which it has not sent, and does first
            then(1, 1)
            then(3, 1)
            assert engine.next_event(engine.now() + 2 * grid) is None
            engine.submit(order(2))
            assert [(event.order_round, event.spec.message) for event in arrivals(engine, 4)] == [
                (2, message) for message in range(4)
            ]

    @pytest.mark.parametrize("late", ["preempt", "carry"])
    def test_what_is_finished_is_reported_and_then_sent_as_one_sum_a_worker(self, late: LateWork) -> None:
        run = summed_steps(self.make(Exponential(mean=GRID / 10, seed=1), late))
        assert run.x == pytest.approx(summed_steps(VirtualEngine()).x, rel=1e-12)
        assert all(row.decision["named"] and row.residual < 1e-12 and row.used for row in run.steps)

    @at_some_pace
    def test_drop_abandons_work_beyond_the_age_limit(self, pace: float) -> None:
        grid = pace * GRID
        delays = Timetable({(0, 0, 0): 9 * grid, **{(1, step, 0): grid for step in range(4)}})
        with self.echoes(2, delays, "drop(1)") as engine:
            begin = engine.now()
            for number in range(3):  # the third is two rounds newer than the work of worker 0
                engine.submit(order(number))
                if number < 2:
                    assert arrivals(engine, 1)[0].worker == 1
            first, second = arrivals(engine, 2)
            assert {first.worker, second.worker} == {0, 1}
            assert first.order_round == second.order_round == 2
            assert engine.now() - begin < 6 * grid

    @at_some_pace
    def test_drop_finishes_work_up_to_the_age_limit(self, pace: float) -> None:
        grid = pace * GRID
        delays = Timetable({(0, 0, 0): 8 * grid, **{(1, step, 0): grid for step in range(4)}})
        with self.echoes(2, delays, "drop(2)") as engine:
            for number in range(3):
                engine.submit(order(number))
                assert arrivals(engine, 1)[0].worker == 1
            (late,) = arrivals(engine, 1)
            assert (late.worker, late.order_round) == (0, 0)

    @at_some_pace
    def test_preempt_drops_late_work(self, pace: float) -> None:
        grid = pace * GRID
        with self.echoes(2, Timetable({(0, 0, 0): 9 * grid, (1, 0, 0): 3 * grid}), "preempt") as engine:
            engine.submit(order(0))
            assert arrivals(engine, 1)[0].worker == 1
            engine.submit(order(1))
            assert {event.order_round for event in arrivals(engine, 2)} == {1}
            assert engine.next_event(engine.now() + 10 * grid) is None

    @at_some_pace
    def test_carry_finishes_late_work_then_takes_the_newest_order(self, pace: float) -> None:
        grid = pace * GRID
        with self.echoes(2, Timetable({(0, 0, 0): 8 * grid, (1, 0, 0): 3 * grid}), "carry") as engine:
            begin = engine.now()
            for number in range(4):
                engine.submit(order(number))
                assert arrivals(engine, 1)[0].worker == 1
            late, newest = arrivals(engine, 2)
            assert (late.worker, late.order_round, late.read().tolist()) == (0, 0, [0, 0, 0, 0])
            assert (newest.worker, newest.order_round, newest.read().tolist()) == (0, 3, [3, 0, 0, 3])
            assert newest.started >= begin + 8 * grid
            assert engine.next_event(engine.now() + grid) is None

    @at_some_pace
    def test_delays_along_the_clock_depend_on_when_an_order_was_posted(self, pace: float) -> None:
        grid = pace * GRID
        slow = Timetable(
            {(0, 1, 0): 4 * grid, (1, 7, 0): 4 * grid}
        )  # by the second at which the order was posted, and not by the step
        with self.echoes(2, AlongClock(slow, every=1.0)) as engine:
            for number, posted, first in ((0, 1.5, 1), (1, 7.0, 0), (2, 1.0, 1)):
                engine.submit(Order(7 - number, (np.full(3, float(number)),), round=number, posted=posted))
                assert [event.worker for event in arrivals(engine, 2)] == [first, 1 - first]

    def test_a_recorded_run_is_replayed_on_the_virtual_clock(self) -> None:
        delays = Timetable({(0, 0, 0): 2.5 * GRID, **{(w, step, 0): GRID for w in (1, 2) for step in range(5)}})
        programs = [Echo(worker, (worker,)) for worker in range(3)]
        begin_times: list[float] = []
        rounds: dict[int, ScriptedRound] = {}
        expected: list[list[tuple[int, int, list[float]]]] = []
        last_use: dict[int, int] = {}
        with self.make(delays, "carry") as engine:
            start(engine, programs)
            origin = engine.now()
            for number in range(5):
                begin_times.append(engine.now())
                engine.submit(order(number))
                arrived = arrivals(engine, 2)
                expected.append([(event.worker, event.order_round, event.read().tolist()) for event in arrived])
                last_use |= {event.order_round: number for event in arrived}
                messages = [
                    ScriptedMessage(event.worker, 0, event.order_round, event.started - begin, event.time - begin)
                    for event in arrived
                    for begin in [begin_times[event.order_round]]
                ]
                end = engine.now()
                rounds[number] = ScriptedRound(begin_times[-1] - origin, end - begin_times[-1], end - origin, messages)
        assert any(answered < number for number, arrived in enumerate(expected) for _, answered, _ in arrived)
        with VirtualEngine(Recorded(np.zeros((1, 5, 3)), script=Script(rounds, last_use))) as replay:
            start(replay, programs)
            for number in range(5):
                replay.stamp("begin", number)
                replay.submit(order(number))
                replayed = arrivals(replay, 2)
                assert [(event.worker, event.order_round, event.read().tolist()) for event in replayed] == expected[
                    number
                ]
                replay.stamp("end", number)

    @at_some_pace
    def test_waiting_times_out(self, pace: float) -> None:
        grid = pace * GRID
        with self.echoes(1, Timetable({(0, 0, 0): 3 * grid})) as engine:
            engine.submit(order(0))
            until = engine.now() + grid
            assert engine.next_event(until) is None
            assert until <= engine.now() < until + grid
            assert arrivals(engine, 1)[0].worker == 0

    def test_vectors_last_until_they_are_released_or_the_next_round(self) -> None:
        with self.echoes(2) as engine:
            engine.submit(order(0))
            first, second = arrivals(engine, 2)
            engine.release(first)
            with pytest.raises(EngineError, match="released"):
                first.read()
            assert second.read()[0] == 0
            engine.submit(order(1))
            with pytest.raises(EngineError, match="released"):
                second.read()

    def test_late_messages_can_be_read_and_need_not_be_released(self) -> None:
        with self.echoes(4, late="carry") as engine:
            last = 0
            for number in range(30):
                engine.submit(order(number))
                time.sleep(0.01)  # so that several have arrived when the first is taken
                (event,) = arrivals(engine, 1)
                _, last = _worker_and_round(event)
            events: list[Arrived] = []
            while sum(event.order_round == 29 for event in events) < 3 + (last < 29):
                events += arrivals(engine, 1)
            for event in events:
                _worker_and_round(event)

    def test_the_current_round_may_be_sent_to_one_more_worker(self) -> None:
        with self.echoes(3) as engine:
            engine.submit(order(0), [0, 2])
            events = arrivals(engine, 2)
            assert {event.worker for event in events} == {0, 2}
            engine.submit(order(0), [1])
            (other,) = arrivals(engine, 1)
            assert other.read().tolist() == [0, 1, 1, 0]
            assert all(event.read()[1] == event.worker for event in events)

    def test_a_failing_program_costs_its_message_and_nothing_else(self) -> None:
        with self.make() as engine:
            start(engine, [Faulty(0, (0,), raises_at=frozenset({0})), Echo(1, (1,))])
            engine.submit(order(0))
            failed = [event for event in take(engine, 2) if _failure(event)]
            assert len(failed) == 1
            assert "told to fail" in _failure(failed[0])
            engine.submit(order(1))
            assert {event.read()[1] for event in arrivals(engine, 2)} == {0, 1}

    def test_any_exception_of_a_program_costs_its_message_only(self) -> None:
        with self.make() as engine:
            programs: list[Program] = [Faulty(0, (0,), raises_at=frozenset({0}), raises=EOFError("told to fail"))]
            programs += [Faulty(1, (1,), raises_at=frozenset({0}), where="remaining"), Echo(2, (2,))]
            start(engine, programs)
            engine.submit(order(0))
            assert sum("told to fail" in _failure(event) for event in take(engine, 3)) == 2
            engine.submit(order(1))
            assert {event.read()[1] for event in arrivals(engine, 3)} == {0, 1, 2}

    @pytest.mark.parametrize("late", ["preempt", "carry"])
    def test_a_delay_that_cannot_be_drawn_costs_its_messages_and_nothing_else(self, late: LateWork) -> None:
        delays = Raising(worker=1, steps=frozenset(range(4)))
        with self.echoes(2, delays, late) as engine:  # more rounds than a worker has slots for messages
            for number in range(6):
                engine.submit(order(number))
                events = by_worker(take(engine, 2))
                assert isinstance(events[0], Arrived)
                if number < 4:
                    assert isinstance(events[1], Failed)
                    assert events[1].reason
                    assert events[1].order_round == number
                else:
                    assert isinstance(events[1], Arrived)
                    assert events[1].read().tolist() == [number, 1, 1, number]

    def test_a_delay_that_cannot_be_drawn_keeps_earlier_messages(self) -> None:
        with self.make(Raising(worker=0, steps=frozenset({0}), unit=1)) as engine:
            start(engine, [Echo(0, (7, 5))])
            engine.submit(order(0))
            sent, failed = take(engine, 2)
            assert isinstance(sent, Arrived)
            assert (sent.spec.message, sent.read()[2]) == (7, 7)
            assert isinstance(failed, Failed)
            engine.submit(order(1))
            assert [event.spec.message for event in arrivals(engine, 2)] == [7, 5]

    def test_delays_for_fewer_workers_than_there_are_silence_only_those_beyond(self) -> None:
        with self.echoes(3, Fixed(((0.0, 0.0),) * 3)) as engine:
            for number in range(3):
                engine.submit(order(number))
                events = by_worker(take(engine, 3))
                assert [isinstance(events[worker], Arrived) for worker in range(3)] == [True, True, False]

    def test_a_program_is_asked_what_is_left_only_after_what_it_has_computed(self) -> None:
        with self.make() as engine:
            start(engine, [Stateful(0, (7, 5, 9))])
            engine.submit(order(0))
            events = arrivals(engine, 3)
            assert [(event.spec.message, event.read()[0]) for event in events] == [(7, 0), (5, 1), (9, 2)]

    @pytest.mark.parametrize("others", [2, 3])
    def test_a_newest_order_is_never_lost_to_newer_ones_that_went_to_others(self, others: int) -> None:
        # While worker 0 sits out a delay, all the room that engines have for orders is used for worker 1's.
        with self.echoes(2, Timetable({(0, 0, 0): 3 * GRID}), "carry") as engine:
            engine.submit(order(0))
            answers = [_worker_and_round(event) for event in arrivals(engine, 1)]
            engine.submit(order(1), [0])
            for number in range(2, 2 + others):
                engine.submit(order(number), [1])
                while (1, number) not in answers:
                    answers += [_worker_and_round(event) for event in arrivals(engine, 1)]
            while (0, 1) not in answers:
                answers += [_worker_and_round(event) for event in arrivals(engine, 1)]
            assert [number for worker, number in answers if worker == 0] in ([0, 1], [1])

    def test_orders_to_some_workers_in_a_row_are_each_answered(self) -> None:
        with self.make() as engine:
            start(engine, [Echo(worker, (worker,), n_parameters=1000) for worker in range(4)])
            rng = np.random.default_rng(0)
            newest: dict[int, int] = {}
            for number in range(60):
                chosen = [int(worker) for worker in np.flatnonzero(rng.random(4) < 0.4)]
                newest |= dict.fromkeys(chosen, number)
                engine.submit(order(number, n_parameters=1000), chosen)
            while newest:
                (event,) = arrivals(engine, 1)
                assert event.read().tolist() == [event.order_round, event.worker, event.worker, event.order_round]
                if newest[event.worker] == event.order_round:
                    del newest[event.worker]

    def test_programs_with_models_of_different_sizes_are_served_side_by_side(self) -> None:
        with self.make() as engine:
            start(engine, [Echo(0, (0,)), Echo(1, (1,), n_parameters=70_000), Echo(2, (2,), length=9, n_parameters=5)])
            for number, (worker, n_parameters) in enumerate([(0, 3), (1, 70_000), (2, 5), (0, 3), (1, 69_999)]):
                engine.submit(order(number, n_parameters=n_parameters), [worker])
                (event,) = arrivals(engine, 1)
                assert event.read()[:4].tolist() == [number, worker, worker, number]

    def test_the_length_of_messages_may_depend_on_the_order(self) -> None:
        with self.make() as engine:
            start(engine, [Sized(worker, (worker,)) for worker in range(2)])
            for number, (kind, length) in enumerate([("gradient", 4), ("long", 12), ("gradient", 4)]):
                engine.submit(Order(number, order(number).points, round=number, kind=kind))
                for event in arrivals(engine, 2):
                    expected = [number, event.worker, event.worker, number]
                    assert event.spec.length == length
                    assert event.read().tolist() == expected * (length // 4)

    @pytest.mark.parametrize(
        ("points", "messages"),
        [
            ("float32", "float32"),
            ("float64", "float32"),
            ("float32", "float64"),
            ("uint16", "uint8"),
            ("bfloat16", "bfloat16"),
            ("float16", "bfloat16"),
        ],
    )
    def test_models_and_messages_of_any_dtype_are_transferred_unchanged(self, points: str, messages: str) -> None:
        if "bfloat16" in (points, messages):
            pytest.importorskip("ml_dtypes", reason="bfloat16 needs the package ml_dtypes")
        with self.make() as engine:
            start(engine, [Typed(worker, (worker,), 5, 7, messages, points) for worker in range(2)])
            for number in range(3):
                several = tuple(np.full(n, float(number)).astype(dtype_of(points)) for n in (3, 4))
                engine.submit(Order(number, several, round=number))
                for event in arrivals(engine, 2):
                    vector = event.read()
                    assert vector.dtype == dtype_of(messages)
                    expected = [number, event.worker, event.worker, 7 * number, number]
                    assert vector.astype(np.float64).tolist() == expected

    def test_all_fields_of_an_order_arrive(self) -> None:
        with self.make() as engine:
            start(engine, [Reader(0, (0,))])
            engine.submit(
                Order(
                    4,
                    (np.arange(3.0),),
                    round=2,
                    generation=5,
                    kind="line search",
                    coefficients=(0.1, -1e300),
                    note={"tolerance": 3, "text": "ü"},
                )
            )
            (event,) = arrivals(engine, 1)
            assert event.read().tolist() == [4.0, 2.0, 5.0, 11.0, 0.1, -1e300, 3.0, 1.0]

    def test_every_worker_gets_its_own_data_even_if_the_caller_drops_them(self) -> None:
        with self.make() as engine:
            for worker in range(4):
                engine.assign(worker, ConstantAnswer(worker))
            for event in take(engine, 4):
                assert isinstance(event, Joined)
            engine.submit(order(0))
            assert {event.worker: event.read()[0] for event in arrivals(engine, 4)} == {0: 0, 1: 1, 2: 2, 3: 3}

    def test_workers_run_on_the_hosts_that_the_engine_names(self) -> None:
        with self.make() as engine:
            hosts = engine.hosts()
            assert hosts
            for worker, host in enumerate([*hosts][:2]):
                engine.assign(worker, Echo(worker, (worker,)), host)
                (joined,) = take(engine, 1)
                assert isinstance(joined, Joined)
                assert joined.host == host

    def test_a_removed_worker_gets_no_more_orders(self) -> None:
        with self.echoes(2) as engine:
            engine.assign(0, None)
            engine.submit(order(0))
            assert arrivals(engine, 1)[0].worker == 1
            assert engine.next_event(engine.now() + GRID) is None

    @at_some_pace
    def test_nothing_comes_of_a_worker_that_was_replaced(self, pace: float) -> None:
        grid = pace * GRID
        late = Timetable({(0, 0, 0): grid, (1, 0, 0): 5 * grid})
        with self.echoes(3, late) as engine:
            engine.submit(order(0))
            assert arrivals(engine, 1)[0].worker == 2
            time.sleep(2 * grid)  # by then worker 0 has answered, and nobody has asked for it; worker 1 is still at it
            for worker in (0, 1):
                engine.assign(worker, Echo(9, (worker,)))
            joined = take(engine, 2)
            assert sorted(event.worker for event in joined if isinstance(event, Joined)) == [0, 1]
            assert engine.next_event(engine.now() + 6 * grid) is None
            engine.submit(order(1))
            assert sorted(event.read()[1] for event in arrivals(engine, 3)) == [2, 9, 9]

    def test_unanswered_orders_do_not_block_the_coordinator(self) -> None:
        with self.echoes(1, Timetable({(0, 0, 0): 3 * GRID}), "carry") as engine:
            for number in range(2_000):
                engine.submit(order(number))
            newest = -1
            while newest < 1_999:
                (event,) = arrivals(engine, 1)
                assert event.order_round > newest
                newest = event.order_round
                engine.release(event)

    def test_closing_twice_is_fine(self) -> None:
        engine = self.make()
        start(engine, [Echo(0, (0,))])
        engine.close()
        engine.close()
        for use in (
            lambda: engine.assign(0, Echo(0, (0,))),
            lambda: engine.submit(order(0)),
            lambda: engine.next_event(0.0),
        ):
            with pytest.raises(EngineError, match="the engine is closed"):
                use()

    def test_an_unknown_kind_of_late_work_is_refused(self) -> None:
        with pytest.raises(InvalidArgument, match="late must be 'preempt' or 'carry'"):
            self.make(None, "queue")  # pyright: ignore[reportArgumentType]


def _worker_and_round(event: Arrived) -> tuple[int, int]:
    """Check that the vector of an arrival answers its round, and return its worker and round."""
    assert event.read().tolist() == [event.step, event.worker, event.worker, event.order_round]
    return event.worker, event.order_round


def _failure(event: Event) -> str:
    """Return why an event has no vector; empty if it has one. Engines that compute lazily fail when it is read."""
    if isinstance(event, Failed):
        return event.reason
    if isinstance(event, Arrived):
        try:
            event.read()
        except MessageLost as lost:
            return str(lost)
    return ""
