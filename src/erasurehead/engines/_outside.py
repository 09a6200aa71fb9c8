"""What engines have in common whose workers run outside this process: the clock on the wall, events, and leases."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence

from erasurehead._internal.late_work import LateWork, check_late
from erasurehead.delays import Delays
from erasurehead.delays._text import as_delays
from erasurehead.engines._base import CLOSED, Arrived, Engine, Event, Offered, Order
from erasurehead.engines._fault_injection import FaultInjection
from erasurehead.engines._leases import OpenLeases
from erasurehead.errors import EngineError


class OutsideEngine(Engine, FaultInjection):
    """An engine whose workers are processes of their own.

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
        self._round = -1
        self._closed = False

    def now(self) -> float:
        return time.monotonic()

    def release(self, arrived: Arrived) -> None:
        self._leases.end(arrived)

    def _check_open(self) -> None:
        if self._closed:
            raise EngineError(CLOSED)

    def _enter_round(self, order: Order) -> None:
        """Take note of an order; the vectors of earlier rounds are given back with the first one of a round."""
        if order.round > self._round:
            self._round = order.round
            self._leases.end_all()

    def _take_event(self, brief: bool) -> Event:
        """Return the oldest event, recording that the coordinator has it.

        Arguments:
            brief: whether the vector of a late message is lent only until the coordinator waits again.
        """
        event = self._events.popleft()
        if isinstance(event, Arrived):
            self._leases.hand_out(event, brief=brief and event.order_round < self._round)
        return event

    def _void(self, worker: int) -> Sequence[Event]:
        """Remove and return what a worker has sent and nobody has taken."""
        void = [event for event in self._events if not isinstance(event, Offered) and event.worker == worker]
        for event in void:
            self._events.remove(event)
        return void
