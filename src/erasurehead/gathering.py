"""One round: submit an order, take events until the wait rule says stop, and decode what is there."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from erasurehead.arrays import Array, Tree
from erasurehead.codes.restriction import restricted
from erasurehead.crew import Crew
from erasurehead.decoding.base import Decoding
from erasurehead.decoding.choice import general
from erasurehead.engines.base import Arrived, Died, Event, Failed, Joined, MessageLost, Order
from erasurehead.errors import Diverged, ErasureHeadError, Unreachable
from erasurehead.formation import Formation
from erasurehead.instruments import Instrument
from erasurehead.records.rows import ArrivalRow
from erasurehead.suspicion import Suspicion
from erasurehead.verification import NOT_FINITE, Verifier, unusable
from erasurehead.waiting.base import Verdict, View, WaitRule

DIVERGED = "step {step}: the {what} not finite: the model has diverged; take a smaller step size (rate)."

TELL_EVERY = 0.05
"""Seconds between two reports to instruments of who is late."""


class Thinned(ErasureHeadError):
    """The wait rule cannot be met with the workers that are left, but may be once the code is re-formed over them."""


@dataclass(frozen=True, eq=False)
class Gathered:
    """What one round brought.

    Attributes:
        estimate: gradient, then loss, shape (n_parameters + 1,); None if there is nothing to go by.
        decoding: the weights that were used.
        view: the arrivals.
        formation: who sat where.
        begin: when the order was submitted, in the engine's seconds.
        waited: seconds from there until the rule said stop.
        rows: one for each message of the workers that were able, arrived or censored.
        notices: what happened, in words.
        received: bytes that arrived in time.
        lost: tasks that nobody can bring any more, and that the estimate leaves out, ascending.
    """

    estimate: Array | None
    decoding: Decoding
    view: View
    formation: Formation
    begin: float
    waited: float
    rows: tuple[ArrivalRow, ...]
    notices: tuple[str, ...]
    received: int
    lost: tuple[int, ...] = ()


@dataclass(eq=False)
class _Round:
    """A round under way. Messages are rows of its formation's code."""

    order: Order
    formation: Formation
    view: View
    rule: WaitRule
    begin: float
    arrivals: dict[int, Arrived] = field(default_factory=dict[int, Arrived])
    lost: tuple[int, ...] = ()
    doubtful: bool = False  # messages contradict each other, and another that may come can tell who is right
    disputed: bool = False  # messages were refused because they contradict each other
    unruled: bool = False  # the rule cannot be met: go on with all that can still come

    def read(self, message: int) -> Array:
        """Return the vector of a message that has arrived."""
        return self.arrivals[message].read()


@dataclass(frozen=True, eq=False)
class _Begun:
    """A round that may still be answered, late: when it began, and which row and unit each message was then."""

    begin: float
    epoch: int
    numbers: Mapping[tuple[int, int], tuple[int, int]]


class Gathering:
    """Gathers rounds, one after the other, from a crew."""

    def __init__(self, crew: Crew, instruments: Sequence[Instrument] = ()) -> None:
        self.crew = crew
        self.engine = crew.engine
        self.instruments = instruments
        self._formation = crew.formation
        self._begun: dict[int, _Begun] = {}
        self._notices: list[str] = []
        self._verifier: Verifier | None = None
        self._verified: Formation | None = None
        watches = crew.survival.suspected != "ignore"
        self._suspicion = Suspicion(after=crew.survival.suspect_after, late=crew.engine.late) if watches else None
        self._seconds = 0.0  # that all rounds have taken on this machine, whatever the engine's clock says
        crew.tell = self.notice

    def gather(self, order: Order) -> Gathered:
        """Run one round to its end.

        Raises:
            Thinned: if the wait rule cannot be met before the crew has settled; gather again then, with a new round.
            Unreachable: if the wait rule cannot be met any more.
            Diverged: if the estimate is not finite although every message is, or if no message that came is.
        """
        real = time.perf_counter()
        formation = self.crew.formation
        self._take_up(formation)
        if self.crew.survival.verify:
            self._prepare_verifier(formation)
        view = View(formation.scheme.decoder, order.step, self.crew.able())
        begin = self.engine.now()
        self._begun[order.round] = _Begun(begin, formation.epoch, formation.numbers)
        current = _Round(order, formation, view, formation.scheme.rules[order.kind], begin)
        self._submit(order, self.crew.present())
        read = current.read
        while True:
            self._wait(current)
            waited = current.view.elapsed
            if self._verifier is not None and self._examine(self._verifier, current):
                continue
            found = current.view.session.decoding()
            used: list[int] = found.messages.tolist()
            try:
                vectors = [read(message) for message in used]
            except MessageLost:
                self._refuse(current, unusable(used, read))
                continue
            estimate = formation.scheme.aggregation.estimate(found, vectors, formation.layout, order)
            if estimate is None or np.isfinite(estimate).all():
                break
            bad = unusable(used, read)
            if not bad:
                raise Diverged(DIVERGED.format(step=order.step, what="gradient estimate is"))
            self._refuse(current, bad)
        received = sum(a.part.length * np.dtype(a.part.dtype).itemsize for a in current.arrivals.values())
        rows = self._rows(current, set(found.used.tolist()))
        notices, self._notices = tuple(self._notices), []
        self._seconds += time.perf_counter() - real
        return Gathered(estimate, found, current.view, formation, begin, waited, rows, notices, received, current.lost)

    def _take_up(self, formation: Formation) -> None:
        """Take note of who sits where now; nobody waits any more for those who have left."""
        if self._suspicion is not None and self._formation is not formation:
            for worker in {*self._formation.seats} - {*formation.seats}:
                self._suspicion.left(worker)
        self._formation = formation

    def _submit(self, order: Order, workers: Sequence[int]) -> None:
        self.engine.submit(order, workers)
        if self._suspicion is not None:
            now = self.engine.now()
            for worker in workers:
                self._suspicion.ordered(worker, now)

    def notice(self, text: str) -> None:
        """Take down something that a person should know, for the record of the step and for the instruments."""
        self._notices.append(text)
        for instrument in self.instruments:
            instrument.notice(text)

    def end(self) -> None:
        """Say what is to be said when the last round is over."""
        if self._verifier is not None:
            self.notice(self._verifier.cost(self._seconds))

    def state(self) -> dict[str, Tree]:
        """Return all that `restore` needs: the rounds that may still be answered, and who is trusted."""
        numbers = {begun.epoch: begun.numbers for begun in self._begun.values()}
        return {
            "begun": [[number, begun.begin, begun.epoch] for number, begun in self._begun.items()],
            "numbers": [
                [epoch, [[*message, *number] for message, number in table.items()]] for epoch, table in numbers.items()
            ],
            "suspicion": None if self._suspicion is None else self._suspicion.state(),
            "verifier": None if self._verifier is None else self._verifier.state(),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a state; the crew is restored already."""
        formation = self.crew.formation
        numbers = {
            epoch: {(worker, message): (row, unit) for worker, message, row, unit in table}
            for epoch, table in state["numbers"]
        }
        self._begun = {number: _Begun(begin, epoch, numbers[epoch]) for number, begin, epoch in state["begun"]}
        if state["suspicion"] is not None and self._suspicion is not None:
            self._suspicion.restore(state["suspicion"])
        if state["verifier"] is not None and self.crew.survival.verify:
            self._prepare_verifier(formation).restore(state["verifier"])

    def _prepare_verifier(self, formation: Formation) -> Verifier:
        code, layout, seats = formation.code, formation.layout, formation.seats
        if self._verifier is None:
            self._verifier = Verifier(code, layout, seats=seats)
        elif self._verified is not formation:
            self._verifier = self._verifier.reformed(code, layout, seats)
        self._verified = formation
        self._verifier.begin()
        return self._verifier

    # --- waiting --------------------------------------------------------------------------------------------------

    def _wait(self, current: _Round) -> None:
        told = 0.0
        while True:
            view = current.view
            view.elapsed = self.engine.now() - current.begin
            verdict = current.rule.verdict(view) if not current.unruled else _when_all_is_in(view)
            nobody = not view.able and not view.arrived  # a deadline would go on without them for ever
            if verdict is Verdict.STOP and not nobody:
                return
            if verdict is Verdict.NEVER or nobody:
                self._despair(current)
                continue
            wake = None if current.unruled else current.rule.wake(view)
            until = None if wake is None else current.begin + wake
            check = self._check()
            if check < math.inf:
                until = check if until is None else min(until, check)
            event = self.engine.next_event(until)
            if event is not None:
                self._take(event, current)
                if current.doubtful and self._verifier is not None:
                    self._examine(self._verifier, current)
            if check < math.inf and (now := self.engine.now()) >= check:
                self._look(current, now)
            if view.elapsed >= told + TELL_EVERY:
                told = view.elapsed
                seats, owner = current.formation.seats, current.formation.code.owner
                missing = sorted(seats[place] for place in view.able - {int(owner[m]) for m in view.arrived})
                for instrument in self.instruments:
                    instrument.waiting(current.order.step, missing, view.elapsed)

    def _check(self) -> float:
        """Return when to `_look` again at who is missing, in the engine's seconds."""
        starting = self.crew.wake() if self.crew.coming else math.inf
        return starting if self._suspicion is None else min(starting, self._suspicion.next_check())

    def _look(self, current: _Round, now: float) -> None:
        """Give up workers that do not start, and name, or replace, those that seem to hang."""
        gone = self.crew.look(now)
        for worker in [] if self._suspicion is None else self._suspicion.check(now):
            why = self._suspicion.suspects[worker] if self._suspicion else ""
            self.notice(why)
            if self.crew.survival.suspected == "replace" and not self.crew.replace_suspect(worker):
                gone.append(worker)
        for worker in gone:
            if worker in current.formation.places:
                current.view.lose(current.formation.places[worker])

    def _despair(self, current: _Round) -> None:
        """Find a way to go on although the rule cannot be met, or raise."""
        view = current.view
        if view.refused and not view.arrived and not current.disputed:  # all that came was bad: nobody's fault
            what = f"{len(view.refused)} messages are all"
            raise Diverged(DIVERGED.format(step=current.order.step, what=what))
        if self.crew.thinned and self.crew.able():
            raise Thinned(self._why_never(current))
        if self.crew.survival.lost == "stop" or not (view.arrived or len(view.pending)):
            raise Unreachable(self._why_never(current))
        lost = _lost(view)
        if lost and not current.lost:
            self.notice(f"tasks {_shown(lost)} are lost; training goes on with the others")
            current.lost = tuple(lost)
            decoder = general(restricted(view.code, lost))
            current.view = View(decoder, view.step, view.able)
            current.view.elapsed = view.elapsed
            current.view.refused = view.refused
            for message in view.arrived:
                current.view.add(message)
        else:
            current.unruled = True

    def _take(self, event: Event, current: _Round) -> None:
        if isinstance(event, Arrived):
            self._take_arrival(event, current)
        elif isinstance(event, Failed):
            place = current.formation.places.get(event.worker)
            if event.order_round == current.order.round and place is not None:
                current.view.lose(place)
                self.notice(f"worker {event.worker} failed: {event.reason}")
            if self._suspicion is not None:
                self._suspicion.failed(event.worker)
        elif isinstance(event, Died):
            self._forget(event.worker)
            place = current.formation.places.get(event.worker)
            if not self.crew.die(event) and place is not None:
                current.view.lose(place)
        elif isinstance(event, Joined):
            self._forget(event.worker)
            if self.crew.join(event):
                current.view.regain(current.formation.places[event.worker])
                self._submit(current.order, [event.worker])
                self.notice(f"worker {event.worker} is there, on {event.host}")
        else:
            self.crew.offered(event)

    def _forget(self, worker: int) -> None:
        """Forget what is known of a worker: it is gone, or another has its number."""
        if self._suspicion is not None:
            self._suspicion.left(worker)
        if self._verifier is not None:
            self._verifier.joined(worker)

    def _take_arrival(self, event: Arrived, current: _Round) -> None:
        if self._suspicion is not None:
            latest = (event.worker, event.part.message) in current.formation.lasts
            done = latest and event.order_round == current.order.round
            if cleared := self._suspicion.heard(event.worker, event.time, event.started, done):
                self.notice(cleared)
        if event.order_round == current.order.round:
            row = current.formation.rows.get((event.worker, event.part.message))
            # A worker that came back may send again what it had sent before it died.
            if row is None or row in current.arrivals or row in current.view.refused:
                self.engine.release(event)
                return
            current.arrivals[row] = event
            current.view.elapsed = event.time - current.begin
            current.view.add(row)
            return
        begun = self._begun.get(event.order_round)
        if begun is not None:
            aggregation = self.crew.formation.scheme.aggregation
            if begun.epoch == self.crew.formation.epoch and aggregation.wants_late:
                aggregation.late(event)
            number = begun.numbers.get((event.worker, event.part.message))
            if number is not None:
                late = self._row(event, *number, begun.begin, late=True)
                for instrument in self.instruments:
                    instrument.arrival(late)
        self.engine.release(event)

    # --- what cannot be used --------------------------------------------------------------------------------------

    def _refuse(self, current: _Round, messages: Mapping[int, str]) -> None:
        """Turn messages that cannot be used into erasures, and say so."""
        current.view.refuse(messages)
        for message, why in messages.items():
            arrived = current.arrivals.pop(message)
            self.engine.release(arrived)
            self.notice(f"message {message} of worker {arrived.worker} is refused: {why}")

    def _examine(self, verifier: Verifier, current: _Round) -> bool:
        """Compare what should be equal, before anything is decoded; return whether something was wrong with it."""
        view = current.view
        found = verifier.examine(current.arrivals, current.read, view.pending.tolist())
        for sentence in found.reasons:
            self.notice(sentence)
        changed = found.settle(view)
        current.doubtful = bool(found.doubtful)
        current.disputed |= any(why != NOT_FINITE for why in found.refused.values())
        for message in found.refused:
            self.engine.release(current.arrivals.pop(message))
        for worker, why in found.accused.items():
            self.crew.put_aside(worker, why)
            if self._suspicion is not None:
                self._suspicion.left(worker)
        return changed

    def _refused_places(self, current: _Round) -> set[int]:
        return {int(current.formation.code.owner[message]) for message in current.view.refused}

    def _why_never(self, current: _Round) -> str:
        view, formation = current.view, current.formation
        code, seats = formation.code, formation.seats
        places = (set(range(code.n_workers)) - view.able) | self._refused_places(current)
        gone = sorted(seats[place] for place in places)
        lost = _lost(view)
        what = f"tasks {_shown(lost)} are lost with them" if lost else "too few workers are left"
        reasons = "; ".join(f"worker {worker} {reason}" for worker, reason in list(self.crew.dead.items())[:3])
        return (
            f"step {view.step}: the wait rule {formation.scheme.rule} cannot be met any more: workers {_shown(gone)} "
            f"will not answer, and {what}; {len(view.able)} of {code.n_workers} workers are left"
            + (f" ({reasons})" if reasons else "")
            + ". A larger load, or a rule that waits for fewer workers, tolerates more deaths."
            + (
                f" {len(view.refused)} messages were refused: see the notices; if they were not finite, the step "
                "size may be too large."
                if view.refused
                else ""
            )
        )

    # --- records --------------------------------------------------------------------------------------------------

    def _row(
        self, event: Arrived, row: int, unit: int, begin: float, late: bool = False, used: bool = False
    ) -> ArrivalRow:
        return ArrivalRow(
            step=event.step,
            round=event.order_round,
            worker=event.worker,
            message=row,
            unit=unit,
            work=event.part.work,
            started=event.started - begin,
            seconds=event.time - begin,
            late=late,
            used=used,
        )

    def _rows(self, current: _Round, used: set[int]) -> tuple[ArrivalRow, ...]:
        view, formation, order = current.view, current.formation, current.order
        rows = [
            self._row(current.arrivals[message], message, formation.units[message], current.begin, used=message in used)
            for message in view.arrived
        ]
        pending: list[int] = view.pending.tolist()
        for message in pending:
            rows.append(
                ArrivalRow(
                    step=order.step,
                    round=order.round,
                    worker=formation.workers_of_rows[message],
                    message=message,
                    unit=formation.units[message],
                    work=formation.works[message],
                    started=None,
                    seconds=view.elapsed,
                    censored=True,
                )
            )
        return tuple(rows)


def _when_all_is_in(view: View) -> Verdict:
    return Verdict.WAIT if len(view.pending) else Verdict.STOP


def _lost(view: View) -> list[int]:
    """Return the tasks that no message says anything of that has come or may still come."""
    present = np.zeros(view.code.n_tasks, dtype=bool)
    for message in [*view.arrived, *view.pending.tolist()]:
        present[view.code.tasks_of_message(message)] = True
    found: list[int] = np.flatnonzero(~present).tolist()
    return found


def _shown(numbers: Sequence[int], most: int = 12) -> str:
    shown = ", ".join(map(str, numbers[:most]))
    return f"{shown}, ... ({len(numbers)} in all)" if len(numbers) > most else shown or "none"
