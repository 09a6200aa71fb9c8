"""The virtual engine: the conformance suite, and what is its own."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from erasurehead.delays import Delays
from erasurehead.engines import Died, Failed, InProcessEngine, Order, VirtualEngine
from erasurehead.engines._base import NoRoom
from erasurehead.errors import InvalidArgument
from erasurehead.testing import EngineConformance, FaultInjectionConformance
from erasurehead.testing._programs import Echo


class TestVirtualEngine(EngineConformance, FaultInjectionConformance):
    def make(self, delays: Delays | None = None, late: str = "preempt") -> VirtualEngine:
        return VirtualEngine(delays, late)


class TestInProcessEngine(EngineConformance, FaultInjectionConformance):
    def make(self, delays: Delays | None = None, late: str = "preempt") -> InProcessEngine:
        return InProcessEngine(delays, late)


class Typo(Echo):
    def remaining(self, order: Any, done: Any) -> Any:
        return {}[order.step]


def test_a_failure_names_the_line_of_the_users_code_where_it_was_raised() -> None:
    with VirtualEngine() as engine:
        engine.assign(0, Typo(0, (0,)))
        engine.submit(Order(step=7, points=(np.zeros(1),), round=0))
        failed = next(event for event in iter(engine.next_event, None) if isinstance(event, Failed))
    line = Typo.remaining.__code__.co_firstlineno + 1
    assert failed.reason == f"KeyError: 7 (in Typo.remaining, line {line})"


@given(st.lists(st.tuples(st.sampled_from(["assign", "remove", "kill"]), st.integers(0, 5)), max_size=20))
def test_a_place_is_free_again_when_its_worker_is_gone_and_not_before(acts: list[tuple[str, int]]) -> None:
    living: set[int] = set()
    with VirtualEngine(hosts={"a": 1, "b": 2}) as engine:
        for act, worker in acts:
            if act == "remove":
                engine.assign(worker, None)
                living.discard(worker)
            elif act == "kill":
                if worker not in living:
                    continue
                engine.kill(worker)
                while not isinstance(engine.next_event(engine.now()), Died):
                    pass
                living.discard(worker)
            elif len(living - {worker}) == 3:
                with pytest.raises(NoRoom):
                    engine.assign(worker, Echo(worker, (worker,)))
                living.discard(worker)  # the earlier one of that number is gone all the same
            else:
                engine.assign(worker, Echo(worker, (worker,)))
                living.add(worker)


def test_starting_takes_as_long_for_each_worker_among_many_as_among_few() -> None:
    """Counted in calls of functions and steps of generators, which no other load of the machine changes."""

    def calls(workers: int) -> int:
        count = 0

        def tell(frame: FrameType, event: str, argument: Any) -> None:
            nonlocal count
            count += event == "call"

        programs = [Echo(worker, (worker,)) for worker in range(workers)]
        with VirtualEngine() as engine:
            before = sys.getprofile()
            sys.setprofile(tell)
            try:
                for worker, program in enumerate(programs):
                    engine.assign(worker, program)
            finally:
                sys.setprofile(before)
        return count

    assert calls(400) <= 11 * calls(40)


@pytest.mark.parametrize(
    ("worker", "at", "said"), [(-1, 1.0, "worker"), ("0", 1.0, "worker"), (0, -1.0, "at"), (0, "1", "at")]
)
def test_nobody_is_killed_before_the_beginning(worker: Any, at: Any, said: str) -> None:
    with pytest.raises(InvalidArgument, match=f"^{said} must be"):
        VirtualEngine().kill(worker, at)
