"""A message's vector in the coordinator's hands."""

from __future__ import annotations

from collections.abc import Callable

from erasurehead.arrays import Array
from erasurehead.errors import EngineError


def _nothing() -> None:
    return


class Loan:
    """A message's vector, lent to the coordinator until it is given back.

    Arguments:
        vector: a view of the memory that it lies in, shape (length,).
        give_back: called once, when that memory may be written again.
    """

    def __init__(self, vector: Array, give_back: Callable[[], None] = _nothing) -> None:
        self._vector: Array | None = vector
        self._give_back = give_back

    def read(self) -> Array:
        """Return the vector."""
        if self._vector is None:
            raise EngineError("the vector of this message was released; read it before the next order is submitted.")
        return self._vector

    def end(self) -> None:
        """Give the memory back, if it is not given back yet."""
        if self._vector is not None:
            self._vector = None
            self._give_back()
