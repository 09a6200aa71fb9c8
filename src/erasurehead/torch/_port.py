"""What a rank's handlers act through: what runs the rank, on a real clock or a virtual one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead.torch._message_heads import Head


class MemberPort(ABC):
    """What a member can do. Its methods are called within the member's handlers, and return at once."""

    rank: int
    """Number of the rank."""

    @abstractmethod
    def now(self) -> float:
        """Return the seconds since the team began, by a clock that never goes back; those of other ranks may differ."""

    @abstractmethod
    def send(self, to: int | Sequence[int], head: Head, vector: Array | None = None) -> None:
        """Send a message to another rank, or several, or to all if `to` is -1.

        The vector may be changed afterwards, unless it is one that `room` has returned.

        Messages of one sender arrive in order; those to ranks that are gone are lost. A message with a vector may be
        left out once two newer ones with vectors have been sent to the same rank.
        """

    def room(self, length: int, dtype: np.dtype[Any]) -> Array:
        """Return a vector to write what is sent then to: it is sent without a copy."""
        return np.empty(length, dtype)

    def keep(self, vector: Array) -> Array:
        """Return the vector of the message that is handled now as one that stays as it is for as long as it is had."""
        return vector

    @abstractmethod
    def wake_at(self, when: float) -> None:
        """Call `Member.on_time` at that time, by `now`, instead of at a time that was asked for before."""

    @abstractmethod
    def wake_script(self) -> None:
        """Let the script look again whether what it waits for has come."""
