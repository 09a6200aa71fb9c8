"""Delays and holds messages and orders between coordinator and workers, for slow and disconnected workers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, final

from erasurehead._internal.arrays import Array, Tree
from erasurehead._internal.resumable import Resumable
from erasurehead.engines import Arrived, Failed, MessageSpec, Order
from erasurehead.engines._base import Lease, MessageLost
from erasurehead.errors import EngineError


@final
class CopiedVector(Lease):
    """A copy of a message's vector, which outlives that of the engine."""

    def __init__(self, vector: Array | None, reason: str = "") -> None:
        self._vector, self._reason = vector, reason

    @classmethod
    def of(cls, arrived: Arrived) -> CopiedVector:
        """Copy a message's vector, or keep the reason why it cannot be read."""
        try:
            return cls(arrived.read().copy())
        except MessageLost as lost:
            return cls(None, str(lost))

    def read(self) -> Array:
        """Return the vector.

        Raises:
            MessageLost: if it could not be had to begin with.
            EngineError: after `end`.
        """
        if self._reason:
            raise MessageLost(self._reason)
        if self._vector is None:
            raise EngineError("the vector of this message was released; read it before the next order is submitted.")
        return self._vector

    def end(self) -> None:
        """Give the vector back."""
        self._vector = None


@dataclass
class HeldEvent:
    """An event that is delivered later, at a time in the engine's seconds."""

    event: Arrived | Failed
    due: float


@final
class Interceptor(Resumable):
    """Holds the events and orders of slow and disconnected workers.

    A message that is late is held here as a slow worker would hold it: the worker gets no newer order before it is
    delivered, and it is dropped when it is older than late work may be.

    Arguments:
        max_age: largest number of rounds that late work may be old, at least 0. Vectors that outlive their round are
            copied.
    """

    checkpointed = ("disconnected", "slow")

    def __init__(self, max_age: float) -> None:
        self.max_age = max_age
        self.disconnected: set[int] = set()
        self.slow: dict[int, float] = {}
        self._held: dict[int, list[HeldEvent]] = {}
        self._orders: dict[int, Order] = {}
        self._leases: list[CopiedVector] = []

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
        if self.max_age and isinstance(event, Arrived):
            copy = CopiedVector.of(event)
            event = replace(event, read=copy.read, lease=copy)
        self._held.setdefault(worker, []).append(HeldEvent(event, due))
        return False

    def next_due(self) -> float:
        """Return when the next held event is due, in the engine's seconds; inf if there is none."""
        return min((queue[0].due for queue in self._held.values()), default=math.inf)

    def pop_due(self, now: float) -> Arrived | Failed | None:
        """Remove and return a held event that is due, with the present time; None if there is none."""
        due, worker = min(((queue[0].due, worker) for worker, queue in self._held.items()), default=(math.inf, -1))
        if due > now:
            return None
        entry = self._held[worker].pop(0)
        if not self._held[worker]:
            del self._held[worker]
        if isinstance(entry.event, Arrived) and isinstance(entry.event.lease, CopiedVector):
            self._leases.append(entry.event.lease)
        return replace(entry.event, time=now)

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
        for copy in self._leases:
            copy.end()
        self._leases.clear()
        self._orders.clear()
        for worker, queue in list(self._held.items()):
            if number - max(entry.event.order_round for entry in queue) > self.max_age:
                del self._held[worker]

    def release(self, arrived: Arrived) -> bool:
        """Release a vector that was copied here; return whether it was."""
        if not isinstance(arrived.lease, CopiedVector):
            return False
        arrived.lease.end()
        return True

    def state(self) -> dict[str, Tree]:
        """Return everything that `restore` needs between two rounds; held orders are superseded by newer ones."""
        queues = [[worker, [_to_tree(entry) for entry in queue]] for worker, queue in self._held.items()]
        return {**super().state(), "held": queues if self.max_age else []}

    def restore(self, state: Mapping[str, Any]) -> None:
        super().restore(state)
        self._held = {int(worker): [_from_tree(event) for event in queue] for worker, queue in state["held"]}


def _to_tree(entry: HeldEvent) -> Tree:
    event = entry.event
    due = entry.due if math.isfinite(entry.due) else None
    if isinstance(event, Failed):
        return {"due": due, "failed": asdict(event)}
    plain: dict[str, Tree] = {
        name: getattr(event, name) for name in ("worker", "order_round", "step", "started", "worked")
    }
    try:
        vector: Tree = event.read()
        reason = ""
    except MessageLost as lost:
        vector, reason = None, str(lost)
    return {"due": due, "time": event.time, **plain, "spec": asdict(event.spec), "vector": vector, "why": reason}


def _from_tree(tree: Mapping[str, Any]) -> HeldEvent:
    due = math.inf if tree["due"] is None else float(tree["due"])
    if "failed" in tree:
        return HeldEvent(Failed(**tree["failed"]), due)
    copy = CopiedVector(tree["vector"], str(tree["why"]))
    arrived = Arrived(
        int(tree["worker"]),
        MessageSpec(**tree["spec"]),
        int(tree["order_round"]),
        int(tree["step"]),
        float(tree["started"]),
        float(tree["time"]),
        copy.read,
        copy,
        tree["worked"],
    )
    return HeldEvent(arrived, due)
