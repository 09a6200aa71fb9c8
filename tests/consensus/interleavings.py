"""All that can happen between a few peers: a model checker for what policies say to each other.

A peer's handlers see nothing but the peer and what they are told, so a handler is a function of both: it is called
once, and its outcome is looked up after that. What is searched are then tuples of numbers: which state each peer is in,
and which messages are on their way between each two, in their order. What may happen next:

- the oldest message between two peers comes, or is left out because two newer ones with a vector are behind it;
- a gradient is there, as long as there is `work` left, so that the search ends;
- a peer decides, any time after it was told something: before or after it is told more;
- the network is cut, heals, a peer dies: once each. Messages across a cut are lost at any moment of it, as are those to
  the dead, and each peer hears of a change whenever it may, but of all in one order.

Nothing else: no time passes. Where a policy compares moments, the clock shows how many gradients there were; where it
measures how long steps take, every third step of a peer is a slow one.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from types import NoneType
from typing import Any, NamedTuple

import numpy as np

from erasurehead.consensus import LocalPeer, Mixing, Policy, Port
from erasurehead.consensus._algorithms import Algorithm, Memory
from erasurehead.consensus._contract import Message
from erasurehead.consensus._graphs import Graph
from erasurehead.consensus._mixing import Metropolis
from erasurehead.consensus._peers import Setup
from erasurehead.consensus._policies import BoundedStaleness
from erasurehead.consensus._rows import PeerRow
from erasurehead.consensus._views import NetworkView
from erasurehead.optimizers import GradientDescent

from ..arrays import Array

_QUICK, _SLOW = 1.0, 10.0  # seconds of a step, as peers have measured them

Sides = tuple[frozenset[int], ...]


class _Stamped(Algorithm):
    """Sends the gradient, which says who made it in which step: so an average says whom it is of."""

    def step(self, memory: Memory, gradient: Array, rate: float) -> Array:
        return gradient


class Mixed(NamedTuple):
    """A step that is done.

    Attributes:
        step: of the peer.
        links: its partners, the step of each that its vector was of, and the weight.
    """

    step: int
    links: tuple[tuple[int, int, float], ...]


class _Outcome(NamedTuple):
    state: int
    sent: tuple[tuple[int, int], ...]
    works: bool
    mixed: tuple[Mixed, ...]


class _Ear(Port):
    """Takes down what a peer does."""

    def __init__(self, peer: int, n_peers: int, works: bool, now: float) -> None:
        self.peer, self.n_peers, self.works, self.clock = peer, n_peers, works, now
        self.sent: list[tuple[int, Message]] = []
        self.done: list[Mixed] = []
        self.one: LocalPeer | None = None

    def now(self) -> float:
        return self.clock

    def send(self, to: int, message: Message) -> None:
        self.sent.append((to, message))

    def work(self, model: Array, step: int) -> None:
        self.works = True

    def drop_work(self) -> None:
        self.works = False

    def mixed(self, row: PeerRow) -> None:
        assert self.one is not None
        average = self.one.memory["x"]
        self.one.memory["x"] = np.zeros(self.n_peers)
        links = zip(row.links, row.weights, strict=True)
        self.done.append(
            Mixed(
                row.step, tuple((peer, round(average[peer] / weight) - 1, round(weight, 9)) for peer, weight in links)
            )
        )


def _frozen(value: Any) -> Any:
    """Rejoin plain data as something that can be looked up."""
    if type(value) in (int, bool, str, NoneType):  # nearly all of them
        return value
    if isinstance(value, np.ndarray):
        return tuple(value.tolist())
    if isinstance(value, dict):
        return tuple((key, _frozen(value[key])) for key in sorted(value, key=repr))
    if isinstance(value, list | tuple):
        return tuple(map(_frozen, value))
    return "nan" if value != value else value


class State(NamedTuple):
    """A moment.

    Attributes:
        peers: the number of each peer's state; -1 for the dead.
        works: who computes.
        told: who was told something and has not decided since.
        views: of how many changes each peer has heard.
        messages: on their way: by sender and receiver, each with the sender's view.
        mixed: the steps of each peer.
        work: gradients that are left.
        occurred: how many of the faults have occurred.
    """

    peers: tuple[int, ...]
    works: tuple[bool, ...]
    told: tuple[bool, ...]
    views: tuple[int, ...]
    messages: tuple[tuple[tuple[int, int], tuple[tuple[int, int], ...]], ...]
    mixed: tuple[tuple[Mixed, ...], ...]
    work: int
    occurred: int = 0

    @property
    def still(self) -> bool:
        """Whether all that was said has been heard."""
        return not self.messages and not any(self.told)


class Partition(NamedTuple):
    """Peers are cut off from the others."""

    peers: tuple[int, ...]


class Heal(NamedTuple):
    """The network is whole again."""


class Crash(NamedTuple):
    """A peer is no more."""

    peer: int


class Rejoin(NamedTuple):
    """A peer that has died is there again; all have heard of its death, and it of all."""

    peer: int


@dataclass
class Interleavings:
    """What peers of a policy may come to.

    Arguments:
        policy: of all peers.
        graph: their links.
        work: gradients in all.
        faults: in the order in which they happen, if they happen at all.
        mixing: with which weights they average.
        timed: whether the policy compares moments.
        preempt: whether late work is dropped.
        at_once: whether a peer decides as soon as it was told something.
    """

    policy: Policy
    graph: Graph
    work: int
    faults: tuple[Partition | Heal | Crash | Rejoin, ...] = ()
    mixing: Mixing = field(default_factory=Metropolis)
    timed: bool = False
    preempt: bool = False
    at_once: bool = False

    def __post_init__(self) -> None:
        n_peers = self.graph.n_peers
        self._view = NetworkView(self.graph)
        setup = Setup(
            0,
            self._view,
            self.mixing.on(self.graph, self.graph.edges),
            _Stamped(),
            GradientDescent(np.zeros(1), rate=1.0).schedule,
            np.zeros(n_peers),
            self.preempt,
            0,
            self.policy,
        )
        self._setups = [replace(setup, peer=peer) for peer in range(n_peers)]
        self._kept: list[Any] = []
        self._numbers: dict[Any, int] = {}
        self._messages: list[Message] = []
        self._message_numbers: dict[Any, int] = {}
        self._outcomes: dict[Any, _Outcome] = {}
        self._lively: set[State] = set()
        self._worlds: list[tuple[frozenset[int], Sides]] = [(frozenset(), ())]
        for fault in self.faults:
            gone, sides = self._worlds[-1]
            if isinstance(fault, Partition):
                inside = frozenset(fault.peers)
                sides = inside, frozenset(range(n_peers)) - inside
            elif isinstance(fault, Heal):
                sides = ()
            else:
                gone = gone ^ {fault.peer}
            self._worlds.append((gone, sides))

    # One peer

    def _call(self, peer: int, state: int | None, works: bool, work: int, event: tuple[Any, ...]) -> _Outcome:
        """Rejoin what comes of telling a peer something."""
        now = -float(work) if self.timed else 0.0
        key = peer, state, works, event, now
        if key not in self._outcomes:
            self._outcomes[key] = self._called(peer, state, works, now, event)
        return self._outcomes[key]

    def _called(self, peer: int, state: int | None, works: bool, now: float, event: tuple[Any, ...]) -> _Outcome:
        one = self.policy.peer(self._setups[peer])
        ear = _Ear(peer, self.graph.n_peers, works, now + 1_000.0)
        ear.one = one
        if state is not None:
            one.restore(self._kept[state], ear)
        kind, *what = event
        if kind == "begin":
            one.begin(ear)
        elif kind == "work":
            stamp = np.zeros(self.graph.n_peers)
            stamp[peer] = one.steps + 1.0
            ear.works = False
            one.on_work(stamp)
        elif kind == "message":
            one.on_message(what[0], self._messages[what[1]])
        elif kind == "settle":
            one.settle()
        elif kind == "return":
            one.on_rejoin(*self._worlds[what[0]], what[0], ear)
        else:
            one.on_view_change(*self._worlds[what[0]], what[0])
        kept = one.state()
        attributes = kept["attributes"]
        attributes["begun"], attributes["mean_seconds"] = 0.0, _QUICK if (peer + one.steps) % 3 else _SLOW
        if not ear.works and one.ready is None:
            attributes["vector"] = np.zeros(self.graph.n_peers)
        frozen = _frozen(kept)
        if frozen not in self._numbers:
            self._numbers[frozen] = len(self._kept)
            self._kept.append(kept)
        sent = tuple((to, self._number(message)) for to, message in ear.sent)
        return _Outcome(self._numbers[frozen], sent, ear.works, tuple(ear.done))

    def _number(self, message: Message) -> int:
        key = _frozen(list(message))
        if key not in self._message_numbers:
            self._message_numbers[key] = len(self._messages)
            self._messages.append(message)
        return self._message_numbers[key]

    # All of them

    def _tell(self, state: State, peer: int, event: tuple[Any, ...], before: int | None = None) -> State:
        """Rejoin what comes of telling one peer something."""
        known = state.peers[peer] if before is None else before
        made = self._call(peer, known if known >= 0 else None, state.works[peer], state.work, event)
        messages = dict(state.messages)
        for to, message in made.sent:
            messages[peer, to] = (*messages.get((peer, to), ()), (message, state.views[peer]))
        after = state._replace(
            peers=_put(state.peers, peer, made.state),
            works=_put(state.works, peer, made.works),
            told=_put(state.told, peer, event[0] != "settle"),
            messages=tuple(sorted(messages.items())),
            mixed=_put(state.mixed, peer, (*state.mixed[peer], *made.mixed)),
        )
        if made.mixed and event[0] == "settle":
            after = after._replace(told=_put(after.told, peer, True))
        if self.at_once and event[0] not in ("settle", "begin"):
            return self._tell(after, peer, ("settle",))
        return after

    def first(self) -> State:
        """Rejoin the moment at which all have begun."""
        many = self.graph.n_peers
        state = State((-1,) * many, (False,) * many, (False,) * many, (0,) * many, (), ((),) * many, self.work)
        for peer in range(many):
            state = self._tell(state, peer, ("begin",))
        return state._replace(told=(False,) * many)

    def _lost(self, state: State, sender: int, to: int) -> bool:
        gone, sides = self._worlds[state.occurred]
        return sender in gone or to in gone or any((sender in side) != (to in side) for side in sides)

    def _severed(self, state: State, sender: int, to: int, view: int) -> bool:
        """Whether a change that the receiver has heard of came between them after the message was written."""
        for gone, sides in self._worlds[view : state.views[to] + 1]:
            if sender in gone or to in gone or any((sender in side) != (to in side) for side in sides):
                return True
        return False

    def next(self, state: State, faults: bool = True) -> Iterator[State]:
        """Yield all that may come next."""
        return map(_made, self.ways(state, faults))

    def ways(self, state: State, faults: bool = True) -> Iterator[_Way]:
        """Yield all ways to go on, most of which are not gone yet."""
        for (sender, to), queue in state.messages:
            (message, view), *rest = queue
            left = dict(state.messages)
            left[sender, to] = tuple(rest)
            if not rest:
                del left[sender, to]
            taken = state._replace(messages=tuple(sorted(left.items())))
            if self._lost(state, sender, to) or self._severed(state, sender, to, view):
                yield taken
                continue
            if view > state.views[to]:
                continue  # it is read when the change is heard of
            yield partial(self._tell, taken, to, ("message", sender, message))
            newer = sum(self._messages[other].vector is not None for other, _ in rest)
            if self._messages[message].vector is not None and newer >= 2:
                yield taken
        for peer in range(self.graph.n_peers):
            if state.told[peer]:
                yield partial(self._tell, state, peer, ("settle",))
            if state.works[peer] and state.work:
                yield partial(self._tell, state._replace(work=state.work - 1), peer, ("work",))
            if state.peers[peer] >= 0 and state.views[peer] < state.occurred:
                view = state.views[peer] + 1
                heard = state._replace(views=_put(state.views, peer, view))
                yield partial(self._tell, heard, peer, ("change", view))
        if faults and state.occurred < len(self.faults):
            yield from self._strike(state, self.faults[state.occurred])

    def _strike(self, state: State, fault: Partition | Heal | Crash | Rejoin) -> Iterator[_Way]:
        after = state._replace(occurred=state.occurred + 1)
        if isinstance(fault, Crash):
            yield after._replace(
                peers=_put(state.peers, fault.peer, -1),
                works=_put(state.works, fault.peer, False),
                told=_put(state.told, fault.peer, False),
            )
        elif isinstance(fault, Rejoin):
            others = [peer for peer in range(self.graph.n_peers) if state.peers[peer] >= 0]
            if all(state.views[peer] == state.occurred for peer in others):
                after = after._replace(views=_put(state.views, fault.peer, after.occurred))
                yield partial(self._tell, after, fault.peer, ("return", after.occurred))
        else:
            yield after

    # What must hold

    def search(self, most: int = 10**6) -> int:
        """Visit all that can happen, and check that nobody stands still and that both ends of a link agree.

        Returns:
            How many moments there are.

        Raises:
            AssertionError: with what led there.
        """
        first = self.first()
        came: dict[State, State | None] = {first: None}
        left = [first]
        while left:
            state = left.pop()
            self.check(state, came)
            for after in self.next(state):
                if after not in came:
                    came[after] = state
                    left.append(after)
            assert len(came) < most, f"more than {most} moments"
        return len(came)

    def walk(self, seed: int, steps: int = 400) -> None:
        """Go one way at random, and check what it comes to."""
        draw = random.Random(seed)
        state, came = self.first(), dict[State, State | None]()
        for _ in range(steps):
            self.check(state, came)
            ways = list(self.ways(state))
            if not ways:
                return
            after = _made(draw.choice(ways))
            came[after] = state
            state = after

    def check(self, state: State, came: dict[State, State | None]) -> None:
        """Check one moment."""
        self._agree(state)
        if state.still and all(view == state.occurred for view in self._living(state.views, state)):
            self._goes_on(state, came)

    def _living(self, values: Iterable[int], state: State) -> list[int]:
        return [value for value, number in zip(values, state.peers, strict=True) if number >= 0]

    def _agree(self, state: State) -> None:
        """Both ends of a link mix, each with what the other has sent, and with one weight; or none of them does."""
        if self.faults or isinstance(self.policy, BoundedStaleness):
            return  # one end may have mixed when the other was cut off
        made = [{one.step: one.links for one in own} for own in state.mixed]
        for peer, own in enumerate(made):
            for step, links in own.items():
                for other, theirs, weight in links:
                    there = made[other].get(theirs)
                    assert there is None or (peer, step, weight) in there, (
                        f"peer {peer} mixed its step {step} with step {theirs} of {other}, who mixed with {there}"
                    )

    def _goes_on(self, state: State, came: dict[State, State | None]) -> None:
        """All that was said has been heard: if nothing else goes wrong, everybody takes another step."""
        seen: list[State] = []
        wanted = [len(own) for own in state.mixed]
        now, turn = state, 0
        for _ in range(200):
            if now in self._lively:
                break
            if now.still:
                seen.append(now)
            if all(len(now.mixed[peer]) > wanted[peer] for peer in range(len(wanted)) if now.peers[peer] >= 0):
                break
            after = next(self.next(now._replace(work=0), faults=False), None)
            if after is not None:
                now = after._replace(work=now.work)
                continue
            workers = [peer for peer in range(len(wanted)) if now.works[peer]]
            assert workers, self._story(now, came, state)
            workers.sort(key=lambda peer: (len(now.mixed[peer]), peer))
            turn += 1
            now = self._tell(now._replace(work=now.work - 1), workers[0], ("work",))
        else:
            raise AssertionError(self._story(now, came, state))
        self._lively.update(seen[:1])

    def _story(self, state: State, came: dict[State, State | None], start: State) -> str:
        lines = [f"it stands still: steps {[len(own) for own in state.mixed]}, at work {state.works}"]
        for peer, number in enumerate(state.peers):
            if number >= 0:
                kept = self._kept[number]["attributes"]
                lines.append(f"  {peer}: " + ", ".join(f"{name}={value}" for name, value in kept.items()))
        path, at = [], start
        while at is not None:
            path.append(at)
            at = came.get(at)
        lines += [f"    {self._said(before, after)}" for before, after in zip(path[:0:-1], path[-2::-1], strict=True)]
        return "\n".join(lines)

    def _said(self, before: State, after: State) -> str:
        old, new = dict(before.messages), dict(after.messages)
        words: list[str] = []
        for way in sorted({*old, *new}):
            was, now = [n for n, _ in old.get(way, ())], [n for n, _ in new.get(way, ())]
            if was and (not now or now[: len(was)] != was):
                words.append(f"{way[0]}->{way[1]} comes {_short(self._messages[was[0]])}")
                was = was[1:]
            words += [f"{way[0]}->{way[1]} sent {_short(self._messages[n])}" for n in now[len(was) :]]
        for peer in range(len(before.peers)):
            if before.works[peer] and not after.works[peer]:
                words.append(f"{peer} is ready")
            if len(after.mixed[peer]) > len(before.mixed[peer]):
                words.append(f"{peer} mixed {after.mixed[peer][-1]}")
            if after.views[peer] != before.views[peer]:
                words.append(f"{peer} hears of change {after.views[peer]}")
        if after.occurred > before.occurred:
            words.append(str(self.faults[before.occurred]))
        return "; ".join(words) or "settles"


_Way = State | partial[State]


def _made(way: _Way) -> State:
    """Return where a way leads."""
    return way if isinstance(way, State) else way()


def _short(message: Message) -> str:
    return f"{message.tag}({message.round}, {message.data})"


def _put(values: tuple[Any, ...], place: int, value: Any) -> tuple[Any, ...]:
    return (*values[:place], value, *values[place + 1 :])


def steps_of(state: State) -> dict[int, int]:
    """Rejoin how many steps each peer has taken."""
    found: dict[int, int] = defaultdict(int)
    for peer, own in enumerate(state.mixed):
        found[peer] = len(own)
    return found
