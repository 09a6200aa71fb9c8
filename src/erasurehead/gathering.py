"""One round: submit an order, take events until the wait rule says stop, and decode what is there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from erasurehead.arrays import Array
from erasurehead.decoding.base import Decoding
from erasurehead.engines.base import Arrived, Died, Engine, Event, Failed, Joined, MessageLost, Order
from erasurehead.errors import Diverged, Unreachable
from erasurehead.instruments import Instrument
from erasurehead.layout import Layout
from erasurehead.records.rows import ArrivalRow
from erasurehead.schemes import Scheme
from erasurehead.waiting.base import Verdict, View

DIVERGED = "step {step}: the {what} not finite: the model has diverged; take a smaller step size (rate)."

TELL_EVERY = 0.05
"""Seconds between two reports to instruments of who is late."""


@dataclass(frozen=True, eq=False)
class Gathered:
    """What one round brought.

    Attributes:
        estimate: gradient, then loss, shape (n_parameters + 1,); None if there is nothing to go by.
        decoding: the weights that were used.
        view: the arrivals.
        begin: when the order was submitted, in the engine's seconds.
        waited: seconds from there until the rule said stop.
        rows: one for each message of the workers that were able, arrived or censored.
        failed: what went wrong, in words.
        received: bytes that arrived in time.
    """

    estimate: Array | None
    decoding: Decoding
    view: View
    begin: float
    waited: float
    rows: tuple[ArrivalRow, ...]
    failed: tuple[str, ...]
    received: int


class Gathering:
    """Gathers rounds, one after the other, over the workers that live.

    Attributes:
        living: workers that have joined and not died.
        dead: workers that have died.
    """

    def __init__(self, engine: Engine, scheme: Scheme, layout: Layout, instruments: Sequence[Instrument]) -> None:
        self.engine = engine
        self.scheme = scheme
        self.layout = layout
        self.instruments = instruments
        self.living: set[int] = set()
        self.dead: dict[int, str] = {}
        self._begins: dict[int, float] = {}
        self._failed: list[str] = []
        self._arrivals: dict[int, Arrived] = {}
        code = scheme.code
        self._works = [float(len(code.tasks_of_message(message))) for message in range(code.n_messages)]
        self._units = {
            int(message): unit
            for worker in range(code.n_workers)
            for unit, message in enumerate(code.messages_of(worker))
        }

    def gather(self, order: Order) -> Gathered:
        """Run one round to its end.

        Raises:
            Unreachable: if the wait rule cannot be met any more.
            Diverged: if the estimate is not finite although every message is, or if no message that came is.
        """
        view = View(self.scheme.decoder, order.step, self.living)
        rule = self.scheme.rules[order.kind]
        self._arrivals, self._failed = {}, []
        begin = self._begins[order.round] = self.engine.now()
        self.engine.submit(order)
        while True:
            self._wait(rule.verdict, rule.wake, view, order, begin)
            waited = view.elapsed
            decoding = view.session.decoding()
            try:
                vectors = [self._arrivals[int(message)].read() for message in decoding.messages]
            except MessageLost:
                self._refuse(view, self._unusable(decoding))
                continue
            estimate = self.scheme.aggregation.estimate(decoding, vectors, self.layout, order)
            if estimate is None or np.isfinite(estimate).all():
                break
            bad = self._unusable(decoding)
            if not bad:
                raise Diverged(DIVERGED.format(step=order.step, what="gradient estimate is"))
            self._refuse(view, bad)
        used = set(decoding.used.tolist())
        received = sum(a.part.length * np.dtype(a.part.dtype).itemsize for a in self._arrivals.values())
        rows = self._rows(order, view, begin, used)
        return Gathered(estimate, decoding, view, begin, waited, rows, tuple(self._failed), received)

    def _wait(
        self,
        verdict_of: Callable[[View], Verdict],
        wake_of: Callable[[View], float | None],
        view: View,
        order: Order,
        begin: float,
    ) -> None:
        told = 0.0
        while True:
            view.elapsed = self.engine.now() - begin
            verdict = verdict_of(view)
            nobody = not view.able and not view.arrived  # a deadline would go on without them for ever
            if verdict is Verdict.STOP and not nobody:
                return
            if verdict is Verdict.NEVER or nobody:
                if view.refused and not view.arrived:  # all that came was bad: not some worker's fault
                    raise Diverged(DIVERGED.format(step=order.step, what=f"{len(view.refused)} messages are all"))
                raise Unreachable(self._why_never(view))
            wake = wake_of(view)
            event = self.engine.next_event(None if wake is None else begin + wake)
            if event is not None:
                self._take(event, view, order, begin)
            if view.elapsed >= told + TELL_EVERY:
                told = view.elapsed
                missing = sorted(view.able - {int(self.scheme.code.owner[m]) for m in view.arrived})
                for instrument in self.instruments:
                    instrument.waiting(order.step, missing, view.elapsed)

    def _take(self, event: Event, view: View, order: Order, begin: float) -> None:
        if isinstance(event, Arrived):
            self._take_arrival(event, view, order, begin)
        elif isinstance(event, Failed):
            if event.order_round == order.round:
                view.lose(event.worker)
                self._notice(f"worker {event.worker} failed: {event.reason}")
        elif isinstance(event, Died):
            self.living.discard(event.worker)
            self.dead[event.worker] = event.reason
            view.lose(event.worker)
            self._notice(f"worker {event.worker} died: {event.reason}")
        elif isinstance(event, Joined):
            self.join(event)
            view.regain(event.worker)
            self.engine.submit(order, [event.worker])
            self._notice(f"worker {event.worker} is back, on {event.host}")

    def join(self, event: Joined) -> None:
        """Take note that a worker is there."""
        self.living.add(event.worker)
        self.dead.pop(event.worker, None)

    def _take_arrival(self, event: Arrived, view: View, order: Order, begin: float) -> None:
        message = event.part.message
        if event.order_round == order.round:
            if message in self._arrivals:  # a worker that came back may send again what it had sent before it died
                self.engine.release(event)
                return
            self._arrivals[message] = event
            view.elapsed = event.time - begin
            view.add(message)
            return
        if self.scheme.aggregation.wants_late:
            self.scheme.aggregation.late(event)
        submitted = self._begins.get(event.order_round)
        if submitted is not None:
            row = self._row(event, submitted, late=True)
            for instrument in self.instruments:
                instrument.arrival(row)
        self.engine.release(event)

    def _unusable(self, decoding: Decoding) -> list[int]:
        """Return the messages among those used whose vector is lost or not finite, and say so."""
        bad: list[int] = []
        for message in decoding.messages.tolist():
            arrived = self._arrivals[message]
            try:
                if np.isfinite(arrived.read()).all():
                    continue
                why = "its vector is not finite"
            except MessageLost as lost:
                why = str(lost)
            bad.append(message)
            self._notice(f"message {message} of worker {arrived.worker} is refused: {why}")
        return bad

    def _refuse(self, view: View, messages: Sequence[int]) -> None:
        view.refuse(messages)
        for message in messages:
            self.engine.release(self._arrivals.pop(message))

    def _notice(self, text: str) -> None:
        self._failed.append(text)
        for instrument in self.instruments:
            instrument.notice(text)

    def _why_never(self, view: View) -> str:
        code = self.scheme.code
        present = np.zeros(code.n_tasks, dtype=bool)
        for message in [*view.arrived, *view.pending.tolist()]:
            present[code.tasks_of_message(message)] = True
        lost: list[int] = np.flatnonzero(~present).tolist()
        gone = sorted((set(range(code.n_workers)) - view.able) | {int(code.owner[m]) for m in view.refused})
        what = f"tasks {_shown(lost)} are lost with them" if lost else "too few workers are left"
        return (
            f"step {view.step}: the wait rule {self.scheme.rule} cannot be met any more: workers {_shown(gone)} will "
            f"not answer, and {what}; {len(view.able)} of {code.n_workers} workers are left. A larger load, or a "
            "rule that waits for fewer workers, tolerates more deaths."
            + (
                f" {len(view.refused)} messages were refused: see the notices; if they were not finite, the step "
                "size may be too large."
                if view.refused
                else ""
            )
        )

    def _row(self, event: Arrived, submitted: float, late: bool = False, used: bool = False) -> ArrivalRow:
        return ArrivalRow(
            step=event.step,
            round=event.order_round,
            worker=event.worker,
            message=event.part.message,
            unit=self._units[event.part.message],
            work=event.part.work,
            started=event.started - submitted,
            seconds=event.time - submitted,
            late=late,
            used=used,
        )

    def _rows(self, order: Order, view: View, begin: float, used: set[int]) -> tuple[ArrivalRow, ...]:
        rows = [self._row(self._arrivals[message], begin, used=message in used) for message in view.arrived]
        code = self.scheme.code
        pending: list[int] = view.pending.tolist()
        for message in pending:
            rows.append(
                ArrivalRow(
                    step=order.step,
                    round=order.round,
                    worker=int(code.owner[message]),
                    message=message,
                    unit=self._units[message],
                    work=self._works[message],
                    started=None,
                    seconds=view.elapsed,
                    censored=True,
                )
            )
        return tuple(rows)


def _shown(numbers: Sequence[int], most: int = 12) -> str:
    shown = ", ".join(map(str, numbers[:most]))
    return f"{shown}, ... ({len(numbers)} in all)" if len(numbers) > most else shown or "none"
