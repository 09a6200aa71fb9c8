"""All that can happen between ranks that agree on who gathers: a model checker for `Membership`.

Time passes in ticks, for all ranks at the same rate. Between any two ticks, any message on its way may come or be lost,
any rank may notice that it is time for something, or not notice it for as long as it likes (a process that is stopped),
and a rank may die. A rank's handlers see nothing but the rank, the time and what they are told, so each is called once
for each of these, and its outcome looked up after that.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest

from erasurehead.torch._membership import LEASE, Membership, TeamView
from erasurehead.torch._message_heads import Head, Kind
from erasurehead.torch._port import MemberPort

from ..arrays import Array

Message = tuple[int, int, Head, tuple[int, ...] | None]
"""Sender, receiver, head and vector."""


class State(NamedTuple):
    """A moment.

    Attributes:
        time: in ticks.
        ranks: the number of each rank's state; -1 for the dead.
        told: of which deaths each rank knows.
        ways: what is on its way between each two ranks, in order.
        deaths: how many there may be yet.
        losses: how many messages may be lost yet.
    """

    time: int
    ranks: tuple[int, ...]
    told: tuple[frozenset[int], ...]
    ways: tuple[tuple[tuple[int, int], tuple[int, ...]], ...]
    deaths: int
    losses: int


class _Ear(MemberPort):
    def __init__(self, rank: int, now: float, size: int) -> None:
        self.rank, self._now, self._size = rank, now, size
        self.sent: list[Message] = []

    def now(self) -> float:
        return self._now

    def send(self, to: int | Sequence[int], head: Head, vector: Array | None = None) -> None:
        whole = None if vector is None else tuple(int(value) for value in vector)
        receivers = range(self._size) if to == -1 else (to,) if isinstance(to, int) else to
        self.sent += [(self.rank, rank, head, whole) for rank in receivers if rank != self.rank]

    def wake_at(self, when: float) -> None:
        raise AssertionError

    def wake_script(self) -> None:
        raise AssertionError


def _frozen(value: Any) -> Any:
    if isinstance(value, dict):
        return tuple(sorted(value.items()))
    return value


class Checker:
    """What ranks may come to.

    Arguments:
        ranks: how many begin together.
        joins: how many ask to be let in.
        tick: seconds.
        ticks: how many.
        deaths, losses: how many there may be.
    """

    def __init__(self, ranks: int, joins: int, tick: float, ticks: int, deaths: int, losses: int) -> None:
        self.size, self.tick, self.ticks = ranks + joins, tick, ticks
        self._kept: list[Membership] = []
        self._numbers: dict[Any, int] = {}
        self._messages: list[Message] = []
        self._message_numbers: dict[Message, int] = {}
        self._outcomes: dict[Any, tuple[int, tuple[int, ...]]] = {}
        self._closing: dict[tuple[int, int], bool] = {}
        everybody = frozenset(range(ranks))
        members = [Membership(rank, everybody if rank < ranks else frozenset()) for rank in range(self.size)]
        for rank, member in enumerate(members):
            member.newest = 0, rank  # so that who claims has to ask for a newer model
        states = tuple(self._number(member) for member in members)
        self.first = State(0, states, (frozenset(),) * self.size, (), deaths, losses)

    def _number(self, member: Membership) -> int:
        key = tuple(_frozen(value) for value in vars(member).values())
        if key not in self._numbers:
            self._numbers[key] = len(self._kept)
            self._kept.append(member)
        return self._numbers[key]

    def _message(self, message: Message) -> int:
        if message not in self._message_numbers:
            self._message_numbers[message] = len(self._messages)
            self._messages.append(message)
        return self._message_numbers[message]

    def _told(self, state: State, rank: int, event: Any) -> State:
        """Return what comes of telling a rank something."""
        key = state.ranks[rank], rank, state.time, event
        if key not in self._outcomes:
            member = copy.copy(self._kept[state.ranks[rank]])
            for name, value in vars(member).items():
                if isinstance(value, dict):
                    setattr(member, name, dict(value))
            ear = _Ear(rank, state.time * self.tick, self.size)
            tell(member, ear, event if isinstance(event, frozenset | str) else self._messages[event])
            self._outcomes[key] = self._number(member), tuple(map(self._message, ear.sent))
        number, sent = self._outcomes[key]
        ways = dict(state.ways)
        for message in sent:
            to = self._messages[message][1]
            if state.ranks[to] >= 0:
                ways[rank, to] = (*ways.get((rank, to), ()), message)
        ranks = (*state.ranks[:rank], number, *state.ranks[rank + 1 :])
        return state._replace(ranks=ranks, ways=tuple(sorted(ways.items())))

    def next(self, state: State) -> Iterator[tuple[str, int, int, State]]:
        """Yield all that may come next: what it is, the ranks that it concerns, and the moment after it."""
        for way, (message, *rest) in state.ways:
            ways = tuple((other, queue) for other, queue in state.ways if other != way)
            if rest:
                ways = tuple(sorted((*ways, (way, tuple(rest)))))
            left = state._replace(ways=ways)
            if state.ranks[way[1]] >= 0:
                yield "comes", *way, self._told(left, way[1], message)
            if state.losses:
                yield "is lost", *way, left._replace(losses=state.losses - 1)
        dead = frozenset(rank for rank in range(self.size) if state.ranks[rank] < 0)
        for rank, number in enumerate(state.ranks):
            if number < 0:
                continue
            if self._kept[number].next_time() <= state.time * self.tick:
                after = self._told(state, rank, "time")
                if after.ranks != state.ranks or after.ways != state.ways:
                    yield "time", rank, rank, after
            for other in dead - state.told[rank]:
                told = (*state.told[:rank], state.told[rank] | {other}, *state.told[rank + 1 :])
                yield "hears of death", rank, rank, self._told(state._replace(told=told), rank, frozenset({other}))
            if state.deaths and len(dead) < self.size - 1:
                ranks = (*state.ranks[:rank], -1, *state.ranks[rank + 1 :])
                ways = tuple((way, queue) for way, queue in state.ways if way[1] != rank)
                yield "dies", rank, rank, state._replace(ranks=ranks, ways=ways, deaths=state.deaths - 1)
        if state.time < self.ticks:
            yield "tick", -1, -1, state._replace(time=state.time + 1)

    def closing(self, state: State) -> list[int]:
        """Return the ranks that may close a version now; more than one must not."""
        now = state.time * self.tick
        found = [rank for rank, number in enumerate(state.ranks) if number >= 0 and self._kept[number].may_close(now)]
        assert len(found) <= 1, f"ranks {found} both gather: {[self._kept[state.ranks[rank]].view for rank in found]}"
        return found

    def search(self, most: int) -> tuple[int, set[int]]:
        """Visit what can happen, nearest first; return how many moments were visited, and who may gather in them."""
        left, seen, who = [self.first], {self.first}, set[int]()
        for state in left:
            who |= set(self.closing(state))
            for *_, after in self.next(state):
                if after not in seen:
                    seen.add(after)
                    left.append(after)
            if len(left) >= most:
                break
        for state in left[-most:]:
            self.closing(state)
        return len(left), who

    def walk(self, seed: int, steps: int) -> set[int]:
        """Go on at random, at times with ways cut and ranks stopped; return who may gather meanwhile."""
        drawn, state, who = random.Random(seed), self.first, set[int]()
        cut, stopped = set[tuple[int, int]](), set[int]()
        for _ in range(steps):
            if drawn.random() < 0.03:
                cut = {(a, b) for a in range(self.size) for b in range(self.size) if drawn.random() < 0.3}
                stopped = {rank for rank in range(self.size) if drawn.random() < 0.15}
            ahead, weights = list(self.next(state)), list[float]()
            for what, one, other, _ in ahead:
                if what in ("comes", "is lost"):
                    likely = ((one, other) in cut) == (what == "is lost")
                    weights.append(0.0 if other in stopped else 1.0 if likely else 0.002)
                else:
                    weights.append({"tick": 0.3, "dies": 0.01}.get(what, 0.0 if one in stopped else 1.0))
            if not any(weights):
                break
            state = drawn.choices(ahead, weights)[0][3]
            who |= set(self.closing(state))
        return who


def tell(member: Membership, port: MemberPort, event: Any) -> None:
    """Call a rank's handler."""
    if event == "time":
        member.on_time(port)
    elif isinstance(event, frozenset):
        member.on_ended(port, event)
    else:
        sender, _, head, vector = event
        if head.kind is Kind.FETCH:
            port.send(sender, Head(Kind.NEWEST, version=member.newest[1]))
        elif head.kind is Kind.NEWEST:
            member.newest = max(member.newest, (0, head.version))
            member.elect(port)
        else:
            member.on_message(port, sender, head, None if vector is None else np.array(vector))


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize("ranks", [2, 3, 4, 5])
@pytest.mark.parametrize("deaths", [0, 2])
def test_never_two_that_gather_in_long_courses(ranks: int, deaths: int) -> None:
    who: set[int] = set()
    for seed in range(40):
        who |= Checker(ranks, 1, 0.5, 100, deaths, 10_000).walk(1000 * ranks + seed, 500)
    assert len(who) > 1


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize(("ranks", "ticks", "deaths", "losses"), [(2, 6, 1, 2), (3, 5, 0, 1), (3, 5, 1, 0)])
def test_never_two_that_gather_in_all_short_courses(ranks: int, ticks: int, deaths: int, losses: int) -> None:
    moments, who = Checker(ranks, 0, LEASE / 2.0, ticks, deaths, losses).search(30_000)
    assert moments >= 30_000
    assert 0 in who


def test_claims_that_meet_end_in_one_view_at_once() -> None:
    """Were a rank held to the claimant whom it has granted first, none of several might ever have enough grants."""
    everybody = frozenset(range(5))
    voter, rival = (Membership(rank, everybody) for rank in (3, 2))
    claim = Head(Kind.CLAIM, term=1, one=0)
    for member in (voter, rival):  # who gathers lives, as far as they know
        port = _Ear(member.rank, 1.0, 5)
        member.on_message(port, 0, Head(Kind.PING, flag=1, seconds=1.0), None)
        member.on_message(port, 1, claim, None)
        assert [head.kind for *_, head, _ in port.sent] == [Kind.PONG, Kind.DENY]
        member.on_ended(port, frozenset({0}))
    port = _Ear(2, 1.4, 5)
    rival.on_time(port)
    assert {head.kind for *_, head, _ in port.sent} == {Kind.CLAIM}
    assert {head.term for *_, head, _ in port.sent} == {2}  # later than the one that it has heard of
    port = _Ear(3, 1.5, 5)
    for sender, term, answer in ((1, 1, Kind.GRANT), (2, 2, Kind.GRANT), (1, 2, Kind.DENY), (4, 3, Kind.GRANT)):
        voter.on_message(port, sender, claim._replace(term=term), None)
        assert (port.sent[-1][1], port.sent[-1][2].kind) == (sender, answer)
    voter.on_message(port, 2, Head(Kind.VIEW), TeamView(2, 2, everybody - {0}).packed())
    assert voter.view.term == 0  # promised to the third
    voter.on_message(port, 4, Head(Kind.VIEW), TeamView(3, 4, everybody - {0}).packed())
    voter.on_message(port, 1, claim._replace(term=4, one=3), None)
    assert (port.sent[-1][1], port.sent[-1][2].kind) == (1, Kind.DENY)  # who gathers is supported


def test_who_was_silent_and_grants_the_claim_belongs_to_its_view() -> None:
    """A rank that begins after the one that gathers has given it up answers the claim that leaves it out."""
    member = Membership(0, frozenset(range(3)))
    member.on_time(_Ear(0, 0.0, 3))
    now = 2.0 * LEASE + 0.1
    member.on_time(_Ear(0, now, 3))  # nobody has answered
    port = _Ear(0, now + 0.1, 3)
    member.on_message(port, 2, Head(Kind.GRANT, term=1, version=-1), None)
    assert member.view.term == 1
    assert member.view.members == {0, 2}
    assert [to for _, to, head, _ in port.sent if head.kind is Kind.VIEW] == [1, 2]
