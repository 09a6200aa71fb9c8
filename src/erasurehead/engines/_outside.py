"""What engines have in common whose workers run outside this process: the clock on the wall, orders, events, leases.

Orders to workers of this machine, and what these answer, cross over a `Lane`, whoever has started them; how others are
reached an engine says itself.
"""

from __future__ import annotations

import contextlib
import selectors
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from erasurehead._internal.late_work import LateWork, check_late
from erasurehead.delays import Delays
from erasurehead.delays._text import as_delays
from erasurehead.engines._base import CLOSED, Arrived, Engine, Event, NoRoom, Offered, Order, Program
from erasurehead.engines._buffers import MessageSlots, OrderBuffers
from erasurehead.engines._encoded_order import EncodedOrder, encode_order
from erasurehead.engines._fault_injection import FaultInjection
from erasurehead.engines._lane import Lane
from erasurehead.engines._leases import OpenLeases
from erasurehead.errors import EngineError

_BLINK = 1.0  # seconds after which an unlimited wait checks whether any worker is left


class Outgoing:
    """An order on its way to several workers.

    Arguments:
        order: what to do.
    """

    def __init__(self, order: Order) -> None:
        self.order = order
        self.encoded: EncodedOrder = encode_order(order)
        self._form: Any = None

    def form(self, make: Callable[[EncodedOrder], Any]) -> Any:
        """Return what it is sent as to workers elsewhere, which is made once."""
        if self._form is None:
            self._form = make(self.encoded)
        return self._form


@dataclass(eq=False, kw_only=True)
class Remote:
    """A worker, as the coordinator knows it.

    Attributes:
        due: the newest order, as long as it is not sent.
        lane: that to it, if it is, or may come to be, on this machine.
        beside: whether it has its ends of that lane.
    """

    due: Outgoing | None = None
    lane: Lane | None = None
    beside: bool = False


State = TypeVar("State", bound=Remote)


class OutsideEngine(Engine, FaultInjection, Generic[State]):
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
        self._workers: dict[int, State] = {}
        self._assigned = False
        self._order_buffers = OrderBuffers()
        self._selector = selectors.DefaultSelector()
        self._outgoing: Outgoing | None = None
        self._round = -1
        self._closed = False

    def now(self) -> float:
        return time.monotonic()

    def release(self, arrived: Arrived) -> None:
        self._leases.end(arrived)

    def submit(self, order: Order, workers: Iterable[int] | None = None) -> None:
        self._check_open()
        if not self._assigned:
            raise EngineError("no worker has been assigned a program yet.")
        if order.round > self._round:  # the vectors of earlier rounds are given back
            self._round = order.round
            self._leases.end_all()
        if self._outgoing is None or self._outgoing.order is not order:
            self._outgoing = Outgoing(order)
        asked = list(self._workers if workers is None else workers)
        chosen = [self._workers[worker] for worker in asked if worker in self._workers]
        for state in chosen:
            state.due = self._outgoing
        self._post(chosen)

    def _post(self, states: Collection[State]) -> None:
        """Send some workers the order that is due to them, as far as they can be sent one now."""
        chosen = set(states)
        rest = [one for one in self._workers.values() if one.beside and one not in chosen]
        others = [one.lane for one in rest if one.lane is not None]
        far: list[State] = []
        for state in states:
            if not state.beside or state.lane is None:
                far.append(state)
            elif state.due is not None:
                state.lane.post(state.due.encoded, others)
                state.due = None
        if far:
            self._send(far)

    def redirect(self, worker: int, order_round: int, message: int) -> None:
        state = self._workers.get(worker)
        if state is not None and state.beside and state.lane is not None:
            state.lane.redirect(order_round, message)
        elif state is not None:
            self._redirect(state, order_round, message)

    def _redirect(self, state: State, order_round: int, message: int) -> None:
        """Do the same for a worker to which there is no lane."""

    def _send(self, far: Sequence[State]) -> None:
        """Do the same for workers to which there is no lane."""

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

    def _gather(self, seconds: float) -> None:
        """Wait until something comes, at most so many seconds, and take all that has come."""
        self._listen(seconds)

    def _listen(self, seconds: float) -> None:
        """Do so for what comes from workers to which there is a lane."""
        for key, _ in self._selector.select(seconds):
            worker, state = key.data, self._workers[key.data]
            assert state.lane is not None
            items = state.lane.read()
            if items is None:
                self._hung_up(worker, state)
            for item in items or ():
                self._hear(worker, state, item)

    def _hear(self, worker: int, state: State, item: tuple[Any, ...]) -> None:
        """Take what a worker has said."""
        assert state.lane is not None
        self._events.append(state.lane.event(worker, item, time.monotonic()))

    def _hung_up(self, worker: int, state: State) -> None:
        """Take note that a worker has ended, or closed its ends: by default something else says which."""
        self._close_lane(state)

    def _new_lane(self, program: Program) -> Lane | None:
        """Return a lane to a worker that runs a program; None if there is no memory, or no file, for it."""
        with contextlib.suppress(NoRoom, OSError):
            return Lane(self._order_buffers.of(program), MessageSlots(program))
        return None

    def _take_lane(self, worker: int, state: State, shares: bool = True) -> None:
        """Use the lane to a worker from now on, if it has its ends."""
        if not shares or state.lane is None:
            self._close_lane(state)
            return
        state.lane.settle()
        state.beside = True
        self._selector.register(state.lane.inlet, selectors.EVENT_READ, worker)

    def _close_lane(self, state: State) -> None:
        if state.lane is not None:
            if state.beside:
                self._selector.unregister(state.lane.inlet)
            state.lane.close()
        state.lane, state.beside = None, False

    def _check_open(self) -> None:
        if self._closed:
            raise EngineError(CLOSED)

    def _take_event(self) -> Event:
        """Return the oldest event; the vector of a late message is lent only until the coordinator waits again."""
        event = self._events.popleft()
        if isinstance(event, Arrived):
            self._leases.hand_out(event, brief=event.order_round < self._round)
        return event

    def _void(self, worker: int) -> None:
        """Forget what a worker has sent and nobody has taken."""
        for event in [one for one in self._events if not isinstance(one, Offered) and one.worker == worker]:
            self._events.remove(event)
            if isinstance(event, Arrived) and event.lease is not None:
                event.lease.end()

    def _let_go(self) -> None:
        """Give back, at the end, all that does not belong to a worker."""
        self._leases.end_all()
        self._events.clear()
        self._order_buffers.close()
        self._selector.close()
        self._outgoing = None
