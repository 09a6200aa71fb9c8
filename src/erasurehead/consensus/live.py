"""A run with real peers: workers of an engine that write to each other. Who starts them watches, and carries no data.

The process that starts the peers takes their reports, ends the run, and says who is gone; models go from peer to peer.
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
from erasurehead.consensus.conduct import Conduct
from erasurehead.consensus.faults import Leave
from erasurehead.consensus.life import BEGIN, PREPARE, TICK, PeerProgram, Report, clock, words
from erasurehead.consensus.plans import ConsensusPlan
from erasurehead.consensus.result import ConsensusRun
from erasurehead.consensus.rows import PeerRow
from erasurehead.consensus.run_records import RunRecords
from erasurehead.consensus.views import View
from erasurehead.engines.base import Arrived, Died, Engine, Failed, Joined, NoRoom, Order
from erasurehead.engines.fault_injection import injection
from erasurehead.engines.peer_channels import peer_messaging
from erasurehead.errors import EngineError, invalid
from erasurehead.training.notices import Notice

PATIENCE = 120.0
"""Seconds that workers have to be there, and a peer may be silent before it is ended: peers report all the time."""

_GLANCE = 0.25  # seconds after which the clock is looked at, if nothing comes
_SHUTDOWN = 10.0  # seconds that peers have for their last report
_SETTLING = 4.0  # seconds that neighbours have to notice a death, and to report that, before it is written down

_lives = itertools.count(1)
"""Every peer that was ever started has a number of its own, so that nobody takes a message for an earlier one's."""

_rounds = itertools.count()
"""Of orders: an engine may have carried an earlier run, and passes over rounds that are not newer."""


@dataclass(eq=False)
class _Seen:
    """What is known of a living peer.

    Attributes:
        since: when it began, in seconds since training began.
        heard: when it last said something, by the engine's clock.
        until: up to when it has told all.
        models: at the moments up to which it has told, those still to be looked at.
        model: the newest of these.
        last: whether it has given its last report.
        messages, vectors, gradient_seconds: by its newest report.
    """

    since: float
    heard: float
    model: Array
    until: float = 0.0
    models: deque[tuple[float, Array]] = field(default_factory=deque[tuple[float, Array]])
    last: bool = False
    messages: int = 0
    vectors: int = 0
    gradient_seconds: float = 0.0


@final
class LiveRun:
    """One run on an engine whose workers can write to each other.

    Arguments:
        made: the plan.
        conduct: how it is carried out.
        engine: without delays of its own, as those of the plan are the peers'.

    Raises:
        InvalidArgument: if the engine or the conduct does not fit.
        EngineError: if the engine's workers cannot write to each other.
    """

    def __init__(self, made: ConsensusPlan, conduct: Conduct, engine: Engine) -> None:
        self.made, self.conduct, self.engine = made, conduct, engine
        if conduct.resume is not None or conduct.keep_state:
            raise invalid(
                "resume" if conduct.resume is not None else "keep_state", f"must be left out on {engine.name}", True,
                "only a run on the virtual clock has a state to resume from",
            )  # fmt: skip
        if getattr(engine, "delays", None) is not None:
            raise invalid("engine", "must have no delays of its own", engine.name, "those of the plan are the peers'")
        self.kept = RunRecords(made, conduct)
        self.n_peers = made.graph.n_peers
        self.channels = peer_messaging(engine).peer_channels(self.n_peers, made.algorithm.n_vectors * len(made.x))
        self.seen: dict[int, _Seen] = {}
        self.gone: set[int] = set()
        self.sides: tuple[frozenset[int], ...] = ()
        self.total = self.looks = self.ticks = 0
        self.end: float | None = None
        self._models: dict[int, Array] = dict.fromkeys(range(self.n_peers), made.x)
        self._steps = [0] * self.n_peers
        self._counts = [0, 0, 0.0]  # messages, vectors and seconds of gradients, of those who are gone
        self._lives = {peer: next(_lives) for peer in range(self.n_peers)}
        self._changes = 0  # that were told
        self._ended: set[int] = set()  # lives
        self._told: tuple[frozenset[int], ...] = ()  # sides of a cut, as peers know of it
        self._recorded: frozenset[int] = frozenset()  # of those who are gone
        self._dead: dict[int, list[tuple[int, int, float]]] = {}  # of the others: who has noticed it, whom, when
        self._rows: list[tuple[float, int, int, PeerRow]] = []
        self._agenda: list[tuple[float, int, Callable[[], None]]] = []
        self._expected = set[int]()  # who is being started again
        self._began = 0.0
        self._planned = 0

    def run(self) -> ConsensusRun:
        """Start the peers, watch them to the end, and return the run."""
        try:
            self._start()
            while self.end is None:
                self._attend()
                self._advance()
            self._conclude(self.end)
        finally:
            self._close()
        done = self.kept.run
        done.models = np.array([self._models[peer] for peer in range(self.n_peers)])
        done.there = sorted(self.seen) or list(range(self.n_peers))
        done.steps, done.seconds = self.total, float(self.end)
        counts = [(one.messages, one.vectors, one.gradient_seconds) for one in self.seen.values()]
        done.messages, done.vectors, done.gradient_seconds = map(sum, zip(self._counts, *counts, strict=True))
        done.shares = self.kept.holdings.shares
        return done

    # The beginning

    def _start(self) -> None:
        made, engine = self.made, self.engine
        self.kept.begin()
        self.kept.look(np.array([made.x] * self.n_peers), 0, 0.0)
        for peer in range(self.n_peers):
            engine.assign(peer, PeerProgram(made, peer, self.channels))
        deadline, missing = engine.now() + PATIENCE, set(range(self.n_peers))
        while missing:
            event = engine.next_event(deadline)
            if isinstance(event, Joined):
                self._submit(PREPARE, {}, event.worker)
            elif isinstance(event, Arrived):
                engine.release(event)
                missing.discard(event.worker)
            elif isinstance(event, Died | Failed):
                raise EngineError(f"peer {event.worker} could not be started: {event.reason}.")
            elif event is None:
                raise EngineError(f"{len(missing)} of {self.n_peers} peers had not started within {PATIENCE:.0f} s.")
        self._began = engine.now()
        self.seen = {peer: _Seen(0.0, self._began, made.x) for peer in range(self.n_peers)}
        for trouble in made.troubles:
            if isinstance(trouble, Leave):
                self._plan(trouble.at, self._kill, trouble.peer)
                if trouble.back is not None:
                    self._plan(trouble.back, self._recall, trouble.peer)
            else:
                inside = frozenset(trouble.peers)
                self._plan(trouble.at, self._cut, (inside, frozenset(range(self.n_peers)) - inside))
                if trouble.until is not None:
                    self._plan(trouble.until, self._cut, ())
        self._submit(BEGIN, {})

    def _submit(self, kind: str, more: dict[str, Any], peer: int | None = None) -> None:
        """Let one peer prepare or begin, or all."""
        note = {**self._whereabouts(), "clock": clock(self._began), **more}
        order = Order(0, (), round=next(_rounds), kind=kind, note=note)
        self.engine.submit(order, None if peer is None else [peer])

    def _whereabouts(self) -> dict[str, Any]:
        return {"lives": list(self._lives.items()), "where": self.channels.where(), "view": self._changes}

    # While it goes on

    def _attend(self) -> None:
        """Wait for something to happen, but not for long, and see to it."""
        engine = self.engine
        until = engine.now() + _GLANCE
        if self._agenda:
            until = min(until, self._began + self._agenda[0][0])
        event = engine.next_event(until)
        while event is not None:
            if isinstance(event, Arrived) and event.worker in self._expected:
                engine.release(event)
                self._welcome(event.worker)
            elif isinstance(event, Arrived):
                self._take(event)
            elif isinstance(event, Died):
                self._bury(event.worker, event.reason, event.broken)
            elif isinstance(event, Joined):
                self._submit(PREPARE, {}, event.worker)
            elif isinstance(event, Failed):
                raise EngineError(f"peer {event.worker} failed: {event.reason}")
            event = engine.next_event(engine.now())
        now = self._now()
        while self._agenda and self._agenda[0][0] <= now:
            heapq.heappop(self._agenda)[2]()
        for peer, one in list(self.seen.items()):
            if engine.now() - one.heard > PATIENCE and not one.last:
                injection(engine).kill(peer)
                one.heard = engine.now()

    def _now(self) -> float:
        return self.engine.now() - self._began

    def _plan(self, when: float, what: Callable[..., None], *given: Any) -> None:
        self._planned += 1
        heapq.heappush(self._agenda, (when, self._planned, lambda: what(*given)))

    def _take(self, event: Arrived) -> None:
        """Take a report."""
        report = Report.read(event.read(), len(self.made.x))
        self.engine.release(event)
        one = self.seen.get(event.worker)
        if one is None:
            return
        one.heard, one.until, one.last, one.model = self.engine.now(), report.until, report.last, report.model
        one.models.append((report.until, report.model))
        one.messages, one.vectors, one.gradient_seconds = report.messages, report.vectors, report.gradient_seconds
        self._models[event.worker] = report.model
        for whom, life, when in report.noticed:
            if life == self._lives[whom]:
                self._dead.setdefault(whom, []).append((event.worker, whom, when))
                self._gather(whom)
        for row in report.rows:
            self._steps[event.worker] = row.step + 1
            heapq.heappush(self._rows, (row.end, event.worker, row.step, row))

    def _advance(self) -> None:
        """Write down what is known of all, moment by moment, and end the run if it is over."""
        if not self.seen and not self._returning():
            self.kept.run.status, self.kept.run.stopped = "failed", "every peer is gone"
            self._merge(math.inf)
            self.end = self._now() if self.end is None else self.end
            return
        known = min((one.until for one in self.seen.values()), default=self._now())
        while self.end is None and (tick := (self.ticks + 1) * TICK) <= known:
            self._merge(min(tick, self.conduct.end))
            if self.end is None and tick >= self.conduct.end:
                self.end = self.conduct.end
            if self.end is None:
                self.ticks += 1
                self._at(tick)

    def _returning(self) -> bool:
        """Whether somebody who is gone will come back."""
        return bool(self._agenda) or bool(self._expected)

    def _merge(self, until: float) -> None:
        """Write down the steps that ended by then, in order; that of the run's last step is its end."""
        goal = self.conduct.steps * self.n_peers
        while self._rows and self._rows[0][0] <= until and (self.end is None or self._rows[0][0] <= self.end):
            row = heapq.heappop(self._rows)[3]
            self.kept.step(row)
            self.total += 1
            if self.total >= goal and self.end is None:
                self.end = row.end

    def _at(self, tick: float) -> None:
        """Look at the mean model, if it is time, at a moment of which all peers have told."""
        models: list[Array] = []
        for one in self.seen.values():
            while len(one.models) > 1 and one.models[0][0] < tick:
                one.models.popleft()
            if one.since <= tick and one.models:
                models.append(one.models[0][1])
        looks = int(self.total / (self.conduct.evaluate_every * self.n_peers))
        if looks <= self.looks or not models:
            return
        self.looks = looks
        row = self.kept.look(np.array(models), self.total, tick)
        if self.conduct.target is not None and row.objective <= self.conduct.target:
            self.end = tick
        elif said := self.conduct.stop():
            self.kept.run.status, self.kept.run.stopped = "interrupted", said
            self.end = tick

    # What happens to peers

    def _kill(self, peer: int) -> None:
        if peer in self.seen:
            injection(self.engine).kill(peer)

    def _bury(self, peer: int, reason: str, broken: bool) -> None:
        self._expected.discard(peer)
        one = self.seen.pop(peer, None)
        if one is None:
            return
        if broken:
            raise EngineError(f"peer {peer} failed: {reason}")
        self.gone.add(peer)
        self._ended.add(self._lives[peer])
        for place, value in enumerate((one.messages, one.vectors, one.gradient_seconds)):
            self._counts[place] += value
        self.kept.notice(
            Notice("died", worker=peer, data={"reason": reason, "replaced": False},
                   text=f"Peer {peer} is gone: {reason}.", time=self._now())
        )  # fmt: skip
        self._plan(self._now() + self.made.notice + _SETTLING, self._write_down, peer, self._lives[peer])
        if peer in self._dead:
            self._gather(peer)

    def _recall(self, peer: int) -> None:
        """Start a peer again that was killed."""
        if peer not in self.gone:
            return
        self._write_down(peer, self._lives[peer])
        try:
            self.engine.assign(peer, PeerProgram(self.made, peer, self.channels, self._steps[peer]))
            self._expected.add(peer)
        except NoRoom as error:
            text = f"Peer {peer} cannot come back: {error}"
            self.kept.notice(Notice("failed", worker=peer, data={"reason": str(error)}, text=text, time=self._now()))

    def _welcome(self, peer: int) -> None:
        """Let a peer begin that has come back, and the others know of it."""
        self._expected.discard(peer)
        self.gone.discard(peer)
        self._recorded -= {peer}
        self._dead.pop(peer, None)
        self._lives[peer] = next(_lives)
        self._tell_change(self._told)
        now = self._now()
        self.seen[peer] = _Seen(now, self.engine.now(), self._models[peer], now)
        more = {"ended": sorted(self._ended), "sides": _plain(self._told), "cut": _plain(self.sides)}
        self._submit(BEGIN, more, peer)

    def _cut(self, sides: tuple[frozenset[int], ...]) -> None:
        self.sides = sides
        self._tell("cut", _plain(sides))
        self._plan(self._now() + self.made.notice, self._tell_change, sides)

    def _tell_change(self, sides: tuple[frozenset[int], ...]) -> None:
        """Let all who are there know of a cut, also if it has healed meanwhile, and of who has come back."""
        self._told = sides
        self._changes += 1
        self.kept.trouble(self._now(), self._recorded, sides)
        self._tell("change", {"sides": _plain(sides), **self._whereabouts()})

    def _write_down(self, peer: int, life: int) -> None:
        """Write down that a peer is gone, and which neighbours noticed it when; it is they who have told the others."""
        if peer not in self.gone or peer in self._recorded or life != self._lives[peer]:
            return
        noticed = sorted(self._dead.pop(peer, []), key=lambda one: one[2])
        self._recorded |= {peer}
        self.kept.trouble(noticed[0][2] if noticed else self._now(), self._recorded, self._told, noticed)

    def _gather(self, peer: int) -> None:
        """Write down a death if all neighbours that are left have noticed it."""
        around = View(self.made.graph, self._recorded, self._told).neighbours.get(peer, ())
        if {other for other in around if other in self.seen} <= {one[0] for one in self._dead.get(peer, ())}:
            self._write_down(peer, self._lives[peer])

    def _tell(self, kind: str, what: Any) -> None:
        for peer in self.seen:
            self.channels.tell(peer, words(self._lives[peer], kind, what))

    # The end

    def _conclude(self, end: float) -> None:
        """Let all peers end, with the models that they had at that moment."""
        self._tell("end", end)
        deadline = self.engine.now() + _SHUTDOWN
        while any(not one.last for one in self.seen.values()) and self.engine.now() < deadline:
            event = self.engine.next_event(min(deadline, self.engine.now() + _GLANCE))
            if isinstance(event, Arrived):
                self._take(event)
            elif isinstance(event, Died):
                self._models.setdefault(event.worker, self.made.x)
                self.seen.pop(event.worker, None)
        for peer in sorted(self.gone):
            self._write_down(peer, self._lives[peer])
        models = np.array([one.model for one in self.seen.values()] or list(self._models.values()))
        self.kept.look(models, self.total, end)

    def _close(self) -> None:
        """End all peers, whatever has happened."""
        self._tell("end", 0.0)
        for peer in range(self.n_peers):
            self.engine.assign(peer, None)
        self.channels.close()


def _plain(sides: tuple[frozenset[int], ...]) -> list[list[int]]:
    return [sorted(side) for side in sides]
