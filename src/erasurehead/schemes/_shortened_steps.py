"""Steps that are shortened by the age of what they use: one step size then suits all delays."""

from __future__ import annotations

from typing import final

from erasurehead._internal.resumable import Resumable
from erasurehead.errors import InvalidArgument


@final
class ShortenedSteps(Resumable):
    """Says which fraction of the optimizer's step size a gradient of some age may be given.

    Let f_k be the fraction that step k is given. A gradient of age a is given at most 1 / (a + 1), and no more than the
    a steps since its model have left of 1: f_k = min(1 / (a + 1), 1 - (f_{k-a} + ... + f_{k-1})). So the steps that a
    gradient has missed never add up to more than one step size, whether its delay was known beforehand or not. This is
    the second policy of Wu, Magnusson, Feyzmahdavian and Johansson, "Delay-adaptive step-sizes for asynchronous
    learning" (ICML 2022).

    Arguments:
        greatest_age: the greatest age that is asked for, in steps; older steps are forgotten.
    """

    checkpointed = ("_first", "_sums")

    def __init__(self, greatest_age: int) -> None:
        self._greatest_age = greatest_age
        self._first = 0  # the step of the first of these
        self._sums = [0.0]  # for each step the fractions of all steps before it

    def fraction(self, age: int, step: int) -> float:
        """Return the fraction, in [0, 1], for a gradient of some age in a step."""
        return max(0.0, min(1.0 / (age + 1.0), 1.0 - (self._sum(step) - self._sum(step - age))))

    def _sum(self, step: int) -> float:
        """Return the sum of the fractions of all steps before a given one, up to a constant."""
        place = min(max(step - self._first, 0), len(self._sums) - 1)
        return self._sums[place]

    def take(self, step: int, fraction: float) -> None:
        """Record a step's fraction; steps in between that were not recorded have a fraction of 0."""
        wanted = step - self._first + 1
        if wanted < 1:
            sentence = f"step {step} is before step {self._first}, before which nothing is kept."
            raise InvalidArgument("step", f"must be at least {self._first}", step, sentence=sentence)
        self._sums += [self._sums[-1]] * (wanted - len(self._sums))
        self._sums[wanted:] = [self._sums[wanted - 1] + fraction]
        spare = len(self._sums) - 2 * (self._greatest_age + 2)
        if spare > 0:
            # Subtracted from the sums as well, so that they do not lose digits as they grow.
            drop = len(self._sums) - self._greatest_age - 2
            base = self._sums[drop]
            self._sums = [one - base for one in self._sums[drop:]]
            self._first += drop
