"""Helpers that drive an engine by hand in tests: start workers, make orders, take events and arrivals."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import numpy as np

from erasurehead.delays.base import Delays
from erasurehead.engines.base import Arrived, Engine, Event, Joined, LateWork, Offered, Order, Program

PATIENCE = 300.0
"""Seconds after which a test counts as hung: many times what anything takes on a slow and busy machine."""


class MakesEngines:
    """What a test suite needs to know."""

    @abstractmethod
    def make(self, delays: Delays | None = None, late: LateWork = "preempt") -> Engine:
        """Return a new engine."""


def start(engine: Engine, programs: Sequence[Program]) -> None:
    """Assign programs to workers 0, 1, ... and wait until all of them are ready."""
    for worker, program in enumerate(programs):
        engine.assign(worker, program)
    missing = set(range(len(programs)))
    while missing:
        (event,) = take(engine, 1)
        assert isinstance(event, Joined), event
        missing.remove(event.worker)


def order(number: int, step: int | None = None, n_parameters: int = 3) -> Order:
    """Return an order whose point has the order's number in every element."""
    return Order(number if step is None else step, (np.full(n_parameters, float(number)),), round=number)


def take(engine: Engine, count: int) -> list[Event]:
    """Return the next `count` events."""
    events: list[Event] = []
    while len(events) < count:
        event = engine.next_event(engine.now() + PATIENCE)
        if event is None:
            raise TimeoutError(f"only {events} within {PATIENCE} s")
        events.append(event)
    return events


def arrivals(engine: Engine, count: int) -> list[Arrived]:
    """Return the next `count` events, all of which must be arrivals."""
    found: list[Arrived] = []
    for event in take(engine, count):
        assert isinstance(event, Arrived), event
        found.append(event)
    return found


def by_worker(events: Sequence[Event]) -> dict[int, Event]:
    """Return events by worker."""
    return {event.worker: event for event in events if not isinstance(event, Offered)}
