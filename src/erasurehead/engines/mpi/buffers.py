"""Where a rank writes its messages: into memory that the coordinator sees, or into frames that travel."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead.engines.base import MessageSpec, NoRoom, Program
from erasurehead.engines.buffers import MessageSlots, OrderBuffer
from erasurehead.engines.mpi.command_channel import CommandChannel
from erasurehead.engines.mpi.transport import HEAD, Frame, Sending, new_frame, vector_in, whole, write_head


@dataclass(frozen=True, eq=False)
class Shared:
    """What both see.

    Attributes:
        order_buffer: where orders are put up, for all ranks beside the coordinator.
        slots: where this rank writes its messages.
    """

    order_buffer: OrderBuffer
    slots: MessageSlots


class OrderBuffers:
    """The coordinator's order_buffers, by the elements that fit: programs with equal inboxes see the same one."""

    def __init__(self) -> None:
        self._order_buffers: dict[int, OrderBuffer] = {}

    def share(self, program: Program) -> Shared | None:
        """Return what to share with a rank that runs a program; None if there is no memory, or no file, for it."""
        with contextlib.suppress(NoRoom):
            if program.input_size not in self._order_buffers:
                self._order_buffers[program.input_size] = OrderBuffer(program.input_size)
            return Shared(self._order_buffers[program.input_size], MessageSlots(program.message_specs))
        return None

    def close(self) -> None:
        """Keep the order_buffers open no longer."""
        for order_buffer in self._order_buffers.values():
            order_buffer.close()
        self._order_buffers.clear()


def settled(offered: Shared | None, accepted: bool) -> Shared | None:
    """Return what a rank shares with us, now that it has looked; the slots need not be found any more."""
    if offered is not None:
        offered.slots.close()
    return offered if accepted else None


_FRAMES = 2  # one is computed while the other is on its way


class SendBuffers(ABC):
    """SendBuffers for messages, each free, or holding one that is computed or on its way."""

    @abstractmethod
    def claim(self, spec: MessageSpec) -> int | None:
        """Return the number of a room for a message, or None if none is free yet."""

    @abstractmethod
    def vector(self, spec: MessageSpec, room: int) -> Array:
        """Return the message's vector in a room, shape (part.length,), to be written."""

    @abstractmethod
    def free(self, spec: MessageSpec, room: int) -> None:
        """Give back a room whose message is not sent."""

    @abstractmethod
    def send(self, channel: CommandChannel, spec: MessageSpec, room: int, words: Sequence[Any]) -> None:
        """Send a message: the words of `CommandChannel.report` after the kind, and the vector."""


class SlotBuffers(SendBuffers):
    """SendBuffers in the slots that this rank shares with the coordinator: only words travel.

    Arguments:
        slots: of this rank.
    """

    def __init__(self, slots: MessageSlots) -> None:
        self._slots = slots

    def claim(self, spec: MessageSpec) -> int | None:
        return self._slots.claim(spec.message)

    def vector(self, spec: MessageSpec, room: int) -> Array:
        return self._slots.vector(spec, room)

    def free(self, spec: MessageSpec, room: int) -> None:
        self._slots.free(spec.message, room)

    def send(self, channel: CommandChannel, spec: MessageSpec, room: int, words: Sequence[Any]) -> None:
        channel.report("arrived", *words, room)


class FrameSendBuffers(SendBuffers):
    """SendBuffers in frames of this rank's own memory, which travel whole.

    Arguments:
        message_specs: every message that it may send.
    """

    def __init__(self, message_specs: Sequence[MessageSpec]) -> None:
        size = HEAD + max((_size(spec) for spec in message_specs), default=0)
        self._frames: list[Frame] = [new_frame(size) for _ in range(_FRAMES)]
        self._sendings: list[Sending | None] = [None] * _FRAMES

    def claim(self, spec: MessageSpec) -> int | None:
        for room, sending in enumerate(self._sendings):
            if sending is None or sending.done():
                return room
        return None

    def vector(self, spec: MessageSpec, room: int) -> Array:
        return vector_in(self._frames[room], spec.length, spec.dtype)

    def free(self, spec: MessageSpec, room: int) -> None:
        return

    def send(self, channel: CommandChannel, spec: MessageSpec, room: int, words: Sequence[Any]) -> None:
        frame = self._frames[room]
        write_head(frame, channel.words("arrived", *words, None))
        self._sendings[room] = channel.send(frame[: HEAD + _size(spec)])


def _size(spec: MessageSpec) -> int:
    return whole(spec.length * np.dtype(spec.dtype).itemsize)
