"""What the virtual engine holds of rounds and workers; as plain data, and back, for checkpoints.

Orders are stored once, however many workers are at them; parts, events and orders are told apart by what they are,
and nothing but these can be made from a state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, cast

import numpy as np

from erasurehead._internal.arrays import Array, Tree, dtype_of
from erasurehead.engines._base import Died, Event, Failed, Joined, MessageSpec, Offered, Order, Program
from erasurehead.errors import DataError

_EVENTS: Mapping[str, type[Failed | Died | Joined | Offered]] = {
    "failed": Failed,
    "died": Died,
    "joined": Joined,
    "offered": Offered,
}
_NAMES = {kind: name for name, kind in _EVENTS.items()}


@dataclass(eq=False)
class Flight:
    """An order in flight, and the vectors of it that have been computed, by content."""

    order: Order
    vectors: dict[int, Array] = field(default_factory=dict[int, Array])


@dataclass(eq=False)
class Worker:
    """A worker, and what it is at."""

    program: Program
    host: str
    life: int  # an event of an earlier worker of the same number is void
    work: int = -1  # number of the work in progress; the end of another one is void
    busy: bool = False
    spec: MessageSpec | None = None  # what it is working on
    current: Flight | None = None
    waiting: Flight | None = None  # the newest order, taken when the current one is done
    started: float = 0.0
    done: list[MessageSpec] = field(default_factory=list[MessageSpec])
    told: tuple[int, int | None] = (-1, None)  # the round for which it was redirected, and where to
    held: list[Event | None] | None = None  # while paused: what would have happened, None for the end of a message


@dataclass(eq=False)
class OrderTable:
    """Orders by number, each stored once."""

    stored: list[Order] = field(default_factory=list[Order])
    _numbers: dict[int, int] = field(default_factory=dict[int, int])

    def number(self, order: Order | None) -> int | None:
        """Return the number of an order, which is stored if it is new."""
        if order is None:
            return None
        number = self._numbers.setdefault(id(order), len(self.stored))
        if number == len(self.stored):
            self.stored.append(order)
        return number

    def to_tree(self) -> Tree:
        """Return all orders as plain data."""
        return [
            {
                "step": order.step,
                "points": list(order.points),
                "round": order.round,
                "generation": order.generation,
                "kind": order.kind,
                "coefficients": list(order.coefficients),
                "note": dict(order.note),
                "posted": order.posted,
            }
            for order in self.stored
        ]


def rounds_from(tree: Any) -> list[Flight]:
    """Return the orders that `OrderTable.to_tree` wrote, with nothing computed of them yet."""
    return [
        Flight(
            Order(
                step=whole(row["step"]),
                points=tuple(array(point) for point in row["points"]),
                round=whole(row["round"]),
                generation=whole(row["generation"]),
                kind=str(row["kind"]),
                coefficients=tuple(float(number) for number in row["coefficients"]),
                note=dict(row["note"]),
                posted=float(row["posted"]),
            )
        )
        for row in cast("Sequence[Mapping[str, Any]]", tree)
    ]


def worker_to_tree(number: int, worker: Worker, orders: OrderTable) -> Tree:
    """Return a worker as plain data; its orders are stored in `orders`. What an idle one did last is of no use."""
    current = worker.current.order if worker.current is not None and worker.busy else None
    waiting = worker.waiting.order if worker.waiting is not None else None
    return {
        "number": number,
        "program": worker.program.state(),
        "host": worker.host,
        "life": worker.life,
        "work": worker.work,
        "busy": worker.busy,
        "part": spec_to_tree(worker.spec if worker.busy else None),
        "current": orders.number(current),
        "waiting": orders.number(waiting),
        "started": worker.started,
        "done": [spec_to_tree(spec) for spec in worker.done] if worker.busy else [],
        "held": None if worker.held is None else [event_to_tree(event) for event in worker.held],
    }


def worker_from(row: Mapping[str, Any], program: Program, rounds: Sequence[Flight]) -> Worker:
    """Return the worker that `worker_to_tree` wrote, with its program built anew."""
    program.restore(row["program"])
    return Worker(
        program,
        host=str(row["host"]),
        life=whole(row["life"]),
        work=whole(row["work"]),
        busy=bool(row["busy"]),
        spec=spec_from(row["part"]),
        current=None if row["current"] is None else rounds[whole(row["current"])],
        waiting=None if row["waiting"] is None else rounds[whole(row["waiting"])],
        started=float(row["started"]),
        done=[spec for spec in map(spec_from, row["done"]) if spec is not None],
        held=None if row["held"] is None else [event_from(event) for event in row["held"]],
    )


def spec_to_tree(spec: MessageSpec | None) -> Tree:
    """Return a part as plain data."""
    return None if spec is None else asdict(spec)


def spec_from(tree: Any) -> MessageSpec | None:
    """Return the part that `spec_to_tree` wrote."""
    if tree is None:
        return None
    content = None if tree["content"] is None else whole(tree["content"])
    dtype_of(str(tree["dtype"]))  # raises where it is none
    return MessageSpec(
        whole(tree["message"]),
        float(tree["work"]),
        whole(tree["length"]),
        str(tree["dtype"]),
        content,
        whole(tree.get("vectors", 1)),
        float(tree.get("prior", 0.0)),
    )


def event_to_tree(event: Event | None) -> Tree:
    """Return an event that lies ahead as plain data; None stands for the end of a message."""
    if event is None:
        return None
    name = _NAMES[cast("type[Failed | Died | Joined | Offered]", type(event))]  # an arrival is made when it is due
    return {"event": name, **vars(event)}


def event_from(tree: Any) -> Event | None:
    """Return the event that `event_to_tree` wrote."""
    if tree is None:
        return None
    given = dict(cast("Mapping[str, Any]", tree))
    return _EVENTS[given.pop("event")](**given)


def whole(value: Any) -> int:
    """Return a value that must be a whole number."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise DataError(f"a whole number must stand where {value!r} does.")
    return value


def array(value: Any) -> Array:
    """Return a value that must be an array."""
    if not isinstance(value, np.ndarray):
        raise DataError(f"an array must stand where {value!r} does.")
    return cast("Array", value)
