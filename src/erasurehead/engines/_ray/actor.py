"""A worker as a Ray actor: orders come as calls, and its answers are a stream."""

from __future__ import annotations

import contextlib
import math
import os
import socket
import threading
import time
from collections.abc import Generator
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from erasurehead._internal.arrays import Array, dtype_of
from erasurehead._internal.late_work import LateWork
from erasurehead.delays import Delays
from erasurehead.engines._base import MessageSpec, Order, Program, told
from erasurehead.engines._encoded_order import EncodedOrder
from erasurehead.engines._end_with_parent import end_with_parent
from erasurehead.engines._lane import CoordinatorGone, Ends, Pipes
from erasurehead.engines._machine import machine
from erasurehead.engines._one_thread import one_thread
from erasurehead.engines._ray.shared_program import ProgramInRayStore
from erasurehead.engines._shared_memory import accept
from erasurehead.engines._worker_loop import Answer, OutgoingMessage, Room, Transport

THREADS = 4
"""Calls that an actor serves at once: one stream, one order, and a stream that takes the place of a broken one."""

Item = tuple[Any, ...]
"""What an actor streams: a word that says what it is, and more."""


@dataclass(frozen=True)
class Home:
    """Where a worker lives.

    Attributes:
        machine: as `machine()` returns it.
        node: as Ray numbers nodes.
        host: as the machine calls itself.
        pid: of its process.
    """

    machine: str
    node: str
    host: str
    pid: int


@dataclass(frozen=True, eq=False)
class _Posted:
    """An order as it came.

    Attributes:
        order: what to do.
        clock: add it to this machine's seconds to have the coordinator's.
    """

    order: EncodedOrder
    clock: float


class _Superseded(Exception):
    """Another stream of this actor has taken over."""


class Actor:
    """One worker. `serve` runs in a thread of its own while `take` comes in.

    Arguments:
        worker: its number.
        packed: what it runs.
        late: what it does when a newer order comes while its injected delay still runs.
        coordinator: the machine of the coordinator.
    """

    def __init__(self, worker: int, packed: ProgramInRayStore, late: LateWork, coordinator: str) -> None:
        self._worker = worker
        self._packed = packed
        self._late: LateWork = late
        self._near = machine() == coordinator
        self._orders = _Orders()
        self._opened: tuple[Program, Delays | None] | None = None

    def take(self, order: EncodedOrder, posted: float) -> None:
        """Put up an order in place of the one before; the worker finds it when it next looks.

        Arguments:
            order: the newest one; the points may be views of the node's store.
            posted: when it was sent, in the coordinator's seconds.
        """
        self._orders.put(_Posted(order, 0.0 if self._near else posted - time.monotonic()))

    def redirect(self, order_round: int, message: int, said: float) -> None:
        """Let the worker take a message next.

        Arguments:
            order_round: for the order of this round.
            message: as `Engine.redirect` has it.
            said: when it was said, in the coordinator's seconds: of calls, the newer one may come first.
        """
        self._orders.redirect((said, order_round, message))

    def serve(self, offered: bytes) -> Generator[Item]:
        """Stream what the coordinator must know: that the worker is there, then messages and failures.

        Beside the coordinator orders and answers take a lane of their own, and nothing more is streamed. A second call
        takes over from the first, whose way to the coordinator is broken then.

        Arguments:
            offered: where to find our ends of the lane past Ray, if the coordinator is beside us.
        """
        stream = self._orders.new_stream()
        try:
            program, delays = self._open()
        except Exception as error:
            yield "broken", told(error)
            return
        ends: Ends | None = accept(offered) if self._near else None
        yield "joined", Home(machine(), _node(), socket.gethostname(), os.getpid()), ends is not None
        if ends is not None:
            pipes = Pipes(ends)
            with contextlib.closing(ends), contextlib.suppress(CoordinatorGone):
                for answer in pipes.answers(self._worker, program, delays, self._late):
                    pipes.send(answer)
            return
        transport = _Stream(self._orders, stream)
        try:
            for answer in transport.answers(self._worker, program, delays, self._late):
                yield transport.item(answer)
        except _Superseded:
            return

    def _open(self) -> tuple[Program, Delays | None]:
        if self._opened is None:
            end_with_parent()  # the node's manager
            self._opened = self._packed.open(import_module("ray"))
            one_thread()
        return self._opened


_NOWHERE = (-math.inf, -1, -1)


class _Orders:
    """The newest order, between the thread that takes calls and the one that works; and whose turn it is to work.

    Attributes:
        changed: notified of both.
        newest: the newest order.
        taken: the one that was taken last.
        redirected: when the worker was redirected last, for which round, and where to.
        stream: number of the stream that is to answer; earlier ones are to end.
    """

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.newest: _Posted | None = None
        self.taken: _Posted | None = None
        self.redirected = _NOWHERE
        self.stream = 0

    def put(self, posted: _Posted) -> None:
        """Put up an order."""
        with self.changed:
            if self.newest is None or posted.order.round > self.newest.order.round:
                self.newest = posted
                self.changed.notify_all()

    def redirect(self, redirected: tuple[float, int, int]) -> None:
        """Say what is to be taken next."""
        with self.changed:
            self.redirected = max(self.redirected, redirected)
            self.changed.notify_all()

    def new_stream(self) -> int:
        """Return the number of a stream that takes over from the one before."""
        with self.changed:
            self.stream += 1
            self.redirected = _NOWHERE  # as it begins anew with the order
            self.changed.notify_all()
            return self.stream


class _Stream(Transport):
    """The worker loop's way to its coordinator through Ray.

    Messages are written into memory of our own, which Ray copies: it has copied what was there before it asks for the
    next one.

    Arguments:
        orders: of the actor.
        stream: number of this one.
    """

    ends = (_Superseded,)

    def __init__(self, orders: _Orders, stream: int) -> None:
        self._orders = orders
        self._stream = stream
        self._memory: dict[int, Array] = {}
        self._clock = 0.0
        self._redirected = orders.redirected  # as it was when we looked last

    def newer(self) -> bool:
        if self._orders.stream != self._stream:
            raise _Superseded
        return self._orders.newest is not self._orders.taken

    def behind(self) -> float:
        newest, taken = self._orders.newest, self._orders.taken
        return math.inf if newest is None or taken is None else newest.order.round - taken.order.round

    def wait(self, until: float | None, welcome: bool) -> None:
        with self._orders.changed:
            changed = self.newer() or self._orders.redirected is not self._redirected
            if (self.newer() and welcome) or (changed and until is None):
                return
            self._orders.changed.wait(None if until is None else max(until - time.monotonic(), 0.0))

    def take(self) -> Order | None:
        posted = self._orders.taken = self._orders.newest
        assert posted is not None
        self._clock = posted.clock
        return posted.order.open()

    def copied(self) -> bool:
        return True  # nobody writes to what is in the store

    def redirected(self, order_round: int) -> int | None:
        self._redirected = self._orders.redirected
        _, number, message = self._redirected
        return message if number == order_round else None

    def claim(self, spec: MessageSpec) -> Room | None:
        vector = self._memory.get(spec.message)
        if vector is None or len(vector) != spec.length or vector.dtype != dtype_of(spec.dtype):
            vector = self._memory[spec.message] = np.empty(spec.length, dtype=dtype_of(spec.dtype))
        return Room(spec, vector)

    def free(self, room: Room) -> None:
        return

    def item(self, answer: Answer) -> Item:
        """Return what is streamed of an answer."""
        if not isinstance(answer, OutgoingMessage):
            return "failed", answer.order_round, answer.reason
        order, room = answer.order, answer.room
        sent = room.vector.view(np.uint8)
        return "arrived", order.round, order.step, room.spec, answer.started + self._clock, sent, answer.worked


def _node() -> str:
    ray: Any = import_module("ray")
    return ray.get_runtime_context().get_node_id()
