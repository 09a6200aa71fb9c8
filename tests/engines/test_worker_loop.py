"""The loop of every worker of a real engine, on a clock of the test's own."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from erasurehead.delays import Fixed
from erasurehead.engines import MessageSpec, Order, _worker_loop as worker_loop
from erasurehead.engines._worker_loop import Room, Transport, WorkerLoop
from erasurehead.testing._programs import Echo


class Clock(Transport):
    """One order; each wait is too long, by so many seconds."""

    def __init__(self, late: float) -> None:
        self.now, self.late, self.taken = 0.0, late, False

    def monotonic(self) -> float:
        return self.now

    def newer(self) -> bool:
        return not self.taken

    def wait(self, until: float | None, welcome: bool) -> None:
        assert until is not None
        self.now = until + self.late

    def take(self) -> Order | None:
        self.taken = True
        return Order(0, (np.ones(3),), round=0)

    def copied(self) -> bool:
        return True

    def claim(self, spec: MessageSpec) -> Room | None:
        return Room(spec, np.empty(spec.length))

    def free(self, room: Room) -> None:
        raise AssertionError("nothing is dropped")


@pytest.mark.parametrize(
    ("late", "wanted"),
    [(0.0, [0.1, 0.2, 0.3, 0.4]), (0.01, [0.11, 0.21, 0.31, 0.41]), (2.0, [2.1, 4.15, 6.2, 8.25])],
)
def test_waits_that_are_a_little_too_long_do_not_add_up_and_stops_are_not_made_up_for(
    late: float, wanted: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(late)
    monkeypatch.setattr(worker_loop, "time", clock)
    loop = WorkerLoop(0, Echo(0, (0, 1, 2, 3)), Fixed(((0.1,),)), "preempt", clock)
    ends = [clock.now for _ in itertools.islice(loop.answers(), 4)]
    assert ends == pytest.approx(wanted)


def test_the_time_that_a_delay_takes_to_be_drawn_is_part_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(0.0)

    class Tedious(Fixed):
        def rows_at(self, *args: Any, **settings: Any) -> Any:
            clock.now += 0.03
            return super().rows_at(*args, **settings)

    monkeypatch.setattr(worker_loop, "time", clock)
    loop = WorkerLoop(0, Echo(0, (0, 1, 2, 3)), Tedious(((0.1,),)), "preempt", clock)
    ends = [clock.now for _ in itertools.islice(loop.answers(), 4)]
    assert ends == pytest.approx([0.1, 0.2, 0.3, 0.4])
