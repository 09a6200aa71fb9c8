"""One rank of a team, as its handlers: what it has to add, what it was told of the team's model, and what it gathers.

No input or output, no clock and no PyTorch: whatever runs a rank calls the handlers, one at a time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead.torch._heads import Head, Kind
from erasurehead.torch._membership import Membership
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
        term: in which it was closed; versions of a later term replace those of earlier ones with the same number.
        seconds: when it was closed, by the clock of who gathers.
        gathered_by: the rank that gathered it.
        steps: by rank, how many of its steps are in it.
        members: the ranks that made steps then.
    """

    version: int
    term: int
    seconds: float
    gathered_by: int
    steps: dict[int, int]
    members: tuple[int, ...]


@final
class _Sum:
    """A sum of vectors, with the steps, samples and seconds that are in it; false if there are none."""

    def __init__(self) -> None:
        self._vector: Array | None = None
        self._work = 0, 0.0, 0.0

    def __bool__(self) -> bool:
        return self._vector is not None

    def add(self, vector: Array, steps: int, samples: float, seconds: float) -> None:
        """Add a vector, which may be changed afterwards."""
        if self._vector is None:
            self._vector, self._work = vector.copy(), (steps, samples, seconds)
        else:
            self._vector += vector
            before = self._work
            self._work = before[0] + steps, before[1] + samples, before[2] + seconds

    def taken(self) -> tuple[Array, tuple[int, float, float]]:
        """Return the sum and what is in it, and begin anew."""
        vector, self._vector = self._vector, None
        assert vector is not None
        return vector, self._work

    def clear(self) -> None:
        """Begin anew."""
        self._vector = None


@final
class Member:
    """A rank's handlers.

    Arguments:
        port: through which it acts.
        way: how ranks meet.
        model: what this rank would tell others of its model, if it is the one whose model all begin with.
        ranks: the ranks that the team begins with; none for a rank that joins later.
        on_version: called at who gathers with each version that is closed.

    Attributes:
        membership: who belongs, and who gathers.
    """

    def __init__(
        self,
        port: Port,
        way: Way,
        model: Array,
        ranks: frozenset[int],
        on_version: Callable[[Version], None],
    ) -> None:
        self.port, self.way, self.rank = port, way, port.rank
        self.membership = Membership(self.rank, ranks)
        self.left = False
        self._on_version = on_version
        self._view = self.membership.view  # that has been acted on
        self._since = 0  # the term since when this rank gathers
        self._resting: set[int] = set()  # who makes no more steps, but stays
        self._heard: deque[tuple[tuple[int, int], Array]] = deque(maxlen=MOST_BEHIND if way.waits else 1)
        self._unsent = _Sum()  # what is added to what is sent next
        self._kept = _Sum()  # of what was sent since the newest version, all but the first: that may be lost
        self._sent = 0  # messages since the newest version
        self._unread = self._orphaned = False
        if self.membership.gathers:
            self._hear((0, 0), model)
        self._own = model
        self._greet()

    def _greet(self) -> None:
        if not self.membership.gathers:
            self.membership.say_hello(self.port)
        self.membership.on_time(self.port)
        self._act()

    @property
    def newest(self) -> tuple[int, int]:
        """The newest version of the team's model that is here: the term in which it was closed, and its number."""
        return self.membership.newest

    @property
    def steppers(self) -> frozenset[int]:
        """The members that make steps, as far as is known."""
        return self.membership.view.members - self.membership.ended - self._resting

    @property
    def first(self) -> int:
        """The lowest number of a rank that is there."""
        return min(self.membership.view.members - self.membership.ended, default=self.rank)

    @property
    def forgotten(self) -> bool:
        """Whether the team went on without this rank, and has ended."""
        members = self.membership.view.members
        return bool(members) and members <= self.membership.ended

    # What the script calls

    def offer(self, vector: Array, steps: int, samples: float, seconds: float) -> None:
        """Add what came of some steps to the team's next version.

        Arguments:
            vector: may be changed afterwards.
            steps: how many they are.
            samples: that they were computed from; 0 if unknown.
            seconds: that they took this rank.
        """
        if not self.membership.belongs:
            return
        if self.membership.gathers:
            self._fold(self.rank, vector, steps, samples, seconds)
        elif self._unread or self._orphaned:
            self._unsent.add(vector, steps, samples, seconds)
        else:
            self._send(vector, steps, samples, seconds)

    def heard(self, since: tuple[int, int]) -> list[tuple[tuple[int, int], Array]]:
        """Return the versions that were heard of since one, the oldest first; their vectors must not be changed."""
        return [item for item in self._heard if item[0] > since]

    def rest(self) -> None:
        """Make no more steps."""
        self._resting.add(self.rank)
        self._act()

    @property
    def may_leave(self) -> bool:
        """Whether nobody misses this rank: all that it offered was added, and it gathers for nobody."""
        if self.membership.gathers:
            return not self.steppers
        return not self.membership.belongs or not (self._unsent or self._unread or self._orphaned)

    def leave(self) -> None:
        """Tell all that this rank is gone."""
        self.left = True
        self.port.send(-1, Head(Kind.DONE, term=self._view.term))
        self.port.wake_at(float("inf"))

    # What happens

    def on_message(self, sender: int, head: Head, vector: Array | None) -> None:
        """Handle a message."""
        if self.left or sender in self.membership.ended:
            return
        known = self.membership.view.members
        if head.kind is Kind.NEWEST:
            name = head.one, head.version
            if vector is not None and head.term >= self._view.term and name > self.newest:
                self._hear(name, vector)
                self.membership.elect(self.port)
            if self._orphaned and head.term >= self._view.term and sender == self._view.gathers:
                self._send_again()
        elif head.kind is Kind.CHANGE:
            if not self.membership.gathers or sender not in known or head.term < self._since:
                self.membership.tell_view(self.port, sender)
            elif vector is not None:
                self._fold(sender, vector, head.steps, head.samples, head.seconds)
                self.port.send(sender, Head(Kind.READ, term=self._view.term))
        elif head.kind is Kind.READ:
            if sender == self._view.gathers:
                self._unread = False
                self._send_unsent()
                self.port.wake_script()
        elif head.kind is Kind.DONE:
            self.membership.on_ended(self.port, frozenset({sender}))
            self.port.wake_script()
        elif head.kind is Kind.FETCH:
            self._tell_newest(sender)
        else:
            self.membership.on_message(self.port, sender, head, vector)
            if head.kind is Kind.HELLO and self.membership.gathers and sender in known:
                self._tell_newest(sender)
        self._act()

    def on_lost(self, ranks: frozenset[int], certainly: bool) -> None:
        """Learn of ranks whose process has ended, certainly or perhaps: members' own pings tell the latter, too."""
        if not self.left and certainly:
            self.membership.on_ended(self.port, frozenset(ranks))
            self.port.wake_script()
            self._act()

    def on_time(self) -> None:
        """Do what it is time for."""
        if not self.left:
            self.membership.on_time(self.port)
            self._act()

    def _act(self) -> None:
        """Do what follows from what has just happened."""
        if self.membership.view.term != self._view.term:
            self._on_view()
        self._close_if()
        self.port.wake_at(self.membership.next_time())

    def _on_view(self) -> None:
        before, self._view = self._view, self.membership.view
        self._unread = False
        if not self.membership.belongs:
            self._unsent.clear()  # a drift of many steps alone, perhaps
            self._kept.clear()
        elif before.gathers == self._view.gathers:
            self._send_unsent()
        else:
            self._orphaned = True  # until the new one says from which version it goes on
        if self.membership.gathers:
            if before.gathers != self.rank:
                self._since = self._view.term
                if self.newest[1] < 0:
                    self._hear((self._view.term, 0), self._own)
                self.way.restart(self._heard[-1][1])
                self._send_again()
            for rank in sorted(self._view.members - self.membership.ended - {self.rank}):
                self._tell_newest(rank)
        self.port.wake_script()

    def _send_again(self) -> None:
        """Send what was sent to who gathered before, and came to nothing."""
        self._orphaned = False
        if self._kept:
            vector, work = self._kept.taken()
            self._unsent.add(vector, *work)
        self._send_unsent()

    def _tell_newest(self, rank: int) -> None:
        if self._heard:
            (term, version), newest = self._heard[-1]
            self.port.send(rank, Head(Kind.NEWEST, term=self._view.term, version=version, one=term), newest)

    def _send(self, vector: Array, steps: int, samples: float, seconds: float) -> None:
        if self.membership.gathers:
            self._fold(self.rank, vector, steps, samples, seconds)
            return
        if self._sent:
            self._kept.add(vector, steps, samples, seconds)
        self._sent += 1
        self._unread = True
        head = Head(Kind.CHANGE, term=self._view.term, steps=steps, samples=samples, seconds=seconds)
        self.port.send(self._view.gathers, head, vector)

    def _send_unsent(self) -> None:
        if self._unsent and not self._unread and not self._orphaned:
            vector, work = self._unsent.taken()
            self._send(vector, *work)

    def _hear(self, name: tuple[int, int], vector: Array) -> None:
        self.membership.newest = name
        self._kept.clear()
        self._sent = int(self._unread)
        if len(self._heard) == self._heard.maxlen:
            kept = self._heard.popleft()[1]
            np.copyto(kept, vector)
        else:
            kept = vector.copy()
        self._heard.append((name, kept))
        self.port.wake_script()

    # Who gathers

    def _fold(self, rank: int, vector: Array, steps: int, samples: float, seconds: float) -> None:
        self.way.fold(rank, vector, steps, samples, seconds)
        self._close_if()

    def _close_if(self) -> None:
        now = self.port.now()
        if not self.way.steps or not self.membership.may_close(now):
            return
        stepping = self.steppers
        if not self.way.closes(stepping):
            return
        steps, term = dict(self.way.steps), self._view.term
        vector = self.way.close(stepping)
        version = self.newest[1] + 1
        self._hear((term, version), vector)
        self._on_version(Version(version, term, now, self.rank, steps, tuple(sorted(stepping))))
        for rank in sorted(self._view.members - self.membership.ended - {self.rank}):
            self.port.send(rank, Head(Kind.NEWEST, term=term, version=version, one=term), vector)
