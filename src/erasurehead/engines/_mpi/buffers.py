"""Where a rank writes its messages: into memory that the coordinator sees, or into frames that travel."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from erasurehead.engines._base import MessageSpec, NoRoom, Program
from erasurehead.engines._buffers import MessageSlots, OrderBuffers
from erasurehead.engines._mpi.command_channel import CommandChannel
from erasurehead.engines._mpi.transport import HEAD, Frame, Sending, new_frame, vector_in, whole, write_head
from erasurehead.engines._way import Shared
from erasurehead.engines._worker_loop import Room


def share(buffers: OrderBuffers, program: Program) -> Shared | None:
    """Return what to share with a rank that runs a program; None if there is no memory, or no file, for it."""
    with contextlib.suppress(NoRoom):
        return Shared(buffers.of(program), MessageSlots(program))
    return None


def settled(offered: Shared | None, accepted: bool) -> Shared | None:
    """Return what a rank shares with us, now that it has looked; the slots need not be found any more."""
    if offered is not None:
        offered.slots.close()
    return offered if accepted else None


_FRAMES = 2  # one is computed while the other is on its way


class SendBuffers(ABC):
    """Rooms for messages, each free, or holding one that is computed or on its way."""

    @abstractmethod
    def claim(self, spec: MessageSpec) -> Room | None:
        """Return a room for a message, or None if none is free yet."""

    @abstractmethod
    def free(self, room: Room) -> None:
        """Give back a room whose message is not sent."""

    @abstractmethod
    def send(self, channel: CommandChannel, room: Room, words: Sequence[Any]) -> None:
        """Send a message: the words of `CommandChannel.report` after the kind, and the vector."""


class SlotBuffers(SendBuffers):
    """Rooms in the slots that this rank shares with the coordinator: only words travel.

    Arguments:
        slots: of this rank.
    """

    def __init__(self, slots: MessageSlots) -> None:
        self._slots = slots

    def claim(self, spec: MessageSpec) -> Room | None:
        return self._slots.room(spec)

    def free(self, room: Room) -> None:
        self._slots.free(room.spec.message, room.where)

    def send(self, channel: CommandChannel, room: Room, words: Sequence[Any]) -> None:
        channel.report("arrived", *words, room.where)


class FrameSendBuffers(SendBuffers):
    """Rooms in frames of this rank's own memory, which travel whole.

    Arguments:
        message_specs: every message that it may send.
    """

    def __init__(self, message_specs: Sequence[MessageSpec]) -> None:
        size = HEAD + max((whole(spec.nbytes) for spec in message_specs), default=0)
        self._frames: list[Frame] = [new_frame(size) for _ in range(_FRAMES)]
        self._sendings: list[Sending | None] = [None] * _FRAMES

    def claim(self, spec: MessageSpec) -> Room | None:
        for number, sending in enumerate(self._sendings):
            if sending is None or sending.done():
                return Room(spec, vector_in(self._frames[number], spec), number)
        return None

    def free(self, room: Room) -> None:
        return

    def send(self, channel: CommandChannel, room: Room, words: Sequence[Any]) -> None:
        number: int = room.where
        frame = self._frames[number]
        write_head(frame, channel.words("arrived", *words, None))
        self._sendings[number] = channel.send(frame[: HEAD + whole(room.spec.nbytes)])
