"""What is said between ranks beside vectors: a fixed number of bytes, of which everything is a number."""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import NamedTuple

_LAYOUT = struct.Struct("<BBqqIIddqq")

SIZE = _LAYOUT.size
"""Bytes of a head."""


class Kind(IntEnum):
    """What a message says."""

    HELLO = 1
    """Let me in, and tell me the newest model; term: the latest that I have granted."""
    NEWEST = 2
    """The newest model; version, one: the term in which it was closed, other: that of the one before; the vector,
    flag: as how far the model has moved since that one, in bfloat16."""
    CHANGE = 3
    """What a rank has to add; steps, samples, seconds, version: from which it comes; flag: as bfloat16; number: of what
    may come again, from 1; the vector, none if it is too late, or if it is on its way."""
    READ = 4
    """Your last change was added: the next may come."""
    DONE = 5
    """I make no more steps; flag: but I am there until all others make none, too; version: my newest."""
    FETCH = 6
    """Send me your newest model."""
    CLAIM = 7
    """I want to gather; one: the term of the view that I have stored."""
    GRANT = 8
    """You may, as far as I am concerned; version, one: of the newest model that I have."""
    DENY = 9
    """You may not; term: the latest that I have granted."""
    VIEW = 10
    """Who belongs to the team; the vector."""
    PING = 11
    """I gather; flag: whether the view is settled; seconds: when I said so."""
    PONG = 12
    """So you do; seconds: as in the ping."""
    WANT = 13
    """Let somebody send me the newest model with its optimizer's state; or number: go on with that piece."""
    SERVE = 14
    """Send that to a rank; number: which."""
    STATE = 15
    """A piece of it; number: of the piece, version, one: of the model, other: bytes in all; the vector."""
    CALL = 16
    """Send what you have towards the next version, whose other changes are here."""
    ASK = 20
    """Which samples are mine next; flag: 1 if I give back those that I have, 2 if by measured speeds, of term ranks,
    3 if I only want to know what was handed out; version: the epoch; number: of the question; steps: of the data set;
    samples: how many; seconds: up to where all were handed out, as far as I know; one: samples of the epoch; other: the
    first question whose samples I still have."""
    HAND = 21
    """These are: from one up to other, in the order of the epoch; version, number and steps as in the question; flag: 1
    if others have an epoch of one samples; with a vector, all that was handed out: how many data sets there are, and
    of each its number, the epoch, up to where, how many numbers follow, and these: where what was not trained on begins
    and ends."""
    ABOUT = 22
    """What all ranks must have in common; flag: 0 if the vector is its digest, 1 if they are here, too, 2 if here
    it is another one, of so many bytes as one says, 3 if I want to know a piece of that, 4 if this is it: the vector;
    number: of the piece."""


HASTY = frozenset({Kind.HELLO, Kind.CLAIM, Kind.GRANT, Kind.DENY, Kind.VIEW, Kind.PING, Kind.PONG})
"""What is said of membership: nobody may be taken for dead because a long vector is before it on the same way. All of
it may be lost, come twice, and come in any order."""


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
