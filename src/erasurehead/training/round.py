"""One round: submit an order, take events until the wait rule says stop, and decode what is there."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from erasurehead._internal.arrays import Array, IntArray, Tree, finite, squared_norm
from erasurehead.codes.transforms import shortened
from erasurehead.decoding.base import Decoding
from erasurehead.decoding.choice import general
from erasurehead.decoding.layout import Layout
from erasurehead.engines.base import Arrived, Died, Event, Failed, Joined, MessageLost, Offered, Order
from erasurehead.errors import Diverged, ErasureHeadError, NothingUnderWay, Unreachable, numbered
from erasurehead.faults.byzantine import NOT_FINITE, unusable
from erasurehead.problems.base import CURVATURE
from erasurehead.schemes.aggregation import Aggregation, Vectors
from erasurehead.schemes.wait_rules.alarm import Alarm
from erasurehead.schemes.wait_rules.base import LateArrival, Verdict, View
from erasurehead.training.assignment import Assignment
from erasurehead.training.callbacks import Callback
from erasurehead.training.health import HealthMonitor
from erasurehead.training.late_work import LateWorkTaken
from erasurehead.training.notices import Notice
from erasurehead.training.round_state import Round
from erasurehead.training.round_table import RoundTable
from erasurehead.training.rows import BEFORE, ArrivalRow, StepRow, WorkerEvent, WorkerEventKind
from erasurehead.training.worker_pool import WorkerPool

DIVERGED = "step {step}: the {what} not finite: the model has diverged"

STUCK = (
    "step {step}: the wait rule {rule} goes on waiting, although nobody will answer any more and it names no later "
    "time at which to ask it again: let its `verdict` stop when nothing is pending, or at the time that `wake` says."
)

TELL_EVERY = 0.05
"""Seconds between two reports to callbacks of who is late."""


WATCH_EVERY = 1.0
"""Seconds after which those who want to know who is late are told, though nothing has happened."""


_KINDS: Mapping[type[Event], WorkerEventKind] = {
    Died: "died", Joined: "joined", Failed: "failed", Offered: "offered",
}  # fmt: skip


class TimeIsUp(ErasureHeadError):
    """The time that the run was given is over, in the middle of a round."""


class PoolShrunk(ErasureHeadError):
    """The wait rule cannot be met with the workers that are left, but may be once the code is resized over them."""


@dataclass(frozen=True, eq=False)
class RoundResult:
    """What one round brought.

    Attributes:
        estimate: gradient, then loss, shape (n_parameters + 1,); None if there is nothing to go by.
        curvature: what was asked for beside it, by orders of kind `"curvature"`: bounds on the curvature, then a
            sample's entries, shape (n_parameters + 1,); None if that was not asked for, or there is no estimate.
        decoding: the weights that were used.
        view: the arrivals.
        assignment: who sat where.
        begin: when the order was submitted, in the engine's seconds.
        waited: seconds from there until the rule said stop.
        rows: one for each message that has arrived and is not refused, and for each that may still come, censored.
        late_rows: one for each message of an earlier round that has come in this one.
        used_late: the rows of those of them that the aggregation was given.
        share: of the optimizer's step size that the estimate is worth.
        received: bytes that came, in time or late.
        lost: tasks that nobody can bring any more, and that the estimate leaves out, ascending.
        overflowed: whether there is no estimate as vectors were not finite, at a point that was only tried.
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
    late_rows: tuple[ArrivalRow, ...] = ()
    used_late: tuple[int, ...] = ()
    share: float = 1.0
    overflowed: bool = False
    curvature: Array | None = None

    @property
    def exact(self) -> bool:
        """Whether the estimate is the full gradient at the order's point."""
        faithful = self.assignment.scheme.aggregation.faithful
        return faithful and self.estimate is not None and self.decoding.exact and not self.lost and not self.used_late

    @property
    def coverage(self) -> float:
        """Fraction of the full gradient that is counted; with late work, of the tasks that something is known of."""
        kept = 1.0 - len(self.lost) / self.assignment.code.n_tasks
        if self.used_late:
            code = self.assignment.code
            tasks = [code.tasks_of_message(message) for message in {*self.used_late, *self.decoding.used.tolist()}]
            return len(np.unique(np.concatenate(tasks))) / code.n_tasks
        return kept * self.decoding.coverage if len(self.decoding.messages) else 0.0

    def step_row(
        self,
        order: Order,
        end: float,
        origin: float = 0.0,
        gradient: Array | None = None,
        loss: float | None = None,
        *,
        dead: Iterable[int] = (),
        neglected: Iterable[int] = (),
        notices: Iterable[Notice] = (),
        events: Iterable[WorkerEvent] = (),
        decision: Mapping[str, Any] = MappingProxyType({}),
        stepped: bool | None = None,
        rejected: bool = False,
    ) -> StepRow:
        """Return the row of the step that this round was the last of.

        Arguments:
            order: what was asked.
            end: when the model had moved, in seconds since training began.
            origin: when training began, in the engine's seconds.
            gradient: the estimate with the penalty; None if no step was taken.
            loss: the estimate with the penalty.
            dead, neglected, notices, events, decision, rejected: as the row's
                attributes.
            stepped: likewise; None for whether there is an estimate.
        """
        decoding = self.decoding
        return StepRow(
            step=order.step,
            round=order.round,
            kind=order.kind,
            begin=self.begin - origin,
            waited=self.waited,
            end=end,
            arrived=self.view.finished,
            used=decoding.used.tolist(),
            missing=sorted({row.worker for row in self.rows if row.censored}),
            dead=sorted(dead),
            residual=decoding.residual + len(self.lost),
            coverage=self.coverage,
            stepped=gradient is not None if stepped is None else stepped,
            rejected=rejected,
            loss=loss,
            gradient_norm=None if gradient is None else math.sqrt(squared_norm(gradient)),
            received=self.received,
            workers=self.assignment.code.n_workers,
            lost=list(self.lost),
            late=len(self.late_rows),
            neglected=list(neglected),
            notices=list(notices),
            events=list(events),
            decision=dict(decision),
        )


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
        self._notices: list[tuple[float, Notice]] = []
        self._events: list[WorkerEvent] = []
        self._watched = any(type(one).on_wait is not Callback.on_wait for one in self.callbacks)
        self._told: dict[int, float] = {}  # when each callback was last told who is late, in real seconds
        self._rounds = RoundTable(carried=self.engine.late != "preempt")
        self._late = LateWorkTaken(pool)
        self._seen: IntArray | None = None  # by task: the step that it was last computed in; only if a rule asks for it
        self._failing: dict[int, set[str]] = {}  # what was said of workers that have not answered properly since
        self._failed: set[int] = set()  # workers that failed in this round
        self._erased: set[str] = set()  # what was said of rules that are not met for erasures
        self._seconds = 0.0  # that all rounds have taken on this machine, whatever the engine's clock says
        self.time_is_up = math.inf  # when, in the engine's seconds, a round is broken off
        pool.tell = self.notice

    def gather(self, order: Order, tried: bool = False) -> RoundResult:
        """Run one round to its end.

        Arguments:
            order: what is asked.
            tried: whether the point is only tried: where vectors are not finite there, the result says so.

        Raises:
            PoolShrunk: if the wait rule cannot be met before the pool has settled; gather again then, with a new round.
            Unreachable: if the wait rule cannot be met any more.
            Diverged: if the estimate is not finite although every message is, or if no message that came is, or so few
                that the rule cannot be met.
        """
        real = time.perf_counter()
        assignment = self.pool.assignment
        self._monitor.begin()
        self._failed.clear()
        self.step = order.step
        rule, aggregation = assignment.scheme.rules[order.kind], assignment.scheme.aggregation
        view = View(assignment.scheme.decoder, order.step, self.pool.able(), self._ages(assignment, order.step))
        begin = self.engine.stamp("begin", order.round)
        self._rounds.add(order.round, begin, assignment, self._late.greatest_age)
        current = Round(order, assignment, view, rule, begin)
        view.late.extend(self._late.reassigned(assignment, order.step))
        self._submit(order, self.pool.present())
        read = current.read
        used_late: list[int] = []
        overflowed = False
        while True:
            try:
                self._wait(current)
            except PoolShrunk:
                self._break_off(current)
                raise
            except Diverged:
                if not tried:
                    raise
                overflowed = True
            waited = current.view.elapsed
            if overflowed:
                found, estimate = current.view.session.decoding(), None
                break
            if self._monitor.examine(current):
                continue
            found = current.view.session.decoding()
            used: list[int] = found.messages.tolist()
            # What it keeps would stay spoilt: all is looked at before an aggregation that remembers sees any of it.
            if aggregation.remembers and (bad := unusable(current.arrivals, read)):
                self._refuse(current, bad)
                continue
            try:
                arrived = _Arrived(current)
                vectors = Vectors([read(message) for message in used], arrived)
                used_late += self._late.deliver(aggregation)
                estimate = _estimated(aggregation, found, vectors, assignment.layout, order)
            except MessageLost:
                self._refuse(current, unusable(current.arrivals, read))
                continue
            if estimate is None or finite(estimate):
                break
            bad = unusable(sorted({*used, *arrived.looked_at}), read)
            if not bad:
                if not tried:
                    raise Diverged(DIVERGED.format(step=order.step, what="gradient estimate is"))
                estimate, overflowed = None, True
                break
            self._refuse(current, bad)
        curvature: Array | None = None
        if estimate is not None and order.kind == CURVATURE:
            estimate, curvature = np.split(estimate, 2)
        received = current.late_bytes + sum(map(_bytes_of, current.arrivals.values()))
        if self._seen is not None:
            self._seen = order.step - self._ages_after(current)
        self._late.keep(current)
        rows = current.rows(set(found.used.tolist()))
        for worker in {arrived.worker for arrived in current.arrivals.values()} - self._failed:
            self._failing.pop(worker, None)
        self._seconds += time.perf_counter() - real
        return RoundResult(
            estimate, found, current.view, assignment, begin, waited, rows, received, current.lost,
            tuple(current.late_rows), tuple(used_late), 1.0 if estimate is None else aggregation.share, overflowed,
            curvature,
        )  # fmt: skip

    def learn(self, step: StepRow, arrivals: Sequence[ArrivalRow]) -> None:
        """Let the rules and the aggregation learn from a step that is over, by its records."""
        scheme = self.pool.assignment.scheme
        for rule in scheme.rules.values():
            rule.learn(step, arrivals)
        scheme.aggregation.learn(step, arrivals)

    def _ages(self, assignment: Assignment, step: int) -> IntArray | None:
        """Return how old each task is as the round begins, if some rule of the scheme may ask for it."""
        if not any(rule.remembers for rule in assignment.scheme.rules.values()):
            return None
        if self._seen is None:
            self._seen = np.full(assignment.code.n_tasks, -1, dtype=np.int64)
        return step - self._seen

    def _ages_after(self, current: Round) -> IntArray:
        """Return how old each task is now; those that are lost stay as they were."""
        assert self._seen is not None
        ages = current.order.step - self._seen
        kept = np.setdiff1d(np.arange(len(ages)), current.lost)
        ages[kept] = current.view.ages
        return ages

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

    def take_events(self) -> list[WorkerEvent]:
        """Return what befell workers since this was asked last, for the row of the step."""
        taken, self._events = self._events, []
        return taken

    def note_start(self) -> None:
        """Take down what befell workers while they were started, unless all of them just came up."""
        if not all(isinstance(event, Joined) for event in self.pool.early):
            for event in self.pool.early:
                self._note(event, BEFORE, 0)

    def note_return(self, workers: Iterable[int], order_round: int) -> None:
        """Take down that workers which were dead are there again, as a run goes on with new ones.

        Arguments:
            workers: those that were dead.
            order_round: the round that is the next.
        """
        for worker in workers:
            if worker in self.pool.living:
                self._note(Joined(worker, self.pool.living[worker], self.engine.now()), order_round, 0)

    def _note(self, event: Died | Joined | Failed | Offered, order_round: int, place: int) -> None:
        """Take down what befell a worker, in its place among the messages of a round."""
        facts: dict[str, Any] = {
            name: getattr(event, name) for name in ("reason", "host", "broken") if hasattr(event, name)
        }
        if isinstance(event, Offered):
            facts["count"] = event.workers
        else:
            facts["worker"] = event.worker
        time = event.time - (self.origin or 0.0)
        self._events.append(WorkerEvent(_KINDS[type(event)], order_round, place, time, **facts))

    def _break_off(self, current: Round) -> None:
        """Take down a round that has no end, and its messages: what a replay needs of it."""
        origin = self.origin or 0.0
        now, begin = self.engine.now() - origin, current.begin - origin
        self._events.append(WorkerEvent("broken_off", current.order.round, current.came, now, begin=begin))
        for row in current.rows(set()):
            for callback in self.callbacks:
                callback.on_arrival(row)

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
        self._rounds.forget_old(self.pool.assignment.worker_ids, self._late.greatest_age)
        return {
            "begun": self._rounds.state(),
            "late": self._late.state(),
            "seen": self._seen,
            **self._monitor.state(),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a state; the pool is restored already."""
        self._rounds.restore(state["begun"])
        self._late.restore(state["late"])
        self._seen = None if state["seen"] is None else np.asarray(state["seen"], dtype=np.int64)
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
            if self.engine.now() > self.time_is_up:
                raise TimeIsUp("The time that the run was given is over.")
            check = min(self._monitor.next_look(), self.time_is_up)
            if self._watched and self.pool.living and not self.engine.virtual:
                check = min(check, self.engine.now() + WATCH_EVERY)
            if check < math.inf:
                until = check if until is None else min(until, check)
            try:
                event = self.engine.next_event(until)
            except NothingUnderWay as error:
                if current.unruled:
                    raise
                raise NothingUnderWay(STUCK.format(step=view.step, rule=current.rule)) from error
            now = self.engine.now()
            if event is None and now >= self.time_is_up:
                raise TimeIsUp("The time that the run was given is over.")
            if event is not None:
                alarm.stop()
                self._take(event, current)
            elif wake is not None and until == current.begin + wake:
                alarm.ring(wake)
            if check < math.inf and now >= check:
                for worker in self._monitor.look(now):
                    self._lose(worker, current)
            if current.doubtful:
                self._monitor.examine(current)
            if now - current.begin >= told + TELL_EVERY:
                told = now - current.begin
                self._tell_of(current, told)

    def _tell_of(self, current: Round, elapsed: float) -> None:
        """Tell those who want to know who is late."""
        now = time.monotonic()
        watching = [
            one
            for one in self.callbacks
            if type(one).on_wait is not Callback.on_wait and now - self._told.get(id(one), -math.inf) >= one.wait_every
        ]
        missing = current.missing if watching else []
        for callback in watching:
            self._told[id(callback)] = now
            callback.on_wait(current.order.step, missing, elapsed)

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
        if (said := _mostly_mad(current)) and self.pool.fault_policy.lost == "stop":
            raise Diverged(said)
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
        ages = None if self._seen is None else np.delete(before.step - self._seen, lost)
        view = View(general(shortened(current.assignment.code, lost)), before.step, before.able, ages)
        view.elapsed, view.refused, view.late = before.elapsed, before.refused, before.late
        for message in before.arrived:
            view.add(message)
        current.view = view
        return True

    def _take(self, event: Event, current: Round) -> None:
        if isinstance(event, Arrived):
            self._monitor.heard(event, current)
            self._take_arrival(event, current)
            return
        if not isinstance(event, Failed) or event.order_round == current.order.round:
            self._note(event, current.order.round, current.came)
        if isinstance(event, Failed):
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
            self._rounds.joined(event.worker, current.order.round)
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
        done = (event.worker, event.spec.message) in current.assignment.lasts
        self._rounds.answered(event.worker, event.order_round - (not done))
        if event.order_round == current.order.round:
            row = current.assignment.rows.get((event.worker, event.spec.message))
            # A worker that came back may send again what it had sent before it died.
            if row is None or row in current.arrivals or row in current.view.refused:
                self.engine.release(event)
                return
            current.arrivals[row] = event
            current.places[row] = current.came
            current.came += 1
            current.view.elapsed = event.time - current.begin
            current.view.add(row)
            return
        begun = self._rounds.find(event.order_round)
        row = None if begun is None else begun.late_row(event, current.order.round, current.came)
        if begun is not None and row is not None:
            current.came += 1
            current.late_bytes += _bytes_of(event)
            same = begun.generation == current.assignment.generation
            now = row.message if same else current.assignment.row_of(event.spec.content, event.worker)
            if now is not None and self._take_late(event, now, current):
                row = replace(row, refused=True)
            current.late_rows.append(row)
            for callback in self.callbacks:
                callback.on_arrival(row)
        self.engine.release(event)

    def _take_late(self, event: Arrived, row: int, current: Round) -> bool:
        """Take a message of an earlier round whose content is still of use; return whether it had to be refused."""
        aggregation, age = current.assignment.scheme.aggregation, current.order.step - event.step
        if aggregation.wants_late:
            if age > aggregation.greatest_age:
                return False
            why = self._late.take(event, row, current, self._monitor)
            if why:
                text = f"message {row} of worker {event.worker}, of step {event.step}, is refused: {why}"
                data = {"messages": [row], "reason": why}
                self._notice_failure(event.worker, Notice("refused", event.worker, data=data, text=text))
                return True
        current.view.late.append(LateArrival(row, event.step, event.order_round, age))
        return False

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


def _estimated(
    aggregation: Aggregation, found: Decoding, vectors: Vectors, layout: Layout, order: Order
) -> Array | None:
    """Return the aggregation's estimate; of orders that ask for curvatures as well, that of these behind it."""
    if order.kind != CURVATURE:
        return aggregation.estimate(found, vectors, layout, order)
    estimates: list[Array] = []
    for half in (0, 1):
        part = Vectors([np.split(vector, 2)[half] for vector in vectors], _Half(vectors.arrived, half))
        estimate = aggregation.estimate(found, part, layout, order)
        if estimate is None:
            return None
        estimates.append(estimate)
    return np.concatenate(estimates)


class _Half(Mapping[int, Array]):
    """One half of each of some messages, by their rows."""

    def __init__(self, whole: Mapping[int, Array], half: int) -> None:
        self._whole, self._half = whole, half

    def __getitem__(self, message: int) -> Array:
        return np.split(self._whole[message], 2)[self._half]

    def __iter__(self) -> Iterator[int]:
        return iter(self._whole)

    def __len__(self) -> int:
        return len(self._whole)


class _Arrived(Mapping[int, Array]):
    """The vectors of a round's messages that are in, by their rows; each is read when it is asked for."""

    def __init__(self, current: Round) -> None:
        self._current = current
        self.looked_at: set[int] = set()

    def __getitem__(self, message: int) -> Array:
        self.looked_at.add(message)
        return self._current.read(message)

    def __iter__(self) -> Iterator[int]:
        return iter(sorted(self._current.arrivals))

    def __len__(self) -> int:
        return len(self._current.arrivals)


def _mostly_mad(current: Round) -> str:
    """Return that the model has diverged if more messages than not are refused as not finite; else an empty text.

    A worker or two whose data are bad, or that lie, are no sign of it; of a model that grows without end some tasks
    overflow before others.
    """
    came = len(current.view.arrived) + len(current.refused)
    mad = sum(why == NOT_FINITE for why in current.refused.values())
    return DIVERGED.format(step=current.order.step, what=f"vectors of {mad} of {came} messages are") * (2 * mad > came)


def _bytes_of(event: Arrived) -> int:
    return event.spec.nbytes


def _decodes(view: View) -> bool:
    """Return whether what has come and may still come gives the full gradient."""
    return view.decoder.decode([*view.arrived, *view.pending.tolist()]).exact


def _when_all_is_in(view: View) -> Verdict:
    return Verdict.WAIT if len(view.pending) else Verdict.STOP
