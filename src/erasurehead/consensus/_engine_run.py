"""A run whose peers are workers of an engine that send messages to each other.

The driver, which is the process that calls `train`, starts the peers, injects their faults, receives their reports and
ends the run. No model that peers average passes through it.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead._internal.documents import PlainData
from erasurehead.consensus._graphs import Sides
from erasurehead.consensus._injected_faults import changes_by
from erasurehead.consensus._peer_report import PeerReport
from erasurehead.consensus._peer_runtime import (
    BEGIN,
    PREPARE,
    REPORT_INTERVAL,
    PeerProgram,
    clock_reference,
    driver_message,
)
from erasurehead.consensus._plans import ConsensusPlan
from erasurehead.consensus._result import ConsensusRun
from erasurehead.consensus._rows import PeerRow
from erasurehead.consensus._run_records import RunRecords
from erasurehead.consensus._training_options import TrainingOptions
from erasurehead.consensus._views import NetworkView
from erasurehead.engines import Arrived, Died, Engine, Failed, Joined, Order
from erasurehead.engines._base import NoRoom
from erasurehead.engines._fault_injection import injection
from erasurehead.engines._peer_channels import peer_messaging
from erasurehead.errors import EngineError, invalid
from erasurehead.training import Notice

PATIENCE = 120.0
"""Seconds within which all workers must start, and after which a peer that sends no reports is killed."""

_POLL_INTERVAL = 0.25  # seconds after which scheduled actions are checked if no event arrives
_SHUTDOWN_TIMEOUT = 10.0  # seconds that peers have for their last report
_STOP_TIMEOUT = 1.0  # seconds that a peer has for a report, at least, once the run has been asked to end
_DETECTION_TIMEOUT = 4.0  # seconds that neighbours have to report a death, before it is recorded without them

_incarnations = itertools.count(1)
"""Incarnation numbers, unique within this process, so that no message for an earlier incarnation is taken by a later
one."""

_rounds = itertools.count()
"""Rounds of orders, unique within this process: an engine that has carried an earlier run ignores rounds not newer."""


@dataclass(eq=False)
class _PeerStatus:
    """What the driver knows of a living peer.

    Attributes:
        since: when it began, in seconds since training began.
        heard: when its newest report arrived, by the engine's clock.
        report: its newest report.
        models: its reported models that may still be evaluated, each with its moment.
    """

    since: float
    heard: float
    report: PeerReport
    models: deque[tuple[float, Array]] = field(default_factory=deque[tuple[float, Array]])


@final
class EngineRun:
    """One run on an engine whose workers can send messages to each other.

    Arguments:
        plan: the plan.
        options: how it is run.
        engine: an engine without delays of its own: peers sit out those of the plan.

    Raises:
        InvalidArgument: if the engine or the options do not fit.
        EngineError: if the engine's workers cannot send messages to each other.
    """

    def __init__(self, plan: ConsensusPlan, options: TrainingOptions, engine: Engine) -> None:
        self.plan, self.options, self.engine = plan, options, engine
        if options.resume is not None or options.keep_state:
            raise invalid(
                "resume" if options.resume is not None else "keep_state",
                f"must be left out on {engine.name}",
                True,
                "only a run on the virtual clock has a state to resume from",
            )
        if getattr(engine, "delays", None) is not None:
            raise invalid("engine", "must have no delays of its own", engine.name, "those of the plan are the peers'")
        self.records = RunRecords(plan, options)
        self.n_peers = plan.graph.n_peers
        self.channels = peer_messaging(engine).peer_channels(self.n_peers, plan.algorithm.n_vectors * len(plan.x))
        self.living: dict[int, _PeerStatus] = {}
        self.gone: set[int] = set()
        self.sides: Sides = ()  # of the partition in effect, whether or not peers know of it
        self.total = self.evaluations = self.intervals = 0
        self.end: float | None = None
        self._models: dict[int, Array] = dict.fromkeys(range(self.n_peers), plan.x)
        self._steps = [0] * self.n_peers
        self._last_reports: list[PeerReport] = []  # of peers that have died
        self._incarnations = {peer: next(_incarnations) for peer in range(self.n_peers)}
        self._view_number = 0
        self._dead: set[int] = set()  # incarnations
        self._known_sides: Sides = ()  # of the partition that peers know of
        self._recorded: frozenset[int] = frozenset()  # peers that are gone, and whose death is recorded
        self._detections: dict[int, list[tuple[int, int, float]]] = {}  # unrecorded deaths: detecting peer, dead, when
        self._rows: list[tuple[float, int, int, PeerRow]] = []
        self._schedule: list[tuple[float, int, Callable[[], None]]] = []
        self._rejoining = set[int]()
        self._asked_to_stop: float | None = None  # when, by the engine's clock
        self._longest_silence = 0.0  # seconds between two reports of a peer
        self._began = 0.0
        self._scheduled = 0

    def run(self) -> ConsensusRun:
        """Start the peers, train, and return the run."""
        try:
            if self._start():
                while self.end is None:
                    self._poll()
                    self._advance()
                self._shut_down(self.end)
        finally:
            self._close()
        run = self.records.run
        run.models = np.array([self._models[peer] for peer in range(self.n_peers)])
        run.present = sorted(self.living) or list(range(self.n_peers))
        run.steps, run.seconds = self.total, float(self.end or 0.0)
        for report in (*self._last_reports, *(status.report for status in self.living.values())):
            run.messages += report.messages
            run.vectors += report.vectors
            run.gradient_seconds += report.gradient_seconds
        run.shares = self.records.ownership.shares
        self.records.end()
        return run

    # Start

    def _start(self) -> bool:
        """Start all peers; return whether training has begun: the run may have been asked to end before."""
        plan, engine = self.plan, self.engine
        self.records.begin()
        self.records.evaluate(np.array([plan.x] * self.n_peers), 0, 0.0)
        for peer in range(self.n_peers):
            engine.assign(peer, PeerProgram(plan, peer, self.channels))
        deadline, missing = engine.now() + PATIENCE, set(range(self.n_peers))
        while missing:
            if self._is_asked_to_stop():
                return False
            event = engine.next_event(min(deadline, engine.now() + _POLL_INTERVAL))
            if isinstance(event, Joined):
                self._submit(PREPARE, {}, event.worker)
            elif isinstance(event, Arrived):
                engine.release(event)
                missing.discard(event.worker)
            elif isinstance(event, Died | Failed):
                raise EngineError(f"peer {event.worker} could not be started: {event.reason}.")
            elif event is None and engine.now() >= deadline:
                raise EngineError(f"{len(missing)} of {self.n_peers} peers had not started within {PATIENCE:.0f} s.")
        self._began = engine.now()
        self.living = {peer: self._beginning(peer, 0.0) for peer in range(self.n_peers)}
        for when, peer, what, sides in changes_by(plan.faults, self.n_peers):
            if what == "partition":
                self._at(when, self._set_partition, sides)
            else:
                self._at(when, self._kill if what == "crash" else self._restart, peer)
        self._submit(BEGIN, {})
        return True

    def _beginning(self, peer: int, time: float) -> _PeerStatus:
        """Return the status of a peer that begins with the newest model that it has had, seconds after the run."""
        return _PeerStatus(time, self._began + time, PeerReport(time, [], 0, 0, 0.0, False, self._models[peer]))

    def _submit(self, kind: str, more: PlainData, peer: int | None = None) -> None:
        """Submit an order to one peer, or to all."""
        note = {**self._membership(), "clock": clock_reference(self._began), **more}
        order = Order(0, (), round=next(_rounds), kind=kind, note=note)
        self.engine.submit(order, None if peer is None else [peer])

    def _membership(self) -> PlainData:
        return {
            "incarnations": list(self._incarnations.items()),
            "addresses": self.channels.where(),
            "view": self._view_number,
        }

    # Event loop

    def _poll(self) -> None:
        """Handle all events that have arrived, or arrive within a short time, and scheduled actions that are due."""
        engine = self.engine
        until = engine.now() + _POLL_INTERVAL
        if self._schedule:
            until = min(until, self._began + self._schedule[0][0])
        event = engine.next_event(until)
        while event is not None:
            if isinstance(event, Arrived) and event.worker in self._rejoining:
                engine.release(event)
                self._on_rejoin(event.worker)
            elif isinstance(event, Arrived):
                self._on_report(event)
            elif isinstance(event, Died):
                self._on_death(event.worker, event.reason, event.broken)
            elif isinstance(event, Joined):
                self._submit(PREPARE, {}, event.worker)
            elif isinstance(event, Failed):
                raise EngineError(f"peer {event.worker} failed: {event.reason}")
            event = engine.next_event(engine.now())
        now = self._now()
        while self._schedule and self._schedule[0][0] <= now:
            heapq.heappop(self._schedule)[2]()
        self._is_asked_to_stop()
        self._kill_silent_peers()

    def _kill_silent_peers(self) -> None:
        """Kill the peers that have sent no report for too long, which is soon when the run has been asked to end."""
        now, asked = self.engine.now(), self._asked_to_stop
        for peer, status in list(self.living.items()):
            silence = now - max(status.heard, asked or 0.0)
            if silence > (PATIENCE if asked is None else self._stop_timeout()) and not status.report.last:
                injection(self.engine).kill(peer)
                self._on_death(peer, f"killed, as it had sent no report for {now - status.heard:.1f} s", False)

    def _is_asked_to_stop(self) -> bool:
        """Return whether the run has been asked to end early, and record that."""
        if self._asked_to_stop is None and (reason := self.options.stop()):
            self._asked_to_stop = self.engine.now()
            self.records.run.status, self.records.run.stopped = "interrupted", reason
        return self._asked_to_stop is not None

    def _stop_timeout(self) -> float:
        """Return how long a peer has for a report once the run has been asked to end, in seconds.

        A peer does not report while it computes a gradient, so that reports may be far apart.
        """
        return min(_SHUTDOWN_TIMEOUT, max(_STOP_TIMEOUT, 2.0 * self._longest_silence))

    def _now(self) -> float:
        return self.engine.now() - self._began

    def _at(self, when: float, action: Callable[..., None], *arguments: Any) -> None:
        """Schedule an action, at a time in seconds since training began."""
        self._scheduled += 1
        heapq.heappush(self._schedule, (when, self._scheduled, lambda: action(*arguments)))

    def _on_report(self, event: Arrived) -> None:
        report = PeerReport.read(event.read())
        self.engine.release(event)
        status = self.living.get(event.worker)
        if status is None:
            return
        now = self.engine.now()
        self._longest_silence = max(self._longest_silence, now - status.heard)
        status.heard, status.report = now, report
        status.models.append((report.until, report.model))
        self._models[event.worker] = report.model
        for peer, incarnation, when in report.noticed:
            if incarnation == self._incarnations[peer]:
                self._detections.setdefault(peer, []).append((event.worker, peer, when))
                self._record_if_detected_by_all(peer)
        for row in report.rows:
            self._steps[event.worker] = row.step + 1
            heapq.heappush(self._rows, (row.end, event.worker, row.step, row))

    def _advance(self) -> None:
        """Record and evaluate up to the moment that all reports have reached; end the run if it is over."""
        if not self.living and self._asked_to_stop is not None:  # none has reported since
            self.end = self.intervals * REPORT_INTERVAL
            return
        if not (self.living or self._schedule or self._rejoining):
            self.records.run.status, self.records.run.stopped = "failed", "every peer is gone"
            self._record_steps(math.inf)
            self.end = self._now() if self.end is None else self.end
            return
        complete = min((status.report.until for status in self.living.values()), default=self._now())
        if self._asked_to_stop is not None:  # it may have waited for a peer that is gone now
            self.intervals = max(self.intervals, int(complete / REPORT_INTERVAL) - 1)
        while self.end is None and (moment := (self.intervals + 1) * REPORT_INTERVAL) <= complete:
            self._record_steps(min(moment, self.options.end))
            if self.end is None and moment >= self.options.end:
                self.end = self.options.end
            if self.end is None:
                self.intervals += 1
                self._evaluate_at(moment)
            if self.end is None and self._is_asked_to_stop():
                self.end = moment

    def _record_steps(self, until: float) -> None:
        """Record the steps that ended by then, in order; the end of the run's last step is the end of the run."""
        goal = self.options.steps * self.n_peers
        while self._rows and self._rows[0][0] <= until and (self.end is None or self._rows[0][0] <= self.end):
            row = heapq.heappop(self._rows)[3]
            self.records.step(row)
            self.total += 1
            if self.total >= goal and self.end is None:
                self.end = row.end

    def _evaluate_at(self, moment: float) -> None:
        """Evaluate the mean model at a moment that all reports have reached, if an evaluation is due."""
        models: list[Array] = []
        for status in self.living.values():
            while len(status.models) > 1 and status.models[0][0] < moment:
                status.models.popleft()
            if status.since <= moment and status.models:
                models.append(status.models[0][1])
        evaluations = int(self.total / (self.options.evaluate_every * self.n_peers))
        if evaluations <= self.evaluations or not models:
            return
        self.evaluations = evaluations
        row = self.records.evaluate(np.array(models), self.total, moment)
        if self.options.target is not None and row.objective <= self.options.target:
            self.end = moment

    # Faults and membership

    def _kill(self, peer: int) -> None:
        if peer in self.living:
            injection(self.engine).kill(peer)

    def _on_death(self, peer: int, reason: str, broken: bool) -> None:
        self._rejoining.discard(peer)
        status = self.living.pop(peer, None)
        if status is None:
            return
        if broken:
            raise EngineError(f"peer {peer} failed: {reason}")
        self.gone.add(peer)
        self._dead.add(self._incarnations[peer])
        self._last_reports.append(status.report)
        self.records.notice(
            Notice(
                "died",
                worker=peer,
                data={"reason": reason, "replaced": False},
                text=f"Peer {peer} is gone: {reason}.",
                time=self._now(),
            )
        )
        timeout = self.plan.notice + _DETECTION_TIMEOUT
        self._at(self._now() + timeout, self._record_death, peer, self._incarnations[peer])
        if peer in self._detections:
            self._record_if_detected_by_all(peer)

    def _restart(self, peer: int) -> None:
        """Start a new worker for a peer that has crashed."""
        if peer not in self.gone:
            return
        self._record_death(peer, self._incarnations[peer])
        try:
            self.engine.assign(peer, PeerProgram(self.plan, peer, self.channels, self._steps[peer]))
            self._rejoining.add(peer)
        except NoRoom as error:
            text = f"Peer {peer} cannot rejoin: {error}"
            self.records.notice(Notice("failed", worker=peer, data={"reason": str(error)}, text=text, time=self._now()))

    def _on_rejoin(self, peer: int) -> None:
        """Let a restarted peer begin, and announce it to the others."""
        self._rejoining.discard(peer)
        self.gone.discard(peer)
        self._recorded -= {peer}
        self._detections.pop(peer, None)
        self._incarnations[peer] = next(_incarnations)
        self._announce_view(self._known_sides)
        self.living[peer] = self._beginning(peer, self._now())
        more = {"dead": sorted(self._dead), "sides": _plain(self._known_sides), "partition": _plain(self.sides)}
        self._submit(BEGIN, more, peer)

    def _set_partition(self, sides: Sides) -> None:
        """Partition the network, or heal it; peers know of that `notice` seconds later."""
        self.sides = sides
        self._broadcast("partition", _plain(sides))
        self._at(self._now() + self.plan.notice, self._announce_view, sides)

    def _announce_view(self, sides: Sides) -> None:
        """Announce a new view to all peers, after a partition (even one that has healed meanwhile) or a rejoin."""
        self._known_sides = sides
        self._view_number += 1
        self.records.view_change(self._now(), self._recorded, sides)
        self._broadcast("view", {"sides": _plain(sides), **self._membership()})

    def _record_death(self, peer: int, incarnation: int) -> None:
        """Record that a peer is gone, and which neighbours have detected that; they have told the other peers."""
        if peer not in self.gone or peer in self._recorded or incarnation != self._incarnations[peer]:
            return
        noticed = sorted(self._detections.pop(peer, []), key=lambda detection: detection[2])
        self._recorded |= {peer}
        self.records.view_change(noticed[0][2] if noticed else self._now(), self._recorded, self._known_sides, noticed)

    def _record_if_detected_by_all(self, peer: int) -> None:
        """Record a death once all living neighbours have detected it."""
        neighbours = NetworkView(self.plan.graph, self._recorded, self._known_sides).neighbours.get(peer, ())
        detected_by = {detection[0] for detection in self._detections.get(peer, ())}
        if {other for other in neighbours if other in self.living} <= detected_by:
            self._record_death(peer, self._incarnations[peer])

    def _broadcast(self, kind: str, content: Any) -> None:
        for peer in self.living:
            self.channels.tell(peer, driver_message(self._incarnations[peer], kind, content))

    # End

    def _shut_down(self, end: float) -> None:
        """End all peers, and evaluate the models that they had at the end of the run."""
        self._broadcast("end", end)
        begin = self.engine.now()
        while any(not status.report.last for status in self.living.values()):
            waited = self.engine.now() - begin
            if waited > _SHUTDOWN_TIMEOUT or (waited > self._stop_timeout() and self._is_asked_to_stop()):
                break
            event = self.engine.next_event(self.engine.now() + _POLL_INTERVAL)
            if isinstance(event, Arrived):
                self._on_report(event)
            elif isinstance(event, Died):
                self._models.setdefault(event.worker, self.plan.x)
                self.living.pop(event.worker, None)
        for peer in sorted(self.gone):
            self._record_death(peer, self._incarnations[peer])
        models = np.array([status.report.model for status in self.living.values()] or list(self._models.values()))
        self.records.evaluate(models, self.total, end)

    def _close(self) -> None:
        """Stop all workers; also after an error."""
        self._broadcast("end", 0.0)
        for peer in range(self.n_peers):
            self.engine.assign(peer, None)
        self.channels.close()


def _plain(sides: Sides) -> list[list[int]]:
    return [sorted(side) for side in sides]
