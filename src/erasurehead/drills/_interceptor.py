"""Delays and holds messages and orders between coordinator and workers, for slow and disconnected workers."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import final

from erasurehead._internal.arrays import Array
from erasurehead._internal.resumable import Resumable
from erasurehead.engines import Arrived, Failed, MessageSpec, Order
from erasurehead.engines._base import MessageLost
from erasurehead.engines._leases import BufferLease, OpenLeases


@dataclass(frozen=True, eq=False)
class HeldMessage:
    """A message with a copy of its vector, which outlives that of the engine; fields as those of `Arrived`.

    Attributes:
        vector: the copy; None if it could not be had.
        reason: why not.
    """

    worker: int
    spec: MessageSpec
    order_round: int
    step: int
    started: float
    worked: float | None
    vector: Array | None = None
    reason: str = ""

    @classmethod
    def of(cls, event: Arrived) -> HeldMessage:
        """Return a message as it is held."""
        held = cls(event.worker, event.spec, event.order_round, event.step, event.started, event.worked)
        try:
            return replace(held, vector=event.read().copy())
        except MessageLost as lost:
            return replace(held, reason=str(lost))

    def arriving(self, now: float) -> Arrived:
        """Return the message as it arrives now."""
        read, lease = self._lost, None
        if self.vector is not None:
            lease = BufferLease(self.vector)
            read = lease.read
        return Arrived(self.worker, self.spec, self.order_round, self.step, self.started, now, read, lease, self.worked)

    def _lost(self) -> Array:
        raise MessageLost(self.reason)


@dataclass
class HeldEvent:
    """An event that is delivered later, at a time in the engine's seconds."""

    event: HeldMessage | Failed
    due: float


@final
class Interceptor(Resumable):
    """Holds the events and orders of slow and disconnected workers.

    A message that is late is held here as a slow worker would hold it: the worker gets no newer order before it is
    delivered, and it is dropped when it is older than late work may be.

    Arguments:
        max_age: largest number of rounds that late work may be old, at least 0.

    Attributes:
        leases: of the held messages that have been delivered in this round.
    """

    # Held orders are superseded by newer ones.
    checkpointed = ("disconnected", "slow", "_held")
    records = (HeldEvent, HeldMessage, MessageSpec, Failed)

    def __init__(self, max_age: float) -> None:
        self.max_age = max_age
        self.disconnected: set[int] = set()
        self.slow: dict[int, float] = {}
        self._held: dict[int, list[HeldEvent]] = {}
        self._orders: dict[int, Order] = {}
        self.leases = OpenLeases()

    def is_blocked(self, worker: int) -> bool:
        """Return whether orders to a worker are held."""
        return worker in self.disconnected or (self.max_age > 0 and worker in self._held)

    def hold_order(self, worker: int, order: Order) -> None:
        """Hold an order, in place of an older one."""
        self._orders[worker] = order

    def try_pass(self, event: Arrived | Failed, now: float) -> bool:
        """Return whether an event is delivered at once; otherwise it is held."""
        worker = event.worker
        waiting = self._held.get(worker)
        if worker in self.disconnected:
            due = math.inf
        elif worker in self.slow and isinstance(event, Arrived):
            due = now + self.slow[worker]
        elif waiting:
            due = waiting[-1].due
        else:
            return True
        held = HeldMessage.of(event) if isinstance(event, Arrived) else event
        self._held.setdefault(worker, []).append(HeldEvent(held, due))
        return False

    def next_due(self) -> float:
        """Return when the next held event is due, in the engine's seconds; inf if there is none."""
        return min((queue[0].due for queue in self._held.values()), default=math.inf)

    def pop_due(self, now: float) -> Arrived | Failed | None:
        """Remove and return a held event that is due, with the present time; None if there is none."""
        due, worker = min(((queue[0].due, worker) for worker, queue in self._held.items()), default=(math.inf, -1))
        if due > now:
            return None
        event = self._held[worker].pop(0).event
        if not self._held[worker]:
            del self._held[worker]
        if isinstance(event, Failed):
            return replace(event, time=now)
        arrived = event.arriving(now)
        self.leases.hand_out(arrived)
        return arrived

    def pop_reachable_orders(self) -> list[tuple[int, Order]]:
        """Remove and return the held orders to workers that can be reached now, each with its worker."""
        ready = [worker for worker in self._orders if not self.is_blocked(worker)]
        return [(worker, self._orders.pop(worker)) for worker in ready]

    def heal(self, worker: int, now: float) -> None:
        """Reconnect a worker: its held events are due now."""
        self.disconnected.discard(worker)
        for entry in self._held.get(worker, ()):
            entry.due = min(entry.due, now)

    def reset(self, worker: int) -> None:
        """Forget everything about a worker whose process is gone."""
        self.disconnected.discard(worker)
        self.slow.pop(worker, None)
        self._held.pop(worker, None)
        self._orders.pop(worker, None)

    def on_new_round(self, number: int) -> None:
        """Release the vectors that were handed out, and drop held events that are too old.

        Arguments:
            number: number of the new round.
        """
        self.leases.end_all()
        self._orders.clear()
        for worker, queue in list(self._held.items()):
            if number - max(entry.event.order_round for entry in queue) > self.max_age:
                del self._held[worker]
