"""A message's vector in the coordinator's hands."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from erasurehead._internal.arrays import Array, dtype_of
from erasurehead.engines._base import Arrived, Lease, MessageLost, MessageSpec, Program, told
from erasurehead.engines._virtual_state import Flight
from erasurehead.errors import EngineError

_RELEASED = "the vector of this message was released; read it before the next order is submitted."


def _nothing() -> None:
    return


class BufferLease(Lease):
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
            raise EngineError(_RELEASED)
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


class VirtualLease(Lease):
    """A vector lent to the coordinator: computed when it is first read, refused after it was given back."""

    def __init__(self, program: Program, flight: Flight, spec: MessageSpec, lost: bool = False) -> None:
        self._lost = lost
        self._source: tuple[Program, Flight, MessageSpec] | None = (program, flight, spec)
        self._own: Array | None = None

    def end(self) -> None:
        self._source = self._own = None

    def read(self) -> Array:
        if self._source is None:
            raise EngineError(_RELEASED)
        program, flight, spec = self._source
        if self._lost:
            raise MessageLost("it could not be used in the recorded run")
        shared = spec.content if program.pure else None
        vector = self._own if shared is None else flight.vectors.get(shared)
        if vector is None:
            vector = np.empty(spec.length, dtype=dtype_of(spec.dtype))
            try:
                program.compute(spec, program.take(flight.order), vector)
            except Exception as error:
                raise MessageLost(told(error)) from error
            if shared is None:
                self._own = vector
            else:
                flight.vectors[shared] = vector
        return vector


class OpenLeases:
    """The leases that the coordinator holds: of messages that it was handed, not of those that still wait for that."""

    def __init__(self) -> None:
        self._open: set[Lease] = set()
        self._brief: list[BufferLease] = []

    def hand_out(self, arrived: Arrived, brief: bool = False) -> None:
        """Take note that the coordinator has a message.

        Arguments:
            arrived: the message.
            brief: whether it is lent only until the coordinator waits again. Late messages must be where a worker has
                two slots: with both held, the message that is waited for would find none.
        """
        lease = arrived.lease
        if lease is not None:
            self._open.add(lease)
        if brief and isinstance(lease, BufferLease):
            lease.shorten()
            self._brief.append(lease)

    def before_waiting(self) -> None:
        """Give back the memory of brief leases; what the coordinator still holds is copied."""
        for lease in self._brief:
            lease.copy_if_brief()
        self._brief.clear()

    def end(self, arrived: Arrived) -> None:
        """End the lease of a message, unless it has ended."""
        lease = arrived.lease
        if lease is not None and lease in self._open:
            self._open.remove(lease)
            lease.end()

    def end_all(self) -> None:
        """End all leases."""
        for lease in self._open:
            lease.end()
        self._open.clear()
        self._brief.clear()
