"""What comes in during a round: messages in time and late, deaths, failures, workers that join; and what is refused."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import final

from erasurehead._internal.late_work import rounds_kept
from erasurehead.engines import Arrived, Died, Failed, Joined, Order
from erasurehead.engines._base import REPORTS, Event
from erasurehead.faults._byzantine import unusable
from erasurehead.optimizers._order_kinds import work_of
from erasurehead.training._callbacks import Callback, StepLog
from erasurehead.training._health import HealthMonitor
from erasurehead.training._late_messages import LateMessages
from erasurehead.training._round_state import Round
from erasurehead.training._workers import WorkerPool


@final
@dataclass(eq=False)
class Intake:
    """Sends out orders, and takes in the events that follow: messages, and news about workers.

    Arguments:
        pool: the workers.
        monitor: watches their health.
        late: takes the messages of earlier rounds.
        log: the log of the current step.
        callbacks: hooks that watch.
    """

    pool: WorkerPool
    monitor: HealthMonitor
    late: LateMessages
    log: StepLog
    callbacks: Sequence[Callback]

    def submit(self, order: Order, workers: Sequence[int]) -> None:
        """Send an order to some workers."""
        self.pool.engine.submit(order, workers)
        self.monitor.ordered(workers, work_of(order))
        if self._by_hand:
            self.late.rounds.hand(workers, order.round)

    def submit_new(self, order: Order) -> None:
        """Send the order of a new round to all workers, or to those whose last answers the model has taken in."""
        self.submit(order, self._ready(order) if self._by_hand else self.pool.present())

    def keep_at_work(self, order: Order) -> None:
        """Send the order under way to those who wait for another, if nobody is at work and more answers are needed."""
        if self._by_hand and not self.late.rounds.at_work(self.pool.present()) and (ready := self._ready(order)):
            self.submit(order, ready)

    @property
    def _by_hand(self) -> bool:
        """Whether a worker that has answered is sent no order before the step that its answer makes."""
        return self.pool.assignment.scheme.aggregation.after_own_step

    def _ready(self, order: Order) -> list[int]:
        return self.late.rounds.ready(self.pool.present(), order.round, rounds_kept(self.pool.engine.late))

    def take(self, event: Event, current: Round) -> None:
        """Process an event."""
        if isinstance(event, Arrived):
            last = (event.worker, event.spec.message) in current.assignment.lasts
            self.monitor.heard(event, last and (self._by_hand or event.order_round == current.order.round))
            self.late.rounds.answered(event.worker, event.order_round - (not last))
            if event.order_round == current.order.round:
                self._take_in_time(event, current)
            else:
                self._take_late(event, current)
            return
        own = not isinstance(event, Failed) or event.order_round == current.order.round
        if own:  # that a worker has failed in an earlier round changes nothing in this one
            self.log.event(event, current.order.round, current.came)
        if isinstance(event, Failed):
            if own and current.lose(event.worker, event.reason):
                text = f"worker {event.worker} failed: {event.reason}"
                self.log.notice_failure("failed", event.worker, text, reason=event.reason)
            self.monitor.failed(event.worker)
            if self._by_hand:
                self.late.rounds.answered(event.worker, event.order_round)
                if not own:
                    self.submit(current.order, [event.worker])
        elif isinstance(event, Died):
            self.monitor.forget(event.worker)
            self.log.forget_failures(event.worker)
            if not self.pool.die(event) or current.named:  # what was finished is gone, and others may have it
                current.lose(event.worker)
        elif isinstance(event, Joined):
            self.monitor.forget(event.worker)
            self.late.rounds.joined(event.worker, current.order.round)
            if self.pool.join(event):
                current.regain(event.worker)
                self.submit(current.order, [event.worker])
        else:
            self.pool.offered(event)

    def _take_in_time(self, event: Arrived, current: Round) -> None:
        row, _ = current.assignment.numbers.get((event.worker, event.spec.message), (None, 0))
        # A worker that came back may resend what it had sent before it died.
        if row is None or row in current.arrivals or row in current.view.refused:
            if event not in current.arrivals.values():  # told twice, it is one message
                self.pool.engine.release(event)
        else:
            current.arrive(row, event)
            if REPORTS in current.order.note:
                self.pool.engine.release(event)

    def _take_late(self, event: Arrived, current: Round) -> None:
        counted = len(current.view.late)
        row = self.late.take(event, current)
        if self._by_hand and len(current.view.late) == counted:  # too old, or refused: there is no step to wait for
            self.submit(current.order, self.late.rounds.ready([event.worker], current.order.round, math.inf))
        if row is not None:
            current.arrive_late(row, event.spec.nbytes)
            for callback in self.callbacks:
                callback.on_arrival(row)
        self.pool.engine.release(event)

    def look(self, now: float, current: Round) -> None:
        """Stop waiting for workers that do not start or, if the policy says so or others can stand in, seem to hang.

        Arguments:
            now: the current time, in the engine's seconds.
            current: the current round.
        """
        for worker in self.monitor.look(now, impatient=current.named):
            current.lose(worker)

    def refuse(self, messages: Iterable[int], current: Round) -> bool:
        """Turn those of some messages that cannot be used into erasures; return whether there are any.

        The round goes on, as if they had not come: one bad vector would spoil the sum of all others, and the wait rule
        knows what to do about workers that do not answer.
        """
        bad = unusable(messages, current.read)
        if bad:
            current.refuse(bad, self.pool.engine)
        for message, reason in bad.items():
            worker = current.assignment.workers_of_rows[message]
            text = f"message {message} of worker {worker} is refused: {reason}"
            self.log.notice_failure("refused", worker, text, messages=[message], reason=reason)
        return bool(bad)
