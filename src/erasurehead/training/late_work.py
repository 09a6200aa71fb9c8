"""Messages of earlier rounds on their way to the aggregation: checked when they come, passed on when waiting ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from erasurehead._internal.arrays import Array, Tree, finite
from erasurehead.engines.base import Arrived, MessageLost
from erasurehead.faults.byzantine import NOT_FINITE
from erasurehead.schemes.aggregation import Aggregation, LateMessage
from erasurehead.schemes.wait_rules.view import LateArrival
from erasurehead.training.assignment import Assignment
from erasurehead.training.health import HealthMonitor
from erasurehead.training.round_state import Round
from erasurehead.training.worker_pool import WorkerPool

MOST_COMPARED = 100
"""Number of rounds whose messages are kept for comparison with late ones, where messages are compared at all."""


@dataclass(frozen=True, eq=False)
class _Said:
    """What a message said in its round, for comparison with late ones."""

    worker: int
    content: int | None
    vector: Array


class LateWorkTaken:
    """Takes late messages for an aggregation that wants them.

    Arguments:
        pool: the worker pool of the run.
    """

    def __init__(self, pool: WorkerPool) -> None:
        self._pool = pool
        self._waiting: list[LateMessage] = []
        self._said: dict[int, list[_Said]] = {}  # by round

    @property
    def greatest_age(self) -> float:
        """The greatest age of messages that are used, in steps; 0 if none are."""
        aggregation = self._pool.assignment.scheme.aggregation
        return aggregation.greatest_age if aggregation.wants_late else 0

    def take(self, event: Arrived, row: int, current: Round, monitor: HealthMonitor) -> str:
        """Take a message; return why it cannot be used, or "".

        Arguments:
            event: the message.
            row: the row of the code with the message's content.
            current: the round in which it arrived.
            monitor: compares it with the others of its round.
        """
        vector = read_late(event)
        if isinstance(vector, str):
            return vector
        if monitor.verifies:
            said = self._said.setdefault(event.order_round, [])
            said.append(_Said(event.worker, event.spec.content, vector))
            rows = _rows_now(said, current.assignment, row)
            if why := monitor.examine_earlier(rows, row, current):
                said.pop()
                return why
        self._waiting.append(
            LateMessage(
                worker=event.worker,
                message=row,
                content=event.spec.content,
                step=event.step,
                order_round=event.order_round,
                age=current.order.step - event.step,
                positions=current.assignment.layout.positions[row],
                vector=vector,
            )
        )
        return ""

    def deliver(self, aggregation: Aggregation) -> list[int]:
        """Pass on the late messages, in the order of steps and rows, so that equal arrivals give equal bits.

        Returns:
            The rows of these messages.
        """
        waiting, self._waiting = self._waiting, []
        waiting.sort(key=lambda one: (one.step, one.order_round, one.message, one.worker))
        for message in waiting:
            aggregation.late(message)
        return [message.message for message in waiting]

    def reassigned(self, assignment: Assignment, step: int) -> list[LateArrival]:
        """Carry over, into a new round, what arrived in one that was broken off because the code was resized.

        Returns:
            The late arrivals that are still valid.
        """
        kept: list[LateMessage] = []
        for message in self._waiting:
            row = assignment.row_of(message.content, message.worker)
            if row is not None:
                place = assignment.layout.positions[row]
                kept.append(replace(message, message=row, positions=place, age=step - message.step))
        self._waiting = kept
        return [LateArrival(one.message, one.step, one.order_round, one.age) for one in kept]

    def keep(self, current: Round) -> None:
        """Keep the messages of a finished round, if messages are compared."""
        if not (self._pool.fault_policy.verify and self.greatest_age):
            return
        self._said[current.order.round] = [
            _Said(event.worker, event.spec.content, event.read().copy()) for event in current.arrivals.values()
        ]
        oldest = current.order.round - min(self.greatest_age, MOST_COMPARED)
        self._said = {number: said for number, said in self._said.items() if number >= oldest}

    def state(self) -> dict[str, Tree]:
        """Return everything that `restore` needs; between two steps no late messages are waiting."""
        return {
            "said": [
                [number, [[one.worker, one.content, one.vector] for one in said]] for number, said in self._said.items()
            ]
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from what `state` returned."""
        self._said = {
            int(number): [_Said(int(worker), content, np.asarray(vector)) for worker, content, vector in said]
            for number, said in state["said"]
        }


def read_late(event: Arrived) -> Array | str:
    """Return a copy of a message's vector, as its slot is released at once; or why it cannot be used."""
    try:
        vector = np.array(event.read())
    except MessageLost as lost:
        return str(lost)
    return vector if finite(vector) else NOT_FINITE


def _rows_now(said: Sequence[_Said], assignment: Assignment, last: int) -> dict[int, Array]:
    """Return the vectors of an earlier round by the rows that have their content now.

    Arguments:
        said: the messages of that round.
        assignment: the current assignment.
        last: the row of the last message.
    """
    rows: dict[int, Array] = {last: said[-1].vector}
    for one in said[:-1]:
        row = assignment.row_of(one.content, one.worker)
        if row is not None and row not in rows:
            rows[row] = one.vector
    return dict(sorted(rows.items()))
