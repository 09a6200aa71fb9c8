"""What engines have in common whose workers run outside this process: the clock on the wall, events, and leases."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Generic, TypeVar

from erasurehead._internal.late_work import LateWork, check_late
from erasurehead.delays import Delays
from erasurehead.delays._text import as_delays
from erasurehead.engines._base import CLOSED, Arrived, Engine, Event, Offered, Order
from erasurehead.engines._fault_injection import FaultInjection
from erasurehead.engines._leases import OpenLeases
from erasurehead.errors import EngineError

_BLINK = 1.0  # seconds after which an unlimited wait checks whether any worker is left

State = TypeVar("State")
Sent = TypeVar("Sent")


class OutsideEngine(Engine, FaultInjection, Generic[State, Sent]):
    """An engine whose workers are processes of their own: `State` is what it knows of one, `Sent` an order on its way.

    Arguments:
        delays: injected after computing, on the worker; None for none.
        late: what a worker does when a newer order is out while its injected delay still runs: `"preempt"` drops
            the old work, `"carry"` finishes the delay first, `"drop(3)"` does so unless the work is more than
            three rounds old.
    """

    def __init__(self, delays: Delays | str | None, late: LateWork) -> None:
        self.late: LateWork = check_late(late)
        self.delays = None if delays is None else as_delays(delays)
        self._events: deque[Event] = deque()  # that have come, and nobody has taken
        self._leases = OpenLeases()
        self._workers: dict[int, State] = {}
        self._order: tuple[Order, Sent] | None = None
        self._round = -1
        self._closed = False

    @abstractmethod
    def _encoded(self, order: Order) -> Sent:
        """Return an order as it is sent; made once for all workers."""

    @abstractmethod
    def _send(self, sent: Sent, chosen: Mapping[int, State], others: Iterable[State]) -> None:
        """Send an order to some workers, and not to the others."""

    @abstractmethod
    def _gather(self, seconds: float) -> None:
        """Wait until something comes from a worker, at most so many seconds; add the events of all that has come."""

    def now(self) -> float:
        return time.monotonic()

    def release(self, arrived: Arrived) -> None:
        self._leases.end(arrived)

    def submit(self, order: Order, workers: Iterable[int] | None = None) -> None:
        self._check_open()
        if order.round > self._round:  # the vectors of earlier rounds are given back
            self._round = order.round
            self._leases.end_all()
        if self._order is None or self._order[0] is not order:
            self._order = order, self._encoded(order)
        asked = list(self._workers if workers is None else workers)
        chosen = {worker: self._workers[worker] for worker in asked if worker in self._workers}
        others = [state for worker, state in self._workers.items() if worker not in chosen]
        self._send(self._order[1], chosen, others)

    def next_event(self, until: float | None = None) -> Event | None:
        self._check_open()
        while not self._events:
            if until is None and not self._workers:
                raise EngineError("no worker can still answer: none is alive.")
            remaining = _BLINK if until is None else until - time.monotonic()
            if remaining <= 0:
                return None
            self._leases.before_waiting()
            self._gather(min(remaining, _BLINK))
        return self._take_event()

    def _check_open(self) -> None:
        if self._closed:
            raise EngineError(CLOSED)

    def _take_event(self) -> Event:
        """Return the oldest event; the vector of a late message is lent only until the coordinator waits again."""
        event = self._events.popleft()
        if isinstance(event, Arrived):
            self._leases.hand_out(event, brief=event.order_round < self._round)
        return event

    def _void(self, worker: int) -> Sequence[Event]:
        """Remove and return what a worker has sent and nobody has taken."""
        void = [event for event in self._events if not isinstance(event, Offered) and event.worker == worker]
        for event in void:
            self._events.remove(event)
        return void

    def _let_go(self) -> None:
        """Forget, at the end, what came and what was sent."""
        self._leases.end_all()
        self._events.clear()
        self._order = None
