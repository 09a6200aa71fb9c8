"""One round: submit an order, take events until the wait rule says stop, and decode what is there."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from erasurehead._internal.arrays import Array, IntArray, Tree, finite
from erasurehead.codes.transforms import shortened
from erasurehead.decoding.base import Decoding
from erasurehead.decoding.choice import general
from erasurehead.decoding.layout import Layout
from erasurehead.engines.base import MessageLost, Order
from erasurehead.errors import Diverged, ErasureHeadError, NothingUnderWay, Unreachable, numbered
from erasurehead.faults.byzantine import NOT_FINITE, unusable
from erasurehead.optimizers.base import PartialGradient, asks_curvature
from erasurehead.problems.base import EARLY, NEWTON
from erasurehead.schemes.aggregation import Aggregation, ByCoverage, Vectors
from erasurehead.schemes.wait_rules.alarm import Alarm
from erasurehead.schemes.wait_rules.base import Verdict
from erasurehead.schemes.wait_rules.view import View
from erasurehead.training.assignment import Assignment
from erasurehead.training.callbacks import Callback
from erasurehead.training.health import HealthMonitor
from erasurehead.training.intake import Intake
from erasurehead.training.notices import Notice
from erasurehead.training.parts import parts_of
from erasurehead.training.round_result import RoundResult
from erasurehead.training.round_state import Round
from erasurehead.training.rows import ArrivalRow, StepRow
from erasurehead.training.step_log import StepLog
from erasurehead.training.worker_pool import WorkerPool

DIVERGED = "step {step}: the {what} not finite: the model has diverged"

STUCK = (
    "step {step}: the wait rule {rule} goes on waiting, although nobody will answer any more and it names no later "
    "time at which to ask it again; let its `verdict` stop when nothing is pending, or at the time that `wake` says."
)

TELL_EVERY = 0.05
"""Seconds between two calls that tell callbacks who is late."""


WATCH_EVERY = 1.0
"""Seconds after which callbacks are told who is late, even if no event has occurred."""


class TimeIsUp(ErasureHeadError):
    """The time limit of the run has passed, in the middle of a round."""


class PoolShrunk(ErasureHeadError):
    """The wait rule cannot be met with the workers that are left, but may be once the code is resized over them."""


@dataclass(frozen=True, eq=False)
class _Estimated:
    """What the messages of a round gave; the estimate is None if nothing is known, or (overflowed) it is not finite."""

    estimate: Array | None
    decoding: Decoding
    used_late: Sequence[int]
    overflowed: bool = False
    parts: tuple[PartialGradient, ...] = ()


class RoundRunner:
    """Runs rounds with the workers of a pool, one after the other.

    Arguments:
        pool: the workers.
        callbacks: hooks that watch.
        samples: how many samples each task has, by weight, shape (n_tasks,); needed for orders of kind `"early"` alone.

    Attributes:
        log: the log of the current step: notices, and what happens to workers.
        time_is_up: when, in the engine's seconds, a round is broken off; inf for never.
    """

    def __init__(self, pool: WorkerPool, callbacks: Sequence[Callback] = (), samples: Sequence[float] = ()) -> None:
        self.log = StepLog(pool.engine, callbacks)
        self.time_is_up = math.inf
        self._pool = pool
        self._engine = pool.engine
        self._samples = samples
        self._monitor = HealthMonitor(pool, self.log.notice)
        self._intake = Intake(pool, self._monitor, self.log, callbacks, samples)
        self._seen: IntArray | None = None  # the step in which each task was last computed, if rules need it
        self._erased: set[str] = set()  # what was reported about rules that erasures keep from being met
        self._seconds = 0.0  # that all rounds have taken on this machine, whatever the engine's clock says
        pool.tell = self.log.notice

    def gather(self, order: Order, tried: bool = False) -> RoundResult:
        """Run one round to its end.

        Arguments:
            order: the order to submit.
            tried: whether the point is only tried: if vectors are not finite there, the result says so.

        Raises:
            PoolShrunk: if the wait rule cannot be met until the pool has settled; call `gather` again then, with a
                new round.
            Unreachable: if the wait rule can no longer be met.
            Diverged: if the estimate is not finite although every message is, or if no message that arrived is, or so
                few are that the rule cannot be met.
        """
        real = time.perf_counter()
        assignment = self._pool.assignment
        self._monitor.begin()
        self.log.begin_round(order.step)
        rule = assignment.scheme.rules[order.kind]
        ages = self._ages(assignment, order.step)
        view = View(assignment.decoder, order.step, self._pool.able(), ages, order.note)
        current = Round(order, assignment, view, rule, self._engine.stamp("begin", order.round))
        self._intake.begin(current)
        found = self._until_estimated(current, tried)
        estimate, curvature = found.estimate, None
        if estimate is not None and asks_curvature(order):
            estimate, curvature = np.split(estimate, 2)
        received = current.late_bytes + sum(arrived.spec.nbytes for arrived in current.arrivals.values())
        if self._seen is not None:
            self._seen = order.step - self._ages_after(current)
        self._intake.late.keep(current)
        rows = current.rows(set(found.decoding.used.tolist()))
        self.log.end_round(current)
        self._seconds += time.perf_counter() - real
        aggregation = assignment.scheme.aggregation
        share, counted = (1.0, None) if estimate is None else (aggregation.share, aggregation.tasks_counted)
        self._intake.late_parts.end(current)
        late_parts = self._intake.late_parts.deliver()
        return RoundResult(
            estimate,
            found.decoding,
            current.view,
            assignment,
            current.begin,
            current.view.elapsed,
            rows,
            received,
            current.lost,
            tuple(current.late_rows),
            tuple(found.used_late),
            share,
            found.overflowed,
            curvature,
            found.parts,
            counted,
            () if current.lost else late_parts,
        )

    def _until_estimated(self, current: Round, tried: bool) -> _Estimated:
        """Wait and decode until nothing is wrong with the result; messages that cannot be used are refused."""
        aggregation, read, order = current.assignment.scheme.aggregation, current.read, current.order
        layout = current.assignment.layout
        used_late: list[int] = []
        while True:
            try:
                self._wait(current)
            except PoolShrunk:
                self.log.break_off(current)
                raise
            except Diverged:
                if not tried:
                    raise
                return _Estimated(None, current.view.session.decoding(), used_late, overflowed=True)
            if self._monitor.examine(current):
                continue
            found = current.view.session.decoding()
            used: list[int] = found.messages.tolist()
            # What it remembers would stay spoilt: an aggregation that remembers sees only messages that were checked.
            if aggregation.remembers and (bad := unusable(current.arrivals, read)):
                self._intake.refuse(current, bad)
                continue
            try:
                arrived = _Arrived(current)
                vectors = Vectors([read(message) for message in used], arrived)
                used_late += self._intake.late.deliver(aggregation)
                estimate = _estimated(aggregation, found, vectors, layout, order)
            except MessageLost:
                self._intake.refuse(current, unusable(current.arrivals, read))
                continue
            if estimate is None or finite(estimate):
                few = order.kind in (EARLY, NEWTON) and not current.lost
                parts = tuple(parts_of(found, vectors, layout, self._samples, order)) if few else ()
                estimate = None if order.kind == NEWTON else estimate  # sums of Newton steps are no gradients
                return _Estimated(estimate, found, used_late, parts=parts)
            if bad := unusable(sorted({*used, *arrived.looked_at}), read):
                self._intake.refuse(current, bad)
            elif tried:
                return _Estimated(None, found, used_late, overflowed=True)
            else:
                raise Diverged(DIVERGED.format(step=current.order.step, what="gradient estimate is"))

    def learn(self, step: StepRow, arrivals: Sequence[ArrivalRow]) -> None:
        """Let the rules and the aggregation learn from the records of a finished step."""
        scheme = self._pool.assignment.scheme
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

    def end(self) -> None:
        """Report what is known only after the last round."""
        self.log.step = None
        self._monitor.end(self._seconds)

    def state(self) -> dict[str, Tree]:
        """Return everything that `restore` needs: the rounds that may still be answered, and who is trusted."""
        return {**self._intake.state(), "seen": self._seen, **self._monitor.state()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from what `state` returned; the pool is restored already."""
        self._intake.restore(state)
        self._seen = None if state["seen"] is None else np.asarray(state["seen"], dtype=np.int64)
        self._monitor.restore(state)

    # --- waiting --------------------------------------------------------------------------------------------------

    def _wait(self, current: Round) -> None:
        engine, watched = self._engine, self.log.watched
        told = 0.0
        alarm = Alarm(current.rule)
        while True:
            view, now = current.view, engine.now()
            view.elapsed = alarm.elapsed(now - current.begin)
            freed = current.unruled or current.erased
            verdict = _when_all_is_in(view) if freed else current.rule.verdict(view)
            if current.erased and verdict is Verdict.STOP and not _decodes(view):
                current.erased, verdict = False, Verdict.UNREACHABLE  # more was erased while waiting for the others
            nobody = not view.able and not view.arrived  # a deadline would continue without workers for ever
            if verdict is Verdict.STOP and not nobody:
                if current.unruled and self._leave_out(current):
                    continue
                return
            if verdict is Verdict.UNREACHABLE or nobody:
                self._despair(current)
                continue
            wake = None if freed else alarm.next(view)
            if wake is None and not (freed or current.held or view.hopeful):
                if view.whole:
                    raise NothingUnderWay(STUCK.format(step=view.step, rule=current.rule))
                self._despair(current)  # everything that could come is here, and the rule would wait for ever
                continue
            until = None if wake is None else current.begin + wake
            if now > self.time_is_up:
                raise TimeIsUp("The time limit of the run has passed.")
            check = min(self._monitor.next_look(), self.time_is_up)
            if watched and self._pool.living and not engine.virtual:
                check = min(check, now + WATCH_EVERY)
            if check < math.inf:
                until = check if until is None else min(until, check)
            try:
                event = engine.next_event(until)
            except NothingUnderWay as error:
                if current.unruled:
                    raise
                raise NothingUnderWay(STUCK.format(step=view.step, rule=current.rule)) from error
            now = engine.now()
            if event is None and now >= self.time_is_up:
                raise TimeIsUp("The time limit of the run has passed.")
            if event is not None:
                alarm.stop()
                self._intake.take(event, current)
            elif wake is not None and until == current.begin + wake:
                alarm.ring(wake)
            if check < math.inf and now >= check:
                self._intake.look(now, current)
            if current.held:
                self._monitor.examine(current)
            if watched and now - current.begin >= told + TELL_EVERY:
                told = now - current.begin
                self.log.tell_who_is_late(current, told)

    def _despair(self, current: Round) -> None:
        """Find a way to go on although the rule cannot be met, or raise."""
        view = current.view
        if current.refused and not view.arrived and {*current.refused.values()} == {NOT_FINITE}:
            one = len(current.refused) == 1  # all that came was bad: no worker's fault
            what = "only message is" if one else f"{len(current.refused)} messages are all"
            raise Diverged(DIVERGED.format(step=current.order.step, what=what))
        erased = {*current.failed, *self._monitor.accused(current)}
        erased |= {current.assignment.workers_of_rows[message] for message in current.refused}
        if erased and _decodes(view):
            current.erased = True
            workers = sorted(erased)
            who = numbered("worker", workers)
            text = f"{current.rule} cannot be met without {who}; what the others send decodes exactly, and is used"
            data = {"rule": str(current.rule), "workers": workers}
            self.log.notice(Notice("rule_given_up", data=data, text=text), again=text in self._erased)
            self._erased.add(text)
            return
        if self._pool.shrunk and self._pool.able():
            raise PoolShrunk(current.why_never(self._pool.dead))
        if (said := _mostly_mad(current)) and self._pool.fault_policy.lost == "stop":
            raise Diverged(said)
        if self._pool.fault_policy.lost == "stop" or len(current.out_of_reach()) == current.assignment.code.n_tasks:
            raise Unreachable(current.why_never(self._pool.dead))
        if not self._leave_out(current):
            current.unruled = True

    def _leave_out(self, current: Round) -> bool:
        """Decode without the tasks that no living worker holds; return whether there are more of them than before.

        The rule is then asked again, about the remaining tasks.
        """
        lost = current.out_of_reach()
        if not set(lost) - set(current.lost) or len(lost) == current.assignment.code.n_tasks:
            return False
        text = f"{numbered('task', lost)} {'is' if len(lost) == 1 else 'are'} lost; training goes on with the others"
        self.log.notice(Notice("tasks_lost", data={"tasks": lost}, text=text))
        before, current.lost = current.view, tuple(lost)
        ages = None if self._seen is None else np.delete(before.step - self._seen, lost)
        view = View(general(shortened(current.assignment.code, lost)), before.step, before.able, ages, before.note)
        view.elapsed, view.refused, view.late, view.came = before.elapsed, before.refused, before.late, before.came
        for message in before.arrived:
            view.add(message)
        current.view = view
        return True


def _estimated(
    aggregation: Aggregation, found: Decoding, vectors: Vectors, layout: Layout, order: Order
) -> Array | None:
    """Return the aggregation's estimate, followed by that of the curvatures if the order asks for them."""
    if order.kind in (EARLY, NEWTON):
        aggregation = ByCoverage()  # few have arrived; the scheme's own aggregation is made for more
    if not asks_curvature(order):
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
    """The vectors of a round's arrived messages, by row; each is read when it is used."""

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
    """Return a text saying that the model has diverged if most messages are not finite; otherwise an empty one.

    A worker or two whose data are bad, or that lie, do not indicate it; when a model diverges, some tasks
    overflow before others.
    """
    came = len(current.view.arrived) + len(current.refused)
    mad = sum(why == NOT_FINITE for why in current.refused.values())
    return DIVERGED.format(step=current.order.step, what=f"vectors of {mad} of {came} messages are") * (2 * mad > came)


def _decodes(view: View) -> bool:
    """Return whether all messages that have arrived or may still arrive give the full gradient."""
    return view.decoder.decode([*view.arrived, *view.pending.tolist()]).exact


def _when_all_is_in(view: View) -> Verdict:
    return Verdict.WAIT if len(view.pending) else Verdict.STOP
