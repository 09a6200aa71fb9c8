"""A worker as a Ray actor: it takes orders, computes, sits out its injected delays, and streams its messages back."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Generator
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits  # pyright: ignore[reportMissingTypeStubs]  # ships none

from erasurehead._internal.arrays import Array
from erasurehead.delays.base import Delays
from erasurehead.engines.base import LateWork, MessageSpec, Order, Program, told
from erasurehead.engines.buffers import MessageSlots
from erasurehead.engines.machine import machine
from erasurehead.engines.ray.packed_program import PackedProgram
from erasurehead.engines.shared_memory import accept

THREADS = 4
"""Calls that an actor serves at once: one stream, one order, and a stream that takes the place of a broken one."""

_LONGEST = 1e9  # seconds that a thread can be told to wait

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

    order: Order
    clock: float


@dataclass(eq=False)
class _Place:
    """Where a message is written.

    Attributes:
        vector: to be written, shape (part.length,).
        sent: what the coordinator is told: the vector, or in which slot it finds it.
        kept: whether it is on its way.
    """

    vector: Array
    sent: Array | int
    kept: bool = False


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

    def __init__(self, worker: int, packed: PackedProgram, late: LateWork, coordinator: str) -> None:
        self._worker = worker
        self._packed = packed
        self._preempt = late == "preempt"
        self._near = machine() == coordinator
        self._changed = threading.Condition()
        self._newest: _Posted | None = None
        self._taken: _Posted | None = None
        self._stream = 0
        self._opened: tuple[Program, Delays | None] | None = None
        self._buffers: dict[int, Array] = {}

    def take(self, order: Order, posted: float) -> None:
        """Put up an order in place of the one before; the worker finds it when it next looks.

        Arguments:
            order: the newest one; the points may be views of the node's store.
            posted: when it was sent, in the coordinator's seconds.
        """
        with self._changed:
            if self._newest is None or order.round > self._newest.order.round:
                self._newest = _Posted(order, 0.0 if self._near else posted - time.monotonic())
                self._changed.notify_all()

    def serve(self, offered: bytes) -> Generator[Item]:
        """Stream what there is to say: that the worker is there, then messages and failures.

        A second call takes over from the first, whose way to the coordinator is broken then.

        Arguments:
            offered: where to find the slots that the coordinator has for this stream, if it is beside us.
        """
        with self._changed:
            self._stream += 1
            stream = self._stream
            self._buffers = {}
            self._changed.notify_all()
        try:
            program, delays = self._open()
        except Exception as error:
            yield "broken", told(error)
            return
        slots: MessageSlots | None = accept(offered) if self._near else None
        yield "joined", Home(machine(), _node(), socket.gethostname(), os.getpid())
        try:
            while True:
                yield from self._answer(self._next(stream), stream, program, delays, slots)
        except _Superseded:
            return

    def _open(self) -> tuple[Program, Delays | None]:
        if self._opened is None:
            _end_with_parent()
            self._opened = self._packed.open(import_module("ray"))
            for module in self._opened[0].preload:
                import_module(module)
            import_module("scipy.linalg")  # loads the BLAS that is limited now; more threads would fake stragglers
            threadpool_limits(limits=1)
        return self._opened

    def _next(self, stream: int) -> _Posted:
        """Wait for an order that was not taken yet, and take it."""
        with self._changed:
            self._changed.wait_for(lambda: self._newer() or self._stream != stream)
            if self._stream != stream:
                raise _Superseded
            self._taken = self._newest
            assert self._taken is not None
            return self._taken

    def _newer(self) -> bool:
        return self._newest is not self._taken

    def _rest(self, seconds: float, stream: int) -> bool:
        """Sit out a delay; return whether it was cut short by a newer order, which `carry` does not look at."""
        deadline = time.monotonic() + min(seconds, _LONGEST)
        with self._changed:
            while True:
                if self._stream != stream:
                    raise _Superseded
                if self._preempt and self._newer():
                    return True
                remaining = deadline - time.monotonic()
                if remaining <= 0:
                    return False
                self._changed.wait(remaining)

    def _answer(
        self, encoded: _Posted, stream: int, program: Program, delays: Delays | None, slots: MessageSlots | None
    ) -> Generator[Item]:
        order = encoded.order
        started = time.monotonic() + encoded.clock
        try:
            taken = program.take(order)
            done: list[MessageSpec] = []
            while remaining := program.remaining(order, done):
                spec = remaining[0]
                with self._place(spec, slots) as place:
                    program.compute(spec, taken, place.vector)
                    delay = 0.0
                    if delays is not None:
                        delay = delays.seconds(self._worker, order.step, len(done), spec.work, order.posted)
                    if self._rest(delay, stream):
                        return
                    place.kept = True
                yield "arrived", order.round, order.step, spec, started, place.sent
                done.append(spec)
        except _Superseded:
            raise
        except Exception as error:
            yield "failed", order.round, told(error)

    @contextlib.contextmanager
    def _place(self, spec: MessageSpec, slots: MessageSlots | None) -> Generator[_Place]:
        """Yield where to write a message; if it is not kept, the next one may be written there.

        Beside the coordinator that is a slot, unless it still reads both; else memory of our own, which Ray copies.
        """
        side = None if slots is None else slots.claim(spec.message)
        if slots is None or side is None:
            room = self._room(spec)
            yield _Place(room, room)
            return
        place = _Place(slots.vector(spec, side), side)
        try:
            yield place
        finally:
            if not place.kept:
                slots.free(spec.message, side)

    def _room(self, spec: MessageSpec) -> Array:
        """Return where to write a message. Ray has copied what was there before it asked for the next one."""
        room = self._buffers.get(spec.message)
        if room is None or len(room) != spec.length or room.dtype != np.dtype(spec.dtype):
            room = self._buffers[spec.message] = np.empty(spec.length, dtype=spec.dtype)
        return room


def _node() -> str:
    ray: Any = import_module("ray")
    return ray.get_runtime_context().get_node_id()


def _end_with_parent() -> None:
    """Ask the kernel for a SIGKILL when the node's manager ends: a stopped process would not see it go."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
