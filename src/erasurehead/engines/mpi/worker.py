"""A worker: what a rank is while it has a program. It takes orders, computes, and sits out its injected delays."""

from __future__ import annotations

import time
from typing import Any

from erasurehead.delays.base import Delays
from erasurehead.engines.base import LateWork, Order, Part, Program, told
from erasurehead.engines.mpi.backoff import BUSY, Backoff
from erasurehead.engines.mpi.buffers import InFrames, InSlots, Rooms, Shared
from erasurehead.engines.mpi.command_channel import Calls, Recalled
from erasurehead.engines.mpi.encoded_orders import is_pointer, read_order
from erasurehead.engines.mpi.transport import Frame, Gone

_LONGEST = 1e9  # seconds; longer delays are as good as endless


class Worker:
    """Answers orders until the rank is recalled.

    Arguments:
        calls: what the coordinator asks.
        number: of the worker.
        program: what it runs.
        delays: injected after computing.
        late: what to do with late work.
        shared: the memory that the coordinator sees too; None if vectors are to travel.
    """

    def __init__(
        self,
        calls: Calls,
        number: int,
        program: Program,
        delays: Delays | None,
        late: LateWork,
        shared: Shared | None,
    ) -> None:
        self.calls = calls
        self.number = number
        self.program = program
        self.delays = delays
        self.preempt = late == "preempt"
        self._announced = {part.message: part for part in program.outbox}
        self._board = None if shared is None else shared.board
        self._rooms: Rooms = InFrames(program.outbox) if shared is None else InSlots(shared.slots)

    def serve(self) -> None:
        """Answer orders; only an exception ends it: `Recalled`, or `Gone` if the coordinator is no more."""
        while True:
            frame = self.calls.take_order()
            order = read_order(frame, self._board)
            if order is not None:
                self._answer(order, frame)

    def _answer(self, order: Order, frame: Frame) -> None:
        started = time.monotonic()
        board = self._board if is_pointer(frame) else None
        try:
            taken = self.program.take(order)
            self.calls.give_back(frame)
            if board is not None and not board.holds(order.round):
                return  # it was overwritten while it was taken
            done: list[Part] = []
            left = self.program.parts(order, done)
            while left:
                part, unit = left[0], len(done)
                done.append(part)
                left = self.program.parts(order, done)
                if not self._one_message(order, part, unit, taken, started, last=not left):
                    return
        except (Recalled, Gone):
            raise
        except Exception as error:
            self.calls.report("failed", order.round, told(error))

    def _one_message(self, order: Order, part: Part, unit: int, taken: Any, started: float, last: bool) -> bool:
        """Compute, delay and send one message; return whether it was sent rather than dropped."""
        room = self._claim(part)
        if room is None:
            return False
        sent = False
        try:
            self.program.compute(part, taken, self._rooms.vector(part, room))
            delay = 0.0 if self.delays is None else self.delays.seconds(self.number, order.step, unit, part.work)
            if self._sit_out(min(delay, _LONGEST)):
                which = part.message if part == self._announced.get(part.message) else part
                listens = last and self.calls.now_listening()
                self._rooms.send(self.calls, part, room, (order.round, order.step, which, started, listens))
                sent = True
        finally:
            if not sent:
                self._rooms.free(part, room)
        return sent

    def _claim(self, part: Part) -> int | None:
        """Return a room for a message, or None if there is a newer order before one is free."""
        backoff = Backoff()
        while (room := self._rooms.claim(part)) is None:
            self.calls.look()
            if self.preempt and self.calls.newer:
                return None
            backoff.sleep(BUSY)
        return room

    def _sit_out(self, seconds: float) -> bool:
        """Wait for so many seconds; return False if what is waited for is to be dropped."""
        if self.preempt and seconds > 0:
            self.calls.listen()
        until = time.monotonic() + seconds
        self.calls.look()
        while not (self.preempt and self.calls.newer):
            if time.monotonic() >= until:
                return True
            self.calls.rest(until)
        return False
