"""A message's vector in the coordinator's hands."""

from __future__ import annotations

from collections.abc import Callable

from erasurehead._internal.arrays import Array
from erasurehead.engines.base import Arrived
from erasurehead.errors import EngineError


def _nothing() -> None:
    return


class BufferLease:
    """A message's vector, lent to the coordinator until it is given back.

    Arguments:
        vector: a view of the memory that it lies in, shape (length,).
        give_back: called once, when that memory may be written again.
    """

    def __init__(self, vector: Array, give_back: Callable[[], None] = _nothing) -> None:
        self._vector: Array | None = vector
        self._give_back = give_back
        self._brief = False

    def read(self) -> Array:
        """Return the vector."""
        self.copy_if_brief()
        if self._vector is None:
            raise EngineError("the vector of this message was released; read it before the next order is submitted.")
        return self._vector

    def shorten(self) -> None:
        """Make it a short one, before anybody has read: whoever does gets a copy."""
        self._brief = True

    def copy_if_brief(self) -> None:
        """Give the memory back and keep a copy of the vector, if this lease is to be a short one."""
        if self._brief and self._vector is not None:
            self._vector = self._vector.copy()
            self._return()

    def end(self) -> None:
        """Give the memory back, if it is not given back yet."""
        if self._vector is not None:
            self._vector = None
            self._return()

    def _return(self) -> None:
        give_back, self._give_back = self._give_back, _nothing
        self._brief = False
        give_back()


class OpenLeases:
    """The loans that the coordinator holds: of messages that it was handed, not of those that still wait for that.

    The events' `read` must be that of a `BufferLease`.
    """

    def __init__(self) -> None:
        self._loans: dict[int, BufferLease] = {}
        self._brief: list[BufferLease] = []

    def hand_out(self, arrived: Arrived, brief: bool = False) -> None:
        """Take note that the coordinator has a message.

        Arguments:
            arrived: the message.
            brief: whether it is lent only until the coordinator waits again. Late messages must be where a worker has
                two slots: with both held, the message that is waited for would find none.
        """
        lease = lease_of(arrived)
        self._loans[id(lease)] = lease
        if brief:
            lease.shorten()
            self._brief.append(lease)

    def before_waiting(self) -> None:
        """Give back the memory of brief loans; what the coordinator still holds is copied."""
        for lease in self._brief:
            lease.copy_if_brief()
        self._brief.clear()

    def end(self, arrived: Arrived) -> None:
        """End the lease of a message, unless it has ended."""
        lease = self._loans.pop(id(lease_of(arrived)), None)
        if lease is not None:
            lease.end()

    def end_all(self) -> None:
        """End all loans."""
        for lease in self._loans.values():
            lease.end()
        self._loans.clear()
        self._brief.clear()


def lease_of(arrived: Arrived) -> BufferLease:
    """Return the lease that a message's vector is."""
    return arrived.read.__self__  # pyright: ignore[reportFunctionMemberAccess]  # it is our own bound method
