"""Who belongs to a team and who gathers, agreed on by the ranks themselves.

A *view* has a term, members, and who gathers. It is proposed by whoever wants to gather, with a *claim*; made when
enough members of the view before have granted the claim; and *settled* when enough of them have stored it. Enough is a
majority; half of them with the lowest rank; or all whose process has not certainly ended. Any two such sets meet in a
rank that lives, so at most one settled view follows another: a rank grants each term once, grants no claim by who has
an older view than it has stored, and stores no view of a term before one that it has granted. (This is Paxos with one
decision a view; claims are prepared, views accepted.)

A rank *supports* one gatherer at a time, by answering its pings, and a claimant by granting: for a lease, within which
it supports nobody else unless that rank's process has certainly ended, or a claimant is followed by one of a later term
(whose grant is a promise not to store the view of the one before). Who gathers measures the lease from when it sent
a ping, the others from when they got it. It may close versions while enough members of its settled view support it. So
of two ranks that both believe they gather one at most may close versions, at any moment; that takes clocks that run at
the same rate within a fifth, not clocks that agree.

No rank number is used twice: who takes the place of a rank that died has a number of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, cast, final

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead.torch._message_heads import Head, Kind
from erasurehead.torch._port import MemberPort

LEASE = 3.0
"""Seconds for which a rank supports who gathers after it heard of it."""

MINUTE = 20.0 * LEASE
"""Seconds for which the others wait where they must, for a rank that is silent and whose process may go on."""

_HELD = 0.8  # of a lease: clocks may run at rates that differ by less than the rest
_PINGS = 3.0  # in a lease
_SILENT = 2.0  # leases without an answer after which a member is no longer one


@final
class TeamView(NamedTuple):
    """Who belongs to a team.

    Attributes:
        term: greater than those of all views before.
        gathers: the rank that gathers; -1 for none.
        members: the ranks that belong to it.
        before: the members of views before, of each of which enough must store this one; none once it is settled.
    """

    term: int
    gathers: int
    members: frozenset[int]
    before: tuple[frozenset[int], ...] = ()

    def packed(self) -> Array:
        """Return all as one vector of integers."""
        sets = (number for each in (self.members, *self.before) for number in (len(each), *sorted(each)))
        return cast("Array", np.array([self.term, self.gathers, *sets], dtype=np.int64))

    @classmethod
    def unpacked(cls, vector: Array) -> TeamView:
        """Return the view that a vector of integers is."""
        term, gathers, *numbers = (int(value) for value in vector)
        sets: list[frozenset[int]] = []
        while numbers:
            end = 1 + numbers[0]
            sets.append(frozenset(numbers[1:end]))
            numbers = numbers[end:]
        return cls(term, gathers, sets[0], tuple(sets[1:]))


def enough(ranks: frozenset[int], of: frozenset[int], ended: frozenset[int]) -> bool:
    """Return whether ranks are so many of a view's members that any two such sets meet in one that lives.

    Arguments:
        ranks: the ranks.
        of: the members.
        ended: ranks whose process has certainly ended, as far as is known.
    """
    present = (ranks & of) - ended
    half = 2 * len(present) == len(of) and min(of, default=-1) in present
    return of - ended <= present or 2 * len(present) > len(of) or half


class _Claim(NamedTuple):
    term: int
    members: frozenset[int]
    until: float
    grants: tuple[tuple[int, int, int], ...] = ()  # by whom, and the newest model that it has: term and version


@final
class Membership:
    """What one rank knows of its team's membership, and the handlers by which it changes. All state is plain.

    Arguments:
        rank: its number.
        ranks: the ranks that a team begins with; none for a rank that joins later.

    Attributes:
        view: the newest view that is stored.
        ended: ranks whose process has certainly ended, or that make no more steps and have said so.
        newest: term and version of the newest model that this rank has.
    """

    def __init__(self, rank: int, ranks: frozenset[int]) -> None:
        self.rank = rank
        self.view = TeamView(0, min(ranks), ranks) if ranks else TeamView(-1, -1, frozenset())
        self.ended: frozenset[int] = frozenset()
        self.newest: tuple[int, int] = (0, -1)
        self._promised = self.view.term
        self._supports, self._until = self.view.gathers, -np.inf
        self._seen = self.view.term  # the latest term that was heard of
        self._quiet = np.inf  # since when nothing was heard of who gathers: a start may take as long as it takes
        self._retry = -np.inf  # not to claim, or ask to be let in, before
        self._claim: _Claim | None = None
        # Who gathers
        self._echoes: dict[int, float] = {}
        self._heard: dict[int, float] = {}
        self._ping_at = -np.inf
        self._joining: frozenset[int] = frozenset()

    @property
    def gathers(self) -> bool:
        """Whether this rank is the one that gathers, by all that it knows."""
        return self.view.gathers == self.rank

    @property
    def belongs(self) -> bool:
        """Whether this rank is a member, by all that it knows."""
        return self.rank in self.view.members

    def may_close(self, now: float) -> bool:
        """Return whether this rank may close a version."""
        return self.gathers and not self.view.before and now < self.lease()

    def lease(self) -> float:
        """Return until when enough members support this rank."""
        since = sorted(((stamp, rank) for rank, stamp in self._echoes.items()), reverse=True)
        supporters: frozenset[int] = frozenset()
        for stamp, rank in since:
            supporters |= {rank}
            if enough(supporters, self.view.members, self.ended):
                return stamp + _HELD * LEASE
        return -np.inf

    def _free(self, rank: int, now: float) -> bool:
        """Whether this rank may support another one now."""
        return self._supports in (rank, -1) or now >= self._until or self._supports in self.ended

    def _support(self, rank: int, now: float) -> None:
        self._supports, self._until = rank, now + LEASE

    def _others(self, ranks: frozenset[int]) -> list[int]:
        return sorted(ranks - self.ended - {self.rank})

    # Time

    def next_time(self) -> float:
        """Return when `on_time` is to be called."""
        if self.gathers:
            return self._ping_at if self._claim is None else min(self._ping_at, self._claim.until)
        if self._claim is not None:
            return self._claim.until
        if not self.belongs:
            return self._retry
        if self.view.gathers in self.ended:
            return self._retry
        return max(self._until, self._quiet + LEASE, self._retry) + LEASE / 2.0 * self._place()

    def _place(self) -> int:
        """How many ranks claim before this one: one after the other, so that claims do not meet."""
        return sum(rank < self.rank for rank in self._others(self.view.members - {self.view.gathers}))

    def on_time(self, port: MemberPort) -> None:
        """Ping, claim, or ask to be let in, if it is time to."""
        now = port.now()
        if self._claim is not None and now >= self._claim.until:
            self._claim, self._retry = None, now + LEASE * (0.5 + (self.rank % 7) / 7.0)
        if self.gathers:
            if now >= self._ping_at:
                self._ping_at = now + LEASE / _PINGS
                self._ping(port, now)
            silent = {
                rank for rank in self._others(self.view.members) if now > self._heard.get(rank, now) + _SILENT * LEASE
            }
            if (silent or self._joining) and self._claim is None and now >= self._retry and self._free(self.rank, now):
                self._stand(port, (self.view.members - silent) | self._joining)
        elif not self.belongs:
            if now >= self._retry:
                self._retry = now + LEASE / 3.0
                self.say_hello(port)
        elif self._claim is None and now >= self.next_time() and self._free(self.rank, now):
            self._stand(port, self.view.members - {self.view.gathers})

    def say_hello(self, port: MemberPort) -> None:
        """Ask whoever gathers for the view and the newest model."""
        port.send(-1, Head(Kind.HELLO, term=self._promised))

    def _ping(self, port: MemberPort, now: float) -> None:
        for rank in self._others(self.view.members):
            self._heard.setdefault(rank, now)
        head = Head(Kind.PING, flag=not self.view.before, term=self.view.term, seconds=now)
        port.send(self._others(self.view.members), head)
        if self._free(self.rank, now):
            self._support(self.rank, now)
            self._echo(port, self.rank, now)

    # Claims

    def _stand(self, port: MemberPort, members: frozenset[int]) -> None:
        """Claim to gather, for these members."""
        now = port.now()
        self._promised = self._seen = max(self._promised, self._seen) + 1
        self._support(self.rank, now)
        self._claim = _Claim(self._promised, members - self.ended, now + LEASE / 2.0, ((self.rank, *self.newest),))
        asked = self.view.members.union(*self.view.before)
        port.send(self._others(asked), Head(Kind.CLAIM, term=self._promised, one=self.view.term))
        self.elect(port)

    def on_claim(self, port: MemberPort, sender: int, head: Head) -> None:
        """Grant a claim or not.

        One of a later term replaces another claimant, who can come to nothing without this rank then: were it held to
        who claimed first, ranks that claim at once would share the others' grants, again and again.
        """
        gathered = self._supports == self.view.gathers and not self._free(sender, port.now())
        self._seen = max(self._seen, head.term)  # a claim of this rank's own must be of a later term
        if head.one < self.view.term:
            self.tell_view(port, sender)
        elif head.term <= self._promised or gathered:
            port.send(sender, Head(Kind.DENY, term=self._promised))
        else:
            self._promised = head.term
            self._support(sender, port.now())
            term, version = self.newest
            port.send(sender, Head(Kind.GRANT, term=head.term, version=version, one=term))

    def on_grant(self, port: MemberPort, sender: int, head: Head) -> None:
        """Count a grant."""
        claim = self._claim
        if claim is not None and head.term == claim.term and sender not in {rank for rank, *_ in claim.grants}:
            self._claim = claim._replace(grants=(*claim.grants, (sender, head.one, head.version)))
            self.elect(port)

    def elect(self, port: MemberPort) -> None:
        """Make the view that was claimed, if enough have granted it, and the newest model of theirs is here."""
        claim = self._claim
        if claim is None or self._promised != claim.term:
            return
        granted = frozenset(rank for rank, *_ in claim.grants)
        before = tuple(dict.fromkeys((self.view.members, *self.view.before)))
        if not all(enough(granted, members, self.ended) for members in before):
            return
        *newest, rank = max((term, version, rank) for rank, term, version in claim.grants)
        if tuple(newest) > self.newest:
            port.send(rank, Head(Kind.FETCH, term=claim.term))
            return
        members = claim.members | (granted & self.view.members)  # who was silent and grants now is heard of again
        self.view = TeamView(claim.term, self.rank, members - self.ended, before)
        self._claim, self._joining = None, self._joining - self.view.members
        self._echoes, self._heard = {}, {rank: port.now() for rank in self.view.members}
        self.tell_view(port, self._others(self.view.members.union(*before)))
        self._ping_at = port.now() + LEASE / _PINGS
        self._ping(port, port.now())

    def on_message(self, port: MemberPort, sender: int, head: Head, vector: Array | None) -> None:
        """Handle a message about membership."""
        match head.kind:
            case Kind.CLAIM:
                self.on_claim(port, sender, head)
            case Kind.GRANT:
                self.on_grant(port, sender, head)
            case Kind.DENY:
                self._seen = max(self._seen, head.term)
            case Kind.VIEW if vector is not None:
                self.on_view(port, sender, TeamView.unpacked(vector))
            case Kind.PING:
                self.on_ping(port, sender, head)
            case Kind.PONG:
                self.on_pong(port, sender, head)
            case Kind.HELLO:
                self.on_hello(port, sender, head)
            case _:
                pass

    # Views

    def tell_view(self, port: MemberPort, to: int | Sequence[int]) -> None:
        """Tell a rank, or several, the view that is stored here."""
        port.send(to, Head(Kind.VIEW, term=self.view.term), self.view.packed())

    def on_view(self, port: MemberPort, sender: int, view: TeamView) -> None:
        """Store a view, if it is newer, and of no term before one that was granted."""
        if view.term == self.view.term and not view.before:
            self.view = view
        elif view.term > self.view.term and view.term >= self._promised:
            self.view, self._claim, self._promised = view, None, view.term
            self._seen = max(self._seen, view.term)
            self._quiet = self._retry = port.now()
            if view.gathers == sender:
                self._contact(port, sender, None)
        elif view.term > self.view.term:
            port.send(view.gathers, Head(Kind.HELLO, term=self._promised))

    def on_ping(self, port: MemberPort, sender: int, head: Head) -> None:
        """Support who gathers for another lease."""
        if head.term == self.view.term and sender == self.view.gathers:
            if head.flag:
                self.view = self.view._replace(before=())
            self._contact(port, sender, head.seconds)
        elif head.term < self.view.term:
            self.tell_view(port, sender)
        else:
            port.send(sender, Head(Kind.HELLO, term=self._promised))

    def _contact(self, port: MemberPort, gathers: int, stamp: float | None) -> None:
        now = port.now()
        if self._free(gathers, now):
            self._quiet = now
            self._support(gathers, now)
            if stamp is not None:
                port.send(gathers, Head(Kind.PONG, term=self.view.term, seconds=stamp))

    def on_pong(self, port: MemberPort, sender: int, head: Head) -> None:
        """Note that a member has stored the view, and supports this rank."""
        if self.gathers and head.term == self.view.term:
            self._heard[sender] = port.now()
            self._echo(port, sender, head.seconds)

    def _echo(self, port: MemberPort, rank: int, stamp: float) -> None:
        self._echoes[rank] = max(stamp, self._echoes.get(rank, stamp))
        self._settle(port)

    def _settle(self, port: MemberPort) -> None:
        """Settle the view if enough have stored it, and tell all before a version is closed.

        Who does not know that it is settled needs enough members of those before, too, if this rank falls silent.
        """
        stored, before = frozenset(self._echoes), self.view.before
        if before and self.gathers and all(enough(stored, members, self.ended) for members in before):
            self.view = self.view._replace(before=())
            self._ping(port, port.now())

    def on_hello(self, port: MemberPort, sender: int, head: Head) -> None:
        """Let a rank in, or tell it that it is in."""
        if not self.gathers:
            return
        if sender in self.view.members and head.term <= self.view.term:
            self.tell_view(port, sender)
        else:
            self._seen = max(self._seen, head.term)
            self._joining |= {sender}
            self.on_time(port)

    def on_ended(self, port: MemberPort, ranks: frozenset[int]) -> None:
        """Learn of ranks whose process has certainly ended."""
        gone = self.view.gathers in ranks - self.ended
        self.ended |= ranks
        self._joining -= ranks
        if gone:
            self._retry = port.now() + LEASE / 10.0 * self._place()
        self._settle(port)
        self.elect(port)
        self.on_time(port)
