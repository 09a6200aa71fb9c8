"""A discrete-event simulation of peers: thousands of them in one process, on a clock that jumps to the next event."""

from __future__ import annotations

import heapq
import math
import time
from collections import deque
from collections.abc import Callable
from typing import Any, final

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead._internal.documents import Entries, PlainData
from erasurehead._internal.resumable import Resumable
from erasurehead._internal.storage.sealed import Unfit
from erasurehead.consensus._contract import Message, Peer, Port
from erasurehead.consensus._drawn_delays import DrawnDelays
from erasurehead.consensus._graphs import Sides
from erasurehead.consensus._injected_faults import changes_by, partitioned
from erasurehead.consensus._plans import ConsensusPlan
from erasurehead.consensus._rows import PeerRow
from erasurehead.consensus._shares import LocalGradients, peers_in
from erasurehead.errors import EngineError

_FAULT, _NOTICE, _WORK, _MESSAGE = 0, 1, 2, 3
"""Kinds of events, in the order in which simultaneous ones are handled."""

_MOST_MESSAGES = 100  # from each peer to each other without a step: an edited checkpoint can make them talk for ever


@final
class VirtualPort(Port):
    """The port of a peer on the virtual clock."""

    __slots__ = ("_clock", "peer")

    def __init__(self, clock: VirtualClock, peer: int) -> None:
        self._clock, self.peer = clock, peer

    def now(self) -> float:
        return self._clock.time

    def send(self, to: int, message: Message) -> None:
        clock = self._clock
        clock.messages += 1
        if clock.messages > clock.most_messages:
            raise EngineError("peers send messages to each other without end, and none of them takes a step.")
        if message.vector is not None:
            clock.vectors += 1
        if clock.plan.latency:
            clock.push(clock.time + clock.plan.latency, _MESSAGE, to, (self.peer, message))
        else:
            clock.immediate.append((to, self.peer, message))

    def work(self, model: Array, step: int) -> None:
        self._clock.begin_work(self.peer, model, step)

    def drop_work(self) -> None:
        self._clock.drop_work(self.peer)

    def mixed(self, row: PeerRow) -> None:
        clock = self._clock
        clock.total += 1
        clock.expect_messages()
        clock.on_step(row)


@final
class VirtualClock(Resumable):
    """Runs peers on a virtual clock. All simultaneous events are handled before any peer decides (`Peer.settle`).

    The same peers, delays and seed give the same bits. All requested gradients are computed in one batch when the first
    of them is due.

    Arguments:
        plan: the plan, of which it has the peers, their faults, and how long things take; delays are drawn by a peer's
            own steps, so that all policies meet the same ones.
        gradients: computes their gradients.
        on_step: called with each step of a peer.
        on_view_change: called with each new view: time, peers that are gone, sides of a network partition.

    Attributes:
        time: seconds since training began.
        total: total number of steps of all peers.
        messages: total number of messages sent; `vectors` of them carried a model.
        most_messages: the total number at which peers are found to talk without end.
        gone: peers that have crashed, whether or not the others know of that.
        sides: sides of the network partition in effect, whether or not peers know of it.
        gradient_seconds: processor seconds spent on gradients.
    """

    checkpointed = (
        "time",
        "total",
        "messages",
        "vectors",
        "gone",
        "sides",
        "_heap",
        "_n_events",
        "_unsettled",
        "_work_number",
        "_working",
        "_models",
        "_steps",
        "_computed",
        "_pending",
        "_known_gone",
        "_known_sides",
        "_views",
    )
    records = (Message,)

    def __init__(
        self,
        plan: ConsensusPlan,
        gradients: LocalGradients,
        on_step: Callable[[PeerRow], None],
        on_view_change: Callable[[float, frozenset[int], Sides], None],
    ) -> None:
        self.plan, self.gradients = plan, gradients
        self.on_step, self.on_view_change = on_step, on_view_change
        self.peers: list[Peer] = [plan.peer(number) for number in range(plan.graph.n_peers)]
        self.time = 0.0
        self.total = self.messages = self.vectors = 0
        self.gradient_seconds = 0.0
        self.immediate: deque[tuple[int, int, Message]] = deque()
        self.gone: set[int] = set()
        self.sides: Sides = ()
        self.expect_messages()
        n_peers = len(self.peers)
        self._ports = [VirtualPort(self, peer) for peer in range(n_peers)]
        self._heap: list[tuple[float, int, int, int, Any]] = []
        self._n_events = 0
        self._unsettled: list[int] = []
        self._is_unsettled = bytearray(n_peers)
        self._work_number = [0] * n_peers  # by peer; work with a lower number was dropped
        self._working = [False] * n_peers
        self._models: list[Array | None] = [None] * n_peers
        self._steps = [0] * n_peers
        self._computed: list[Array | None] = [None] * n_peers
        self._pending: list[int] = []
        self._delays = DrawnDelays(plan.delays, n_peers, plan.rows_every)
        self._known_gone: frozenset[int] = frozenset()  # what peers know of `gone` and `sides`
        self._known_sides: Sides = ()
        # All views but the first: number of events at that time, peers that are gone, sides of a partition.
        self._views: list[tuple[int, frozenset[int], Sides]] = []
        for when, peer, what, sides in changes_by(plan.faults, n_peers):
            self.push(when, _FAULT, peer, (what, *sides))

    def expect_messages(self) -> None:
        """Set how many messages there may be before the next step: far more than any policy needs."""
        self.most_messages = self.messages + _MOST_MESSAGES * (100 + len(self.peers) ** 2)

    def begin(self) -> None:
        """Let all peers begin."""
        for port, peer in zip(self._ports, self.peers, strict=True):
            peer.begin(port)

    def push(self, when: float, kind: int, peer: int, payload: Any) -> None:
        """Schedule an event.

        Arguments:
            when: in seconds since training began.
            kind: of the kinds above.
            peer: the peer that it concerns; -1 for none.
            payload: further data, depending on the kind.
        """
        self._n_events += 1
        heapq.heappush(self._heap, (when, kind, self._n_events, peer, payload))

    def begin_work(self, peer: int, model: Array, step: int) -> None:
        """Start a gradient; see `Port.work`."""
        self._work_number[peer] += 1
        self._models[peer], self._steps[peer], self._computed[peer] = model, step, None
        if not self._working[peer]:
            self._working[peer] = True
        self._pending.append(peer)
        seconds = self._delays.seconds(peer, step, self.time) + self.plan.seconds_per_step
        if seconds < np.inf:
            self.push(self.time + seconds, _WORK, peer, self._work_number[peer])

    def drop_work(self, peer: int) -> None:
        """Abandon a gradient; see `Port.drop_work`."""
        self._work_number[peer] += 1
        self._working[peer] = False

    def run(self, total: int, until: float = np.inf) -> bool:
        """Run until all peers together have taken a number of steps, or until a time.

        Arguments:
            total: total number of steps of all peers.
            until: in seconds since training began.

        Returns:
            Whether the number of steps was reached; False if the time was reached first, or no events are left.
        """
        heap, peers = self._heap, self.peers
        while self.total < total:
            if not heap or heap[0][0] > until:
                return False
            when, kind, count, peer, payload = heapq.heappop(heap)
            self.time = when
            if kind == _WORK:
                if payload == self._work_number[peer] and self._working[peer]:
                    gradient = self._computed[peer]
                    if gradient is None:
                        gradient = self._compute(peer)
                    self._working[peer] = False
                    self._models[peer] = self._computed[peer] = None
                    peers[peer].on_work(gradient)
                    self._mark_unsettled(peer)
            elif kind == _MESSAGE:
                if not self._views or count > self._views[-1][0] or not self._is_void(peer, payload[0], count):
                    self._deliver(peer, *payload)
            elif kind == _NOTICE:
                self._announce_view(*payload, heals=peer < 0 and not payload)
            else:
                self._on_fault(peer, payload)
            self._drain()
        return True

    def _mark_unsettled(self, peer: int) -> None:
        if not self._is_unsettled[peer]:
            self._is_unsettled[peer] = 1
            self._unsettled.append(peer)

    def _is_void(self, to: int, sender: int, count: int) -> bool:
        """Return whether a view since the message was sent has separated its two ends.

        Such a message is dropped: a link that may have lost messages is reset at both ends.

        Arguments:
            to, sender: the two ends.
            count: number of events when the message was sent.
        """
        return any(
            to in gone or sender in gone or partitioned(to, sender, sides)
            for number, gone, sides in self._views
            if number >= count
        )

    def _deliver(self, to: int, sender: int, message: Message) -> None:
        if self.gone or self.sides or self._known_sides:
            if to in self.gone or sender in self.gone:
                return
            if partitioned(to, sender, self.sides) or partitioned(to, sender, self._known_sides):
                return
        self.peers[to].on_message(sender, message)
        if not self._is_unsettled[to]:
            self._is_unsettled[to] = 1
            self._unsettled.append(to)

    def _drain(self) -> None:
        """Deliver all messages of this moment; when no simultaneous event is left, let peers decide."""
        immediate, heap = self.immediate, self._heap
        while True:
            while immediate:
                self._deliver(*immediate.popleft())
            if not self._unsettled or (heap and heap[0][0] <= self.time):
                return
            unsettled, self._unsettled = self._unsettled, []
            for peer in unsettled:
                self._is_unsettled[peer] = 0
            for peer in unsettled:
                if peer not in self.gone:
                    self.peers[peer].settle()

    def _compute(self, due: int) -> Array:
        """Compute all requested gradients in one batch, and return that of the peer whose gradient is due."""
        begin = time.process_time()
        requested = [
            peer for peer in dict.fromkeys(self._pending) if self._working[peer] and self._computed[peer] is None
        ]
        self._pending.clear()
        models = np.array([self._models[peer] for peer in requested])
        gradients = self.gradients.gradients(requested, models, [self._steps[peer] for peer in requested])
        for peer, gradient in zip(requested, gradients, strict=True):
            self._computed[peer] = gradient
        self.gradient_seconds += time.process_time() - begin
        gradient = self._computed[due]
        assert gradient is not None
        return gradient

    # Faults

    def _on_fault(self, peer: int, fault: tuple[Any, ...]) -> None:
        if fault[0] == "crash":
            self.gone.add(peer)
            self.drop_work(peer)
            self.push(self.time + self.plan.notice, _NOTICE, peer, ())
        elif fault[0] == "rejoin":
            if peer not in self._known_gone:
                self._announce_view()
            self.gone.discard(peer)
            self._announce_view(rejoining=peer)
            self.peers[peer].on_rejoin(self._known_gone, self._known_sides, len(self._views), self._ports[peer])
            self._mark_unsettled(peer)
        else:
            self.sides = tuple(fault[1:])
            self.push(self.time + self.plan.notice, _NOTICE, -1, self.sides)

    def _announce_view(self, *sides: frozenset[int], rejoining: int = -1, heals: bool = False) -> None:
        """Give all present peers a new view, even if a network partition has healed before it was noticed.

        Messages were lost meanwhile, and a link that has lost some must be reset at both ends.

        Arguments:
            sides: the sides of a network partition; none if it is another change.
            rejoining: a peer that is about to get the view by `on_rejoin`; -1 for none.
            heals: whether a network partition has healed.
        """
        self._known_gone = frozenset(self.gone)
        if sides or heals:
            self._known_sides = sides
        self._views = [*self._views, (self._n_events, self._known_gone, self._known_sides)]
        self.on_view_change(self.time, self._known_gone, self._known_sides)
        for number, peer in enumerate(self.peers):
            if number not in self.gone and number != rejoining:
                peer.on_view_change(self._known_gone, self._known_sides, len(self._views))
                self._mark_unsettled(number)

    # Checkpoints

    def state(self) -> PlainData:
        """Return everything that `restore` needs, as plain data; must be called between two events."""
        return {**super().state(), "peers": [peer.state() for peer in self.peers]}

    def restore(self, state: Entries) -> None:
        """Continue from what `state` returned, instead of beginning."""
        super().restore(state)
        n_peers, shape = len(self.peers), (self.gradients.problem.n_parameters,)
        by_peer = (self._steps, self._work_number, self._working, self._models, self._computed)
        if any(len(each) != n_peers for each in by_peer):
            raise Unfit(f"it is not of {n_peers} peers")
        payloads = [payload for _, kind, *_, payload in self._heap if kind in (_FAULT, _NOTICE)]
        sides = [*self.sides, *self._known_sides, *(side for view in self._views for side in (view[1], *view[2]))]
        sides += [side for payload in payloads for side in payload if isinstance(side, frozenset)]
        heard = [peer for _, _, _, peer, _ in self._heap if peer != -1]
        for peers in (self.gone, self._known_gone, self._pending, self._unsettled, heard, *sides):
            peers_in(peers, n_peers)
        for vector in (*self._models, *self._computed):
            if vector is not None and np.shape(vector) != shape:
                raise Unfit(f"a vector of a peer has the shape {np.shape(vector)}")
        self._is_unsettled = bytearray(peer in self._unsettled for peer in range(n_peers))
        for peer, port, saved in zip(self.peers, self._ports, state["peers"], strict=True):
            peer.restore(saved, port)
        self.expect_messages()
        counts = (self.total, self.messages, self._n_events, *self._steps, *self._work_number)
        times = (self.time, *(when for when, *_ in self._heap))
        if min(counts) < 0 or not all(map(math.isfinite, times)):  # it would go on for ever
            raise Unfit("a count is negative, or a time is none")
