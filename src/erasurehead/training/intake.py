"""What comes in during a round: messages in time and late, deaths, failures, workers that join; and what is refused."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import final

from erasurehead.engines.base import Arrived, Died, Event, Failed, Joined, Order
from erasurehead.faults.byzantine import unusable
from erasurehead.training.callbacks import Callback, StepLog
from erasurehead.training.health import HealthMonitor
from erasurehead.training.late_messages import LateMessages
from erasurehead.training.round_state import Round
from erasurehead.training.workers import WorkerPool


@final
class Intake:
    """Sends out orders, and takes in the events that follow: messages, and news about workers.

    Arguments:
        pool: the workers.
        monitor: watches their health.
        late: takes the messages of earlier rounds.
        log: the log of the current step.
        callbacks: hooks that watch.
    """

    def __init__(
        self,
        pool: WorkerPool,
        monitor: HealthMonitor,
        late: LateMessages,
        log: StepLog,
        callbacks: Sequence[Callback],
    ) -> None:
        self._pool, self._engine = pool, pool.engine
        self._monitor, self._late, self._log = monitor, late, log
        self._callbacks = callbacks

    def submit(self, order: Order, workers: Sequence[int]) -> None:
        """Send an order to some workers."""
        self._engine.submit(order, workers)
        self._monitor.ordered(workers)

    def take(self, event: Event, current: Round) -> None:
        """Process an event."""
        if isinstance(event, Arrived):
            last = (event.worker, event.spec.message) in current.assignment.lasts
            self._monitor.heard(event, last and event.order_round == current.order.round)
            self._late.rounds.answered(event.worker, event.order_round - (not last))
            if event.order_round == current.order.round:
                self._take_in_time(event, current)
            else:
                self._take_late(event, current)
            return
        own = not isinstance(event, Failed) or event.order_round == current.order.round
        if own:  # that a worker has failed in an earlier round changes nothing in this one
            self._log.event(event, current.order.round, current.came)
        if isinstance(event, Failed):
            if own and current.lose(event.worker, event.reason):
                text = f"worker {event.worker} failed: {event.reason}"
                self._log.notice_failure("failed", event.worker, text, reason=event.reason)
            self._monitor.failed(event.worker)
        elif isinstance(event, Died):
            self._monitor.forget(event.worker)
            self._log.forget_failures(event.worker)
            if not self._pool.die(event):
                current.lose(event.worker)
        elif isinstance(event, Joined):
            self._monitor.forget(event.worker)
            self._late.rounds.joined(event.worker, current.order.round)
            if self._pool.join(event):
                current.regain(event.worker)
                self.submit(current.order, [event.worker])
        else:
            self._pool.offered(event)

    def _take_in_time(self, event: Arrived, current: Round) -> None:
        row = current.assignment.rows.get((event.worker, event.spec.message))
        # A worker that came back may resend what it had sent before it died.
        if row is None or row in current.arrivals or row in current.view.refused:
            self._engine.release(event)
        else:
            current.arrive(row, event)

    def _take_late(self, event: Arrived, current: Round) -> None:
        row = self._late.take(event, current)
        if row is not None:
            current.arrive_late(row, event.spec.nbytes)
            for callback in self._callbacks:
                callback.on_arrival(row)
        self._engine.release(event)

    def look(self, now: float, current: Round) -> None:
        """Stop waiting for workers that do not start or, if the policy says so, seem to hang.

        Arguments:
            now: the current time, in the engine's seconds.
            current: the current round.
        """
        for worker in self._monitor.look(now):
            current.lose(worker)

    def refuse(self, messages: Iterable[int], current: Round) -> bool:
        """Turn those of some messages that cannot be used into erasures; return whether there are any.

        The round goes on, as if they had not come: one bad vector would spoil the sum of all others, and the wait rule
        knows what to do about workers that do not answer.
        """
        bad = unusable(messages, current.read)
        if bad:
            current.refuse(bad, self._engine)
        for message, reason in bad.items():
            worker = current.assignment.workers_of_rows[message]
            text = f"message {message} of worker {worker} is refused: {reason}"
            self._log.notice_failure("refused", worker, text, messages=[message], reason=reason)
        return bool(bad)
