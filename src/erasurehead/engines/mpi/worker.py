"""A worker: what a rank is while it has a program. It takes orders, computes, and sits out its injected delays."""

from __future__ import annotations

import time
from typing import Any

from erasurehead.delays.base import Delays
from erasurehead.engines.base import LateWork, MessageSpec, Order, Program, told
from erasurehead.engines.mpi.backoff import BUSY, Backoff
from erasurehead.engines.mpi.buffers import FrameSendBuffers, SendBuffers, Shared, SlotBuffers
from erasurehead.engines.mpi.command_channel import CommandChannel, Recalled
from erasurehead.engines.mpi.encoded_orders import is_pointer, read_order
from erasurehead.engines.mpi.transport import Frame, Gone

_LONGEST = 1e9  # seconds; longer delays are as good as endless


class Worker:
    """Answers orders until the rank is recalled.

    Arguments:
        channel: what the coordinator asks.
        number: of the worker.
        program: what it runs.
        delays: injected after computing.
        late: what to do with late work.
        shared: the memory that the coordinator sees too; None if vectors are to travel.
    """

    def __init__(
        self,
        channel: CommandChannel,
        number: int,
        program: Program,
        delays: Delays | None,
        late: LateWork,
        shared: Shared | None,
    ) -> None:
        self.channel = channel
        self.number = number
        self.program = program
        self.delays = delays
        self.preempt = late == "preempt"
        self._announced = {spec.message: spec for spec in program.message_specs}
        self._order_buffer = None if shared is None else shared.order_buffer
        self._buffers: SendBuffers = (
            FrameSendBuffers(program.message_specs) if shared is None else SlotBuffers(shared.slots)
        )

    def serve(self) -> None:
        """Answer orders; only an exception ends it: `Recalled`, or `Gone` if the coordinator is no more."""
        while True:
            frame = self.channel.take_order()
            order = read_order(frame, self._order_buffer)
            if order is not None:
                self._answer(order, frame)

    def _answer(self, order: Order, frame: Frame) -> None:
        started = time.monotonic()
        order_buffer = self._order_buffer if is_pointer(frame) else None
        try:
            taken = self.program.take(order)
            self.channel.give_back(frame)
            if order_buffer is not None and not order_buffer.holds(order.round):
                return  # it was overwritten while it was taken
            done: list[MessageSpec] = []
            left = self.program.remaining(order, done)
            while left:
                spec, unit = left[0], len(done)
                done.append(spec)
                left = self.program.remaining(order, done)
                if not self._one_message(order, spec, unit, taken, started, last=not left):
                    return
        except (Recalled, Gone):
            raise
        except Exception as error:
            self.channel.report("failed", order.round, told(error))

    def _one_message(self, order: Order, spec: MessageSpec, unit: int, taken: Any, started: float, last: bool) -> bool:
        """Compute, delay and send one message; return whether it was sent rather than dropped."""
        room = self._claim(spec)
        if room is None:
            return False
        sent = False
        try:
            self.program.compute(spec, taken, self._buffers.vector(spec, room))
            delay = 0.0
            if self.delays is not None:
                delay = self.delays.seconds(self.number, order.step, unit, spec.work, order.posted)
            if self._sit_out(min(delay, _LONGEST)):
                which = spec.message if spec == self._announced.get(spec.message) else spec
                listens = last and self.channel.now_listening()
                self._buffers.send(self.channel, spec, room, (order.round, order.step, which, started, listens))
                sent = True
        finally:
            if not sent:
                self._buffers.free(spec, room)
        return sent

    def _claim(self, spec: MessageSpec) -> int | None:
        """Return a room for a message, or None if there is a newer order before one is free."""
        backoff = Backoff()
        while (room := self._buffers.claim(spec)) is None:
            self.channel.look()
            if self.preempt and self.channel.newer:
                return None
            backoff.sleep(BUSY)
        return room

    def _sit_out(self, seconds: float) -> bool:
        """Wait for so many seconds; return False if what is waited for is to be dropped."""
        if self.preempt and seconds > 0:
            self.channel.listen()
        until = time.monotonic() + seconds
        self.channel.look()
        while not (self.preempt and self.channel.newer):
            if time.monotonic() >= until:
                return True
            self.channel.rest(until)
        return False
