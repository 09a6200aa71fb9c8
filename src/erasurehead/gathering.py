"""One round: submit an order, take events until the wait rule says stop, and decode what is there."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from erasurehead.arrays import Array, Tree
from erasurehead.codes.restriction import restricted
from erasurehead.crew import Crew
from erasurehead.decoding.base import Decoding
from erasurehead.decoding.choice import general
from erasurehead.engines.base import Arrived, Died, Event, Failed, Joined, MessageLost, Order
from erasurehead.errors import Diverged, ErasureHeadError, Unreachable, listed
from erasurehead.formation import Formation
from erasurehead.instruments import Instrument
from erasurehead.records.rows import ArrivalRow
from erasurehead.rounds import Begun, Round
from erasurehead.suspicion import Suspicion
from erasurehead.verification import NOT_FINITE, Verifier, unusable
from erasurehead.waiting.base import Verdict, View

DIVERGED = "step {step}: the {what} not finite: the model has diverged; take a smaller step size (rate)."

REMEMBERED = 1_000
"""Rounds whose late messages are still told apart; a message later than that is dropped."""

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
        rows: one for each message that has arrived and is not refused, and for each that may still come, censored.
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


class Gathering:
    """Gathers rounds, one after the other, from a crew."""

    def __init__(self, crew: Crew, instruments: Sequence[Instrument] = ()) -> None:
        self.crew = crew
        self.engine = crew.engine
        self.instruments = instruments
        self._formation = crew.formation
        self._begun: dict[int, Begun] = {}
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
        self._begun[order.round] = Begun(begin, formation.epoch, formation.numbers)
        if len(self._begun) > REMEMBERED:
            del self._begun[next(iter(self._begun))]
        current = Round(order, formation, view, formation.scheme.rules[order.kind], begin)
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
        rows = current.rows(set(found.used.tolist()))
        notices, self._notices = tuple(self._notices), []
        self._seconds += time.perf_counter() - real
        return Gathered(estimate, found, current.view, formation, begin, waited, rows, notices, received, current.lost)

    def _take_up(self, formation: Formation) -> None:
        """Take note of who sits where now; nobody is waited for who has left, or been given other data."""
        if self._suspicion is not None and self._formation is not formation:
            for worker in {*self._formation.seats} - {*self.crew.present()}:  # gone, or started anew
                self._suspicion.left(worker)
        self._formation = formation

    def _submit(self, order: Order, workers: Sequence[int]) -> None:
        self.engine.submit(order, workers)
        if self._suspicion is not None:
            now = self.engine.now()
            for worker in workers:
                if worker not in self._formation.mute:
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
        self._formation = formation = self.crew.formation
        numbers = {
            epoch: {(worker, message): (row, unit) for worker, message, row, unit in table}
            for epoch, table in state["numbers"]
        }
        self._begun = {number: Begun(begin, epoch, numbers[epoch]) for number, begin, epoch in state["begun"]}
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

    def _wait(self, current: Round) -> None:
        told = 0.0
        while True:
            view = current.view
            view.elapsed = self.engine.now() - current.begin
            verdict = current.rule.verdict(view) if not current.unruled else _when_all_is_in(view)
            nobody = not view.able and not view.arrived  # a deadline would go on without them for ever
            if verdict is Verdict.STOP and not nobody:
                if current.unruled and self._leave_out(current):
                    continue
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
            if check < math.inf and (now := self.engine.now()) >= check:
                self._look(current, now)
            if current.doubtful and self._verifier is not None:
                self._examine(self._verifier, current)
            if view.elapsed >= told + TELL_EVERY:
                told = view.elapsed
                self._tell_of(current)

    def _tell_of(self, current: Round) -> None:
        """Tell those who want to know who is late."""
        watching = [one for one in self.instruments if type(one).waiting is not Instrument.waiting]
        missing = current.missing if watching else []
        for instrument in watching:
            instrument.waiting(current.order.step, missing, current.view.elapsed)

    def _check(self) -> float:
        """Return when to `_look` again at who is missing, in the engine's seconds."""
        starting = self.crew.wake() if self.crew.coming else math.inf
        return starting if self._suspicion is None else min(starting, self._suspicion.next_check())

    def _look(self, current: Round, now: float) -> None:
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

    def _despair(self, current: Round) -> None:
        """Find a way to go on although the rule cannot be met, or raise."""
        view = current.view
        if current.refused and not view.arrived and {*current.refused.values()} == {NOT_FINITE}:
            what = f"{len(current.refused)} messages are all"  # all that came was bad: no worker's fault
            raise Diverged(DIVERGED.format(step=current.order.step, what=what))
        if self.crew.thinned and self.crew.able():
            raise Thinned(current.why_never(self.crew.dead))
        if self.crew.survival.lost == "stop" or len(current.out_of_reach()) == current.formation.code.n_tasks:
            raise Unreachable(current.why_never(self.crew.dead))
        if not self._leave_out(current):
            current.unruled = True

    def _leave_out(self, current: Round) -> bool:
        """Decode without the tasks that nobody can bring any more; return whether there are more of them than before.

        The rule is then asked again, of the others.
        """
        lost = current.out_of_reach()
        if not set(lost) - set(current.lost) or len(lost) == current.formation.code.n_tasks:
            return False
        self.notice(f"tasks {listed(lost)} are lost; training goes on with the others")
        before, current.lost = current.view, tuple(lost)
        view = View(general(restricted(current.formation.code, lost)), before.step, before.able)
        view.elapsed, view.refused = before.elapsed, before.refused
        for message in before.arrived:
            view.add(message)
        current.view = view
        return True

    def _take(self, event: Event, current: Round) -> None:
        if isinstance(event, Arrived):
            self._take_arrival(event, current)
        elif isinstance(event, Failed):
            place = current.formation.places.get(event.worker)
            if event.order_round == current.order.round and place is not None:
                current.view.lose(place)
                current.failed[event.worker] = event.reason
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
                current.regain(event.worker)
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

    def _take_arrival(self, event: Arrived, current: Round) -> None:
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
            if (late := begun.late_row(event)) is not None:
                for instrument in self.instruments:
                    instrument.arrival(late)
        self.engine.release(event)

    # --- what cannot be used --------------------------------------------------------------------------------------

    def _refuse(self, current: Round, messages: Mapping[int, str]) -> None:
        """Turn messages that cannot be used into erasures, and say so."""
        current.view.refuse(messages)
        current.refused.update(messages)
        for message, why in messages.items():
            arrived = current.arrivals.pop(message)
            self.engine.release(arrived)
            self.notice(f"message {message} of worker {arrived.worker} is refused: {why}")

    def _examine(self, verifier: Verifier, current: Round) -> bool:
        """Compare what should be equal, before anything is decoded; return whether something was wrong with it."""
        view = current.view
        found = verifier.examine(current.arrivals, current.read, view.pending.tolist())
        for sentence in found.reasons:
            self.notice(sentence)
        changed = found.settle(view)
        current.doubtful = bool(found.doubtful)
        current.refused.update(found.refused)
        for message in found.refused:
            self.engine.release(current.arrivals.pop(message))
        for worker, why in found.accused.items():
            self.crew.put_aside(worker, why)
            if self._suspicion is not None:
                self._suspicion.left(worker)
        return changed


def _when_all_is_in(view: View) -> Verdict:
    return Verdict.WAIT if len(view.pending) else Verdict.STOP
