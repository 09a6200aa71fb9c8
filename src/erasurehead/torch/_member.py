"""One rank of a team, as its handlers: what it has to add, what it was told of the team's model, and what it gathers.

No input or output, no clock and no PyTorch: whatever runs a rank calls the handlers, one at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import final

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead.torch._agreed import Agreement
from erasurehead.torch._handouts import Handouts
from erasurehead.torch._membership import LEASE, MINUTE, Membership
from erasurehead.torch._message_heads import Head, Kind
from erasurehead.torch._narrow import narrowed, widened
from erasurehead.torch._port import MemberPort
from erasurehead.torch._versions import KnownVersion, KnownVersions, Name, Version
from erasurehead.torch._ways._base import Way
from erasurehead.torch._whole_models import WholeModels

_LOST = 2.0 * LEASE  # seconds without an answer after which a message was lost

_SETTLED = 4.0 * LEASE  # seconds after which all has come that was sent before a rank said that it makes no more steps


@final
class _Sum:
    """A sum of vectors, with the steps, samples and seconds that are in it; false if there are none."""

    def __init__(self) -> None:
        self._vector: Array | None = None
        self._work = 0, 0.0, 0.0

    def __bool__(self) -> bool:
        return self._work[0] > 0

    def add(self, vector: Array, steps: int, samples: float, seconds: float) -> None:
        """Add a vector, which may be changed afterwards."""
        if self._vector is None:
            self._vector = vector.copy()
        elif self:
            self._vector += vector
        else:
            np.copyto(self._vector, vector)
        before = self._work
        self._work = before[0] + steps, before[1] + samples, before[2] + seconds

    def taken(self) -> tuple[Array, tuple[int, float, float]]:
        """Return the sum, which the next `add` overwrites, and what is in it; begin anew."""
        assert self._vector is not None
        work, self._work = self._work, (0, 0.0, 0.0)
        return self._vector, work

    def clear(self) -> None:
        """Begin anew."""
        self._work = 0, 0.0, 0.0


@final
class Member:
    """A rank's handlers.

    Arguments:
        port: through which it acts.
        way: how ranks meet.
        model: what this rank would tell others of its model, if it is the one whose model all begin with.
        ranks: the ranks that the team begins with; none for a rank that joins later.
        on_version: called at who gathers with each version that is closed.
        agreement: what all ranks must have in common; None for nothing.
        narrow: whether what this rank adds goes to others as bfloat16, in half the bytes.

    Attributes:
        membership: who belongs, and who gathers.
        known: versions that it was told of.
        whole: models with their optimizer's state, for ways in which a script must follow each version.
        handouts: which samples are whose.
        on_call: called when the others wait for what this rank's script has; offers it, and says whether there is any.
    """

    def __init__(
        self,
        port: MemberPort,
        way: Way,
        model: Array,
        ranks: frozenset[int],
        on_version: Callable[[Version], None],
        agreement: Agreement | None = None,
        narrow: bool = False,
    ) -> None:
        self.port, self.way, self.rank = port, way, port.rank
        self.agreement, self._asked_at = agreement, port.now()
        self.membership = Membership(self.rank, ranks)
        self.left = False
        self.handouts = Handouts(self.rank)
        self._on_version = on_version
        self._view = self.membership.view  # that has been acted on
        self._since = 0  # the term since when this rank gathers
        self._resting: dict[int, int] = {}  # who makes no more steps, but stays: the newest version that is there
        self._met = ranks
        self._to_come = set(ranks) - {self.rank}  # who was not heard of yet: a start may take as long as it takes
        self._rested_at = self._alarm = self._settles_at = float("inf")
        self._waited = False  # since the last of them said so
        self._idle: frozenset[int] = frozenset()  # who had said so when that was
        self.known = KnownVersions(way.waits)
        self.whole = WholeModels(port, self.membership, self._resting, model.nbytes)
        self.on_call: Callable[[], bool] = lambda: False
        self._unsent = _Sum()  # what is added to what is sent next
        self._under_way = _Sum()  # for ways that keep what was sent: what is in no version that is heard of next
        self._kept = _Sum()  # of what was sent since the newest version, all, or all but the first: that may be lost
        self._version = self._number = 0  # from which what is offered comes, and which it is
        self._added: dict[int, int] = {}  # by rank: the last number that was added since this rank gathers
        self._sent = 0  # messages since the newest version
        self._unread = self._orphaned = False
        self._sent_at = 0.0
        self._narrow = narrow
        if self.membership.gathers:
            self._hear((0, 0), 0, model)
        self._own = model
        self._greet()

    def _greet(self) -> None:
        if not self.membership.gathers:
            self.membership.say_hello(self.port)
        self.membership.on_time(self.port)
        self._act()

    @property
    def newest(self) -> Name:
        """The newest version of the team's model that is here: the term in which it was closed, and its number."""
        return self.membership.newest

    @property
    def steppers(self) -> frozenset[int]:
        """The members that make steps, as far as is known."""
        return self.membership.view.members - self.membership.ended - set(self._resting)

    @property
    def through(self) -> frozenset[int]:
        """Ranks that make no more steps, whether they are still there or not."""
        return frozenset(self._resting)

    @property
    def resting(self) -> frozenset[int]:
        """The members that make no more steps, but stay."""
        return self.membership.view.members & set(self._resting)

    @property
    def silent(self) -> frozenset[int]:
        """Ranks that were left out as nothing was heard of them, and may come back."""
        return self._met - self.membership.view.members - self.membership.ended

    @property
    def settled(self) -> bool:
        """Whether what was closed before the last rank made no more steps is here."""
        return self._waited and self.newest[1] >= max((self._resting[rank] for rank in self.resting), default=0)

    @property
    def first(self) -> int:
        """The lowest number of a rank that is there, but for those that had made no more steps long before.

        Not at once: at the end of a run ranks are through one after the other, and the first has done it then.
        """
        there = self.membership.view.members - self.membership.ended
        return min(there - self._idle or there, default=self.rank)

    @property
    def forgotten(self) -> bool:
        """Whether the team went on without this rank, and has ended."""
        members = self.membership.view.members
        return bool(members) and members <= self.membership.ended

    # What the script calls

    def offer(
        self, vector: Array, steps: int, samples: float, seconds: float, version: int = 0, number: int = 0
    ) -> None:
        """Add what came of some steps to the team's next version.

        Arguments:
            vector: which stays as it is until the next version comes; best one of the port's `room`.
            steps: how many they are.
            samples: that they were computed from; 0 if unknown.
            seconds: that they took this rank.
            version: from which they began.
            number: of what may be offered again, in rising order from 1: it is added once, by the same rank at least.
        """
        if not self.membership.belongs:
            return
        self._version, self._number = version, number
        if self.way.replaces:
            self._unsent.clear()
            self._kept.clear()
        if not self.membership.gathers and (self._unread or self._orphaned):
            self._unsent.add(vector, steps, samples, seconds)
        else:
            self._send(vector, steps, samples, seconds, version)

    @property
    def pending(self) -> bool:
        """Whether what this rank has offered since the newest version may still come to something."""
        return bool(self._unsent or self._under_way or self._kept or self._orphaned)

    def drop(self, seconds: float) -> None:
        """Note that a step came too late to be offered."""
        if self.membership.gathers:
            self.way.dropped(self.rank, seconds, self.port.now())
        else:
            self.port.send(self._view.gathers, Head(Kind.CHANGE, term=self._view.term, seconds=seconds))

    def following(self, name: Name) -> list[KnownVersion] | None:
        """Return all versions after one, in their order; None if they are not all here."""
        found = self.known.following(name)
        self.whole.wants = self.whole.wants and found is None
        return found

    def restart(self, version: int, vector: Array) -> None:
        """Let all go on from another model, by the number of a version; only who gathers may say so."""
        self.way.restart(vector)
        self._hear((self._view.term, version), self.newest[0], vector)
        self._tell_newest(self._others)

    def rest(self) -> None:
        """Make no more steps."""
        self._resting[self.rank] = self.newest[1]
        self._rested_at = self.port.now()
        self._say_resting()
        self._act()

    def _say_resting(self) -> None:
        if self.rank in self._resting and (self.way.waits or self.membership.gathers):  # and stays, for those behind
            self.port.send(-1, Head(Kind.DONE, flag=1, term=self._view.term, version=max(self.newest[1], 0)))

    def alarm(self, when: float) -> None:
        """Wake the script at a time."""
        self._alarm = when
        self._act()

    @property
    def may_leave(self) -> bool:
        """Whether nobody misses this rank: all that it offered was added, and it gathers for nobody."""
        if self.membership.gathers and self._to_come - self.membership.ended:
            return False
        if self.membership.gathers or (self.way.waits and self.membership.belongs):
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
        if head.kind is not Kind.HELLO:  # by that alone it does not belong yet
            self._to_come.discard(sender)
        known = self.membership.view.members
        match head.kind:
            case Kind.ASK | Kind.HAND:
                self.handouts.on_message(self.port, sender, head, vector)
            case Kind.ABOUT:
                if self.agreement is not None:
                    self.agreement.on_message(self.port, sender, head, vector)
            case Kind.NEWEST:
                name = head.one, head.version
                if vector is not None and head.term >= self._view.term and name > self.newest:
                    self._on_newest(sender, head, vector)
                if self._orphaned and head.term >= self._view.term and sender == self._view.gathers:
                    self._send_again()
            case Kind.CHANGE:
                if not self.membership.gathers or sender not in known or head.term < self._since:
                    self.membership.tell_view(self.port, sender)
                elif 0 < head.number <= self._added.get(sender, 0):
                    self.port.send(sender, Head(Kind.READ, term=self._view.term))
                elif vector is None and head.steps:
                    late = head.version < self.newest[1]
                    self.way.announced(sender, head.steps, head.seconds, self.port.now(), late)
                elif vector is None:
                    self.way.dropped(sender, head.seconds, self.port.now())
                else:
                    vector = widened(vector, self._own) if head.flag else self.port.keep(vector)
                    self._added[sender] = head.number
                    self.port.send(sender, Head(Kind.READ, term=self._view.term))  # before a version that it may be in
                    self._fold(sender, vector, head.steps, head.samples, head.seconds, head.version)
            case Kind.READ:
                if sender == self._view.gathers:
                    self._read()
                    self.port.wake_script()
            case Kind.CALL:
                if sender == self._view.gathers:
                    self._answer()
            case Kind.DONE:
                if head.flag:
                    self._resting[sender] = head.version
                    self._waited, self._settles_at = False, self.port.now() + _SETTLED
                else:
                    self.membership.on_ended(self.port, frozenset({sender}))
                self.port.wake_script()
            case Kind.WANT | Kind.SERVE | Kind.STATE:
                self.whole.on_message(sender, head, vector)
            case Kind.FETCH:
                self._tell_newest(sender)
            case _:
                self.membership.on_message(self.port, sender, head, vector)
                if head.kind is Kind.HELLO and self.membership.gathers and sender in known:
                    self._tell_newest(sender)
        self._act()

    def on_lost(self, ranks: frozenset[int]) -> None:
        """Learn of ranks whose process has certainly ended; of those that are silent members' own pings tell."""
        if not self.left:
            self.known.bereft = True
            self.membership.on_ended(self.port, frozenset(ranks))
            self.whole.fresh -= ranks
            self._want_again()
            self.port.wake_script()
            self._act()

    def on_time(self) -> None:
        """Do what it is time for."""
        if not self.left:
            if self._to_come and self.port.now() >= self._rested_at + MINUTE:
                self._to_come.clear()
                self.port.wake_script()
            if self.port.now() >= self._alarm:
                self._alarm = float("inf")
                self.port.wake_script()
            self.membership.on_time(self.port)
            self._act()

    def _act(self) -> None:
        """Do what follows from what has just happened."""
        if self.membership.view.term != self._view.term:
            self._on_view()
        now = self.port.now()
        if self._unread and now > self._sent_at + _LOST and self.membership.belongs:
            self._read()  # or it was lost, or what said that it was read
        self.whole.on_time(self.steppers)
        if now > self._settles_at:
            self._waited, self._settles_at = True, float("inf")
            self._idle = self.through
            self.port.wake_script()
        gathers = self._view.gathers if self.membership.belongs and self._view.gathers >= 0 else None
        self.handouts.on_view(self.port, gathers, self._view.members - self.membership.ended)
        if self.agreement is not None:
            self.agreement.on_view(self.port, gathers)
        if now > self._asked_at + _LOST:
            self._asked_at = now
            self.handouts.again(self.port)
            if self.agreement is not None:
                self.agreement.again(self.port)
        self._close_if()
        asks_at = self.way.asks_at
        may_ask = self.membership.gathers and asks_at > now
        self.port.wake_at(min(self.membership.next_time(), self._alarm, asks_at if may_ask else float("inf")))

    def _on_view(self) -> None:
        before, self._view = self._view, self.membership.view
        self._met |= self._view.members
        self._unread, self.known.bereft = False, True
        if not self.membership.belongs:
            for alone in (self._unsent, self._under_way, self._kept):  # a drift of many steps, perhaps
                alone.clear()
        elif before.gathers == self._view.gathers:
            self._send_unsent()
        else:
            self._orphaned = True  # until the new one says from which version it goes on
        if self.membership.gathers:
            if before.gathers != self.rank:
                self._since = self._view.term
                self._added.clear()
                if self.newest[1] < 0:
                    self._hear((self._view.term, 0), 0, self._own)
                self.way.restart(self.known.latest.vector)
                self._send_again()
            self._tell_newest(self._others)
        self.whole.fresh.clear()
        self._want_again()
        self._say_resting()
        self.port.wake_script()

    def _want_again(self) -> None:
        self.whole.wanting.clear()
        if self.whole.waits and self.following(self.known.followed) is None:
            self.whole.want()

    def _send_again(self) -> None:
        """Send what was sent to who gathered before, and came to nothing."""
        self._orphaned = False
        self._version = self.newest[1]
        for sent in (self._kept, self._under_way):
            if sent:
                vector, work = sent.taken()
                self._unsent.add(vector, *work)
        self._send_unsent()

    @property
    def _others(self) -> list[int]:
        return sorted(self._view.members - self.membership.ended - {self.rank})

    def _tell_newest(self, to: int | Sequence[int]) -> None:
        if self.known:
            (term, version), after, newest = self.known.latest
            self.port.send(to, Head(Kind.NEWEST, 0, self._view.term, version, one=term, other=after), newest)

    def _send(self, vector: Array, steps: int, samples: float, seconds: float, version: int) -> None:
        if self.way.keeps and not self.membership.gathers:
            self._under_way.add(vector, steps, samples, seconds)
        elif self.way.keeps or self.way.waits or (self._sent and not self.membership.gathers):
            self._kept.add(vector, steps, samples, seconds)
        self._sent += 1
        now = self.port.now()
        if self.membership.gathers:
            self.way.announced(self.rank, steps, seconds, now, late=version < self.newest[1])
            self._fold(self.rank, vector, steps, samples, seconds, version)
        else:
            self._unread, self._sent_at = True, now
            head = Head(Kind.CHANGE, self._narrow, self._view.term, version, self._number, steps, samples, seconds)
            if self.way.keeps:
                self.port.send(self._view.gathers, head)
            self.port.send(self._view.gathers, head, narrowed(vector) if self._narrow else vector)

    def _read(self) -> None:
        """Note that what was sent last is in the next version."""
        self._unread = False
        if self._under_way:
            vector, work = self._under_way.taken()
            self._kept.add(vector, *work)
        self._send_unsent()

    def _answer(self) -> None:
        """Send what the script has, or that it has nothing, unless something is on its way."""
        if not self.on_call() and not self.pending:
            self.drop(0.0)

    def _send_unsent(self) -> None:
        if self._unsent and not self._unread and not self._orphaned:
            vector, work = self._unsent.taken()
            self._send(vector, *work, self._version)

    def _hear(self, name: Name, after: int, vector: Array) -> None:
        self.membership.newest = name
        self._kept.clear()
        self._sent = int(self._unread)
        self.known.add(KnownVersion(name, after, vector), self.whole.wants)
        self.way.heard(vector)
        self.port.wake_script()

    def _on_newest(self, sender: int, head: Head, vector: Array) -> None:
        if not head.flag:
            vector = self.port.keep(vector)
        elif self.known and self.newest == (head.other, head.version - 1):
            vector = self.known.latest.vector + widened(vector, self._own)
        else:
            self.port.send(sender, Head(Kind.FETCH, term=self._view.term))
            return
        self._hear((head.one, head.version), head.other, vector)
        self.membership.elect(self.port)

    # Who gathers

    def _fold(self, rank: int, vector: Array, steps: int, samples: float, seconds: float, version: int) -> None:
        self.way.fold(rank, vector, steps, samples, seconds)
        if version == self.newest[1]:
            self.whole.on_fresh(rank)
        self.handouts.observe(rank, samples, seconds)
        self._close_if()

    def _close_if(self) -> None:
        now = self.port.now()
        if not self.way.steps or not self.membership.may_close(now):
            return
        stepping = self.steppers
        called = self.way.calls(stepping, now)
        if others := sorted(set(called) - {self.rank}):
            self.port.send(others, Head(Kind.CALL, term=self._view.term))
        if self.rank in called:
            self._answer()
        if not self.way.steps or not self.way.closes(stepping, now):
            return
        steps, term = dict(self.way.steps), self._view.term
        vector = self.port.room(len(self._own), self._own.dtype)
        self.way.close(stepping, now, vector)
        after, version = self.newest[0], self.newest[1] + 1
        moved: Array | None = None
        if self._narrow and self.way.keeps:
            before = self.known.latest.vector
            moved = narrowed(vector - before)
            np.add(before, widened(moved, self._own), out=vector)  # as the others will
        self.whole.fresh.clear()
        self._hear((term, version), after, vector)
        self.handouts.settle()
        self._on_version(Version(version, term, now, self.rank, steps, tuple(sorted(stepping)), self.way.residual))
        if moved is None:
            self._tell_newest(self._others)
        else:
            self.port.send(self._others, Head(Kind.NEWEST, 1, self._view.term, version, one=term, other=after), moved)
