"""Messages that answer an earlier round: one way for all of them, from their arrival to whoever can use them.

They go to the aggregation, where the scheme's wants late work, or to the optimizer, where the order that they answer
asks for that. Either way they are checked and copied when they come, kept under the row that has their content when the
code is resized, and handed over when waiting has ended, in an order that does not depend on when they came.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np

from erasurehead._internal.arrays import Array, finite
from erasurehead._internal.resumable import Resumable
from erasurehead.engines import Arrived
from erasurehead.engines._base import MessageLost
from erasurehead.faults._byzantine import NOT_FINITE
from erasurehead.optimizers._order_kinds import LATE_PARTS
from erasurehead.schemes import LateMessage
from erasurehead.schemes.wait_rules._view import LateArrival
from erasurehead.training._assignment import Assignment
from erasurehead.training._callbacks import StepLog
from erasurehead.training._health import HealthMonitor
from erasurehead.training._round_state import Round, vector_of
from erasurehead.training._rows import ArrivalRow
from erasurehead.training._workers import WorkerPool

MOST_COMPARED = 100
"""Number of rounds whose messages are kept for comparison with late ones, where messages are compared at all."""

REMEMBERED = 1_000
"""Number of rounds that are always distinguished, whichever workers are busy."""

MOST = 1 << 20
"""Largest number of rounds that are distinguished, however late a worker is: 8 megabytes."""

_GENERATIONS = 32  # of assignments, whose rounds are known; they change with the order of tasks, up to each round

_SPARE = 512  # rounds that may be kept beyond those needed, so that not every round has to clean up

_Numbers = Mapping[tuple[int, int], tuple[int, int]]
"""The row and the unit of each message, by worker and the message's number in its program."""


@dataclass(frozen=True, eq=False)
class _Compared:
    """What a message of an earlier round was, for comparison with late ones of that round."""

    worker: int
    content: int | None
    vector: Array


@final
class LateMessages(Resumable):
    """Takes the messages of earlier rounds, and hands over those that can be used.

    Arguments:
        pool: the workers.
        monitor: compares late messages with the others of their round, where messages are compared.
        log: the log of the current step, which has those that are refused.

    Attributes:
        rounds: the rounds that may still be answered.
    """

    checkpointed = ("rounds", "_compared", "_asked", "_newest")
    records = (_Compared,)

    def __init__(self, pool: WorkerPool, monitor: HealthMonitor, log: StepLog) -> None:
        self.rounds = RoundTable(carried=pool.engine.late != "preempt")
        self._pool, self._monitor, self._log = pool, monitor, log
        self._waiting: list[LateMessage] = []
        self._compared: dict[int, list[_Compared]] = {}  # by round
        self._asked: set[int] = set()  # rounds whose late answers the optimizer wants
        self._newest: dict[int, int] = {}  # of each content, the newest round of which the optimizer knows it

    @property
    def _greatest_age(self) -> float:
        """The greatest age of messages that the aggregation uses, in steps; 0 if it uses none."""
        aggregation = self._pool.assignment.scheme.aggregation
        return aggregation.greatest_age if aggregation.wants_late else 0

    def begin(self, current: Round) -> None:
        """Record that a round begins; what came in one that was broken off for a resized code belongs to it."""
        order, assignment = current.order, current.assignment
        self.rounds.add(order.round, current.begin, assignment, self._greatest_age)
        if order.note.get(LATE_PARTS, False):
            self._asked.add(order.round)
        else:
            self._asked.clear()  # the optimizer has gone over to other orders
        waiting, self._waiting = self._waiting, []
        for message in waiting:
            row = assignment.row_of(message.content, message.worker)
            if row is not None:
                place, age = assignment.layout.positions[row], order.step - message.step
                self._waiting.append(replace(message, message=row, positions=place, age=age))
                current.view.add_late(LateArrival(row, message.step, message.order_round, age))

    def take(self, event: Arrived, current: Round) -> ArrivalRow | None:
        """Take a message; return its row, or None if its round is not known any more.

        Arguments:
            event: the message.
            current: the round in which it arrived.
        """
        begin, generation, numbers = self.rounds.find(event.order_round)
        number = numbers.get((event.worker, event.spec.message))
        if number is None:
            return None
        row = ArrivalRow.of(event, *number, begin, taken=current.order.round, place=current.came, late=True)
        assignment = current.assignment
        same = generation == assignment.generation
        now = row.message if same else assignment.row_of(event.spec.content, event.worker)
        reason = "" if now is None else self._keep(event, now, current)
        if reason:
            text = f"message {now} of worker {event.worker}, of step {event.step}, is refused: {reason}"
            self._log.notice_failure("refused", event.worker, text, messages=[now], reason=reason)
        return replace(row, refused=bool(reason))

    def _keep(self, event: Arrived, row: int, current: Round) -> str:
        """Keep a message whose content some worker still has; return why it cannot be used, or "".

        Arguments:
            event: the message.
            row: the row of the code with its content now.
            current: the round in which it arrived.
        """
        age, content = current.order.step - event.step, event.spec.content
        aggregated = current.assignment.scheme.aggregation.wants_late
        asked = not aggregated and event.order_round in self._asked
        if aggregated and age > self._greatest_age:
            return ""
        if asked and (content is None or event.order_round <= self._newest.get(content, -1)):
            return ""  # of these tasks, something newer is known
        if aggregated or asked:
            try:
                vector = np.array(vector_of(event))  # a copy: the slot is released at once
            except MessageLost as lost:
                return str(lost)
            if reason := self._why_not(event, row, vector, current):
                return reason
            place = current.assignment.layout.positions[row]
            self._waiting.append(
                LateMessage(
                    event.worker, row, content, event.step, event.order_round, age, place, vector, event.spec.vectors
                )
            )
        if asked and content is not None:
            self._newest[content] = event.order_round
        current.view.add_late(LateArrival(row, event.step, event.order_round, age))
        return ""

    def _why_not(self, event: Arrived, row: int, vector: Array, current: Round) -> str:
        """Return why a message cannot be used: it is not finite, or others of its round contradict it; else ""."""
        if not finite(vector):
            return NOT_FINITE
        if not self._monitor.verifies:
            return ""
        earlier = self._compared.setdefault(event.order_round, [])
        by_row = {row: vector}  # that round's messages, by the rows that have their content now
        for one in earlier:
            other = current.assignment.row_of(one.content, one.worker)
            if other is not None:
                by_row.setdefault(other, one.vector)
        reason = self._monitor.examine_earlier(dict(sorted(by_row.items())), row, current)
        if not reason:
            earlier.append(_Compared(event.worker, event.spec.content, vector))
        return reason

    def end(self, current: Round) -> None:
        """Record what came in time: late messages of the round are compared with it, or superseded by it."""
        number, arrivals = current.order.round, current.arrivals.values()
        if number in self._asked:
            self._newest |= {one.spec.content: number for one in arrivals if one.spec.content is not None}
        if self._monitor.verifies and self._greatest_age:
            self._compared[number] = [_Compared(one.worker, one.spec.content, one.read().copy()) for one in arrivals]
            oldest = number - min(self._greatest_age, MOST_COMPARED)
            self._compared = {past: kept for past, kept in self._compared.items() if past >= oldest}

    def deliver(self) -> list[LateMessage]:
        """Hand over what is kept, in the order of steps and rows, so that equal arrivals give equal bits."""
        waiting, self._waiting = self._waiting, []
        return sorted(waiting, key=lambda one: (one.step, one.order_round, one.message, one.worker))

    def state(self) -> dict[str, Any]:
        """Return everything that `restore` needs; between two steps no messages are waiting."""
        self.rounds.forget_old(self._pool.assignment.worker_ids, self._greatest_age)
        return super().state()


@final
class RoundTable(Resumable):
    """The rounds that may still be answered, in bounded memory.

    A round is forgotten when no worker can be working on it any more: each is at a newer order than the last one that
    it has answered, whether late work is carried on or not.

    Arguments:
        carried: whether workers finish an order although newer ones are out.
    """

    checkpointed = ("_first", "_assignments", "_answered", "_handed")

    def __init__(self, carried: bool) -> None:
        self._carried = carried
        self._first = 0  # the oldest round that is distinguished
        self._begins = array("d")
        self._assignments: list[tuple[int, int, _Numbers]] = []  # first round, generation, numbers
        self._answered: dict[int, int] = {}  # by worker: the newest round that it has answered completely
        self._handed: dict[
            int, int
        ] = {}  # by worker: the round that it works on, where orders are handed out one by one
        self._look = _SPARE

    def add(self, number: int, begin: float, assignment: Assignment, greatest_age: float) -> None:
        """Record that a round begins.

        Arguments:
            number: number of the round: one more than the last one's.
            begin: when it begins, in the engine's seconds.
            assignment: the workers that it is submitted to.
            greatest_age: greatest age, in rounds, of messages that are used; these are distinguished.
        """
        if not self._begins or number != self._first + len(self._begins):
            self._first, self._assignments = number, []
            del self._begins[:]
        self._begins.append(begin)
        if not self._assignments or self._assignments[-1][1] != assignment.generation:
            self._assignments.append((number, assignment.generation, assignment.numbers))
            del self._assignments[:-_GENERATIONS]
        if len(self._begins) > self._look:
            self.forget_old(assignment.worker_ids, greatest_age)
            self._look = 2 * len(self._begins) + _SPARE

    def find(self, number: int) -> tuple[float, int, _Numbers]:
        """Return when a round began, the generation of its assignment, and the row and the unit of each message.

        Of a round that is not known any more, no message is.
        """
        place = number - self._first
        if 0 <= place < len(self._begins):
            for first, generation, numbers in reversed(self._assignments):
                if first <= number:
                    return self._begins[place], generation, numbers
        return 0.0, 0, {}

    def answered(self, worker: int, number: int) -> None:
        """Record that a worker has sent all that a round asks of it, so that it works on no order up to that round."""
        if number > self._answered.get(worker, -1):
            self._answered[worker] = number
        if self._handed.get(worker, math.inf) <= number:
            del self._handed[worker]

    def hand(self, workers: Iterable[int], number: int) -> None:
        """Record that workers were handed the order of a round, where they are not simply sent every order."""
        self._handed.update(dict.fromkeys(workers, number))

    def ready(self, workers: Iterable[int], number: int, kept: float) -> list[int]:
        """Return the workers to whom the order of a round can be handed.

        Arguments:
            workers: those to choose from.
            number: the round; who has answered it is left out.
            kept: how many rounds old an order must be, that a worker is at, so that it keeps it.
        """
        free = [worker for worker in workers if number - self._handed.get(worker, -math.inf) > min(kept, MOST)]
        return [worker for worker in free if self._answered.get(worker, -1) < number]

    def at_work(self, workers: Iterable[int]) -> bool:
        """Return whether any of some workers works on an order that it was handed."""
        return any(worker in self._handed for worker in workers)

    def joined(self, worker: int, number: int) -> None:
        """Record that a worker is new, or has been replaced: the given round is its first."""
        self._answered[worker] = number - 1
        self._handed.pop(worker, None)

    def forget_old(self, workers: Iterable[int], greatest_age: float) -> None:
        """Forget the rounds that no worker is working on any more.

        Arguments:
            workers: the workers that orders go to.
            greatest_age: greatest age, in rounds, of messages that are used.
        """
        end = self._first + len(self._begins)
        oldest = end - REMEMBERED
        if self._carried:
            oldest = min([oldest, *(self._answered.get(worker, -1) + 1 for worker in workers)])
        elif greatest_age > REMEMBERED:
            oldest = end - int(min(greatest_age, MOST))
        drop = max(oldest, end - MOST) - self._first
        if drop > 0:
            del self._begins[:drop]
            self._first += drop
            past = [one for one in self._assignments if one[0] <= self._first]
            self._assignments = [*past[-1:], *self._assignments[len(past) :]]

    def state(self) -> dict[str, Any]:
        return {**super().state(), "begins": np.array(self._begins, dtype=np.float64)}

    def restore(self, state: Mapping[str, Any]) -> None:
        super().restore(state)
        self._begins = array("d", np.asarray(state["begins"], dtype=np.float64).tobytes())
        self._look = 2 * len(self._begins) + _SPARE
