"""Helpers with which tests drive an engine: start workers, make orders, wait for events."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Generator, Sequence
from contextlib import contextmanager

import numpy as np

from erasurehead._internal.late_work import LateWork
from erasurehead.delays import Delays
from erasurehead.engines import Arrived, Engine, Joined, Order, Program
from erasurehead.engines._base import Event, Offered
from erasurehead.faults import FaultPolicy
from erasurehead.optimizers import GradientDescent
from erasurehead.schemes import compute_once
from erasurehead.testing._problems import Quadratic
from erasurehead.testing._programs import Echo
from erasurehead.training import Callback, Run, train

PATIENCE = 300.0
"""Seconds of waiting after which a test counts as hung, even on a slow and busy machine."""


class EngineSuite:
    """The base class of conformance suites: how to make the engine that is tested."""

    @abstractmethod
    def make(self, delays: Delays | None = None, late: LateWork = "preempt") -> Engine:
        """Return a new engine.

        Arguments:
            delays: its injected delays; None for none.
            late: what late workers do.
        """

    @contextmanager
    def echoes(self, workers: int, delays: Delays | None = None, late: LateWork = "preempt") -> Generator[Engine]:
        """Make an engine on which so many workers run an `Echo` each; it is closed at the end."""
        with self.make(delays, late) as engine:
            start(engine, [Echo(worker, (worker,)) for worker in range(workers)])
            yield engine


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
    """Return an order with one point, all of whose elements are the number of the order.

    Arguments:
        number: the round.
        step: the step; by default the number.
        n_parameters: length of the point.
    """
    return Order(number if step is None else step, (np.full(n_parameters, float(number)),), round=number)


def take(engine: Engine, count: int) -> list[Event]:
    """Wait for the next `count` events, and return them.

    Raises:
        TimeoutError: if one of them does not come within `PATIENCE`.
    """
    events: list[Event] = []
    while len(events) < count:
        event = engine.next_event(engine.now() + PATIENCE)
        if event is None:
            raise TimeoutError(f"only {events} within {PATIENCE} s")
        events.append(event)
    return events


def arrivals(engine: Engine, count: int) -> list[Arrived]:
    """Wait for the next `count` events, which must all be arrivals, and return them."""
    arrived: list[Arrived] = []
    for event in take(engine, count):
        assert isinstance(event, Arrived), event
        arrived.append(event)
    return arrived


def by_worker(events: Sequence[Event]) -> dict[int, Event]:
    """Return the last event of each worker."""
    return {event.worker: event for event in events if not isinstance(event, Offered)}


def summed_steps(engine: Engine, callbacks: Sequence[Callback] = (), policy: FaultPolicy | None = None) -> Run:
    """Take exact steps in which three workers report what they have finished, and then send a sum each.

    Arguments:
        engine: where they run; it is closed.
        callbacks: hooks that watch.
        policy: what is done about the dead.
    """
    problem, scheme = Quadratic.random(36, 5, seed=1), compute_once(3, load=2, pieces=2, sums=True)
    return train(problem, scheme, GradientDescent(np.zeros(5), 0.1), engine, 6, callbacks, fault_policy=policy)
