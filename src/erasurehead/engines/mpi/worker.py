"""A worker: what a rank is while it has a program. It takes orders, computes, and sits out its injected delays."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from erasurehead.delays.base import Delays
from erasurehead.engines.base import LateWork, Order, Part, Program, told
from erasurehead.engines.mpi.backoff import BUSY, Backoff
from erasurehead.engines.mpi.calls import Calls, Recalled
from erasurehead.engines.mpi.orders import read_order
from erasurehead.engines.mpi.wire import HEAD, Frame, Gone, Sending, new_frame, vector_in, whole, write_head

_FRAMES = 2  # one is computed while the other is on its way
_LONGEST = 1e9  # seconds; longer delays are as good as endless


class Worker:
    """Answers orders until the rank is recalled.

    Arguments:
        calls: what the coordinator asks.
        number: of the worker.
        program: what it runs.
        delays: injected after computing.
        late: what to do with late work.
    """

    def __init__(self, calls: Calls, number: int, program: Program, delays: Delays | None, late: LateWork) -> None:
        self.calls = calls
        self.number = number
        self.program = program
        self.delays = delays
        self.preempt = late == "preempt"
        self._announced = {part.message: part for part in program.outbox}
        size = HEAD + max((_size(part) for part in program.outbox), default=0)
        self._frames: list[tuple[Frame, Sending | None]] = [(new_frame(size), None) for _ in range(_FRAMES)]

    def serve(self) -> None:
        """Answer orders; only an exception ends it: `Recalled`, or `Gone` if the coordinator is no more."""
        while True:
            frame = self.calls.take_order()
            self._answer(read_order(frame), frame)

    def _answer(self, order: Order, frame: Frame) -> None:
        started = time.monotonic()
        try:
            taken = self.program.take(order)
            self.calls.give_back(frame)
            done: list[Part] = []
            while parts := self.program.parts(order, done):
                if not self._one_message(order, parts[0], len(done), taken, started):
                    return
                done.append(parts[0])
        except (Recalled, Gone):
            raise
        except Exception as error:
            self.calls.report("failed", order.round, told(error))

    def _one_message(self, order: Order, part: Part, unit: int, taken: Any, started: float) -> bool:
        """Compute, delay and send one message; return whether it was sent rather than dropped."""
        index = self._claim()
        if index is None:
            return False
        frame = self._frames[index][0]
        self.program.compute(part, taken, vector_in(frame, part.length, part.dtype))
        delay = 0.0 if self.delays is None else self.delays.seconds(self.number, order.step, unit, part.work)
        if not self._sit_out(min(delay, _LONGEST)):
            return False
        known = part == self._announced.get(part.message)
        now = time.monotonic()
        which = part.message if known else part
        write_head(frame, ("arrived", self.calls.life, now, order.round, order.step, which, started))
        self._frames[index] = frame, self.calls.send(frame[: HEAD + _size(part)])
        return True

    def _claim(self) -> int | None:
        """Return which frame to compute into, or None if there is a newer order before one is free."""
        backoff = Backoff()
        while True:
            for index, (_, sending) in enumerate(self._frames):
                if sending is None or sending.done():
                    return index
            self.calls.look()
            if self.preempt and self.calls.newer:
                return None
            backoff.sleep(BUSY)

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


def _size(part: Part) -> int:
    return whole(part.length * np.dtype(part.dtype).itemsize)
