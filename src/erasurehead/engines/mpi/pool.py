"""Frames to receive into, used again and again: fresh memory costs more than what is written into it."""

from __future__ import annotations

from collections import defaultdict

from erasurehead.arrays import Array
from erasurehead.engines.base import Part
from erasurehead.engines.mpi.wire import Frame, new_frame, vector_in
from erasurehead.errors import EngineError


class Pool:
    """Frames that are free, by their size."""

    def __init__(self) -> None:
        self._free: dict[int, list[Frame]] = defaultdict(list)

    def take(self, n_bytes: int) -> Frame:
        """Return a frame of so many bytes that nobody else has."""
        free = self._free[n_bytes]
        return free.pop() if free else new_frame(n_bytes)

    def give(self, frame: Frame) -> None:
        """Give back a frame."""
        self._free[len(frame)].append(frame)

    def clear(self) -> None:
        """Forget all frames that are free."""
        self._free.clear()


class Loan:
    """A message's frame, lent to the coordinator until it is given back; nothing is received into it until then."""

    def __init__(self, pool: Pool, frame: Frame, part: Part) -> None:
        self._pool = pool
        self._frame: Frame | None = frame
        self._part = part

    def read(self) -> Array:
        """Return the message's vector, a view."""
        if self._frame is None:
            raise EngineError("the vector of this message was released; read it before the next order is submitted.")
        return vector_in(self._frame, self._part.length, self._part.dtype)

    def end(self) -> None:
        """Give the frame back, if it is not given back yet."""
        if self._frame is not None:
            self._pool.give(self._frame)
            self._frame = None
