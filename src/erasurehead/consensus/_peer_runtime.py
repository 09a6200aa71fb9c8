"""Runs one peer inside a worker of an engine: its messages, its gradients, its reports.

It notices which neighbours are dead, and tells the others, so that all views come to agree.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast, final

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead._internal.documents import Entries
from erasurehead.consensus._contract import Message, Peer, Port, tupled
from erasurehead.consensus._drawn_delays import DrawnDelays
from erasurehead.consensus._graphs import Sides
from erasurehead.consensus._injected_faults import partitioned
from erasurehead.consensus._peer_report import MAX_ROWS, PeerReport
from erasurehead.consensus._plans import ConsensusPlan
from erasurehead.consensus._rows import PeerRow
from erasurehead.consensus._shares import LocalGradients, SampleOwnership
from erasurehead.consensus._views import NetworkView
from erasurehead.engines import Endpoint, MessageSpec, Order, PeerChannels, Program
from erasurehead.engines._machine import machine
from erasurehead.engines._peer_channels import COORDINATOR

REPORT_INTERVAL = 0.125
"""Seconds between two reports of a peer. Its multiples, at which the mean model is evaluated, are exact in float64."""

PREPARE, BEGIN = "prepare", "begin"
"""Kinds of orders: `PREPARE` is answered by one empty report when the peer is ready; `BEGIN` runs it until its end."""

_REPORT_BUFFERS = 16  # a peer blocks when twice as many reports are unread, which is after four seconds
_MAX_DELAY = 1e9  # seconds; longer delays count as infinite
_HISTORY_BYTES = 1 << 27  # for earlier models, from which the one at the end of the run is chosen


class _Snapshot(NamedTuple):
    """A peer's model and counts when the model changed: a run ends at a time that its peers learn of afterwards."""

    time: float
    model: Array
    messages: int
    vectors: int
    gradient_seconds: float


@final
@dataclass(eq=False)
class PeerProgram(Program):
    """The program of a worker that runs a peer; the messages it sends to the driver are reports.

    Arguments:
        plan: the plan of the run.
        peer: number of the peer.
        channels: the channels between the peers.
        steps: number of steps that earlier incarnations of this peer have taken.
    """

    plan: ConsensusPlan
    peer: int
    channels: PeerChannels
    steps: int = 0
    pure = False

    def __post_init__(self) -> None:
        self._runtime: PeerRuntime | None = None
        self.preload = ("erasurehead.consensus._peer_runtime", *self.plan.problem.preload)

    @property
    def message_specs(self) -> Sequence[MessageSpec]:
        size = PeerReport.max_bytes(len(self.plan.x), self.plan.graph.n_peers)
        return [MessageSpec(number, 1.0, size, "uint8") for number in range(_REPORT_BUFFERS)]

    @property
    def input_size(self) -> int:
        return 0

    def take(self, order: Order) -> Order:
        return order

    def remaining(self, order: Order, done: Sequence[MessageSpec]) -> Sequence[MessageSpec]:
        if order.kind == PREPARE:
            return [] if done else [self.message_specs[0]]
        finished = self._runtime is not None and self._runtime.finished
        return [] if finished else [self.message_specs[len(done) % _REPORT_BUFFERS]]

    def compute(self, spec: MessageSpec, taken: Order, out: Array) -> None:
        plan = self.plan
        if taken.kind == PREPARE:  # compiling code and opening files at the first gradient is not part of the run
            gradients = LocalGradients(plan.problem, plan.shares, plan.batch, plan.seed)
            gradients.gradients([self.peer], plan.x[None], [0])
            PeerReport(0.0, [], 0, 0, 0.0, False, plan.x).write(out)
            return
        if self._runtime is None:
            self._runtime = PeerRuntime(self, taken.note)
        self._runtime.report().write(out)


@final
class RuntimePort(Port):
    """The port of a peer that runs in a worker: real time and real messages."""

    def __init__(self, runtime: PeerRuntime, peer: int) -> None:
        self._runtime, self.peer = runtime, peer

    def now(self) -> float:
        return self._runtime.time

    def send(self, to: int, message: Message) -> None:
        self._runtime.send(to, message)

    def work(self, model: Array, step: int) -> None:
        self._runtime.requested = model, step

    def drop_work(self) -> None:
        self._runtime.requested = self._runtime.delayed = None

    def mixed(self, row: PeerRow) -> None:
        self._runtime.rows.append(row)


@final
class PeerRuntime:
    """The event loop of a peer in its worker: deliver messages, deliver a finished gradient, let the peer decide.

    Failure detection is decentralized. A peer detects by itself that a neighbour's process has ended; `notice` seconds
    later it acts on that, and tells its other neighbours, which tell theirs, before it sends them any other message: so
    nobody receives a message from a peer with a newer view than its own. The dead are a grow-only set of incarnations,
    not of peers, so that neither the order nor the number of such messages matters. Network partitions and rejoins are
    announced by the driver, which causes both.

    Arguments:
        program: the program that runs it.
        note: note of the order with which the peer begins: `incarnations` and `addresses` of all peers, the `view`
            number and the `clock`; if it rejoins, also the `dead` incarnations, and the `sides` of a network partition
            that the peers know of and of the one that is in effect (`partition`).

    Attributes:
        time: seconds since training began, by the clock that all peers share; constant within a handler.
        finished: whether the last report was made.
        requested: model and step of a gradient that was requested, and has not been started.
        delayed: a computed gradient, and the time at which its delay is over.
        rows: steps that were not reported yet.
        messages: number of messages sent; `vectors` of them carried a model.
    """

    def __init__(self, program: PeerProgram, note: Entries) -> None:
        plan = program.plan
        self.number, self.plan = program.peer, plan
        self._origin = _local_origin(*note["clock"])
        self.time = self._now()
        self.finished = False
        self.requested: tuple[Array, int] | None = None
        self.delayed: tuple[float, Array] | None = None
        self.rows: list[PeerRow] = []
        self.messages = self.vectors = 0
        self._gradient_seconds = 0.0
        self._end_time = np.inf
        self._endpoint: Endpoint = program.channels.endpoint(self.number)
        self._incarnations: dict[int, int] = {}
        self._dead: set[int] = set()  # incarnations
        self._view = NetworkView(plan.graph)
        self._neighbours: tuple[int, ...] = plan.graph.neighbours[self.number]
        self._detected: dict[int, float] = {}  # neighbours that were found dead: when to act on that
        self._noticed: list[tuple[int, int, float]] = []
        self._view_number = 0  # of the newest view that the driver has announced
        self._separated_in: dict[int, int] = {}  # peer -> the newest view in which it is on the other side
        self._held: list[tuple[int, int, int, Message]] = []  # messages from newer views
        self._partition: Sides = ()  # in effect, whether or not peers know of it
        self._gradients = LocalGradients(plan.problem, plan.shares, plan.batch, plan.seed)
        self._ownership = SampleOwnership(plan.graph, plan.shares, plan.orphans)
        self._delays = DrawnDelays(plan.delays, plan.graph.n_peers, plan.rows_every)
        self._next_report = (int(self.time / REPORT_INTERVAL) + 1) * REPORT_INTERVAL
        self._peer: Peer = plan.peer(self.number, program.steps)
        self._history: deque[_Snapshot] = deque([self._snapshot()])
        port = RuntimePort(self, self.number)
        self._update_membership(note)
        if "dead" in note:
            self._dead.update(int(incarnation) for incarnation in note["dead"])
            self._partition = _parse_sides(note["partition"])
            self._update_view(_parse_sides(note["sides"]))
            self._peer.on_rejoin(self._view.gone, self._view.sides, self._view.number, port)
        else:
            self._peer.begin(port)
        self._settle()

    def _now(self) -> float:
        return time.monotonic() - self._origin

    def report(self) -> PeerReport:
        """Run the peer until the next report is due, and return that report."""
        while True:
            self.time = now = self._now()
            if now >= self._end_time:
                return self._make_report(self._end_time, last=True)
            if now >= self._next_report:
                until = int(now / REPORT_INTERVAL) * REPORT_INTERVAL
                self._next_report = (int(now / REPORT_INTERVAL) + 1) * REPORT_INTERVAL
                return self._make_report(until)
            if len(self.rows) >= MAX_ROWS:
                return self._make_report(now)
            if self._dispatch_events():
                self._settle()
            elif self.requested is not None:
                self._compute(*self.requested)
            else:
                wake = min(self._detected.values(), default=np.inf)
                if self.delayed is not None:
                    wake = min(wake, self.delayed[0])
                self._endpoint.wait(self._origin + min(wake, self._next_report, self._end_time))

    def _make_report(self, until: float, last: bool = False) -> PeerReport:
        ended = [row for row in self.rows if row.end <= until]
        rows, self.rows = ended[:MAX_ROWS], ended[MAX_ROWS:] + [row for row in self.rows if row.end > until]
        if len(ended) > MAX_ROWS:
            until, last = rows[-1].end, False
        self._trim_history()
        then = next((one for one in reversed(self._history) if one.time <= until), self._history[0])
        if last:
            self.finished = True
            self._endpoint.close()
        noticed, self._noticed = self._noticed, []
        return PeerReport(
            until, rows, then.messages, then.vectors, then.gradient_seconds, last, np.array(then.model), noticed
        )

    def _trim_history(self) -> None:
        limit = max(8, min(8_192, _HISTORY_BYTES // max(1, self._peer.model.nbytes)))
        while len(self._history) > limit:
            self._history.popleft()

    def _dispatch_events(self) -> bool:
        """Call the peer's handlers for everything that has happened; return whether anything has."""
        happened = False
        for received in self._endpoint.receive():
            happened = True
            if received.sender == COORDINATOR:
                self._on_driver_message(*json.loads(received.head))
                continue
            view, theirs, ours, tag, round, data = json.loads(received.head)
            if tag == _DEATHS:
                if not self._is_separated(received.sender):
                    self._on_deaths(set(data))
            elif ours == self._incarnations[self.number]:
                message = Message(tag, round, cast("tuple[Any, ...]", tupled(data)), received.vector)
                self._deliver(view, received.sender, theirs, message)
        happened |= self._check_neighbours()
        if self.delayed is not None and self.time >= self.delayed[0]:
            gradient, self.delayed, happened = self.delayed[1], None, True
            self._peer.on_work(gradient)
        return happened

    def _deliver(self, view: int, sender: int, incarnation: int, message: Message) -> None:
        """Deliver a message in the right view, as on the virtual clock.

        One that was sent in a newer view is held until the peer has that view. One that was sent before a partition
        separated both ends is dropped once the peer knows of the partition: a link that has lost messages is reset at
        both ends.
        """
        if view > self._view_number:
            self._held.append((view, sender, incarnation, message))
        elif view > self._separated_in.get(sender, -1) and self._is_reachable(sender, incarnation):
            self._peer.on_message(sender, message)

    def _is_reachable(self, sender: int, incarnation: int) -> bool:
        return (
            incarnation == self._incarnations.get(sender)
            and incarnation not in self._dead
            and not self._is_separated(sender)
        )

    def _is_separated(self, other: int) -> bool:
        return bool(self._partition) and partitioned(self.number, other, self._partition)

    def _settle(self) -> None:
        self._peer.settle()
        if self._peer.model is not self._history[-1].model:
            self._history.append(self._snapshot())

    def _snapshot(self) -> _Snapshot:
        return _Snapshot(self.time, self._peer.model, self.messages, self.vectors, self._gradient_seconds)

    def _compute(self, model: Array, step: int) -> None:
        self.requested = None
        begin = time.process_time()
        gradient = self._gradients.gradients([self.number], model[None], [step])[0]
        self._gradient_seconds += time.process_time() - begin
        seconds = self._delays.seconds(self.number, step, self.time)
        self.delayed = self._now() + min(seconds, _MAX_DELAY), gradient

    def send(self, to: int, message: Message) -> None:
        """Send a message to another peer; it is lost if that peer is gone, or on the other side of a partition."""
        self.messages += 1
        self.vectors += message.vector is not None
        if to in self._view.gone or self._is_separated(to):
            return
        ours, theirs = self._incarnations[self.number], self._incarnations[to]
        head = [self._view_number, ours, theirs, message.tag, message.round, message.data]
        self._endpoint.send(to, json.dumps(head, separators=(",", ":")).encode(), message.vector)

    # Failure detection

    def _check_neighbours(self) -> bool:
        """Look for neighbours that have died; return whether the view has changed."""
        for peer in self._endpoint.lost(self._neighbours):
            self._detected.setdefault(peer, self.time + self.plan.notice)
        due = [peer for peer, when in self._detected.items() if when <= self.time]
        for peer in due:
            del self._detected[peer]
            if peer in self._neighbours:
                self._noticed.append((peer, self._incarnations[peer], self.time))
        return self._on_deaths({self._incarnations[peer] for peer in due if peer in self._neighbours})

    def _on_deaths(self, incarnations: set[int]) -> bool:
        """Add incarnations to the dead, whoever detected their death; return whether the view has changed."""
        if incarnations <= self._dead:
            return False
        self._dead |= incarnations
        before = self._view
        self._update_view(before.sides)
        if self._view is before:
            return False
        self._peer.on_view_change(self._view.gone, self._view.sides, self._view.number)
        return True

    def _update_view(self, sides: Sides) -> None:
        """Adopt a new view, if it is another one, and send the dead incarnations to the neighbours in it.

        They are sent for each view that the driver announces, even if the network is what it was before: earlier
        messages about deaths may have been lost in a partition.
        """
        gone = frozenset(peer for peer, incarnation in self._incarnations.items() if incarnation in self._dead)
        if (gone, sides, self._view_number) == (self._view.gone, self._view.sides, self._view.number):
            return
        self._view = self._view.changed(gone, sides, self._view_number)
        self._neighbours = self._view.neighbours[self.number]
        if self._ownership.update(gone):
            self._gradients.assign(self._ownership.shares)
        head = json.dumps([self._view_number, 0, 0, _DEATHS, 0, sorted(self._dead)], separators=(",", ":")).encode()
        for peer in self._neighbours if self._dead else ():
            if not self._is_separated(peer):
                self._endpoint.send(peer, head)

    # Messages of the driver

    def _on_driver_message(self, incarnation: int, kind: str, content: Any) -> None:
        if incarnation != self._incarnations[self.number]:
            return  # for an earlier incarnation of this peer
        if kind == "end":
            self._end_time = float(content)
        elif kind == "partition":
            self._partition = _parse_sides(content)
        else:
            self._on_view_announced(content)
            messages, self._held = self._held, []
            for message in messages:
                self._deliver(*message)

    def _on_view_announced(self, note: Entries) -> None:
        """Handle a partition, its end, or the rejoin of a peer of whose death this peer may not have been told."""
        incarnations = {int(peer): int(incarnation) for peer, incarnation in note["incarnations"]}
        sides = _parse_sides(note["sides"])
        replaced = {
            self._incarnations[peer]
            for peer, incarnation in incarnations.items()
            if incarnation != self._incarnations[peer]
        }
        self._on_deaths(replaced)
        self._update_membership(note)
        for peer in self._incarnations:
            if partitioned(self.number, peer, sides):
                self._separated_in[peer] = self._view_number
        self._update_view(sides)
        self._peer.on_view_change(self._view.gone, self._view.sides, self._view.number)

    def _update_membership(self, note: Entries) -> None:
        self._incarnations = {int(peer): int(incarnation) for peer, incarnation in note["incarnations"]}
        self._endpoint.learn(note["addresses"])
        self._view_number = int(note["view"])
        for peer in [peer for peer in self._detected if peer not in self._endpoint.lost([peer])]:
            del self._detected[peer]


_DEATHS = ""
"""The tag of messages with the dead incarnations; messages of policies have non-empty tags."""


def _parse_sides(written: Any) -> Sides:
    return tuple(frozenset(side) for side in written)


def _local_origin(place: str, began: float, wall: float) -> float:
    """Return when training began, by this machine's `time.monotonic`.

    Arguments:
        place: the driver's machine.
        began: when training began, by the driver's `time.monotonic`.
        wall: the same by its `time.time`, for peers on other machines, whose clocks must be synchronised.
    """
    return began if place == machine() else time.monotonic() - (time.time() - wall)


def clock_reference(began: float) -> tuple[str, float, float]:
    """Return the arguments from which peers on any machine compute when training began.

    Arguments:
        began: when training began, by this machine's `time.monotonic`.
    """
    return machine(), began, time.time() - (time.monotonic() - began)


def driver_message(incarnation: int, kind: str, content: Any) -> bytes:
    """Return the head of a message from the driver to a peer.

    Arguments:
        incarnation: the incarnation of the peer that it is for; later ones ignore it.
        kind: `"end"`, `"partition"` or `"view"`.
        content: plain data, depending on the kind: the time of the end; the sides of the partition in effect; or the
            new view, with its `sides`, and the `incarnations`, `addresses` and `view` number of all peers.
    """
    return json.dumps([incarnation, kind, content], separators=(",", ":")).encode()
