"""A peer in a worker of an engine: it computes, receives and sends messages, and reports now and then what it did."""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast, final

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead.consensus.contract import Message, MixedStep, Peer, Port, tupled
from erasurehead.consensus.drawn import DrawnDelays
from erasurehead.consensus.faults import parted
from erasurehead.consensus.plans import ConsensusPlan
from erasurehead.consensus.rows import PeerRow
from erasurehead.consensus.shares import Holdings, LocalGradients
from erasurehead.consensus.views import View
from erasurehead.engines.base import MessageSpec, Order, Program
from erasurehead.engines.machine import machine
from erasurehead.engines.peer_channels import COORDINATOR, Endpoint, PeerChannels

TICK = 0.125
"""Seconds between two reports of a peer, and of moments at which the mean model can be looked at; without rounding."""

PREPARE, BEGIN = "prepare", "begin"
"""Kinds of orders: the one that a peer answers with an empty report when it is ready, and the one that it lives by."""

_REPORTS = 16  # that may be unread before a peer has to wait: so many ticks, twice, may pass without a reader
_ROWS = 256  # of a report
_LONGEST = 1e9  # seconds; longer delays count as endless
_REMEMBERED = 1 << 27  # bytes of earlier models that a peer keeps, to tell which one it had at the end


@dataclass(frozen=True, eq=False)
class Report:
    """What a peer has done since its last report.

    Attributes:
        until: the moment up to which it tells, in seconds since training began.
        rows: of its steps, ascending.
        messages: that it has sent in all, until its last step before `until`; `vectors` of them carried a model.
        vectors: see there.
        gradient_seconds: that went into gradients in all, until then.
        last: whether it is the last one.
        model: at `until`.
        noticed: neighbours whose end it has seen: number, life, when.
    """

    until: float
    rows: list[PeerRow]
    messages: int
    vectors: int
    gradient_seconds: float
    last: bool
    model: Array
    noticed: list[tuple[int, int, float]] = field(default_factory=list[tuple[int, int, float]])

    def write(self, out: Array) -> None:
        """Write it into the room of a message."""
        rows = [list(vars(row).values()) for row in self.rows]
        head = [self.until, self.messages, self.vectors, self.gradient_seconds, self.last, self.noticed, rows]
        words = json.dumps(head, separators=(",", ":")).encode()
        n_bytes = self.model.nbytes
        out[:8].view(np.int64)[0] = len(words)
        out[8 : 8 + n_bytes] = self.model.view(np.uint8)
        out[8 + n_bytes : 8 + n_bytes + len(words)] = np.frombuffer(words, dtype=np.uint8)

    @classmethod
    def read(cls, written: Array, n_parameters: int) -> Report:
        """Return the report in a message."""
        n_bytes, size = 8 * n_parameters, int(written[:8].view(np.int64)[0])
        words = written[8 + n_bytes : 8 + n_bytes + size].tobytes()
        until, messages, vectors, gradients, last, noticed, rows = json.loads(words)
        model = written[8 : 8 + n_bytes].view(np.float64).copy()
        seen = [(int(peer), int(life), float(when)) for peer, life, when in noticed]
        return cls(until, [PeerRow(*row) for row in rows], messages, vectors, gradients, last, model, seen)

    @staticmethod
    def room(n_parameters: int, degree: int) -> int:
        """Return the bytes that a report takes at most."""
        return 8 + 8 * n_parameters + 1_024 + 64 * degree + _ROWS * (192 + 40 * degree)


class _Then(NamedTuple):
    """What a peer had when its model changed: a run ends at a moment of which its peers hear later only."""

    moment: float
    model: Array
    messages: int
    vectors: int
    gradient_seconds: float


@final
@dataclass(eq=False)
class PeerProgram(Program):
    """One peer, as a program for a worker: of the two orders that it gets, the second lasts as long as it lives.

    Arguments:
        plan: of the run.
        peer: its number.
        channels: between all peers.
        steps: that an earlier peer of this number has begun.
    """

    plan: ConsensusPlan
    peer: int
    channels: PeerChannels
    steps: int = 0
    pure = False

    def __post_init__(self) -> None:
        self._life: Life | None = None
        self.preload = ("erasurehead.consensus.life", *self.plan.problem.preload)

    @property
    def message_specs(self) -> Sequence[MessageSpec]:
        room = Report.room(len(self.plan.x), self.plan.graph.n_peers)
        return [MessageSpec(number, 1.0, room, "uint8") for number in range(_REPORTS)]

    @property
    def input_size(self) -> int:
        return 0

    def take(self, order: Order) -> Order:
        return order

    def remaining(self, order: Order, done: Sequence[MessageSpec]) -> Sequence[MessageSpec]:
        if order.kind == PREPARE:
            return [] if done else [self.message_specs[0]]
        ended = self._life is not None and self._life.ended
        return [] if ended else [self.message_specs[len(done) % _REPORTS]]

    def compute(self, spec: MessageSpec, taken: Order, out: Array) -> None:
        made = self.plan
        if taken.kind == PREPARE:  # what is compiled, or opened, at the first gradient does not count on the clock
            gradients = LocalGradients(made.problem, made.shares, made.batch, made.seed)
            gradients.gradients([self.peer], made.x[None], [0])
            Report(0.0, [], 0, 0, 0.0, False, made.x).write(out)
            return
        if self._life is None:
            self._life = Life(self, taken.note)
        self._life.report().write(out)


@final
class LivePort(Port):
    """A peer's way to the others, with real time and real messages."""

    def __init__(self, life: Life, peer: int) -> None:
        self._life, self.peer = life, peer

    def now(self) -> float:
        return self._life.moment

    def send(self, to: int, message: Message) -> None:
        self._life.send(to, message)

    def work(self, model: Array, step: int) -> None:
        self._life.wanted = model, step

    def drop_work(self) -> None:
        self._life.wanted = self._life.due = None

    def mixed(self, step: MixedStep) -> None:
        self._life.rows.append(PeerRow.of(self.peer, self._life.moment, step))


@final
class Life:
    """What a peer does in its worker, moment by moment: messages that came, then work that is done, then decisions.

    That a neighbour has ended the peer sees by itself, some `notice` later, and tells its other neighbours, who tell
    theirs: before anything else that it writes to them, so that nobody is answered by who knows more. Who is gone is a
    set that grows, of lives and not of peers: it does not matter in which order, and how often, its members are heard
    of. Cuts, and who has come back, are told by those who watch over all: they do both.

    Arguments:
        program: what it is.
        note: of the order with which it begins: `lives` of all peers, `where` they are, and the `clock`; of one who
            comes back `ended`, `sides` and `cut`, too.

    Attributes:
        moment: seconds since training began, by the clock that all peers share; it stands still within a handler.
        ended: whether the last report is given.
        wanted: the gradient that is asked for and not begun.
        due: a gradient that is there, and when it may be.
        rows: of steps that no report has told of.
    """

    def __init__(self, program: PeerProgram, note: Mapping[str, Any]) -> None:
        made = program.plan
        self.peer, self.made = program.peer, made
        self._origin = _origin(*note["clock"])
        self.moment = self._now()
        self.ended = False
        self.wanted: tuple[Array, int] | None = None
        self.due: tuple[float, Array] | None = None
        self.rows: list[PeerRow] = []
        self.messages = self.vectors = 0
        self._gradient_seconds = 0.0
        self._end = np.inf
        self._endpoint: Endpoint = program.channels.endpoint(self.peer)
        self._lives: dict[int, int] = {}
        self._ended: set[int] = set()  # lives
        self._known = View(made.graph)
        self._neighbours: tuple[int, ...] = made.graph.neighbours[self.peer]
        self._seen: dict[int, float] = {}  # neighbours that are no more: when that is taken note of
        self._noticed: list[tuple[int, int, float]] = []
        self._view = 0  # number of the newest change that was told by those who watch
        self._severed: dict[int, int] = {}  # by peer, the last of them that came between it and this one
        self._early: list[tuple[int, int, int, Message]] = []
        self._cut: tuple[frozenset[int], ...] = ()
        self._gradients = LocalGradients(made.problem, made.shares, made.batch, made.seed)
        self._holdings = Holdings(made.graph, made.shares, made.orphans)
        self._delays = DrawnDelays(made.delays, made.graph.n_peers, made.rows_every)
        self._next = (int(self.moment / TICK) + 1) * TICK
        self._one: Peer = made.peer(self.peer, program.steps)
        self._history: deque[_Then] = deque([self._then()])
        port = LivePort(self, self.peer)
        self._learn(note)
        if "ended" in note:
            self._ended.update(int(life) for life in note["ended"])
            self._cut = _sides(note["cut"])
            self._look(_sides(note["sides"]))
            self._one.on_return(self._known.gone, self._known.sides, self._known.number, port)
        else:
            self._one.begin(port)
        self._settle()

    def _now(self) -> float:
        return time.monotonic() - self._origin

    def report(self) -> Report:
        """Live until there is something to be told; return it."""
        while True:
            self.moment = now = self._now()
            if now >= self._end:
                return self._told(self._end, last=True)
            if now >= self._next:
                until, self._next = int(now / TICK) * TICK, (int(now / TICK) + 1) * TICK
                return self._told(until)
            if len(self.rows) >= _ROWS:
                return self._told(now)
            if self._turn():
                self._settle()
            elif self.wanted is not None:
                self._compute(*self.wanted)
            else:
                due = min(self._seen.values(), default=np.inf)
                if self.due is not None:
                    due = min(due, self.due[0])
                self._endpoint.wait(self._origin + min(due, self._next, self._end))

    def _told(self, until: float, last: bool = False) -> Report:
        rows = [row for row in self.rows if row.end <= until]
        told, self.rows = rows[:_ROWS], rows[_ROWS:] + [row for row in self.rows if row.end > until]
        if len(rows) > _ROWS:
            until, last = told[-1].end, False
        self._trim()
        then = next((then for then in reversed(self._history) if then.moment <= until), self._history[0])
        if last:
            self.ended = True
            self._endpoint.close()
        noticed, self._noticed = self._noticed, []
        return Report(
            until, told, then.messages, then.vectors, then.gradient_seconds, last, np.array(then.model), noticed
        )

    def _trim(self) -> None:
        most = max(8, min(8_192, _REMEMBERED // max(1, self._one.model.nbytes)))
        while len(self._history) > most:
            self._history.popleft()

    def _turn(self) -> bool:
        """Tell the peer what has come, and whether its work is done; return whether anything has happened."""
        some = False
        for received in self._endpoint.receive():
            some = True
            if received.sender == COORDINATOR:
                self._hear(*json.loads(received.head))
                continue
            view, theirs, ours, tag, round, data = json.loads(received.head)
            if tag == _ENDED:
                if not self._separated(received.sender):
                    self._end_of(set(data))
            elif ours == self._lives[self.peer]:
                message = Message(tag, round, cast("tuple[Any, ...]", tupled(data)), received.vector)
                self._deliver(view, received.sender, theirs, message)
        some |= self._watch()
        if self.due is not None and self.moment >= self.due[0]:
            gradient, self.due, some = self.due[1], None, True
            self._one.on_work(gradient)
        return some

    def _deliver(self, view: int, sender: int, life: int, message: Message) -> None:
        """Tell the peer of a message, unless its sender has heard of a change that we shall hear of: then, after that.

        So a change comes to all at once, as on the virtual clock: before it nobody is answered by who knows more. What
        was written before a cut was heard of is void after it: a link that has lost messages starts over at both ends.
        """
        if view > self._view:
            self._early.append((view, sender, life, message))
        elif view > self._severed.get(sender, -1) and self._reaches(sender, life):
            self._one.on_message(sender, message)

    def _reaches(self, sender: int, life: int) -> bool:
        return life == self._lives.get(sender) and life not in self._ended and not self._separated(sender)

    def _separated(self, other: int) -> bool:
        return bool(self._cut) and parted(self.peer, other, self._cut)

    def _settle(self) -> None:
        self._one.settle()
        if self._one.model is not self._history[-1].model:
            self._history.append(self._then())

    def _then(self) -> _Then:
        return _Then(self.moment, self._one.model, self.messages, self.vectors, self._gradient_seconds)

    def _compute(self, model: Array, step: int) -> None:
        self.wanted = None
        begin = time.process_time()
        gradient = self._gradients.gradients([self.peer], model[None], [step])[0]
        self._gradient_seconds += time.process_time() - begin
        seconds = self._delays.seconds(self.peer, step, self.moment)
        self.due = self._now() + min(seconds, _LONGEST), gradient

    def send(self, to: int, message: Message) -> None:
        """Write to another peer, unless it is gone or out of reach."""
        self.messages += 1
        self.vectors += message.vector is not None
        if to in self._known.gone or self._separated(to):
            return
        head = [self._view, self._lives[self.peer], self._lives[to], message.tag, message.round, message.data]
        self._endpoint.send(to, json.dumps(head, separators=(",", ":")).encode(), message.vector)

    # Who is there

    def _watch(self) -> bool:
        """See whether neighbours have ended; return whether that is to be taken note of now."""
        for peer in self._endpoint.lost(self._neighbours):
            self._seen.setdefault(peer, self.moment + self.made.notice)
        now = [peer for peer, due in self._seen.items() if due <= self.moment]
        for peer in now:
            del self._seen[peer]
            if peer in self._neighbours:
                self._noticed.append((peer, self._lives[peer], self.moment))
        return self._end_of({self._lives[peer] for peer in now if peer in self._neighbours})

    def _end_of(self, lives: set[int]) -> bool:
        """Some lives have ended, by what this peer has seen or heard; return whether that is new."""
        if lives <= self._ended:
            return False
        self._ended |= lives
        before = self._known
        self._look(before.sides)
        if self._known is before:
            return False
        self._one.on_change(self._known.gone, self._known.sides, self._known.number)
        return True

    def _look(self, sides: tuple[frozenset[int], ...]) -> None:
        """Take a new view of the network, if it is another, and tell who is a neighbour in it which lives have ended.

        After each change that was told of, too, even if the network is what it was: what was said of ends may have been
        lost in a cut.
        """
        gone = frozenset(peer for peer, life in self._lives.items() if life in self._ended)
        if (gone, sides, self._view) == (self._known.gone, self._known.sides, self._known.number):
            return
        self._known = self._known.changed(gone, sides, self._view)
        self._neighbours = self._known.neighbours[self.peer]
        if self._holdings.change(gone):
            self._gradients.assign(self._holdings.shares)
        head = json.dumps([self._view, 0, 0, _ENDED, 0, sorted(self._ended)], separators=(",", ":")).encode()
        for peer in self._neighbours if self._ended else ():
            if not self._separated(peer):
                self._endpoint.send(peer, head)

    # What those who watch over all peers say

    def _hear(self, life: int, kind: str, what: Any) -> None:
        if life != self._lives[self.peer]:
            return  # it was for an earlier peer of this number
        if kind == "end":
            self._end = float(what)
        elif kind == "cut":
            self._cut = _sides(what)
        else:
            self._change(what)
            early, self._early = self._early, []
            for held in early:
                self._deliver(*held)

    def _change(self, note: Mapping[str, Any]) -> None:
        """The network was cut, has healed, or somebody has come back, of whose end this peer may not have heard."""
        lives = {int(peer): int(life) for peer, life in note["lives"]}
        sides = _sides(note["sides"])
        self._end_of({self._lives[peer] for peer, life in lives.items() if life != self._lives[peer]})
        self._learn(note)
        for peer in self._lives:
            if parted(self.peer, peer, sides):
                self._severed[peer] = self._view
        self._look(sides)
        self._one.on_change(self._known.gone, self._known.sides, self._known.number)

    def _learn(self, note: Mapping[str, Any]) -> None:
        self._lives = {int(peer): int(life) for peer, life in note["lives"]}
        self._endpoint.learn(note["where"])
        self._view = int(note["view"])
        for peer in [peer for peer in self._seen if peer not in self._endpoint.lost([peer])]:
            del self._seen[peer]


_ENDED = ""
"""The tag of messages that say which lives have ended; policies have others."""


def _sides(written: Any) -> tuple[frozenset[int], ...]:
    return tuple(frozenset(side) for side in written)


def _origin(place: str, began: float, wall: float) -> float:
    """Return when training began by this machine's `time.monotonic`.

    Arguments:
        place: the machine of whoever says so.
        began: by its `time.monotonic`.
        wall: by its calendar, for other machines, whose clocks must be set alike.
    """
    return began if place == machine() else time.monotonic() - (time.time() - wall)


def clock(began: float) -> tuple[str, float, float]:
    """Return when training began, as a peer on any machine is told."""
    return machine(), began, time.time() - (time.monotonic() - began)


def words(life: int, kind: str, what: Any) -> bytes:
    """Return the head of a message to a peer from those who watch over all."""
    return json.dumps([life, kind, what], separators=(",", ":")).encode()
