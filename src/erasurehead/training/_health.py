"""Watches over the workers from round to round: finds those that do not start, hang or lie."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any, final

import numpy as np

from erasurehead._internal.arrays import Array, Tree, dtype_of
from erasurehead._internal.resumable import Resumable
from erasurehead.engines import Arrived
from erasurehead.engines._base import PRECISE, QUESTIONS, told
from erasurehead.errors import invalid, numbered
from erasurehead.faults import FailureDetector, Verifier
from erasurehead.faults._byzantine import Bisection, Examination, check_comparable
from erasurehead.optimizers._order_kinds import NEWTON, OWN_MODEL
from erasurehead.training._round_state import Round
from erasurehead.training._rows import Notice
from erasurehead.training._workers import WorkerPool

_COARSE = 0.5
"""Relative error of messages, of their largest element, from which replicas cannot be compared any more."""


def questions(current: Round, searches: Iterable[Bisection], whole: bool = False) -> dict[str, Any]:
    """Return what the note of an order says that asks the next questions of some searches.

    Arguments:
        current: the round of the messages that are in question.
        searches: the searches.
        whole: whether it is asked for all of the tasks that are left, not for the first half of them.
    """
    numbers = current.assignment.messages_of_rows
    asked = [
        [numbers[row], one.first, one.last if whole else one.middle, one.element]
        for one in searches
        for row in one.messages
    ]
    return {QUESTIONS: asked, PRECISE: True}


@final
class HealthMonitor(Resumable):
    """Watches the workers of a pool over its rounds, as far as the pool's fault policy requires.

    It is told where orders go and what comes back, reports whom it suspects or catches, and replaces or puts aside
    workers that the policy does not tolerate.

    Arguments:
        pool: the pool whose workers are watched.
        tell: called with each notice.

    Raises:
        InvalidArgument: if messages are to be compared, but code and wait rule never leave any that could be.
    """

    def __init__(self, pool: WorkerPool, tell: Callable[[Notice], None]) -> None:
        self.pool = pool
        self.tell = tell
        self._assignment = pool.assignment
        watches = pool.fault_policy.on_suspicion != "ignore"
        self._detector = (
            FailureDetector(
                after=pool.fault_policy.suspect_after, late="preempt" if pool.engine.late == "preempt" else "carry"
            )
            if watches
            else None
        )
        self._verifier: Verifier | None = None  # made when the first round begins
        self._step = -1
        if pool.fault_policy.verify:
            scheme = pool.assignment.scheme
            check_comparable(scheme.levels[-1] if scheme.levels else scheme.decoder, scheme.rule)
            if pool.engine.message_error >= _COARSE:
                raise invalid(
                    "wire",
                    "must lose less precision where messages are verified (verify)",
                    f"a relative error of {pool.engine.message_error:g}",
                    "take a cast, or more levels",
                )

    def begin(self, step: int) -> None:
        """Record that a round of a step begins, and which worker now has which position of the code."""
        before, self._assignment = self._assignment, self.pool.assignment
        moved = before is not self._assignment
        if self._detector is not None and moved:
            for worker in {*before.worker_ids} - {*self.pool.present()}:  # gone, or restarted
                self._detector.left(worker)
        if self.pool.fault_policy.verify:
            self._prepared(moved).begin(again=step == self._step)
        self._step = step

    def _prepared(self, moved: bool) -> Verifier:
        """Return the verifier of the assignment, which may have moved since the last one was made."""
        code, layout, worker_ids = self._assignment.code, self._assignment.layout, self._assignment.worker_ids
        if self._verifier is None:
            error = self.pool.engine.message_error
            self._verifier = Verifier(code, layout, tolerance=error or None, worker_ids=worker_ids)
        elif moved:
            self._verifier = self._verifier.resized(code, layout, worker_ids)
        self._verifier.agreeing = max(2, self._assignment.scheme.rule.agreeing)
        return self._verifier

    # --- what happens to workers ----------------------------------------------------------------------------------

    def ordered(self, workers: Iterable[int], times: float) -> None:
        """Record that an order for so many times as much work as a gradient has gone out to some workers."""
        if self._detector is not None:
            now = self.pool.engine.now()
            for worker in workers:
                if self._assignment.programs[self._assignment.positions[worker]].sent(False):  # else it has no answer
                    self._detector.ordered(worker, now, times)

    def withdrawn(self, workers: Iterable[int]) -> None:
        """Record that some workers have nothing to answer until their next order."""
        if self._detector is not None:
            for worker in workers:
                self._detector.dropped(worker, self.pool.engine.now())

    def heard(self, event: Arrived, done: bool) -> None:
        """Record a message, in time or late; it clears a worker that was suspected.

        Arguments:
            event: the message.
            done: whether its worker has nothing else to answer.
        """
        if self._detector is not None:
            silent = self._detector.silence(event.worker, event.time) if self._detector.suspects else 0.0
            if cleared := self._detector.heard(event.worker, event.time, event.started, done):
                data = {"reason": cleared, "seconds": silent}
                self.tell(Notice("cleared", event.worker, data=data, text=cleared))

    def failed(self, worker: int) -> None:
        """Record that a worker said that it cannot answer."""
        if self._detector is not None:
            self._detector.failed(worker)

    def forget(self, worker: int) -> None:
        """Forget what is known of a worker: it is gone, or another has its number."""
        if self._detector is not None:
            self._detector.left(worker)
        if self._verifier is not None:
            self._verifier.joined(worker)

    # --- who is missing -------------------------------------------------------------------------------------------

    def next_look(self) -> float:
        """Return when to call `look` again, in the engine's seconds; inf if there is no need."""
        starting = self.pool.wake()
        return starting if self._detector is None else min(starting, self._detector.next_check())

    @property
    def suspects(self) -> Collection[int]:
        """The workers that seem to hang."""
        return () if self._detector is None else self._detector.suspects

    def look(self, now: float, impatient: bool = False) -> list[int]:
        """Give up workers that do not start; report or replace those that seem to hang. Return those that are lost.

        Arguments:
            now: the current time, in the engine's seconds.
            impatient: whether those that seem to hang, from now on, count as lost in any case.
        """
        gone = self.pool.look(now)
        if self._detector is not None:
            for worker in self._detector.check(now):
                why = self._detector.suspects[worker]
                data = {"reason": why, "seconds": self._detector.silence(worker, now)}
                self.tell(Notice("suspected", worker, data=data, text=why))
                replaces = self.pool.fault_policy.on_suspicion == "replace"
                if (replaces and not self.pool.replace_suspect(worker)) or impatient:
                    gone.append(worker)
        return gone

    # --- who lies -------------------------------------------------------------------------------------------------

    def examine(self, current: Round) -> bool:
        """Compare messages that should be equal, before decoding; return whether something was wrong."""
        if self._verifier is None:
            return False
        sums = current.order.kind != NEWTON and OWN_MODEL not in current.order.note
        pending: list[int] = current.view.pending.tolist()
        examination = self._verifier.examine(current.arrivals, current.read, pending, asks=sums)
        changed = current.settle(examination, self.pool.engine)
        self._judge(examination)
        return changed

    def searches(self, current: Round) -> list[Bisection]:
        """Return the searches for what workers contradict each other about, no worker in two of them."""
        assert self._verifier is not None
        workers, busy, found = current.assignment.workers_of_rows, set[int](), list[Bisection]()
        for pair in current.disputes:
            both = {workers[message] for message in pair}
            if not both & busy:
                busy |= both
                found.append(self._verifier.question(pair, current.read))
        return found

    def judge(self, current: Round, found: Bisection, silent: Collection[int]) -> None:
        """Compute the task that is left of a search, and convict who has lied.

        Arguments:
            current: the round.
            found: the search.
            silent: workers who have not answered everything: if one of the two is, nobody is convicted.
        """
        assert self._verifier is not None
        truth, assignment, row = None, current.assignment, found.messages[0]
        task = self._verifier.task_of(found)
        why = f"of task {task}, which was computed here, they say the same, to rounding"
        if mute := sorted({assignment.workers_of_rows[one] for one in found.messages} & {*silent}):
            why = f"{numbered('worker', mute)} {'has' if len(mute) == 1 else 'have'} not said more when asked"
        else:
            order = replace(current.order, note={**current.order.note, **questions(current, [found], whole=True)})
            program = assignment.programs[int(assignment.code.owner[row])]
            (spec,) = program.remaining(order, ())
            out = np.empty(1, dtype_of(spec.dtype))
            try:
                program.compute(spec, program.take(order), out)
                truth = float(out[0])
            except Exception as error:
                why = f"task {task} cannot be computed here: {told(error)}"
        self._verifier.judge(found, truth, why)

    def _judge(self, examination: Examination) -> None:
        """Report what is new, and put aside who is caught."""
        for one in examination.remarks:
            if one.kind == "lied":
                notice = Notice("lied", one.workers[0], data={"reason": one.why, **one.evidence}, text=one.text)
            else:
                data = {"messages": [*one.messages], "workers": [*one.workers], "reason": one.why}
                worker = one.workers[0] if len(one.workers) == 1 else None
                notice = Notice(one.kind, worker, data=data, text=one.text)
            self.tell(notice)
        for worker, reason in examination.accused.items():
            self.pool.put_aside(worker, reason)
            if self._detector is not None:
                self._detector.left(worker)

    @property
    def verifies(self) -> bool:
        """Whether messages are compared with each other."""
        return self._verifier is not None

    def examine_earlier(self, vectors: Mapping[int, Array], row: int, current: Round) -> str:
        """Compare a message of an earlier round with the others of that round; return why it is refused, or "".

        Arguments:
            vectors: the vectors of all messages of that round so far, by their current rows.
            row: the row of the new one.
            current: the current round; a worker that is caught is lost to it.
        """
        assert self._verifier is not None
        examination = self._verifier.examine_earlier(vectors)
        self._judge(examination)
        for worker in examination.accused:
            current.lose(worker)
        return examination.refused.get(row, "")

    def accused(self, current: Round) -> list[int]:
        """Return the workers with a position in a round that have been put aside for lying."""
        lying = () if self._verifier is None else self._verifier.accused
        return [worker for worker in lying if worker in current.assignment.positions]

    def end(self, seconds: float) -> None:
        """Report what verification has cost.

        Arguments:
            seconds: seconds that all rounds took on this machine.
        """
        if self._verifier is not None:
            cost = self._verifier.cost(seconds)
            self.tell(Notice("verification_cost", data=vars(cost), text=str(cost)))

    # --- state ----------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Tree]:
        """Return everything that `restore` needs: which workers are suspected, and which are trusted."""
        return {
            "failure_detector": None if self._detector is None else self._detector.state(),
            "verifier": None if self._verifier is None else self._verifier.state(),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from what `state` returned; the pool is restored already."""
        self._assignment = self.pool.assignment
        if state["failure_detector"] is not None and self._detector is not None:
            self._detector.restore(state["failure_detector"])
        if state["verifier"] is not None and self.pool.fault_policy.verify:
            verifier = self._prepared(moved=True)
            verifier.begin()
            verifier.restore(state["verifier"])
