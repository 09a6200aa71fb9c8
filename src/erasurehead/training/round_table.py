"""The rounds that may still be answered late: all that some worker may still be working on, in bounded memory."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from erasurehead._internal.arrays import Tree
from erasurehead.training.rows import ArrivalRow

if TYPE_CHECKING:
    from erasurehead.engines.base import Arrived
    from erasurehead.training.assignment import Assignment

REMEMBERED = 1_000
"""Number of rounds that are always distinguished, whichever workers are busy."""

MOST = 1 << 20
"""Largest number of rounds that are distinguished, however late a worker is: 8 megabytes."""

_SPARE = 512  # rounds that may be kept beyond those needed, so that not every round has to clean up

_Numbers = Mapping[tuple[int, int], tuple[int, int]]
"""The row and the unit of each message, by worker and the message's number in its program."""


@dataclass(frozen=True, eq=False)
class Begun:
    """A round that may still be answered late.

    Attributes:
        begin: when it began, in the engine's seconds.
        generation: generation of its assignment.
        numbers: the row and the unit of each message at the time, by worker and the message's number in its program.
    """

    begin: float
    generation: int
    numbers: _Numbers

    def late_row(self, event: Arrived, taken: int, place: int) -> ArrivalRow | None:
        """Return the row of a late message, or None if it is not of this round.

        Arguments:
            event: the message.
            taken: the round in which it arrived.
            place: how many messages had arrived in that round before it.
        """
        number = self.numbers.get((event.worker, event.spec.message))
        if number is None:
            return None
        return ArrivalRow.of(event, *number, self.begin, taken=taken, place=place, late=True)


class RoundTable:
    """Tells to which round a late message belongs.

    A round is forgotten when no worker can be working on it any more: each is at a newer order than the last one that
    it has answered, whether late work is carried on or not.

    Arguments:
        carried: whether workers finish an order although newer ones are out.
    """

    def __init__(self, carried: bool) -> None:
        self._carried = carried
        self._first = 0  # the oldest round that is distinguished
        self._begins = array("d")
        self._assignments: list[tuple[int, int, _Numbers]] = []  # first round, generation, numbers
        self._answered: dict[int, int] = {}  # by worker: the newest round that it has answered completely
        self._look = _SPARE

    def __len__(self) -> int:
        return len(self._begins)

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
        if len(self._begins) > self._look:
            self.forget_old(assignment.worker_ids, greatest_age)
            self._look = 2 * len(self._begins) + _SPARE

    def find(self, number: int) -> Begun | None:
        """Return a round, or None if it is no longer known."""
        place = number - self._first
        if not 0 <= place < len(self._begins):
            return None
        generation, numbers = next((g, n) for first, g, n in reversed(self._assignments) if first <= number)
        return Begun(self._begins[place], generation, numbers)

    def answered(self, worker: int, number: int) -> None:
        """Record that a worker has sent all that a round asks of it, so that it works on no order up to that round."""
        if number > self._answered.get(worker, -1):
            self._answered[worker] = number

    def joined(self, worker: int, number: int) -> None:
        """Record that a worker is new, or has been replaced: the given round is its first."""
        self._answered[worker] = number - 1

    def forget_old(self, workers: Iterable[int], greatest_age: float = 0.0) -> None:
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
            held = [one for one in self._assignments if one[0] <= self._first]
            self._assignments = [*held[-1:], *self._assignments[len(held) :]]

    def state(self) -> dict[str, Tree]:
        """Return everything that `restore` needs."""
        return {
            "first": self._first,
            "begins": np.array(self._begins, dtype=np.float64),
            "assignments": [
                [first, generation, [[*message, *number] for message, number in numbers.items()]]
                for first, generation, numbers in self._assignments
            ],
            "answered": [[worker, number] for worker, number in self._answered.items()],
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from what `state` returned."""
        self._first = int(state["first"])
        self._begins = array("d", np.asarray(state["begins"], dtype=np.float64).tobytes())
        self._assignments = [
            (int(first), int(generation), {(worker, message): (row, unit) for worker, message, row, unit in table})
            for first, generation, table in state["assignments"]
        ]
        self._answered = {int(worker): int(number) for worker, number in state["answered"]}
        self._look = 2 * len(self._begins) + _SPARE
