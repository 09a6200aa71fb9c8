"""One rank of a team, as its handlers: what it has to add, what it was told of the team's model, and what it gathers.

No input or output, no clock and no PyTorch: whatever runs a rank calls the handlers, one at a time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import final

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead.torch._heads import Head, Kind
from erasurehead.torch._port import Port
from erasurehead.torch._ways._base import Way

MOST_BEHIND = 2
"""Versions that are kept for a script that is behind; who is further behind asks for the whole model."""


@final
@dataclass(frozen=True)
class Version:
    """A version of the team's model that was closed.

    Attributes:
        version: its number, from 1.
        seconds: when it was closed, by the clock of who gathers.
        gathered_by: the rank that gathered it.
        steps: by rank, how many of its steps are in it.
        members: the ranks that made steps then.
    """

    version: int
    seconds: float
    gathered_by: int
    steps: dict[int, int]
    members: tuple[int, ...]


@final
class Member:
    """A rank's handlers.

    Arguments:
        port: through which it acts.
        way: how ranks meet.
        model: of the rank whose model all begin with, its model; None for the others.
        ranks: of the team.
        on_version: called at who gathers with each version that is closed.

    Attributes:
        version: of the team's model that was last heard of; -1 for none yet.
        gathers: the rank that gathers.
        members: the ranks that make steps.
    """

    def __init__(
        self,
        port: Port,
        way: Way,
        model: Array | None,
        ranks: Collection[int],
        on_version: Callable[[Version], None],
    ) -> None:
        self.port, self.way, self.rank = port, way, port.rank
        self.members, self.gathers = set(ranks), min(ranks)
        self.version = -1
        self.done = False
        self._on_version = on_version
        self._heard: deque[tuple[int, Array]] = deque(maxlen=MOST_BEHIND if way.waits else 1)
        self._unsent: Array | None = None  # what is added to what is sent next
        self._unsent_work = 0, 0.0, 0.0
        self._unread = False
        if model is not None:
            self._hear(0, model)
        if self.rank != self.gathers:
            port.send(self.gathers, Head(Kind.HELLO))

    # What the script calls

    def offer(self, vector: Array, steps: int, samples: float, seconds: float) -> None:
        """Add what came of some steps to the team's next version; the vector may be changed afterwards."""
        if self.rank == self.gathers:
            self._fold(self.rank, vector, steps, samples, seconds)
        elif not self._unread:
            self._send(vector, steps, samples, seconds)
        elif self._unsent is None:
            self._unsent, self._unsent_work = vector.copy(), (steps, samples, seconds)
        else:
            self._unsent += vector
            before = self._unsent_work
            self._unsent_work = before[0] + steps, before[1] + samples, before[2] + seconds

    def heard(self, since: int) -> list[tuple[int, Array]]:
        """Return the versions that were heard of since one, the oldest first; their vectors must not be changed."""
        return [item for item in self._heard if item[0] > since]

    def leave(self) -> None:
        """Make no more steps."""
        if not self.done:
            self.done = True
            if self.rank == self.gathers:
                self._on_done(self.rank)
            else:
                self.port.send(self.gathers, Head(Kind.DONE))

    @property
    def all_read(self) -> bool:
        """Whether all that was offered has been added."""
        return self.rank == self.gathers or (self._unsent is None and not self._unread)

    # What happens

    def on_message(self, sender: int, head: Head, vector: Array | None) -> None:
        """Handle a message."""
        if head.kind is Kind.HELLO:
            if self._heard:
                version, newest = self._heard[-1]
                self.port.send(sender, Head(Kind.NEWEST, version=version), newest)
        elif head.kind is Kind.NEWEST:
            if vector is not None and head.version > self.version:
                self._hear(head.version, vector)
        elif head.kind is Kind.CHANGE:
            if vector is not None:
                self._fold(sender, vector, head.steps, head.samples, head.seconds)
            self.port.send(sender, Head(Kind.READ))
        elif head.kind is Kind.READ:
            self._unread = False
            if self._unsent is not None:
                vector, self._unsent = self._unsent, None
                self._send(vector, *self._unsent_work)
            self.port.wake_script()
        elif head.kind is Kind.DONE:
            self._on_done(sender)

    def _send(self, vector: Array, steps: int, samples: float, seconds: float) -> None:
        self._unread = True
        self.port.send(self.gathers, Head(Kind.CHANGE, steps=steps, samples=samples, seconds=seconds), vector)

    def _hear(self, version: int, vector: Array) -> None:
        self.version = version
        if len(self._heard) == self._heard.maxlen:
            kept = self._heard.popleft()[1]
            np.copyto(kept, vector)
        else:
            kept = vector.copy()
        self._heard.append((version, kept))
        self.port.wake_script()

    # Who gathers

    def _fold(self, rank: int, vector: Array, steps: int, samples: float, seconds: float) -> None:
        self.way.fold(rank, vector, steps, samples, seconds)
        self._close_if()

    def _on_done(self, rank: int) -> None:
        self.members.discard(rank)
        self._close_if()
        self.port.wake_script()

    def _close_if(self) -> None:
        if not self.way.steps or not self.way.closes(self.members):
            return
        steps, now = dict(self.way.steps), self.port.now()
        vector = self.way.close(self.members)
        self._hear(self.version + 1, vector)
        self._on_version(Version(self.version, now, self.rank, steps, tuple(sorted(self.members))))
        for rank in sorted(self.members - {self.rank}):
            self.port.send(rank, Head(Kind.NEWEST, version=self.version), vector)
