"""A worker process: it waits for orders, computes, sits out its injected delays, and ends with its parent."""

from __future__ import annotations

import ctypes
import os
import pickle
import select
import signal
import socket
import sys
import time
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from typing import Any

from erasurehead.delays.base import Delays
from erasurehead.engines.base import LateWork, MessageSpec, Order, Program, told
from erasurehead.engines.buffers import MessageSlots, OrderBuffer
from erasurehead.engines.processes.packed_program import PackedProgram

FRAME = 4
"""Bytes that say how long an item is, before each item that a worker sends."""

_PAUSE = 0.001  # seconds between two looks at slots that the coordinator still reads


class _ParentGone(Exception):
    """The wake pipe is at its end: the coordinator closed it, or is no more."""


def main(
    worker: int,
    packed: PackedProgram,
    order_buffer: OrderBuffer,
    slots: MessageSlots,
    wake: Connection,
    outlet: Connection,
    late: LateWork,
) -> None:
    """Serve orders until the wake pipe is closed."""
    _end_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole terminal; the coordinator ends us
    try:
        opened = _open(packed, outlet)
        if opened is not None:
            _send(outlet, ("joined", socket.gethostname()))
            _Worker(worker, *opened, order_buffer, slots, wake, outlet, late).serve()
    except _ParentGone:
        pass
    # Nothing is left to be tidied up, and interpreter shutdown would cost more than all of the above.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _open(packed: PackedProgram, outlet: Connection) -> tuple[Program, Delays | None] | None:
    try:
        from erasurehead.engines.processes.preload import LIMIT

        assert LIMIT is not None
        return packed.open()
    except Exception as error:
        _send(outlet, ("broken", told(error)))
        return None


def _end_with_parent() -> None:
    """Ask the kernel for a SIGKILL when the server that forked us ends: a stopped process sees no end of file.

    The server ends when nobody holds its lifeline any more. Workers are handed a copy, in case they want to fork
    workers of their own; they must drop it, or a stopped one would keep the server, and so itself, alive.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    server: Any = getattr(forkserver, "_forkserver", None)
    lifeline = getattr(server, "_forkserver_alive_fd", None)
    if lifeline is not None:
        os.close(lifeline)
        server._forkserver_alive_fd = None


def _send(outlet: Connection, item: tuple[Any, ...]) -> None:
    # Written by hand: of a step of 15 ms the framing of `Connection.send` would take one.
    data = pickle.dumps(item)
    try:
        os.write(outlet.fileno(), len(data).to_bytes(FRAME, "little") + data)
    except BrokenPipeError:
        raise _ParentGone from None


class _Worker:
    def __init__(
        self,
        worker: int,
        program: Program,
        delays: Delays | None,
        order_buffer: OrderBuffer,
        slots: MessageSlots,
        wake: Connection,
        outlet: Connection,
        late: LateWork,
    ) -> None:
        self.worker = worker
        self.program = program
        self.order_buffer = order_buffer
        self.slots = slots
        self.wake = wake.fileno()
        self.outlet = outlet
        self.delays = delays
        self.late = late
        self.taken = 0  # the newest order taken, as in `MessageSlots.newest`

    def serve(self) -> None:
        while True:
            self._rest(None)
            while self.slots.newest > self.taken:
                self.taken = self.slots.newest
                self._answer(self.taken - 1)

    def _rest(self, seconds: float | None) -> bool:
        """Wait for a newer order, at most so many seconds; return whether there is one."""
        deadline = None if seconds is None else time.monotonic() + seconds
        while self.slots.newest <= self.taken:
            if deadline is not None:
                remaining = deadline - time.monotonic()
                if remaining <= 0:
                    return False
                if not select.select([self.wake], [], [], remaining)[0]:
                    continue
            self._drain()
        return True

    def _sit_out(self, seconds: float) -> None:
        """Wait for so many seconds whatever comes, but for the end of the coordinator."""
        deadline = time.monotonic() + seconds
        while (remaining := deadline - time.monotonic()) > 0:
            if select.select([self.wake], [], [], remaining)[0]:
                self._drain()

    def _drain(self) -> None:
        """Take what woke us, or wait for it."""
        if not os.read(self.wake, 65_536):
            raise _ParentGone

    def _answer(self, order_round: int) -> None:
        started = time.monotonic()
        order = self.order_buffer.read(order_round)
        if order is None:
            return
        try:
            taken = self.program.take(order)
            if not self.order_buffer.holds(order_round):
                return
            done: list[MessageSpec] = []
            while remaining := self.program.remaining(order, done):
                if not self._one_message(order, remaining[0], len(done), taken, started):
                    return
                done.append(remaining[0])
        except _ParentGone:
            raise
        except Exception as error:
            _send(self.outlet, ("failed", order_round, told(error)))

    def _one_message(self, order: Order, spec: MessageSpec, unit: int, taken: Any, started: float) -> bool:
        """Compute, delay and send one message; return whether it was sent rather than dropped."""
        preempt = self.late == "preempt"
        side = self._claim(spec, preempt)
        if side is None:
            return False
        try:
            self.program.compute(spec, taken, self.slots.vector(spec, side))
        except Exception:
            self.slots.free(spec.message, side)
            raise
        delay = 0.0
        if self.delays is not None:
            delay = self.delays.seconds(self.worker, order.step, unit, spec.work, order.posted)
        if preempt and (self._rest(min(delay, 1e9)) if delay > 0 else self.slots.newest > self.taken):
            self.slots.free(spec.message, side)
            return False
        if not preempt:
            self._sit_out(min(delay, 1e9))
        announced = spec == self.slots.spec(spec.message)  # as nearly always: the coordinator knows it then
        told = None if announced else spec
        _send(self.outlet, ("arrived", order.round, order.step, spec.message, told, side, started))
        return True

    def _claim(self, spec: MessageSpec, preempt: bool) -> int | None:
        while (side := self.slots.claim(spec.message)) is None:
            if preempt and self.slots.newest > self.taken:
                return None
            self._sit_out(_PAUSE)
        return side
