"""What the ends of ranks have in common: they are woken by their script, and left alone by forked processes."""

from __future__ import annotations

import os
import weakref
from abc import abstractmethod
from collections import deque
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead.engines import Endpoint
from erasurehead.errors import EngineError

VERSION = 1
"""Of what ranks say to each other; those of another version are refused."""

MOST_HEAD = 1 << 15
"""Bytes of a head, at most."""

UNREAD = 2
"""Vectors that a reader has not read, and as many that wait for it."""

MOST_RANKS = 1 << 12
"""Ranks of a team, at most."""

_DTYPES = [np.dtype(name) for name in ("<f4", "<f8", "<f2", "<u2", "<i2", "u1", "i1", "<i4", "<i8")]
"""Types of elements that vectors may have; bfloat16 travels as bits, int16."""


class RankEndpoint(Endpoint):
    """A rank's end of its ways to the others.

    Messages to a rank that has not come yet are kept for it; those to one that is gone are lost. A rank that comes
    later, also in the place of another, has a number that no rank has had before.

    Attributes:
        rank: its number.
        team_ended: whether a rank is known to have come to the end of its script in the team.
    """

    rank: int
    team_ended: bool = False

    @property
    @abstractmethod
    def others(self) -> Collection[int]:
        """The ranks that were started with this one, and those that have come since, dead ones included."""

    def alone(self, beside: Collection[int] = ()) -> bool:
        """Return whether it is certain that no rank is there but this one and some others."""
        return False

    @abstractmethod
    def reserve(self, nbytes: int) -> None:
        """Agree on the greatest number of bytes of a vector; before that, and beyond it, none is let in."""

    def hurry(self, to: int | Sequence[int], head: bytes, vector: Array | None = None) -> None:
        """Send what may come before what was sent earlier, twice, or not at all; its vector is short."""
        self.send(to, head, vector)

    def room(self, length: int, dtype: np.dtype[Any]) -> Array:
        """Return a vector to be written and then sent, once it is not changed any more; where that saves a copy."""
        return np.empty(length, dtype)

    def keep(self, vector: Array) -> Array:
        """Return the vector of the message that `receive` gave last as one that stays as it is, for who has it."""
        return vector

    @abstractmethod
    def wake(self) -> None:
        """End a `wait` that is under way, or the next one; may be called by any thread."""

    @abstractmethod
    def forget(self) -> None:
        """Close what is open here without a word, in a process that was forked from the rank's."""


def check_head(head: bytes) -> None:
    """Raise if a head is too long to be sent.

    Raises:
        EngineError: that says how long heads may be.
    """
    if len(head) > MOST_HEAD:
        raise EngineError(f"a head has {len(head)} bytes, and at most {MOST_HEAD} are sent.")


def number_of(dtype: np.dtype[Any]) -> int:
    """Return the number by which a type of elements is told.

    Raises:
        EngineError: if it has none.
    """
    if dtype not in _DTYPES:
        known = ", ".join(dtype.name for dtype in _DTYPES)
        raise EngineError(f"ranks send each other vectors of {known}, and not of {dtype.name}.")
    return _DTYPES.index(dtype)


def vector_type(number: int) -> np.dtype[Any]:
    """Return the type of elements of a number that was told.

    Raises:
        Nonsense: if there is none.
    """
    if number >= len(_DTYPES):
        raise Nonsense(f"there is no type of elements number {number}")
    return _DTYPES[number]


def leave_oldest_out(waiting: deque[Any], begun: int = 0) -> None:
    """Of two messages with vectors that wait behind those that were begun, leave the older out: another one comes."""
    places = [place for place, other in enumerate(waiting) if place >= begun and other.vector is not None]
    if len(places) >= UNREAD:
        del waiting[places[0]]


class Nonsense(Exception):
    """What came is nothing that a rank of this version says; the text says why."""


_ends: weakref.WeakSet[RankEndpoint] = weakref.WeakSet()
_watched: list[bool] = []


def forget_in_forked(endpoint: RankEndpoint) -> None:
    """Have forked processes, such as those of data loaders, close an end: a rank ends only when all have closed it."""
    _ends.add(endpoint)
    if not _watched:
        _watched.append(True)
        os.register_at_fork(after_in_child=_forget_all)


def _forget_all() -> None:
    for endpoint in list(_ends):
        endpoint.forget()
