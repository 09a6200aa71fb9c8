"""The story of a round: submit an order, wait until the wait rule says stop, refuse what cannot be used, decode."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import final

import numpy as np

from erasurehead._internal.arrays import Array, IntArray, finite
from erasurehead._internal.ours import ours
from erasurehead._internal.resumable import Resumable
from erasurehead.decoding._base import Decoding
from erasurehead.decoding._layout import Layout
from erasurehead.engines import Order
from erasurehead.engines._base import REPORTS, UNTIL_NEWER, MessageLost
from erasurehead.errors import Diverged, ErasureHeadError, invalid, numbered
from erasurehead.faults._byzantine import Bisection
from erasurehead.optimizers._base import PartialGradient
from erasurehead.optimizers._order_kinds import asks_curvature, block_of, kind_of, sections, vectors_of, work_of
from erasurehead.schemes import Aggregation, ByCoverage
from erasurehead.schemes._aggregation import Vectors
from erasurehead.schemes.wait_rules import View
from erasurehead.training._callbacks import Callback, StepLog
from erasurehead.training._handout import Handout
from erasurehead.training._health import HealthMonitor
from erasurehead.training._intake import Intake
from erasurehead.training._late_messages import LateMessages
from erasurehead.training._programs import block_layout
from erasurehead.training._round_state import Asking, Round, RoundResult
from erasurehead.training._rows import ArrivalRow, StepRow
from erasurehead.training._stepper import diverged
from erasurehead.training._sums import REPORT
from erasurehead.training._waiting import AnswersLost, PoolShrunk, UnmetRules, Waiting
from erasurehead.training._workers import WorkerPool


@dataclass(frozen=True, eq=False)
class _Outcome:
    """What the messages of a round gave; the estimate is None if nothing is known, or (overflowed) it is not finite."""

    decoding: Decoding
    estimate: Array | None = None
    parts: tuple[PartialGradient, ...] = ()
    overflowed: bool = False


class Disputed(ErasureHeadError):
    """Messages contradict each other, and only questions to their workers can tell who lies.

    Arguments:
        current: the round.
    """

    def __init__(self, current: Round) -> None:
        super().__init__("messages contradict each other")
        self.current = current


@final
class RoundRunner(Resumable):
    """Runs rounds with the workers of a pool, one after the other.

    Arguments:
        pool: the workers.
        callbacks: hooks that watch.
        samples: how many samples each task has, by weight, shape (n_tasks,); needed for orders of kind `"early"` alone.

    Attributes:
        log: the log of the current step: notices, and what happens to workers.
    """

    checkpointed = ("_late", "_seen", "_monitor")

    def __init__(self, pool: WorkerPool, callbacks: Sequence[Callback] = (), samples: Sequence[float] = ()) -> None:
        self.log = StepLog(pool.engine, callbacks)
        self._time_is_up = math.inf
        self._pool = pool
        self._samples = samples
        self._monitor = HealthMonitor(pool, self.log.notice)
        self._late = LateMessages(pool, self._monitor, self.log)
        self._intake = Intake(pool, self._monitor, self._late, self.log, callbacks)
        self._unmet = UnmetRules(pool, self._monitor, self.log)
        self._seen: IntArray | None = None  # the step in which each task was last computed, if rules need it
        self._last: Round | None = None  # the newest round
        self._seconds = 0.0  # that all rounds have taken on this machine, whatever the engine's clock says
        pool.report_to(self.log.notice)

    def break_off_at(self, seconds: float) -> None:
        """Break off whatever round is under way then, by the engine's clock; inf for never."""
        self._time_is_up = seconds

    def gather(self, order: Order, tried: bool = False, asking: Asking | None = None) -> RoundResult:
        """Run one round to its end.

        Arguments:
            order: the order to submit.
            tried: whether the point is only tried: if vectors are not finite there, the result says so.
            asking: what it asks for, as an earlier round of the step calls for it; None if it is the first.

        Raises:
            AnswersLost: if too little of that will come; call `gather` again then, with a new round.
            PoolShrunk: if the wait rule cannot be met until the pool has settled; call `gather` again then, with a
                new round.
            Unreachable: if the wait rule can no longer be met.
            Diverged: if the estimate is not finite although every message is, or if no message that arrived is, or so
                few are that the rule cannot be met.
        """
        begin = time.perf_counter()
        current = self._begin(order, asking)
        outcome = self._until_decoded(current, tried)
        result = self._end(current, outcome)
        self._seconds += time.perf_counter() - begin
        return result.after(asking.heard) if asking is not None and asking.heard and asking.named else result

    def ask(self, order: Order, rows: Sequence[int], disputed: Round) -> list[float]:
        """Ask workers about their messages in the midst of a round, and return their answers.

        Arguments:
            order: the order that asks.
            rows: of the messages.
            disputed: the round of these.

        Raises:
            AnswersLost: if one of them will not answer.
        """
        if not disputed.over:
            disputed.keep(self._pool.engine)
        current = self._begin(order, Asking(None, disputed.assignment.asked(rows, order), order.note, named=True))
        answers, lost = list[float](), list[int]()
        try:
            self._wait(current, self._waiting(current))
            for place, worker in enumerate(current.assignment.worker_ids):
                try:
                    answers.append(float(current.read(place)[0]))
                except MessageLost:
                    lost.append(worker)
            if lost:
                raise AnswersLost(lost, ())
            return answers
        finally:
            self.log.break_off(current, kind="asked")
            disputed.late_rows += current.late_rows
            disputed.late_bytes += current.received

    def settle(self, disputed: Round, searches: Sequence[Bisection], silent: Collection[int]) -> None:
        """Judge whom the answers convict, and examine the messages that were in question again.

        Arguments:
            disputed: the round of the messages.
            searches: what the workers were asked for.
            silent: workers who have not answered everything.

        Raises:
            PoolShrunk: if the step has to begin anew, as one of those is gone.
        """
        gone = sorted({*silent} - self._pool.living.keys())
        if gone:
            self.log.break_off(disputed)
            raise PoolShrunk(f"step {disputed.order.step}: {numbered('worker', gone)} cannot be questioned any more.")
        for search in searches:
            self._monitor.judge(disputed, search, silent)
        self._monitor.examine(disputed)

    def searches(self, disputed: Round) -> list[Bisection]:
        """Return the searches for what workers contradict each other about, no worker in two of them."""
        return self._monitor.searches(disputed)

    def resume(self, disputed: Round, tried: bool) -> RoundResult:
        """Go on with a round in which nothing is disputed any more.

        Arguments:
            disputed: the round.
            tried: as for `gather`.

        Raises:
            Disputed, Diverged, PoolShrunk, Unreachable: as `gather`.
        """
        self._last = disputed
        return self._end(disputed, self._until_decoded(disputed, tried))

    @property
    def suspects(self) -> Collection[int]:
        """The workers that seem to hang."""
        return self._monitor.suspects

    def break_off(self) -> None:
        """Record that the last round was not of use by itself."""
        if self._last is not None:
            self.log.break_off(self._last)

    def _begin(self, order: Order, asking: Asking | None) -> Round:
        """Submit an order to all workers that can answer it."""
        assignment = self._pool.assignment if asking is None else asking.assignment
        heard, named = (None, False) if asking is None else (asking.heard, asking.named)
        asks, able = named and heard is None, self._pool.able()
        if named:
            able = {place for place, worker in enumerate(assignment.worker_ids) if worker in self._pool.living}
        if not asks:
            self._monitor.begin(order.step)
        self.log.begin_round(order.step)
        ages = None
        if any(rule.remembers for rule in assignment.scheme.rules.values()):
            if self._seen is None:
                self._seen = np.full(assignment.code.n_tasks, -1, dtype=np.int64)
            ages = order.step - self._seen
        view = View(assignment.decoder, order.step, able, ages, order.note)
        if heard is not None and not named:
            self.break_off()
        begin = self._pool.engine.stamp("begin", order.round)
        rule = assignment.scheme.rules["gradient" if asks else order.kind]
        current = Round(order, assignment, rule, begin, ages, view, named=named)
        if heard is not None and not named:
            current.begin = heard.begin
        elif asking is not None and heard is not None and self._last is not None:
            self.log.break_off(self._last, begin, () if self._last.named else asking.reported)
            current.leave_out()
        self._last = current
        if asks:  # others go on with what they are at
            self._late.rounds.add(order.round, begin, assignment, 0.0)
            self._intake.submit(order, [assignment.worker_ids[place] for place in sorted(able)])
            return current
        self._late.begin(current)
        if named:
            self._intake.submit(order, [assignment.worker_ids[place] for place in sorted(able)])
            others = [worker for worker in self._pool.present() if worker not in assignment.positions]
            self._pool.engine.submit(order, others)  # so that they stop
            self._monitor.withdrawn(others)
        else:
            self._intake.submit_new(order)
        if asking is None and self._once(current):
            engine, monitor = self._pool.engine, self._monitor
            current.handout = Handout(
                assignment,
                able=current.view.able,
                now=engine.now,
                tell=lambda worker, message: engine.redirect(worker, order.round, message),
                paused=monitor.withdrawn,
                resumed=partial(monitor.ordered, times=work_of(order)),
            )
        return current

    def _once(self, current: Round) -> bool:
        """Return whether each message of a round is of one task, of which one is enough."""
        by_task = current.assignment.scheme.turns and UNTIL_NEWER in current.order.note
        whole = not kind_of(current.order.kind).few
        return by_task and whole and current.rule.agreeing == 1 and not self._pool.fault_policy.verify

    def _until_decoded(self, current: Round, tried: bool) -> _Outcome:
        """Wait and decode until nothing is wrong: each message that is refused may make it necessary to wait on."""
        waiting = self._waiting(current)
        while True:
            try:
                self._wait(current, waiting)
            except Diverged:
                if not tried:
                    raise
                return _Outcome(current.view.session.decoding(), overflowed=True)
            changed = self._monitor.examine(current)
            if current.disputes:
                raise Disputed(current)
            if changed:
                continue
            if current.order.note.keys() & {REPORT, REPORTS}:
                if REPORT in current.order.note and self._intake.refuse([*current.arrivals], current):
                    continue
                return _Outcome(current.view.session.decoding())
            outcome = self._decoded(current, tried)
            if outcome is not None:
                return outcome

    def _waiting(self, current: Round) -> Waiting:
        return Waiting(current, self._pool, self._monitor, self._intake, self._unmet, self.log)

    def _wait(self, current: Round, waiting: Waiting) -> None:
        try:
            waiting.wait(self._time_is_up)
        except PoolShrunk:
            self.log.break_off(current)
            raise

    def _decoded(self, current: Round, tried: bool) -> _Outcome | None:
        """Return what has arrived gives; None if some of it cannot be used, and is refused."""
        aggregation, order = current.assignment.scheme.aggregation, current.order
        # What an aggregation remembers would stay spoilt: one that does sees only messages that were checked. For
        # others, they are checked once the estimate turns out not to be finite.
        if aggregation.remembers and self._intake.refuse([*current.arrivals], current):
            return None
        decoding = current.view.session.decoding()
        looked_at: set[int] = set()

        def read(message: int) -> Array:
            looked_at.add(message)
            vector = current.read(message)
            return vector if ours(type(aggregation)) else vector.copy()

        try:
            decoded = [read(message) for message in decoding.messages.tolist()]
            vectors = Vectors(decoded, _ReadWhenUsed(sorted(current.arrivals), read))
            if aggregation.wants_late:
                for message in self._late.deliver():
                    aggregation.late(message)
                    current.used_late.append(message.message)
            estimate = estimated(aggregation, decoding, vectors, current.assignment.layout, order)
        except MessageLost:
            self._intake.refuse([*current.arrivals], current)
            return None
        if estimate is None or finite(estimate):
            kind = kind_of(order.kind)
            parts = tuple(self._parts(decoding, vectors, current)) if kind.few and not current.lost else ()
            return _Outcome(decoding, estimate if kind.sums else None, parts)
        if self._intake.refuse(sorted(looked_at), current):
            return None
        if tried:
            return _Outcome(decoding, overflowed=True)
        raise diverged(order.step, "gradient estimate is")

    def _parts(self, decoding: Decoding, vectors: Vectors, current: Round) -> Iterator[PartialGradient]:
        """Yield what each message says of its own tasks, in the order of the messages."""
        for place, vector in enumerate(vectors):
            weights = decoding.weights[:, place : place + 1]
            if weights.any():
                alone = replace(decoding, messages=decoding.messages[place : place + 1], weights=weights)
                yield self._part(alone, vector, current, current.order.step, vectors_of(current.order))

    def _part(self, alone: Decoding, vector: Array, current: Round, step: int, vectors: int) -> PartialGradient:
        """Return what one message says of its tasks.

        Arguments:
            alone: its weight.
            vector: what it holds.
            current: the current round.
            step: the step of the order that it answers.
            vectors: how many vectors it begins with: see `vectors_of`.
        """
        tasks: tuple[int, ...] = tuple(alone.code.tasks_of_message(int(alone.messages[0])).tolist())
        share = sum(self._samples[task] for task in tasks) / sum(self._samples)
        layout = current.assignment.layout
        held = sections(vector, vectors, layout.length(int(alone.messages[0])))
        gradient, *curvature = (layout.decode(alone, [one]) for one in held[:vectors])
        part = PartialGradient(step, tasks, share, gradient[:-1], float(gradient[-1]))
        if curvature:
            part = replace(part, curvature=curvature[0][:-1], entries=float(curvature[0][-1]))
        if curvature[1:]:
            (_, point, slope) = curvature
            part = replace(part, own=(point[:-1], slope[:-1], float(slope[-1])))
        if held[vectors:]:
            numbers = len(held[vectors]) * alone.code.n_pieces
            part = replace(part, block=block_layout(alone.code, numbers).decode(alone, held[vectors:]))
        return part

    def _end(self, current: Round, outcome: _Outcome) -> RoundResult:
        """Return what came of a round, and remember what later rounds need."""
        order, assignment = current.order, current.assignment
        aggregation = assignment.scheme.aggregation
        estimate, curvature, block = cut(order, outcome.estimate, assignment.layout.n_coordinates)
        if current.ages is not None:
            ages = current.ages.copy()  # of tasks that are lost, they stay as they were
            ages[np.setdiff1d(np.arange(len(ages)), current.lost)] = current.view.ages
            self._seen = order.step - ages
        self._late.end(current)
        late_parts = [
            self._part(assignment.decoder.decode([late.message]), late.vector, current, late.step, late.vectors)
            for late in ([] if aggregation.wants_late else self._late.deliver())
            if not current.lost
        ]
        rows = current.rows(set(outcome.decoding.used.tolist()))
        self.log.end_round(current)
        return RoundResult(
            estimate=estimate,
            curvature=curvature,
            block=block,
            decoding=outcome.decoding,
            view=current.view,
            assignment=assignment,
            begin=current.begin,
            waited=current.view.elapsed,
            rows=rows,
            late_rows=tuple(current.late_rows),
            received=current.received,
            lost=current.lost,
            used_late=tuple(current.used_late),
            counted=None if estimate is None else aggregation.tasks_counted,
            share=1.0 if estimate is None else aggregation.share,
            overflowed=outcome.overflowed,
            parts=outcome.parts,
            late_parts=tuple(late_parts),
        )

    def learn(self, step: StepRow, arrivals: Sequence[ArrivalRow]) -> None:
        """Let the rules and the aggregation learn from the records of a finished step."""
        scheme = self._pool.assignment.scheme
        for rule in scheme.rules.values():
            rule.learn(step, arrivals)
        scheme.aggregation.learn(step, arrivals)

    def end(self) -> None:
        """Report what is known only after the last round."""
        self.log.go_on(None)
        self._monitor.end(self._seconds)


def estimated(
    aggregation: Aggregation, decoding: Decoding, vectors: Vectors, layout: Layout, order: Order
) -> Array | None:
    """Return the aggregation's estimate, followed by those of curvatures and of a block if the order asks for them."""
    if kind_of(order.kind).few:
        aggregation = ByCoverage()  # few have arrived; the scheme's own aggregation is made for more
    layouts, block = [layout] * vectors_of(order), block_of(order)
    n_vectors = len(layouts)
    if block:
        layouts.append(block_layout(decoding.code, int(block["numbers"])))
    if len(layouts) == 1:
        return _estimate(aggregation, decoding, vectors, layout, order)
    estimates: list[Array] = []
    for place, own in enumerate(layouts):

        def section(message: int, vector: Array, place: int = place) -> Array:
            return sections(vector, n_vectors, layout.length(message))[place]

        def read(message: int, section: Callable[[int, Array], Array] = section) -> Array:
            return section(message, vectors.arrived[message])

        held = [section(*pair) for pair in zip(decoding.messages.tolist(), vectors, strict=True)]
        estimate = _estimate(aggregation, decoding, Vectors(held, _ReadWhenUsed([*vectors.arrived], read)), own, order)
        if estimate is None:
            return None
        estimates.append(estimate)
    return np.concatenate(estimates)


def _estimate(
    aggregation: Aggregation, decoding: Decoding, vectors: Vectors, layout: Layout, order: Order
) -> Array | None:
    """Return an aggregation's estimate, which may be one of users' own."""
    estimate = aggregation.estimate(decoding, vectors, layout, order)
    if estimate is not None and np.shape(estimate) != (layout.n_coordinates,):
        rule = f"must return an array of shape ({layout.n_coordinates},), the gradient and then the loss, or None"
        raise invalid(f"estimate(...) of {type(aggregation).__name__}", rule, f"one of shape {np.shape(estimate)}")
    return None if estimate is None else np.asarray(estimate)


def cut(order: Order, sums: Array | None, length: int) -> tuple[Array | None, Array | None, Array | None]:
    """Return what estimates hold: gradient and loss; curvatures, if asked for; a block, if asked for.

    Arguments:
        order: the order.
        sums: as `estimated` returns them.
        length: number of parameters, and one.
    """
    if sums is None:
        return None, None, None
    asked = asks_curvature(order)
    gradient, *more = sections(sums, 1 + asked, length)
    return gradient, more.pop(0) if asked else None, more[0] if more else None


class _ReadWhenUsed(Mapping[int, Array]):
    """The vectors of some messages, by row; each is read when it is used."""

    def __init__(self, messages: Collection[int], read: Callable[[int], Array]) -> None:
        self._messages, self._read = messages, read

    def __getitem__(self, message: int) -> Array:
        return self._read(message)

    def __iter__(self) -> Iterator[int]:
        return iter(self._messages)

    def __len__(self) -> int:
        return len(self._messages)
