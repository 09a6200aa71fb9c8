"""Messages over a connection that may break: they are numbered, kept until they were read, and sent again if lost."""

from __future__ import annotations

from collections import deque
from typing import Any, NamedTuple

from erasurehead._internal.arrays import Array
from erasurehead.torch._endpoints._base import UNREAD, check_head, leave_oldest_out, number_of

_KEPT = 1 << 10  # messages that are kept for a rank that is cut off; who comes back after more has missed some


class Sent(NamedTuple):
    """A message that is kept until it was read."""

    head: bytes
    vector: Array | None

    @classmethod
    def of(cls, head: bytes, vector: Array | None) -> Sent:
        """Return a message whose vector is not changed any more.

        Raises:
            EngineError: if its head is too long, or its vector is of a type that ranks do not send.
        """
        check_head(head)
        if vector is not None:
            number_of(vector.dtype)
            vector = vector.copy()
        return cls(head, vector)


class Outlet:
    """What goes to one rank: first what was sent and not read, then what waits."""

    def __init__(self) -> None:
        self.socket: Any = None
        self.express: Any = None  # a connection of its own
        self.hasty: list[Sent] = []  # what goes over it
        self.address = ""
        self.began = 0  # of its process, 0 if we have not heard of it
        self.kept: deque[Sent] = deque()
        self.first = 1  # number of the first one kept
        self.next = 1  # number of the next one to be sent
        self.offset = -1  # of the next piece of its vector; -1 for its head
        self.tries = 0  # how often it was begun again

    def add(self, message: Sent) -> None:
        """Keep a message; of more than two vectors that have not begun to go out, the oldest is left out."""
        if message.vector is not None:
            leave_oldest_out(self.kept, self.next - self.first + (self.offset >= 0))
        if len(self.kept) < _KEPT:
            self.kept.append(message)

    def through(self, number: int) -> None:
        """Forget messages up to one that was read."""
        while self.kept and self.first <= number and self.first < self.next:
            self.kept.popleft()
            self.first += 1

    def again(self, number: int, tries: int) -> None:
        """Send once more from a message on, unless that was asked for, and done, before."""
        if tries > self.tries and self.first <= number <= self.next:
            self.next, self.offset, self.tries = number, -1, tries

    @property
    def ready(self) -> bool:
        """Whether something may be sent now."""
        if not self.began or self.next - self.first >= len(self.kept):
            return False
        if self.offset >= 0 or self.kept[self.next - self.first].vector is None:
            return True
        return sum(self.kept[place].vector is not None for place in range(self.next - self.first)) < UNREAD


class Inlet:
    """What comes from one process."""

    def __init__(self, began: int) -> None:
        self.began = began
        self.expected = 1  # number of the next message
        self.through = 0  # number of the last one that was read
        self.head = b""
        self.vector: Array | None = None  # of which so many bytes have come:
        self.got = 0
        self.tries = 0  # how often it was asked to send something again
