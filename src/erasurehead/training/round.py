"""One round: submit an order, take events until the wait rule says stop, and decode what is there."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from erasurehead._internal.arrays import Array, Tree, finite
from erasurehead.codes.transforms import shortened
from erasurehead.decoding.base import Decoding
from erasurehead.decoding.choice import general
from erasurehead.engines.base import Arrived, Died, Event, Failed, Joined, MessageLost, Order
from erasurehead.errors import Diverged, ErasureHeadError, NothingUnderWay, Unreachable, numbered
from erasurehead.faults.byzantine import NOT_FINITE, unusable
from erasurehead.schemes.wait_rules.alarm import Alarm
from erasurehead.schemes.wait_rules.base import Verdict, View
from erasurehead.training.assignment import Assignment
from erasurehead.training.callbacks import Callback
from erasurehead.training.health import HealthMonitor
from erasurehead.training.notices import Notice
from erasurehead.training.round_state import Begun, Round
from erasurehead.training.rows import ArrivalRow
from erasurehead.training.worker_pool import WorkerPool

DIVERGED = "step {step}: the {what} not finite: the model has diverged; take a smaller step size (rate)."

STUCK = (
    "step {step}: the wait rule {rule} goes on waiting, although nobody will answer any more and it names no later "
    "time at which to ask it again: let its `verdict` stop when nothing is pending, or at the time that `wake` says."
)

REMEMBERED = 1_000
"""Rounds whose late messages are still told apart; a message later than that is dropped."""

TELL_EVERY = 0.05
"""Seconds between two reports to callbacks of who is late."""


class PoolShrunk(ErasureHeadError):
    """The wait rule cannot be met with the workers that are left, but may be once the code is resized over them."""


@dataclass(frozen=True, eq=False)
class RoundResult:
    """What one round brought.

    Attributes:
        estimate: gradient, then loss, shape (n_parameters + 1,); None if there is nothing to go by.
        decoding: the weights that were used.
        view: the arrivals.
        assignment: who sat where.
        begin: when the order was submitted, in the engine's seconds.
        waited: seconds from there until the rule said stop.
        rows: one for each message that has arrived and is not refused, and for each that may still come, censored.
        received: bytes that arrived in time.
        lost: tasks that nobody can bring any more, and that the estimate leaves out, ascending.
    """

    estimate: Array | None
    decoding: Decoding
    view: View
    assignment: Assignment
    begin: float
    waited: float
    rows: tuple[ArrivalRow, ...]
    received: int
    lost: tuple[int, ...] = ()


class RoundRunner:
    """Gathers rounds, one after the other, from a pool.

    Arguments:
        pool: the workers.
        callbacks: hooks that watch.

    Attributes:
        step: that is under way, or is the next; notices belong to it. None when there is none any more.
        origin: when training began, in the engine's seconds; None before.
    """

    def __init__(self, pool: WorkerPool, callbacks: Sequence[Callback] = ()) -> None:
        self.pool = pool
        self.engine = pool.engine
        self.callbacks = callbacks
        self._monitor = HealthMonitor(pool, self.notice)
        self.step: int | None = 0
        self.origin: float | None = None
        self._begun: dict[int, Begun] = {}
        self._notices: list[tuple[float, Notice]] = []
        self._failing: dict[int, set[str]] = {}  # what was said of workers that have not answered properly since
        self._failed: set[int] = set()  # workers that failed in this round
        self._erased: set[str] = set()  # what was said of rules that are not met for erasures
        self._seconds = 0.0  # that all rounds have taken on this machine, whatever the engine's clock says
        pool.tell = self.notice

    def gather(self, order: Order) -> RoundResult:
        """Run one round to its end.

        Raises:
            PoolShrunk: if the wait rule cannot be met before the pool has settled; gather again then, with a new round.
            Unreachable: if the wait rule cannot be met any more.
            Diverged: if the estimate is not finite although every message is, or if no message that came is.
        """
        real = time.perf_counter()
        assignment = self.pool.assignment
        self._monitor.begin()
        self._failed.clear()
        self.step = order.step
        view = View(assignment.scheme.decoder, order.step, self.pool.able())
        begin = self.engine.now()
        self._begun[order.round] = Begun(begin, assignment.generation, assignment.numbers)
        if len(self._begun) > REMEMBERED:
            del self._begun[next(iter(self._begun))]
        current = Round(order, assignment, view, assignment.scheme.rules[order.kind], begin)
        self._submit(order, self.pool.present())
        read = current.read
        while True:
            self._wait(current)
            waited = current.view.elapsed
            if self._monitor.examine(current):
                continue
            found = current.view.session.decoding()
            used: list[int] = found.messages.tolist()
            try:
                vectors = [read(message) for message in used]
            except MessageLost:
                self._refuse(current, unusable(used, read))
                continue
            estimate = assignment.scheme.aggregation.estimate(found, vectors, assignment.layout, order)
            if estimate is None or finite(estimate):
                break
            bad = unusable(used, read)
            if not bad:
                raise Diverged(DIVERGED.format(step=order.step, what="gradient estimate is"))
            self._refuse(current, bad)
        received = sum(a.spec.length * np.dtype(a.spec.dtype).itemsize for a in current.arrivals.values())
        rows = current.rows(set(found.used.tolist()))
        for worker in {arrived.worker for arrived in current.arrivals.values()} - self._failed:
            self._failing.pop(worker, None)
        self._seconds += time.perf_counter() - real
        return RoundResult(estimate, found, current.view, assignment, begin, waited, rows, received, current.lost)

    def _submit(self, order: Order, workers: Sequence[int]) -> None:
        self.engine.submit(order, workers)
        self._monitor.ordered(workers)

    def notice(self, notice: Notice, again: bool = False) -> None:
        """Take down what was noticed: for the row of the step, and for the callbacks if it is not said again."""
        now = self.engine.now()
        self._notices.append((now, notice))
        told = replace(notice, step=self.step, time=None if self.origin is None else now - self.origin)
        for callback in () if again else self.callbacks:
            callback.on_notice(told)

    def take_notices(self) -> list[Notice]:
        """Return what was noticed since this was asked last, for the row of the step."""
        taken, self._notices = self._notices, []
        return [replace(notice, step=self.step, time=time - (self.origin or 0.0)) for time, notice in taken]

    def _notice_failure(self, worker: int, notice: Notice) -> None:
        """Take down what a worker fails with: not told again in every round, until it answers properly."""
        said = self._failing.setdefault(worker, set())
        self.notice(notice, again=notice.text in said)
        said.add(notice.text)
        self._failed.add(worker)

    def end(self) -> None:
        """Say what is to be said when the last round is over."""
        self.step = None
        self._monitor.end(self._seconds)

    def state(self) -> dict[str, Tree]:
        """Return all that `restore` needs: the rounds that may still be answered, and who is trusted."""
        numbers = {begun.generation: begun.numbers for begun in self._begun.values()}
        return {
            "begun": [[number, begun.begin, begun.generation] for number, begun in self._begun.items()],
            "numbers": [
                [generation, [[*message, *number] for message, number in table.items()]]
                for generation, table in numbers.items()
            ],
            **self._monitor.state(),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a state; the pool is restored already."""
        numbers = {
            generation: {(worker, message): (row, unit) for worker, message, row, unit in table}
            for generation, table in state["numbers"]
        }
        self._begun = {
            number: Begun(begin, generation, numbers[generation]) for number, begin, generation in state["begun"]
        }
        self._monitor.restore(state)

    # --- waiting --------------------------------------------------------------------------------------------------

    def _wait(self, current: Round) -> None:
        told = 0.0
        alarm = Alarm(current.rule)
        while True:
            view = current.view
            view.elapsed = alarm.elapsed(self.engine.now() - current.begin)
            freed = current.unruled or current.erased
            verdict = _when_all_is_in(view) if freed else current.rule.verdict(view)
            if current.erased and verdict is Verdict.STOP and not _decodes(view):
                current.erased, verdict = False, Verdict.UNREACHABLE  # more was erased while the others were waited for
            nobody = not view.able and not view.arrived  # a deadline would go on without them for ever
            if verdict is Verdict.STOP and not nobody:
                if current.unruled and self._leave_out(current):
                    continue
                return
            if verdict is Verdict.UNREACHABLE or nobody:
                self._despair(current)
                continue
            wake = None if freed else alarm.next(view)
            if wake is None and not (freed or current.doubtful or view.hopeful):
                if view.whole:
                    raise NothingUnderWay(STUCK.format(step=view.step, rule=current.rule))
                self._despair(current)  # everything that could come is here, and the rule would wait for ever
                continue
            until = None if wake is None else current.begin + wake
            check = self._monitor.next_look()
            if check < math.inf:
                until = check if until is None else min(until, check)
            try:
                event = self.engine.next_event(until)
            except NothingUnderWay as error:
                if current.unruled:
                    raise
                raise NothingUnderWay(STUCK.format(step=view.step, rule=current.rule)) from error
            if event is not None:
                alarm.stop()
                self._take(event, current)
            elif wake is not None and until == current.begin + wake:
                alarm.ring(wake)
            if check < math.inf and (now := self.engine.now()) >= check:
                for worker in self._monitor.look(now):
                    self._lose(worker, current)
            if current.doubtful:
                self._monitor.examine(current)
            if view.elapsed >= told + TELL_EVERY:
                told = view.elapsed
                self._tell_of(current)

    def _tell_of(self, current: Round) -> None:
        """Tell those who want to know who is late."""
        watching = [one for one in self.callbacks if type(one).on_wait is not Callback.on_wait]
        missing = current.missing if watching else []
        for callback in watching:
            callback.on_wait(current.order.step, missing, current.view.elapsed)

    def _despair(self, current: Round) -> None:
        """Find a way to go on although the rule cannot be met, or raise."""
        view = current.view
        if current.refused and not view.arrived and {*current.refused.values()} == {NOT_FINITE}:
            what = f"{len(current.refused)} messages are all"  # all that came was bad: no worker's fault
            raise Diverged(DIVERGED.format(step=current.order.step, what=what))
        erased = {*current.failed, *self._monitor.accused(current)}
        erased |= {current.assignment.workers_of_rows[message] for message in current.refused}
        if erased and _decodes(view):
            current.erased = True
            workers = sorted(erased)
            who = numbered("worker", workers)
            text = f"{current.rule} cannot be met without {who}; what the others send decodes exactly, and is used"
            data = {"rule": str(current.rule), "workers": workers}
            self.notice(Notice("rule_given_up", data=data, text=text), again=text in self._erased)
            self._erased.add(text)
            return
        if self.pool.shrunk and self.pool.able():
            raise PoolShrunk(current.why_never(self.pool.dead))
        if self.pool.fault_policy.lost == "stop" or len(current.out_of_reach()) == current.assignment.code.n_tasks:
            raise Unreachable(current.why_never(self.pool.dead))
        if not self._leave_out(current):
            current.unruled = True

    def _leave_out(self, current: Round) -> bool:
        """Decode without the tasks that nobody can bring any more; return whether there are more of them than before.

        The rule is then asked again, of the others.
        """
        lost = current.out_of_reach()
        if not set(lost) - set(current.lost) or len(lost) == current.assignment.code.n_tasks:
            return False
        text = f"{numbered('task', lost)} {'is' if len(lost) == 1 else 'are'} lost; training goes on with the others"
        self.notice(Notice("tasks_lost", data={"tasks": lost}, text=text))
        before, current.lost = current.view, tuple(lost)
        view = View(general(shortened(current.assignment.code, lost)), before.step, before.able)
        view.elapsed, view.refused = before.elapsed, before.refused
        for message in before.arrived:
            view.add(message)
        current.view = view
        return True

    def _take(self, event: Event, current: Round) -> None:
        if isinstance(event, Arrived):
            self._monitor.heard(event, current)
            self._take_arrival(event, current)
        elif isinstance(event, Failed):
            if event.order_round == current.order.round and self._lose(event.worker, current):
                current.failed[event.worker] = event.reason
                text = f"worker {event.worker} failed: {event.reason}"
                notice = Notice("failed", event.worker, data={"reason": event.reason}, text=text)
                self._notice_failure(event.worker, notice)
            self._monitor.failed(event.worker)
        elif isinstance(event, Died):
            self._monitor.forget(event.worker)
            self._failing.pop(event.worker, None)
            if not self.pool.die(event):
                self._lose(event.worker, current)
        elif isinstance(event, Joined):
            self._monitor.forget(event.worker)
            if self.pool.join(event):
                current.regain(event.worker)
                self._submit(current.order, [event.worker])
        else:
            self.pool.offered(event)

    def _lose(self, worker: int, current: Round) -> bool:
        """Wait for a worker no more; return whether it sits anywhere in this round."""
        position = current.assignment.positions.get(worker)
        if position is not None:
            current.view.lose(position)
        return position is not None

    def _take_arrival(self, event: Arrived, current: Round) -> None:
        if event.order_round == current.order.round:
            row = current.assignment.rows.get((event.worker, event.spec.message))
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
            aggregation = self.pool.assignment.scheme.aggregation
            if begun.generation == self.pool.assignment.generation and aggregation.wants_late:
                aggregation.late(event)
            if (late := begun.late_row(event)) is not None:
                for callback in self.callbacks:
                    callback.on_arrival(late)
        self.engine.release(event)

    # --- what cannot be used --------------------------------------------------------------------------------------

    def _refuse(self, current: Round, messages: Mapping[int, str]) -> None:
        """Turn messages that cannot be used into erasures, and say so."""
        current.view.refuse(messages)
        current.refused.update(messages)
        for message, why in messages.items():
            arrived = current.arrivals.pop(message)
            self.engine.release(arrived)
            text = f"message {message} of worker {arrived.worker} is refused: {why}"
            data = {"messages": [message], "reason": why}
            self._notice_failure(arrived.worker, Notice("refused", arrived.worker, data=data, text=text))


def _decodes(view: View) -> bool:
    """Return whether what has come and may still come gives the full gradient."""
    return view.decoder.decode([*view.arrived, *view.pending.tolist()]).exact


def _when_all_is_in(view: View) -> Verdict:
    return Verdict.WAIT if len(view.pending) else Verdict.STOP
