"""Two workers whose equal messages differ: by halves, the task is found about which they contradict each other.

What a worker has sent is a sum over its tasks, and it is bound to that. Both are asked for one element of the sum over
the first half of the tasks, the element in which their messages differ most, which nobody could know before; what they
claim of the other half is the rest. In one of the halves they differ by at least half as much as before, and that one
is halved next. Of the single task that is left, the right number is computed where neither can lie: whoever is far from
it has lied, whether it answered as it had lied before, or truthfully, so that the lie is in the rest. (The tournament
of Hofmeister, Massny, Yaakobi and Bitar, arXiv:2401.02380.)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import final

import numpy as np

from erasurehead._internal.arrays import Array


@final
class Bisection:
    """The search for the task about which two workers contradict each other.

    Arguments:
        messages: the rows of their messages.
        vectors: what they hold.
        n_tasks: number of tasks that each is the sum over.
        rounding: how far an honest claim may be from what is computed here, relative to the largest element of the
            messages, and of what is claimed: sums over samples in another order round otherwise.

    Attributes:
        element: the element of the messages that is looked at.
        first: number, among the tasks of the message, of the first that is in question.
        last: likewise, one more than that of the last.
        rounds: how often they were asked.
    """

    def __init__(self, messages: tuple[int, int], vectors: tuple[Array, Array], n_tasks: int, rounding: float) -> None:
        self.messages = messages
        with np.errstate(over="ignore"):
            self.element = int(np.abs(vectors[0] - vectors[1]).argmax())
        self.first, self.last, self.rounds = 0, n_tasks, 0
        self._rounding, self._scale = rounding, 0.0
        self._seen([float(np.abs(vector).max()) for vector in vectors])
        self.claims: Sequence[float] = [float(vector[self.element]) for vector in vectors]

    @property
    def found(self) -> bool:
        """Whether a single task is left."""
        return self.last - self.first == 1

    @property
    def middle(self) -> int:
        """The task up to which the sum is asked for, from the first one in question on."""
        return (self.first + self.last) // 2

    def hear(self, answers: Sequence[float]) -> None:
        """Take the two answers, and go on with the half in which they differ more."""
        rest = [claim - answer for claim, answer in zip(self.claims, self._seen(answers), strict=True)]
        self.rounds += 1
        if _apart(answers) >= _apart(rest):
            self.claims, self.last = answers, self.middle
        else:
            self.claims, self.first = self._seen(rest), self.middle

    def contradicted(self, truth: float) -> list[int]:
        """Return the places, 0 or 1, of those whose claim about the task that is left is wrong; none within rounding.

        Arguments:
            truth: the number that was computed here.
        """
        if not math.isfinite(truth):
            return []
        self._seen([truth])
        bound = self._rounding * self._scale
        return [place for place, claim in enumerate(self.claims) if not abs(claim - truth) <= bound]

    def _seen(self, numbers: Sequence[float]) -> Sequence[float]:
        self._scale = max(self._scale, *(abs(number) for number in numbers if math.isfinite(number)), 0.0)
        return numbers


def _apart(claims: Sequence[float]) -> float:
    """Return how much two claims differ; inf if one of them is no number."""
    distance = abs(claims[0] - claims[1])
    return math.inf if math.isnan(distance) else distance
