"""The virtual engine goes on from a state as if nothing had been: same events, same times, same vectors."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, strategies as st

from erasurehead.delays import Exponential
from erasurehead.engines import Arrived, Engine, Order, Program, VirtualEngine
from erasurehead.engines._base import Event
from erasurehead.errors import DataError, EngineError
from erasurehead.testing._programs import Echo

N_WORKERS = 5
HOSTS = {"a": 4, "b": 4}


def programs() -> dict[int, Program]:
    return {worker: Echo(worker, (2 * worker, 2 * worker + 1)) for worker in range(N_WORKERS + 1)}


def make(late: str) -> VirtualEngine:
    return VirtualEngine(Exponential(mean=1.0, seed=4), late, seconds_per_task=0.01, hosts=HOSTS)


def begin(late: str) -> VirtualEngine:
    """Return an engine with workers, and a plan of deaths, of a host to come, and of a hang."""
    engine = make(late)
    for worker, program in programs().items():
        if worker < N_WORKERS:
            engine.assign(worker, program)
    engine.kill(1, at=2.5)
    engine.kill(3, at=4.0)
    engine.offer(2, "c", at=3.0)
    engine.pause(4)
    return engine


def play(engine: VirtualEngine, number: int) -> list[tuple[Any, ...]]:
    """Play one round of half a second to two, and return all that happened."""
    engine.submit(Order(number, (np.full(3, float(number)),), round=number))
    if number == 3:
        engine.proceed(4)
    if number == 6:
        engine.assign(1, programs()[1], "b")
    seen: list[tuple[Any, ...]] = []
    until = engine.now() + 0.5 * (1 + number % 3)
    while (event := engine.next_event(until)) is not None:
        seen.append(_told(event))
    return [*seen, (engine.now(), engine.hosts())]


def _told(event: Event) -> tuple[Any, ...]:
    if isinstance(event, Arrived):
        return (event.worker, event.spec, event.order_round, event.started, event.time, event.read().tobytes())
    return (type(event).__name__, *vars(event).values())


@given(st.sampled_from(["preempt", "drop(1)", "carry"]), st.lists(st.integers(0, 9), max_size=3, unique=True))
def test_a_restored_engine_goes_on_to_the_bit(late: str, cuts: list[int]) -> None:
    unbroken = begin(late)
    engine = begin(late)
    for number in range(10):
        if number in cuts:
            state = copy.deepcopy(engine.state())
            engine.close()
            engine = make(late)
            engine.restore(state, programs())
        assert play(engine, number) == play(unbroken, number)


def test_orders_in_flight_are_stored_once_and_stay_shared() -> None:
    engine = VirtualEngine(Exponential(mean=50.0, seed=0), "carry")
    for worker in range(N_WORKERS):
        engine.assign(worker, programs()[worker])
    x = np.zeros(3)
    for number in range(3):
        engine.submit(Order(number, (x,), round=number))
        engine.next_event(engine.now() + 0.01)
    state = cast("dict[str, Any]", engine.state())
    assert len(state["orders"]) == 2  # the one that all are at, and the newest, which waits
    assert all(order["points"][0] is x for order in state["orders"])


def test_what_an_idle_worker_did_last_is_not_kept() -> None:
    engine = VirtualEngine()
    engine.assign(0, Echo(0, (0,)))
    engine.submit(Order(0, (np.zeros(3),), round=0))
    while engine.next_event(1.0) is not None:
        pass
    assert cast("dict[str, Any]", engine.state())["orders"] == []


def test_what_was_asked_of_the_engine_before_is_dropped() -> None:
    engine = begin("carry")
    state = engine.state()
    other = begin("carry")
    other.kill(0, at=0.0)
    other.restore(state, programs())
    assert play(other, 0) == play(engine, 0)


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("late", "carry", "late was 'carry' then, and is 'preempt' now"),
        ("seconds_per_task", 9.0, "seconds_per_task was 9.0 then"),
        ("workers", [{"number": 77}], "workers \\[77\\] have no program"),
        ("clock", None, "not a state of the virtual engine"),
        ("heap", [[0.0, 1, 2]], "not a state of the virtual engine"),
        ("heap", [[0.0, 1, 2, 3, {"event": "exec", "code": "1"}]], "not a state of the virtual engine"),
        ("orders", [{"step": "one"}], "a whole number must stand where 'one' does"),
        ("round", 1.5, "a whole number must stand where 1.5 does"),
    ],
)
def test_what_is_no_state_is_refused(key: str, value: Any, said: str) -> None:
    state = {**cast("dict[str, Any]", begin("preempt").state()), key: value}
    with pytest.raises(DataError, match=said):
        make("preempt").restore(state, programs())


def test_the_state_is_plain_data() -> None:
    engine = begin("carry")
    play(engine, 0)
    state = cast("dict[str, Any]", engine.state())
    arrays = [point for order in state["orders"] for point in order["points"]]
    assert arrays
    json.dumps(state, default=lambda value: "array" if any(value is array for array in arrays) else 1 / 0)


class _Elsewhere(VirtualEngine):
    """An engine that says nothing of a state."""

    name = "elsewhere"

    def state(self) -> Any | None:
        return Engine.state(self)

    def restore(self, state: Any, programs: Mapping[int, Program]) -> None:
        Engine.restore(self, state, programs)


def test_other_engines_have_no_state_and_say_so() -> None:
    assert _Elsewhere().state() is None
    with pytest.raises(EngineError, match="'elsewhere' has no state"):
        _Elsewhere().restore({}, {})
