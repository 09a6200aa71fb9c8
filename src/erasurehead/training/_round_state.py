"""What is known of a round: while it is under way, and when it is over."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from erasurehead._internal.arrays import Array, IntArray
from erasurehead.codes._transforms import shortened
from erasurehead.decoding._choice import general
from erasurehead.engines._base import MessageLost
from erasurehead.engines._wired_engine import BYTES
from erasurehead.errors import numbered
from erasurehead.schemes.wait_rules import View
from erasurehead.training._rows import ArrivalRow, StepRow

if TYPE_CHECKING:
    from erasurehead.decoding._base import Decoding
    from erasurehead.engines import Arrived, Engine, Order
    from erasurehead.faults._byzantine import Examination
    from erasurehead.optimizers._base import PartialGradient
    from erasurehead.schemes.wait_rules import WaitRule
    from erasurehead.training._assignment import Assignment
    from erasurehead.training._handout import Handout


def vector_of(event: Arrived) -> Array:
    """Return what a message holds.

    Raises:
        MessageLost: if it is lost, or an engine of somebody's own has something else: one number would count for all.
    """
    vector, length = event.read(), event.spec.length
    if event.spec.dtype != BYTES and np.shape(vector) != (length,):
        raise MessageLost(f"its vector is of shape {np.shape(vector)}, which must be ({length},)")
    return vector


@dataclass(eq=False)
class Round:
    """A round under way. Messages are numbered by the rows of its assignment's code.

    Attributes:
        order: the order that was submitted.
        assignment: the workers that it was submitted to.
        rule: the wait rule.
        begin: when the order was submitted, in the engine's seconds.
        ages: how old each task was then, in steps; None if no rule asks.
        view: what the wait rule sees of it.
        arrivals: messages that have arrived, in the order of their arrival, including those in doubt.
        places: for each arrived message, how many messages of any round had arrived before it.
        late_rows: the rows of messages of earlier rounds that have arrived.
        late_bytes: bytes of those messages.
        used_late: the rows of the late messages that the aggregation was given.
        came: how many messages of any round have arrived.
        refused: messages that count as erasures in this round, each with the reason.
        failed: workers that reported that they cannot answer this round, each with the reason.
        lost: tasks that no living worker holds and that are left out, ascending.
        held: whether messages contradict each other, and one that may still come can decide which is right.
        named: whether its messages are sums of those who were named for them, who others can stand in for.
        disputes: pairs of messages, among those that contradict each other, whose workers are to be questioned.
        over: whether later orders are out, so that nothing comes any more.
        doubted: messages that have arrived, and are refused because others contradict them.
        handout: says what workers do next, where each message is of one task, and each task is needed once.
    """

    order: Order
    assignment: Assignment
    rule: WaitRule
    begin: float
    ages: IntArray | None
    view: View
    arrivals: dict[int, Arrived] = field(default_factory=dict[int, "Arrived"])
    places: dict[int, int] = field(default_factory=dict[int, int])
    late_rows: list[ArrivalRow] = field(default_factory=list[ArrivalRow])
    late_bytes: int = 0
    used_late: list[int] = field(default_factory=list[int])
    came: int = 0
    refused: dict[int, str] = field(default_factory=dict[int, str])
    failed: dict[int, str] = field(default_factory=dict[int, str])
    lost: tuple[int, ...] = ()
    held: bool = False
    named: bool = False
    disputes: Sequence[tuple[int, int]] = ()
    over: bool = False
    doubted: dict[int, Arrived] = field(default_factory=dict[int, "Arrived"])
    handout: Handout | None = None

    def read(self, message: int) -> Array:
        """Return the vector of a message that has arrived."""
        return vector_of(self.arrivals[message])

    @property
    def outstanding(self) -> list[int]:
        """Messages that may still come, ascending. Those in doubt have arrived already."""
        pending: list[int] = self.view.pending.tolist()
        return [message for message in pending if message not in self.arrivals]

    @property
    def missing(self) -> list[int]:
        """Workers from which a message may still come, ascending."""
        return sorted({self.assignment.workers_of_rows[message] for message in self.outstanding})

    @property
    def received(self) -> int:
        """Bytes received, in time or late."""
        return self.late_bytes + sum(event.spec.nbytes for event in self._came.values())

    @property
    def _came(self) -> dict[int, Arrived]:
        """The messages that have arrived, but for those that are no good in themselves, in the order of arrival."""
        return dict(sorted({**self.arrivals, **self.doubted}.items(), key=lambda one: self.places[one[0]]))

    # --- what happens in it ---------------------------------------------------------------------------------------

    def arrive(self, message: int, event: Arrived) -> None:
        """Record a message that has come in time."""
        self.arrivals[message], self.places[message] = event, self.came
        self.came += 1
        self.view.pass_time(event.time - self.begin)
        self.view.add(message)
        if self.handout is not None:
            self.handout.arrived(message)

    def arrive_late(self, row: ArrivalRow, nbytes: int) -> None:
        """Record a message of an earlier round."""
        self.came += 1
        self.late_bytes += nbytes
        self.late_rows.append(row)

    def refuse(self, messages: Mapping[int, str], engine: Engine) -> None:
        """Turn messages that have arrived into erasures, each for a reason, and let go of their vectors."""
        if messages:
            self.need_all()
        self.view.refuse(messages)
        self.refused.update(messages)
        for message in messages:
            engine.release(self.arrivals.pop(message))

    def keep(self, engine: Engine) -> None:
        """Copy the messages that have arrived, as later orders are about to go out."""
        self.over = True
        for message, event in self.arrivals.items():
            vector = event.read().copy()
            engine.release(event)
            self.arrivals[message] = replace(event, read=partial(np.asarray, vector), lease=None)

    def settle(self, examination: Examination, engine: Engine) -> bool:
        """Act on a comparison of the messages; return whether the rule must be asked again."""
        changed = examination.settle(self.view)
        self.held, self.disputes = bool(examination.held), examination.disputes
        doubted = {*examination.accused, *(worker for one in examination.undecided for worker in one.workers)}
        for message in examination.refused:
            if self.assignment.workers_of_rows[message] in doubted:
                self.doubted[message] = self.arrivals[message]
        self.refuse(examination.refused, engine)
        return changed

    def need_all(self) -> None:
        """Let workers send all that they hold, as it may not be enough that each task has come once."""
        if self.handout is not None:
            self.handout.end()
            self.handout = None

    def lose(self, worker: int, failure: str | None = None) -> bool:
        """Stop waiting for a worker, which may have said why it cannot answer; return whether it has a position."""
        position = self.assignment.positions.get(worker)
        if position is None:
            return False
        self.view.lose(position)
        if failure is not None:
            self.failed[worker] = failure
        if self.handout is not None:
            self.handout.workers_changed(self.view.able)
        return True

    def regain(self, worker: int) -> None:
        """Record that a worker, or its replacement, has joined: it answers again."""
        position = self.assignment.positions.get(worker)
        if position is not None:
            self.view.regain(position)
            if self.handout is not None:
                self.handout.workers_changed(self.view.able)
        self.failed.pop(worker, None)
        self.refused = {message: why for message, why in self.refused.items() if message in self.view.refused}

    def leave_out(self) -> bool:
        """Go on without the tasks that nobody sends any more; return whether there are more of them than before."""
        lost, code = self.out_of_reach(), self.assignment.code
        if not set(lost) - set(self.lost) or len(lost) == code.n_tasks:
            return False
        self.lost = tuple(lost)
        ages = None if self.ages is None else np.delete(self.ages, lost)
        self.view = self.view.without(general(shortened(code, lost)), ages)
        return True

    # --- what can be said of it -----------------------------------------------------------------------------------

    def out_of_reach(self) -> list[int]:
        """Return the tasks that no message contains, be it one that arrived or one that may still, ascending."""
        code = self.assignment.code
        lost = set(range(code.n_tasks))
        for message in [*self.view.arrived, *self.view.pending.tolist()]:
            lost.difference_update(code.tasks_of_message(message).tolist())
        return sorted(lost)

    def why_never(self, dead: Mapping[int, str]) -> str:
        """Return why the rule can no longer be met, as sentences.

        Arguments:
            dead: workers that have died and are not replaced, each with the reason.
        """
        view, assignment = self.view, self.assignment
        code, worker_ids = assignment.code, assignment.worker_ids
        silent = {position for position in range(code.n_workers) if position not in view.able}
        gone = sorted(
            worker_ids[position] for position in silent | {int(code.owner[message]) for message in self.refused}
        )
        lost = self.out_of_reach()
        left, refused = len(view.able), len(self.refused)
        if not gone:
            return (
                f"step {view.step}: the wait rule {self.rule} cannot be met any more: all messages of {code!r} are in, "
                f"and leave a residual of {view.session.residual():.3g} tasks. A code that float64 decodes, such as "
                "reed_solomon or fractional_repetition, or a rule that asks for less, such as first(r), would do."
            )
        what = "too few workers are left"
        if lost:
            what = f"{numbered('task', lost)} {_be(len(lost))} lost with {'it' if len(gone) == 1 else 'them'}"
        reasons = [f"worker {worker} {reason}" for worker, reason in dead.items()]
        reasons += [f"worker {worker} failed: {reason}" for worker, reason in self.failed.items()]
        reasons += [f"message {message} is refused: {reason}" for message, reason in self.refused.items()]
        return (
            f"step {view.step}: the wait rule {self.rule} cannot be met any more: {numbered('worker', gone)} will "
            f"not answer, and {what}; {left} of {code.n_workers} workers {_be(left)} left"
            + (f" ({'; '.join(reasons[:3])})" if reasons else "")
            + ". A larger load, or a rule that waits for fewer workers, tolerates more deaths."
            + (
                f" {refused} message{'s were' if refused > 1 else ' was'} refused: see the notices; if not finite, "
                "the step size may be too large."
                if refused
                else ""
            )
        )

    def rows(self, used: set[int]) -> tuple[ArrivalRow, ...]:
        """Return a row for each message that has arrived, and a censored one for each that its worker has yet to send.

        Arguments:
            used: messages that were given a weight.
        """
        units, workers = self.assignment.units, self.assignment.workers_of_rows
        idle = () if self.handout is None else self.handout.idle
        rows = [
            ArrivalRow.of(
                arrived,
                message,
                units[message],
                self.begin,
                taken=self.order.round,
                place=self.places[message],
                used=message in used,
                rank=rank,
            )
            for rank, (message, arrived) in enumerate(self._came.items())
        ]
        rows += [
            ArrivalRow(
                step=self.order.step,
                round=self.order.round,
                worker=workers[message],
                message=message,
                unit=units[message],
                work=self.assignment.works[message],
                started=None,
                seconds=self.view.elapsed,
                censored=True,
            )
            for message in self.outstanding
            if workers[message] not in idle
        ]
        return tuple(rows)


@dataclass(frozen=True, eq=False)
class RoundResult:
    """The result of one round.

    Attributes:
        estimate: gradient, then loss, shape (n_parameters + 1,); None if nothing is known.
        curvature: for orders of kind `"curvature"`: the bounds on the curvature along each parameter, then the mean
            number of a sample's entries that are not 0, shape (n_parameters + 1,); None for other orders, or without an
            estimate.
        decoding: the weights that were used.
        view: the arrivals.
        assignment: which worker had which position of the code.
        begin: when the order was submitted, in the engine's seconds.
        waited: seconds from then until the rule said stop.
        rows: one row for each message that arrived and was not refused, and a censored one for each that may still
            come.
        late_rows: one row for each message of an earlier round that arrived in this one.
        used_late: the code's rows of those late messages that the aggregation was given.
        share: the fraction of the optimizer's step size, in (0, 1], that the estimate is worth.
        received: bytes received, in time or late.
        lost: tasks that no living worker holds and that the estimate leaves out, ascending.
        overflowed: whether there is no estimate because vectors were not finite at a point that was only tried.
        block: second derivatives between columns, likewise, as `Shard.block` orders them; None if not asked for.
        parts: what each message says of its own tasks, for orders of kind `"early"`; empty where tasks are lost.
        counted: the tasks that the estimate counts, where the aggregation remembers some of which no message came; None
            if they are those of the messages that were used.
        late_parts: what each message says that answered an earlier order of kind `"early"` late, if its note asked for
            that; empty where tasks are lost.
        reports: the round in which workers reported what they had finished, where this one has sums of that.
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
    block: Array | None = None
    parts: tuple[PartialGradient, ...] = ()
    counted: Sequence[int] | None = None
    late_parts: tuple[PartialGradient, ...] = ()
    reports: RoundResult | None = None

    def after(self, reports: RoundResult) -> RoundResult:
        """Return the result of both rounds: of the reports, and of this one, the sums."""
        return replace(
            self,
            begin=reports.begin,
            waited=self.begin + self.waited - reports.begin,
            received=reports.received + self.received,
            late_rows=(*reports.late_rows, *self.late_rows),
            reports=reports,
        )

    @property
    def exact(self) -> bool:
        """Whether the estimate is the full gradient at the order's point."""
        faithful = self.assignment.scheme.aggregation.faithful
        return faithful and self.estimate is not None and self.decoding.exact and not self.lost and not self.used_late

    @property
    def worked(self) -> float:
        """For how many seconds workers computed a message in time, the most of those that say so; inf if none does."""
        return max((row.worked for row in self.rows if row.worked is not None), default=math.inf)

    @property
    def took(self) -> list[float]:
        """How long workers were at the messages that came, from when they began with the order."""
        came = (row for row in (*self.late_rows, *self.rows) if not row.censored)
        return [row.seconds - (row.started or 0.0) for row in came]

    @property
    def coverage(self) -> float:
        """Fraction of the full gradient that is counted; with late work, fraction of the tasks that are counted."""
        if self.counted is not None:
            return len(self.counted) / self.assignment.code.n_tasks
        kept = 1.0 - len(self.lost) / self.assignment.code.n_tasks
        if self.used_late:
            code = self.assignment.code
            tasks = [code.tasks_of_message(message) for message in {*self.used_late, *self.decoding.used.tolist()}]
            return len(np.unique(np.concatenate(tasks))) / code.n_tasks
        return kept * self.decoding.coverage if len(self.decoding.messages) else 0.0

    def step_row(self, order: Order, end: float, origin: float = 0.0) -> StepRow:
        """Return what this round, the last of a step, says in the step's row; it knows nothing of the answer's worth.

        Arguments:
            order: the order of the round.
            end: when the model had moved, in seconds since training began.
            origin: when training began, in the engine's seconds.
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
            dead=[],
            residual=decoding.residual + len(self.lost),
            coverage=self.coverage,
            stepped=self.estimate is not None or bool(self.parts or self.late_parts),
            loss=None,
            gradient_norm=None,
            received=self.received,
            workers=(self.reports or self).assignment.code.n_workers,
            lost=list(self.lost),
            late=len(self.late_rows),
        )


@dataclass(frozen=True, eq=False)
class Asking:
    """What a round asks for, as an earlier one of the same step calls for it.

    Arguments:
        heard: the earlier round; None if that is still under way, and this one is for questions.
        assignment: those who are asked.
        note: what the order says.
        named: whether others can stand in for whoever does not answer, and those who are not asked stop; else it goes
            on with the clock of the earlier round, and with all workers.
        reported: the messages of the earlier round that call for it.
        computes: whether somebody may have to know the model again.
    """

    heard: RoundResult | None
    assignment: Assignment
    note: Mapping[str, Any]
    named: bool = False
    reported: Collection[int] = ()
    computes: bool = True


def _be(count: int) -> str:
    return "is" if count == 1 else "are"
