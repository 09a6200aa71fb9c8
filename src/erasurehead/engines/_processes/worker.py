"""A worker process: it waits for orders on a pipe, answers through shared memory, and ends with its parent."""

from __future__ import annotations

import os
import pickle
import select
import signal
import socket
import sys
import time
from dataclasses import dataclass
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from erasurehead._internal.late_work import LateWork
from erasurehead.delays import Delays
from erasurehead.engines._base import MessageSpec, Order, Program, told
from erasurehead.engines._buffers import MessageSlots, OrderBuffer, OrderReader
from erasurehead.engines._end_with_parent import end_with_parent
from erasurehead.engines._packed_program import unpack
from erasurehead.engines._shared_memory import SharedBlock
from erasurehead.engines._worker_loop import Answer, OutgoingMessage, Room, Transport, WorkerLoop

FRAME = 4
"""Bytes that say how long an item is, before each item that a worker sends."""

_LARGEST_KEPT = 32 * 2**20  # bytes: the memory of larger arrays goes back to the system whenever they are freed


@dataclass(frozen=True)
class ProgramInSharedMemory:
    """A packed program, its large arrays in shared memory, where they are neither copied nor writable.

    Attributes:
        head: of the packed program.
        spans: first byte and end of each array in the block.
        block: the arrays.
    """

    head: bytes
    spans: tuple[tuple[int, int], ...]
    block: SharedBlock

    def open(self) -> tuple[Program, Delays | None]:
        """Return the program and its delays."""
        return unpack(self.head, [self.block.buffer[low:high] for low, high in self.spans])


class _ParentGone(Exception):
    """The wake pipe is at its end: the coordinator closed it, or is no more."""


def main(
    worker: int,
    packed: ProgramInSharedMemory,
    order_buffer: OrderBuffer,
    slots: MessageSlots,
    wake: Connection,
    outlet: Connection,
    late: LateWork,
) -> None:
    """Serve orders until the wake pipe is closed."""
    end_with_parent()
    _drop_lifeline()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole terminal; the coordinator ends us
    transport = _Pipes(order_buffer, slots, wake, outlet)
    try:
        opened = _open(packed, order_buffer, slots, transport)
        if opened is not None:
            transport.say("joined", socket.gethostname())
            for answer in WorkerLoop(worker, *opened, late, transport).answers():
                transport.send(answer)
    except _ParentGone:
        pass
    # Nothing is left to be tidied up, and interpreter shutdown would cost more than all of the above.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _open(
    packed: ProgramInSharedMemory, order_buffer: OrderBuffer, slots: MessageSlots, transport: _Pipes
) -> tuple[Program, Delays | None] | None:
    try:
        import erasurehead.engines._processes.preload  # noqa: F401  # pyright: ignore[reportUnusedImport]

        opened = packed.open()
        _map_memory(packed.block, order_buffer, slots)
        return opened
    except Exception as error:
        transport.say("broken", told(error))
        return None


def _map_memory(data: SharedBlock, order_buffer: OrderBuffer, slots: MessageSlots) -> None:
    """Have the memory mapped that the first order needs.

    If each page were mapped when it is first used, the first order would take several times as long as the next ones,
    and all workers of a machine would be at it at the same time.
    """
    data.touch()
    order_buffer.touch()
    needed = 2 * slots.touch()  # for models, and for what a message is computed from
    for _ in range(2):  # what is freed first goes back to the system, from which glibc learns to keep the next one
        np.ones(min(needed, _LARGEST_KEPT), dtype=np.uint8)


def _drop_lifeline() -> None:
    """Close our copy of what keeps the server that forked us alive.

    The server ends when nobody holds its lifeline any more. Workers are handed a copy, in case they want to fork
    workers of their own; a stopped one would keep the server, and so itself, alive.
    """
    server: Any = getattr(forkserver, "_forkserver", None)
    lifeline = getattr(server, "_forkserver_alive_fd", None)
    if lifeline is not None:
        os.close(lifeline)
        server._forkserver_alive_fd = None


class _Pipes(Transport):
    """Orders and messages in shared memory; a pipe that wakes us, and one for a few words an answer."""

    ends = (_ParentGone,)

    def __init__(self, order_buffer: OrderBuffer, slots: MessageSlots, wake: Connection, outlet: Connection) -> None:
        self._orders = OrderReader(order_buffer, slots)
        self._slots = slots
        self._wake = wake.fileno()
        self._outlet = outlet.fileno()
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
            raise _ParentGone

    def take(self) -> Order | None:
        self._taken = self._slots.newest
        return self._orders.read(self._taken - 1)

    def copied(self) -> bool:
        whole = self._orders.copied()
        if not whole:
            self._taken -= 1
        return whole

    def claim(self, spec: MessageSpec) -> Room | None:
        return self._slots.room(spec)

    def free(self, room: Room) -> None:
        self._slots.free(room.spec.message, room.where)

    def say(self, *item: Any) -> None:
        """Send a few words."""
        # Written by hand: of a step of 15 ms the framing of `Connection.send` would take one.
        data = pickle.dumps(item)
        try:
            os.write(self._outlet, len(data).to_bytes(FRAME, "little") + data)
        except BrokenPipeError:
            raise _ParentGone from None

    def send(self, answer: Answer) -> None:
        """Send what an order brings: messages, or that it failed."""
        if not isinstance(answer, OutgoingMessage):
            self.say("failed", answer.order_round, answer.reason)
            return
        order, spec = answer.order, answer.room.spec
        # As nearly always it is what the program announced: the coordinator knows it then.
        told = None if spec == self._slots.spec(spec.message) else spec
        self.say("arrived", order.round, order.step, spec.message, told, answer.room.where, answer.started)
