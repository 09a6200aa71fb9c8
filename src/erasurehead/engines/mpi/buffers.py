"""Where a rank writes its messages: into memory that the coordinator sees, or into frames that travel."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead.engines.base import NoRoom, Part, Program
from erasurehead.engines.buffers import Board, Slots
from erasurehead.engines.mpi.command_channel import Calls
from erasurehead.engines.mpi.transport import HEAD, Frame, Sending, new_frame, vector_in, whole, write_head


@dataclass(frozen=True, eq=False)
class Shared:
    """What both see.

    Attributes:
        board: where orders are put up, for all ranks beside the coordinator.
        slots: where this rank writes its messages.
    """

    board: Board
    slots: Slots


class Boards:
    """The coordinator's boards, by the elements that fit: programs with equal inboxes see the same one."""

    def __init__(self) -> None:
        self._boards: dict[int, Board] = {}

    def share(self, program: Program) -> Shared | None:
        """Return what to share with a rank that runs a program; None if there is no memory, or no file, for it."""
        with contextlib.suppress(NoRoom):
            if program.inbox not in self._boards:
                self._boards[program.inbox] = Board(program.inbox)
            return Shared(self._boards[program.inbox], Slots(program.outbox))
        return None

    def close(self) -> None:
        """Keep the boards open no longer."""
        for board in self._boards.values():
            board.close()
        self._boards.clear()


def settled(offered: Shared | None, accepted: bool) -> Shared | None:
    """Return what a rank shares with us, now that it has looked; the slots need not be found any more."""
    if offered is not None:
        offered.slots.close()
    return offered if accepted else None


_FRAMES = 2  # one is computed while the other is on its way


class Rooms(ABC):
    """Rooms for messages, each free, or holding one that is computed or on its way."""

    @abstractmethod
    def claim(self, part: Part) -> int | None:
        """Return the number of a room for a message, or None if none is free yet."""

    @abstractmethod
    def vector(self, part: Part, room: int) -> Array:
        """Return the message's vector in a room, shape (part.length,), to be written."""

    @abstractmethod
    def free(self, part: Part, room: int) -> None:
        """Give back a room whose message is not sent."""

    @abstractmethod
    def send(self, calls: Calls, part: Part, room: int, words: Sequence[Any]) -> None:
        """Send a message: the words of `Calls.report` after the kind, and the vector."""


class InSlots(Rooms):
    """Rooms in the slots that this rank shares with the coordinator: only words travel.

    Arguments:
        slots: of this rank.
    """

    def __init__(self, slots: Slots) -> None:
        self._slots = slots

    def claim(self, part: Part) -> int | None:
        return self._slots.claim(part.message)

    def vector(self, part: Part, room: int) -> Array:
        return self._slots.vector(part, room)

    def free(self, part: Part, room: int) -> None:
        self._slots.free(part.message, room)

    def send(self, calls: Calls, part: Part, room: int, words: Sequence[Any]) -> None:
        calls.report("arrived", *words, room)


class InFrames(Rooms):
    """Rooms in frames of this rank's own memory, which travel whole.

    Arguments:
        outbox: every message that it may send.
    """

    def __init__(self, outbox: Sequence[Part]) -> None:
        size = HEAD + max((_size(part) for part in outbox), default=0)
        self._frames: list[Frame] = [new_frame(size) for _ in range(_FRAMES)]
        self._sendings: list[Sending | None] = [None] * _FRAMES

    def claim(self, part: Part) -> int | None:
        for room, sending in enumerate(self._sendings):
            if sending is None or sending.done():
                return room
        return None

    def vector(self, part: Part, room: int) -> Array:
        return vector_in(self._frames[room], part.length, part.dtype)

    def free(self, part: Part, room: int) -> None:
        return

    def send(self, calls: Calls, part: Part, room: int, words: Sequence[Any]) -> None:
        frame = self._frames[room]
        write_head(frame, calls.words("arrived", *words, None))
        self._sendings[room] = calls.send(frame[: HEAD + _size(part)])


def _size(part: Part) -> int:
    return whole(part.length * np.dtype(part.dtype).itemsize)
