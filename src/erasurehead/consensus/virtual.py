"""Peers on a virtual clock: thousands of them in one process, with time that jumps to the next event."""

from __future__ import annotations

import heapq
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, final

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead.consensus.contract import Message, MixedStep, Peer, Port
from erasurehead.consensus.drawn import DrawnDelays
from erasurehead.consensus.faults import Leave, Trouble, parted
from erasurehead.consensus.shares import LocalGradients
from erasurehead.delays.base import Delays

_TROUBLE, _NOTICE, _WORK, _MESSAGE = 0, 1, 2, 3
"""The order of simultaneous events."""


@final
class VirtualPort(Port):
    """A peer's connection to the others on the virtual clock."""

    __slots__ = ("_clock", "peer")

    def __init__(self, clock: VirtualClock, peer: int) -> None:
        self._clock, self.peer = clock, peer

    def now(self) -> float:
        return self._clock.time

    def send(self, to: int, message: Message) -> None:
        clock = self._clock
        clock.messages += 1
        if message.vector is not None:
            clock.vectors += 1
        if clock.latency:
            clock.push(clock.time + clock.latency, _MESSAGE, to, (self.peer, message))
        else:
            clock.soon.append((to, self.peer, message))

    def work(self, model: Array, step: int) -> None:
        self._clock.begin_work(self.peer, model, step)

    def drop_work(self) -> None:
        self._clock.drop_work(self.peer)

    def mixed(self, step: MixedStep) -> None:
        self._clock.total += 1
        self._clock.on_step(self.peer, self._clock.time, step)


@final
class VirtualClock:
    """Runs peers: events in the order of time, and all simultaneous ones before any peer decides.

    The same peers, delays and seed give the same bits. All pending gradients are computed together when the first of
    them is due.

    Arguments:
        peers: one peer for each number.
        gradients: the gradients that they compute.
        delays: delays of their work, drawn by a peer's own steps, so that all policies meet the same delays.
        seconds_per_step: seconds that are added to each gradient.
        latency: seconds that each message takes.
        rows_every: seconds after which the next row of the delays applies, for traces and other models that follow the
            clock; None for one row per step.
        troubles: faults of peers and their network.
        notice: seconds after which the remaining peers notice that a peer is gone, or a link cut.
        on_step: called with each step: peer, time, step.
        on_trouble: called with each fault when it is noticed: time, peers that are gone, sides of a cut.

    Attributes:
        time: seconds since training began.
        total: total number of steps of all peers.
        messages: number of messages sent; `vectors` of them carried a model.
        gradient_seconds: processor seconds spent on gradients.
    """

    def __init__(
        self,
        peers: Sequence[Peer],
        gradients: LocalGradients,
        delays: Delays,
        *,
        seconds_per_step: float = 0.0,
        latency: float = 0.0,
        rows_every: float | None = None,
        troubles: Sequence[Trouble] = (),
        notice: float = 0.0,
        on_step: Callable[[int, float, MixedStep], None] = lambda peer, time, step: None,
        on_trouble: Callable[[float, frozenset[int], tuple[frozenset[int], ...]], None] = lambda time, gone, sides: (
            None
        ),
    ) -> None:
        self.peers, self.gradients = list(peers), gradients
        self.seconds_per_step, self.latency = seconds_per_step, latency
        self.notice, self.on_step, self.on_trouble = notice, on_step, on_trouble
        self.time = 0.0
        self.total = self.messages = self.vectors = 0
        self.gradient_seconds = 0.0
        self.soon: deque[tuple[int, int, Message]] = deque()
        self.gone: set[int] = set()
        self.sides: tuple[frozenset[int], ...] = ()
        n_peers = len(self.peers)
        self._ports = [VirtualPort(self, peer) for peer in range(n_peers)]
        self._heap: list[tuple[float, int, int, int, Any]] = []
        self._count = 0
        self._dirty: list[int] = []
        self._is_dirty = bytearray(n_peers)
        self._work = [0] * n_peers  # the number of the work that each peer is at; those dropped have lower ones
        self._working = bytearray(n_peers)
        self._models: list[Array | None] = [None] * n_peers
        self._steps = [0] * n_peers
        self._made: list[Array | None] = [None] * n_peers
        self._pending: list[int] = []
        self._delays = DrawnDelays(delays, n_peers, rows_every)
        self._noticed: frozenset[int] = frozenset()
        self._told: tuple[frozenset[int], ...] = ()  # sides of a cut, as peers know of it
        self._changes: list[tuple[int, frozenset[int], tuple[frozenset[int], ...]]] = []  # after which event each was
        for trouble in troubles:
            if isinstance(trouble, Leave):
                self.push(trouble.at, _TROUBLE, trouble.peer, ("leave",))
                if trouble.back is not None:
                    self.push(trouble.back, _TROUBLE, trouble.peer, ("return",))
            else:
                inside = frozenset(trouble.peers)
                self.push(trouble.at, _TROUBLE, -1, ("cut", inside, frozenset(range(n_peers)) - inside))
                if trouble.until is not None:
                    self.push(trouble.until, _TROUBLE, -1, ("cut",))

    def begin(self) -> None:
        """Let all peers begin."""
        for port, peer in zip(self._ports, self.peers, strict=True):
            peer.begin(port)

    def push(self, when: float, kind: int, peer: int, payload: Any) -> None:
        """Schedule an event."""
        self._count += 1
        heapq.heappush(self._heap, (when, kind, self._count, peer, payload))

    def begin_work(self, peer: int, model: Array, step: int) -> None:
        """A peer starts a gradient."""
        self._work[peer] += 1
        self._models[peer], self._steps[peer], self._made[peer] = model, step, None
        if not self._working[peer]:
            self._working[peer] = 1
        self._pending.append(peer)
        seconds = self._delays.seconds(peer, step, self.time) + self.seconds_per_step
        if seconds < np.inf:
            self.push(self.time + seconds, _WORK, peer, self._work[peer])

    def drop_work(self, peer: int) -> None:
        """A peer abandons its gradient."""
        self._work[peer] += 1
        self._working[peer] = 0

    def run(self, total: int, until: float = np.inf) -> bool:
        """Continue until the total number of steps is reached, or the time.

        Returns:
            Whether the steps were reached; False if the time was up before, or nothing can happen any more.
        """
        heap, peers = self._heap, self.peers
        while self.total < total:
            if not heap or heap[0][0] > until:
                return False
            when, kind, count, peer, payload = heapq.heappop(heap)
            self.time = when
            if kind == _WORK:
                if payload == self._work[peer] and self._working[peer]:
                    made = self._made[peer]
                    if made is None:
                        made = self._compute(peer)
                    self._working[peer] = 0
                    self._models[peer] = self._made[peer] = None
                    peers[peer].on_work(made)
                    self._mark(peer)
            elif kind == _MESSAGE:
                if not self._changes or count > self._changes[-1][0] or not self._severed(peer, payload[0], count):
                    self._deliver(peer, *payload)
            elif kind == _NOTICE:
                self._tell(*payload, heals=peer < 0 and not payload)
            else:
                self._strike(peer, payload)
            self._drain()
        return True

    def _mark(self, peer: int) -> None:
        if not self._is_dirty[peer]:
            self._is_dirty[peer] = 1
            self._dirty.append(peer)

    def _severed(self, to: int, sender: int, count: int) -> bool:
        """Whether peers have learnt, since a message was sent, that its two ends were separated."""
        return any(
            to in gone or sender in gone or parted(to, sender, sides)
            for number, gone, sides in self._changes
            if number >= count
        )

    def _deliver(self, to: int, sender: int, message: Message) -> None:
        if self.gone or self.sides or self._told:
            if to in self.gone or sender in self.gone:
                return
            if parted(to, sender, self.sides) or parted(to, sender, self._told):
                return
        self.peers[to].on_message(sender, message)
        if not self._is_dirty[to]:
            self._is_dirty[to] = 1
            self._dirty.append(to)

    def _drain(self) -> None:
        """Deliver all events of this moment, and let peers decide when none is left."""
        soon, heap = self.soon, self._heap
        while True:
            while soon:
                self._deliver(*soon.popleft())
            if not self._dirty or (heap and heap[0][0] <= self.time):
                return
            dirty, self._dirty = self._dirty, []
            for peer in dirty:
                self._is_dirty[peer] = 0
            for peer in dirty:
                if peer not in self.gone:
                    self.peers[peer].settle()

    def _compute(self, due: int) -> Array:
        begin = time.process_time()
        wanted = [peer for peer in dict.fromkeys(self._pending) if self._working[peer] and self._made[peer] is None]
        self._pending.clear()
        models = np.array([self._models[peer] for peer in wanted])
        made = self.gradients.gradients(wanted, models, [self._steps[peer] for peer in wanted])
        for peer, gradient in zip(wanted, made, strict=True):
            self._made[peer] = gradient
        self.gradient_seconds += time.process_time() - begin
        found = self._made[due]
        assert found is not None
        return found

    # What happens to peers

    def _strike(self, peer: int, what: tuple[Any, ...]) -> None:
        if what[0] == "leave":
            self.gone.add(peer)
            self.drop_work(peer)
            self.push(self.time + self.notice, _NOTICE, peer, ())
        elif what[0] == "return":
            if peer not in self._noticed:
                self._tell()
            self.gone.discard(peer)
            self._tell(returning=peer)
            self.peers[peer].on_return(self._noticed, self._told, len(self._changes), self._ports[peer])
            self._mark(peer)
        else:
            self.sides = tuple(what[1:])
            self.push(self.time + self.notice, _NOTICE, -1, self.sides)

    def _tell(self, *cut: frozenset[int], returning: int = -1, heals: bool = False) -> None:
        """Tell all present peers which are gone, and of a cut, even of one that has healed meanwhile.

        Messages were lost then, and a link that lost some starts over at both ends.
        """
        self._noticed = frozenset(self.gone)
        if cut or heals:
            self._told = cut
        self._changes = [*self._changes, (self._count, self._noticed, self._told)]
        self.on_trouble(self.time, self._noticed, self._told)
        for peer, one in enumerate(self.peers):
            if peer not in self.gone and peer != returning:
                one.on_change(self._noticed, self._told, len(self._changes))
                self._mark(peer)

    # To the bit

    def state(self) -> dict[str, Any]:
        """Return everything that `restore` needs, between two events."""
        return {
            "time": self.time, "total": self.total, "messages": self.messages, "vectors": self.vectors,
            "count": self._count, "gone": sorted(self.gone), "noticed": sorted(self._noticed),
            "sides": [sorted(side) for side in self.sides], "told": [sorted(side) for side in self._told],
            "changes": [[count, sorted(gone), [*map(sorted, sides)]] for count, gone, sides in self._changes],
            "heap": [[when, kind, count, peer, _payload(kind, payload)] for when, kind, count, peer, payload in
                     sorted(self._heap, key=lambda entry: entry[:3])],
            "work": list(self._work), "working": list(self._working), "steps": list(self._steps),
            "models": [[peer, model] for peer, model in enumerate(self._models) if model is not None],
            "made": [[peer, made] for peer, made in enumerate(self._made) if made is not None],
            "pending": list(dict.fromkeys(self._pending)),
            "dirty": list(self._dirty),
            "peers": [peer.state() for peer in self.peers],
        }  # fmt: skip

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from what `state` returned, instead of beginning."""
        self.time, self.total = float(state["time"]), int(state["total"])
        self.messages, self.vectors, self._count = int(state["messages"]), int(state["vectors"]), int(state["count"])
        self.gone, self._noticed = set(state["gone"]), frozenset(state["noticed"])
        self.sides = tuple(frozenset(side) for side in state["sides"])
        self._told = tuple(frozenset(side) for side in state["told"])
        self._changes = [
            (int(count), frozenset(gone), tuple(frozenset(side) for side in sides))
            for count, gone, sides in state["changes"]
        ]
        self._heap = [
            (float(when), int(kind), int(count), int(peer), _payload_of(int(kind), payload))
            for when, kind, count, peer, payload in state["heap"]
        ]
        self._work, self._steps = [int(w) for w in state["work"]], [int(s) for s in state["steps"]]
        self._working = bytearray(int(w) for w in state["working"])
        self._models, self._made = [None] * len(self.peers), [None] * len(self.peers)
        for peer, model in state["models"]:
            self._models[peer] = model
        for peer, made in state["made"]:
            self._made[peer] = made
        self._pending = [int(peer) for peer in state["pending"]]
        self._dirty = [int(peer) for peer in state["dirty"]]
        self._is_dirty = bytearray(peer in self._dirty for peer in range(len(self.peers)))
        for peer, port, kept in zip(self.peers, self._ports, state["peers"], strict=True):
            peer.restore(kept, port)


def _payload(kind: int, payload: Any) -> Any:
    if kind == _MESSAGE:
        return [payload[0], payload[1].state()]
    if kind == _TROUBLE:
        return [payload[0], *(sorted(side) for side in payload[1:])]
    return payload if kind == _WORK else [sorted(side) for side in payload]


def _payload_of(kind: int, payload: Any) -> Any:
    if kind == _MESSAGE:
        return int(payload[0]), Message.restored(payload[1])
    if kind == _TROUBLE:
        return (str(payload[0]), *(frozenset(side) for side in payload[1:]))
    return int(payload) if kind == _WORK else tuple(frozenset(side) for side in payload)
