"""The lane to a worker of the coordinator's own machine: memory that both see, and pipes for a few words."""

from __future__ import annotations

import contextlib
import os
import pickle
import select
import time
from collections.abc import Iterable
from functools import partial
from typing import Any

from erasurehead.engines._base import Arrived, Event, Failed, MessageSpec, Order
from erasurehead.engines._buffers import MessageSlots, OrderBuffer, OrderReader
from erasurehead.engines._encoded_order import EncodedOrder
from erasurehead.engines._leases import BufferLease
from erasurehead.engines._shared_memory import found, handle_of
from erasurehead.engines._worker_loop import Answer, OutgoingMessage, Room, Transport

_FRAME = 4
"""Bytes that say how long an item is, before each item that a worker sends."""


class CoordinatorGone(Exception):
    """The wake pipe is at its end: the coordinator closed it, or is no more."""


class Ends:
    """A worker's ends of the lane, which can be sent to it, while it is being started or later.

    Arguments:
        order_buffer: where orders are put up, for all such workers.
        slots: where this worker writes its messages.
        wake: descriptor of the pipe that says that an order is up, to be read.
        outlet: descriptor of the pipe for its words, to be written to.
    """

    def __init__(self, order_buffer: OrderBuffer, slots: MessageSlots, wake: int, outlet: int) -> None:
        self.order_buffer, self.slots, self.wake, self.outlet = order_buffer, slots, wake, outlet

    def __getstate__(self) -> tuple[OrderBuffer, MessageSlots, Any, Any]:
        return self.order_buffer, self.slots, handle_of(self.wake), handle_of(self.outlet)

    def __setstate__(self, state: tuple[OrderBuffer, MessageSlots, Any, Any]) -> None:
        self.order_buffer, self.slots, wake, outlet = state
        self.wake = found(wake, os.O_RDONLY)
        self.outlet = found(outlet, os.O_WRONLY)

    def close(self) -> None:
        """Close the pipes."""
        os.close(self.wake)
        os.close(self.outlet)


class Lane:
    """The coordinator's ends of the lane.

    Arguments:
        order_buffer, slots: the memory; the slots are closed with the lane, and also if it cannot be made.

    Attributes:
        inlet: descriptor from which the worker's words come.
        theirs: the worker's ends; None once `settle` was called.
    """

    def __init__(self, order_buffer: OrderBuffer, slots: MessageSlots) -> None:
        self.order_buffer, self.slots = order_buffer, slots
        with contextlib.ExitStack() as ends:
            ends.callback(slots.close)
            wake, self._wake = os.pipe()
            ends.callback(os.close, wake)
            ends.callback(os.close, self._wake)
            self.inlet, outlet = os.pipe()
            ends.pop_all()
        os.set_blocking(self._wake, False)
        self.theirs: Ends | None = Ends(order_buffer, slots, wake, outlet)
        self._unread = b""  # the beginning of an item that is not complete yet

    def settle(self) -> None:
        """Keep the worker's ends open no longer: it has them, or never will."""
        if self.theirs is not None:
            self.theirs.close()
            self.theirs = None
        self.slots.close()

    def post(self, order: EncodedOrder, others: Iterable[Lane]) -> None:
        """Put up an order, unless it is up, and wake the worker.

        Arguments:
            order: the order.
            others: of the workers that it is not for.
        """
        buffer, slots = self.order_buffer, self.slots
        buffer.write(order, (one.slots for one in others if one.order_buffer is buffer))
        if not buffer.holds(order.round):
            slots.keep(order)  # a newer order, to others, has overwritten it
        slots.newest = order.round + 1
        self._rouse()

    def redirect(self, order_round: int, message: int) -> None:
        """Let the worker take a message next."""
        before = self.slots.redirect(order_round, message)
        if before is not None and before < 0:  # it may pause
            self._rouse()

    def _rouse(self) -> None:
        with contextlib.suppress(BlockingIOError, BrokenPipeError):  # full: it will wake anyway; broken: it died
            os.write(self._wake, b"!")

    def read(self) -> list[tuple[Any, ...]] | None:
        """Return the items that have come; None at the end of the pipe: the worker has ended."""
        try:
            data = os.read(self.inlet, 65_536)
        except OSError:
            data = b""
        if not data:
            return None
        data, items, begin = self._unread + data, list[tuple[Any, ...]](), 0
        while len(data) >= (start := begin + _FRAME) and len(data) >= (
            end := start + int.from_bytes(data[begin:start], "little")
        ):
            items.append(pickle.loads(data[start:end]))
            begin = end
        self._unread = data[begin:]
        return items

    def event(self, worker: int, item: tuple[Any, ...], now: float) -> Event:
        """Return what an item means that a `Pipes` has sent of an answer."""
        if item[0] == "failed":
            return Failed(worker, item[1], item[2], now)
        _, order_round, step, message, told, side, started, worked = item
        slots = self.slots
        spec = slots.spec(message) if told is None else told
        lease = BufferLease(slots.vector(spec, side), partial(slots.free, spec.message, side))
        return Arrived(worker, spec, order_round, step, started, now, lease.read, lease, worked)

    def hang_up(self) -> None:
        """Let the worker find the wake pipe at its end."""
        if self._wake >= 0:
            os.close(self._wake)
            self._wake = -1

    def close(self) -> None:
        """Close everything; may be called twice."""
        self.settle()
        self.hang_up()
        if self.inlet >= 0:
            os.close(self.inlet)
            self.inlet = -1


class Pipes(Transport):
    """The worker loop's way to its coordinator.

    Arguments:
        ends: of the worker.
    """

    ends = (CoordinatorGone,)

    def __init__(self, ends: Ends) -> None:
        self._slots = ends.slots
        self._orders = OrderReader(ends.order_buffer, self._slots)
        self._wake, self._outlet = ends.wake, ends.outlet
        self._taken = 0  # the newest order taken, as in `MessageSlots.newest`

    def newer(self) -> bool:
        return self._slots.newest > self._taken

    def behind(self) -> float:
        return self._slots.newest - self._taken

    def wait(self, until: float | None, welcome: bool) -> None:
        if until is not None:
            remaining = until - time.monotonic()
            if remaining <= 0 or not select.select([self._wake], [], [], remaining)[0]:
                return
        if not os.read(self._wake, 65_536):
            raise CoordinatorGone

    def take(self) -> Order | None:
        self._taken = self._slots.newest
        return self._orders.read(self._taken - 1)

    def copied(self) -> bool:
        whole = self._orders.copied()
        if not whole:
            self._taken -= 1
        return whole

    def redirected(self, order_round: int) -> int | None:
        return self._slots.redirected(order_round)

    def claim(self, spec: MessageSpec) -> Room | None:
        return self._slots.room(spec)

    def free(self, room: Room) -> None:
        self._slots.free(room.spec.message, room.where)

    def say(self, *item: Any) -> None:
        """Send a few words."""
        # Written by hand: of a step of 15 ms the framing of `Connection.send` would take one.
        data = pickle.dumps(item)
        try:
            os.write(self._outlet, len(data).to_bytes(_FRAME, "little") + data)
        except BrokenPipeError:
            raise CoordinatorGone from None

    def send(self, answer: Answer) -> None:
        """Send what an order brings: messages, or that it failed."""
        if not isinstance(answer, OutgoingMessage):
            self.say("failed", answer.order_round, answer.reason)
            return
        order, spec = answer.order, answer.room.spec
        # As nearly always it is what the program announced: the coordinator knows it then.
        told = None if spec == self._slots.spec(spec.message) else spec
        where = answer.room.where
        self.say("arrived", order.round, order.step, spec.message, told, where, answer.started, answer.worked)
