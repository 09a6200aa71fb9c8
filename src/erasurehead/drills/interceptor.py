"""What stands between coordinator and workers in a faulty run: messages that are held back, and orders with them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, final

from erasurehead._internal.arrays import Array, Tree
from erasurehead.engines.base import Arrived, Failed, Lease, MessageLost, MessageSpec, Order
from erasurehead.errors import EngineError


@final
class Copy(Lease):
    """A message's vector, kept while the engine's own may be freed."""

    def __init__(self, vector: Array | None, why: str = "") -> None:
        self._vector, self._why = vector, why

    @classmethod
    def of(cls, arrived: Arrived) -> Copy:
        """Read and copy a message's vector, or keep why it cannot be read."""
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
        if self._why:
            raise MessageLost(self._why)
        if self._vector is None:
            raise EngineError("the vector of this message was released; read it before the next order is submitted.")
        return self._vector

    def end(self) -> None:
        """Give the vector back."""
        self._vector = None


@dataclass
class Held:
    """An event that is held back until its time."""

    event: Arrived | Failed
    due: float


@final
class Interceptor:
    """Who is cut off or slow, and what is held back for it.

    A message that is late is held here as a slow worker would keep it: the worker is given no newer order before it is
    through, and it is dropped when it is older than late work may become.

    Arguments:
        kept: how many rounds old late work may become, at least 0; vectors of what outlasts its round are copied.
    """

    def __init__(self, kept: float) -> None:
        self.kept = kept
        self.cut: set[int] = set()
        self.slow: dict[int, float] = {}
        self._held: dict[int, list[Held]] = {}
        self._orders: dict[int, Order] = {}
        self._leases: list[Copy] = []

    def shut(self, worker: int) -> bool:
        """Whether orders to a worker wait here."""
        return worker in self.cut or (self.kept > 0 and worker in self._held)

    def keep(self, worker: int, order: Order) -> None:
        """Let an order wait, in place of an older one."""
        self._orders[worker] = order

    def passes(self, event: Arrived | Failed, now: float) -> bool:
        """Return whether an event gets through at once; else it is held back."""
        worker = event.worker
        waiting = self._held.get(worker)
        if worker in self.cut:
            due = math.inf
        elif worker in self.slow and isinstance(event, Arrived):
            due = now + self.slow[worker]
        elif waiting:
            due = waiting[-1].due
        else:
            return True
        if self.kept and isinstance(event, Arrived):
            copy = Copy.of(event)
            event = replace(event, read=copy.read, lease=copy)
        self._held.setdefault(worker, []).append(Held(event, due))
        return False

    def next(self) -> float:
        """Return when something that is held back is due; inf if nothing ever is."""
        return min((held[0].due for held in self._held.values()), default=math.inf)

    def take(self, now: float) -> Arrived | Failed | None:
        """Return an event whose time has come, with that time; None if there is none."""
        due, worker = min(((held[0].due, worker) for worker, held in self._held.items()), default=(math.inf, -1))
        if due > now:
            return None
        held = self._held[worker].pop(0)
        if not self._held[worker]:
            del self._held[worker]
        if isinstance(held.event, Arrived) and isinstance(held.event.lease, Copy):
            self._leases.append(held.event.lease)
        return replace(held.event, time=now)

    def let_through(self) -> list[tuple[int, Order]]:
        """Return the orders whose workers can be reached by now, each with its worker."""
        ready = [worker for worker in self._orders if not self.shut(worker)]
        return [(worker, self._orders.pop(worker)) for worker in ready]

    def heal(self, worker: int, now: float) -> None:
        """End a cut: what was held back is due now."""
        self.cut.discard(worker)
        for held in self._held.get(worker, ()):
            held.due = min(held.due, now)

    def forget(self, worker: int) -> None:
        """Open the gate of a worker that is gone; what was held back for it is void."""
        self.cut.discard(worker)
        self.slow.pop(worker, None)
        self._held.pop(worker, None)
        self._orders.pop(worker, None)

    def new_round(self, number: int) -> None:
        """Record that a newer order is out: vectors that were handed out are freed, and what is too old is dropped.

        Arguments:
            number: of its round.
        """
        for copy in self._leases:
            copy.end()
        self._leases.clear()
        self._orders.clear()
        for worker, held in list(self._held.items()):
            if number - max(one.event.order_round for one in held) > self.kept:
                del self._held[worker]

    def release(self, arrived: Arrived) -> bool:
        """Free a vector that was kept here; return whether it was."""
        if not isinstance(arrived.lease, Copy):
            return False
        arrived.lease.end()
        return True

    def state(self) -> dict[str, Tree]:
        """Return what must be kept between two rounds: an order that waits is followed by a newer one."""
        held = {str(worker): [_to_tree(one) for one in held] for worker, held in self._held.items()}
        slow = {str(worker): seconds for worker, seconds in self.slow.items()}
        return {"cut": sorted(self.cut), "slow": slow, "held": held if self.kept else {}}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from what `state` returned."""
        self.cut = {int(worker) for worker in state["cut"]}
        self.slow = {int(worker): float(seconds) for worker, seconds in state["slow"].items()}
        self._held = {int(worker): [_from_tree(one) for one in held] for worker, held in state["held"].items()}


def _to_tree(held: Held) -> Tree:
    event = held.event
    due = held.due if math.isfinite(held.due) else None
    if isinstance(event, Failed):
        return {"due": due, "failed": asdict(event)}
    plain: dict[str, Tree] = {name: getattr(event, name) for name in ("worker", "order_round", "step", "started")}
    try:
        vector: Tree = event.read()
        why = ""
    except MessageLost as lost:
        vector, why = None, str(lost)
    return {"due": due, "time": event.time, **plain, "spec": asdict(event.spec), "vector": vector, "why": why}


def _from_tree(tree: Mapping[str, Any]) -> Held:
    due = math.inf if tree["due"] is None else float(tree["due"])
    if "failed" in tree:
        return Held(Failed(**tree["failed"]), due)
    copy = Copy(tree["vector"], str(tree["why"]))
    arrived = Arrived(
        int(tree["worker"]), MessageSpec(**tree["spec"]), int(tree["order_round"]), int(tree["step"]),
        float(tree["started"]), float(tree["time"]), copy.read, copy,
    )  # fmt: skip
    return Held(arrived, due)
