"""Events that arrive during a round: messages in time and late, deaths, failures, workers that join."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from erasurehead._internal.arrays import Tree
from erasurehead.engines.base import Arrived, Died, Event, Failed, Joined, Order
from erasurehead.schemes.wait_rules.view import LateArrival
from erasurehead.training.callbacks import Callback
from erasurehead.training.health import HealthMonitor
from erasurehead.training.late_work import LateWorkTaken
from erasurehead.training.notices import Notice
from erasurehead.training.parts import LateParts
from erasurehead.training.round_state import Round
from erasurehead.training.round_table import RoundTable
from erasurehead.training.step_log import StepLog
from erasurehead.training.worker_pool import WorkerPool


class Intake:
    """Sends out orders, and takes in the events that follow: messages, and news about workers.

    Arguments:
        pool: the workers.
        monitor: watches their health.
        log: the log of the current step.
        callbacks: hooks that watch.
        samples: how many samples each task has, by weight, shape (n_tasks,).

    Attributes:
        late: messages of earlier rounds, on their way to the aggregation.
        late_parts: those that answer orders of kind `"early"`, on their way to the optimizer.
    """

    def __init__(
        self,
        pool: WorkerPool,
        monitor: HealthMonitor,
        log: StepLog,
        callbacks: Sequence[Callback],
        samples: Sequence[float],
    ) -> None:
        self.late, self.late_parts = LateWorkTaken(pool), LateParts(samples)
        self._pool = pool
        self._engine = pool.engine
        self._monitor = monitor
        self._log = log
        self._callbacks = callbacks
        self._rounds = RoundTable(carried=pool.engine.late != "preempt")

    def begin(self, current: Round) -> None:
        """Submit the order of a new round to all workers that can answer it."""
        order, assignment = current.order, current.assignment
        self._rounds.add(order.round, current.begin, assignment, self.late.greatest_age)
        current.view.late.extend(self.late.reassigned(assignment, order.step))
        self.late_parts.begin(order)
        self._submit(order, self._pool.present())

    def _submit(self, order: Order, workers: Sequence[int]) -> None:
        self._engine.submit(order, workers)
        self._monitor.ordered(workers)

    def take(self, event: Event, current: Round) -> None:
        """Process an event."""
        if isinstance(event, Arrived):
            last = (event.worker, event.spec.message) in current.assignment.lasts
            self._monitor.heard(event, last and event.order_round == current.order.round)
            self._rounds.answered(event.worker, event.order_round - (not last))
            self._take_arrival(event, current)
            return
        if not isinstance(event, Failed) or event.order_round == current.order.round:
            self._log.event(event, current.order.round, current.came)
        if isinstance(event, Failed):
            if event.order_round == current.order.round and self._lose(event.worker, current):
                current.failed[event.worker] = event.reason
                text = f"worker {event.worker} failed: {event.reason}"
                notice = Notice("failed", event.worker, data={"reason": event.reason}, text=text)
                self._log.notice_failure(event.worker, notice)
            self._monitor.failed(event.worker)
        elif isinstance(event, Died):
            self._monitor.forget(event.worker)
            self._log.forget_failures(event.worker)
            if not self._pool.die(event):
                self._lose(event.worker, current)
        elif isinstance(event, Joined):
            self._monitor.forget(event.worker)
            self._rounds.joined(event.worker, current.order.round)
            if self._pool.join(event):
                current.regain(event.worker)
                self._submit(current.order, [event.worker])
        else:
            self._pool.offered(event)

    def look(self, now: float, current: Round) -> None:
        """Stop waiting for workers that do not start or, if the policy says so, seem to hang.

        Arguments:
            now: the current time, in the engine's seconds.
            current: the current round.
        """
        for worker in self._monitor.look(now):
            self._lose(worker, current)

    def refuse(self, current: Round, messages: Mapping[int, str]) -> None:
        """Turn messages that cannot be used into erasures, and report them.

        Arguments:
            current: the round of the messages.
            messages: the rows, each with the reason.
        """
        current.view.refuse(messages)
        current.refused.update(messages)
        for message, why in messages.items():
            arrived = current.arrivals.pop(message)
            self._engine.release(arrived)
            text = f"message {message} of worker {arrived.worker} is refused: {why}"
            data = {"messages": [message], "reason": why}
            self._log.notice_failure(arrived.worker, Notice("refused", arrived.worker, data=data, text=text))

    def _lose(self, worker: int, current: Round) -> bool:
        """Stop waiting for a worker; return whether it has a position in this round."""
        position = current.assignment.positions.get(worker)
        if position is not None:
            current.view.lose(position)
        return position is not None

    def _take_arrival(self, event: Arrived, current: Round) -> None:
        if event.order_round == current.order.round:
            row = current.assignment.rows.get((event.worker, event.spec.message))
            # A worker that came back may resend what it had sent before it died.
            if row is None or row in current.arrivals or row in current.view.refused:
                self._engine.release(event)
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
            current.late_bytes += event.spec.nbytes
            same = begun.generation == current.assignment.generation
            now = row.message if same else current.assignment.row_of(event.spec.content, event.worker)
            if now is not None and self._take_late(event, now, current):
                row = replace(row, refused=True)
            current.late_rows.append(row)
            for callback in self._callbacks:
                callback.on_arrival(row)
        self._engine.release(event)

    def _take_late(self, event: Arrived, row: int, current: Round) -> bool:
        """Take a message of an earlier round whose content is still useful; return whether it had to be refused."""
        aggregation, age = current.assignment.scheme.aggregation, current.order.step - event.step
        why = ""
        if aggregation.wants_late:
            if age > aggregation.greatest_age:
                return False
            why = self.late.take(event, row, current, self._monitor)
        elif self.late_parts.asked(event.order_round):
            if not self.late_parts.wants(event):
                return False
            why = self.late_parts.take(event, row, current.assignment)
        if why:
            text = f"message {row} of worker {event.worker}, of step {event.step}, is refused: {why}"
            data = {"messages": [row], "reason": why}
            self._log.notice_failure(event.worker, Notice("refused", event.worker, data=data, text=text))
            return True
        current.view.late.append(LateArrival(row, event.step, event.order_round, age))
        return False

    # --- state ----------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Tree]:
        """Return everything that `restore` needs: the rounds that may still be answered, and what late messages say."""
        self._rounds.forget_old(self._pool.assignment.worker_ids, self.late.greatest_age)
        return {"begun": self._rounds.state(), "late": self.late.state(), "late_parts": self.late_parts.state()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from what `state` returned; the pool is restored already."""
        self._rounds.restore(state["begun"])
        self.late.restore(state["late"])
        self.late_parts.restore(state["late_parts"])
