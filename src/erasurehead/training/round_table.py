"""The rounds that may still be answered, late: as many as somebody may still be at, in bounded memory."""

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
"""Rounds that are always distinguished, whoever is at work."""

MOST = 1 << 20
"""The most rounds that are distinguished, however late a worker is: 8 megabytes."""

_SPARE = 512  # rounds more than are needed that may be kept: it is not looked after each

_Numbers = Mapping[tuple[int, int], tuple[int, int]]
"""The row and the unit of each message, by worker and the number that its program gives it."""


@dataclass(frozen=True, eq=False)
class Begun:
    """A round that may still be answered, late.

    Attributes:
        begin: when it began, in the engine's seconds.
        generation: of its assignment.
        numbers: the row and the unit of each message then, by worker and the number that its program gives it.
    """

    begin: float
    generation: int
    numbers: _Numbers

    def late_row(self, event: Arrived, taken: int, place: int) -> ArrivalRow | None:
        """Return the row of a message that is late, or None if it was none of this round's.

        Arguments:
            event: the message.
            taken: the round in which it has come.
            place: how many messages had come in that round before it.
        """
        number = self.numbers.get((event.worker, event.spec.message))
        if number is None:
            return None
        return ArrivalRow.of(event, *number, self.begin, taken=taken, place=place, late=True)


class RoundTable:
    """Tells of which round a late message is.

    A round is forgotten when no worker can be at it any more: each is at an order that is newer than the last that it
    has answered, as late work is carried on or not.

    Arguments:
        carried: whether workers finish an order when newer ones are out.
    """

    def __init__(self, carried: bool) -> None:
        self._carried = carried
        self._first = 0  # the oldest round that is distinguished
        self._begins = array("d")
        self._assignments: list[tuple[int, int, _Numbers]] = []  # first round, generation, numbers
        self._answered: dict[int, int] = {}  # by worker the newest round that it has answered in full
        self._look = _SPARE

    def __len__(self) -> int:
        return len(self._begins)

    def add(self, number: int, begin: float, assignment: Assignment, greatest_age: float) -> None:
        """Record that a round begins.

        Arguments:
            number: of the round: one more than that of the last.
            begin: in the engine's seconds.
            assignment: of whom it is asked.
            greatest_age: of messages that are of use, in rounds; they are distinguished if somebody may send them.
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
        """Record that a worker has sent all that a round asks of it, so that it is at no order up to there."""
        if number > self._answered.get(worker, -1):
            self._answered[worker] = number

    def joined(self, worker: int, number: int) -> None:
        """Record that a worker is new, or another has its number: the given round is the first that it is asked."""
        self._answered[worker] = number - 1

    def forget_old(self, workers: Iterable[int], greatest_age: float = 0.0) -> None:
        """Forget the rounds that nobody is at any more.

        Arguments:
            workers: that orders go to.
            greatest_age: of messages that are of use, in rounds.
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
        """Return all that `restore` needs."""
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
        """Continue from a state."""
        self._first = int(state["first"])
        self._begins = array("d", np.asarray(state["begins"], dtype=np.float64).tobytes())
        self._assignments = [
            (int(first), int(generation), {(worker, message): (row, unit) for worker, message, row, unit in table})
            for first, generation, table in state["assignments"]
        ]
        self._answered = {int(worker): int(number) for worker, number in state["answered"]}
        self._look = 2 * len(self._begins) + _SPARE
