"""What is said between ranks beside vectors: a fixed number of bytes, of which everything is a number."""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import NamedTuple

_LAYOUT = struct.Struct("<BBIQIIddqq")

SIZE = _LAYOUT.size
"""Bytes of a head."""


class Kind(IntEnum):
    """What a message says."""

    HELLO = 1
    """Whoever gathers: tell me the newest model."""
    NEWEST = 2
    """The team's model, or the gradient that made it; the vector."""
    CHANGE = 3
    """What a rank has to add; the vector."""
    READ = 4
    """Your last change was added: the next may come."""
    DONE = 5
    """I make no more steps."""


class Head(NamedTuple):
    """The head of a message.

    Attributes:
        kind: what it says.
        flag: 0 or 1, by kind.
        term: the term in which it was said.
        version: a version of the team's model within all terms.
        number: of the message among those of its kind and sender, or of a rank, by kind.
        steps: how many steps the vector has.
        samples: how many samples these had.
        seconds: how long the rank needed for them, or a moment by the sender's clock, by kind.
        one, other: further numbers, by kind; sets of ranks as bits.
    """

    kind: Kind
    flag: int = 0
    term: int = 0
    version: int = 0
    number: int = 0
    steps: int = 0
    samples: float = 0.0
    seconds: float = 0.0
    one: int = 0
    other: int = 0

    def packed(self) -> bytes:
        """Return the head as bytes."""
        return _LAYOUT.pack(*self)

    @classmethod
    def unpacked(cls, data: bytes) -> Head:
        """Return the head that these bytes are.

        Raises:
            ValueError: if they are none.
        """
        if len(data) != SIZE:
            raise ValueError(f"a head has {SIZE} bytes, not {len(data)}")
        kind, *fields = _LAYOUT.unpack(data)
        return cls(Kind(kind), *fields)
