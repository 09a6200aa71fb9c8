"""Asynchronous training: a step at every message, along the gradient of whatever model it was computed at."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, final

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead.decoding.base import Decoding
from erasurehead.decoding.layout import Layout
from erasurehead.engines.base import Order
from erasurehead.errors import InvalidArgument, check_count
from erasurehead.schemes.aggregation import Aggregation, LateMessage, arrived_vectors

GREATEST_AGE = 1_000
"""Default of the greatest age of a message, in steps; older ones are dropped."""


@final
class Asynchronous(Aggregation):
    """The mean of the messages that have come, whatever their age, each scaled up to all tasks.

    With `adapt`, the older the messages of a step are, the shorter it is. Let f_k be the fraction of the optimizer's
    step size that step k is given. A message of age a is given at most 1 / (a + 1), and no more than the a steps since
    its model have left of 1: f_k = min(1 / (a + 1), 1 - (f_{k-a} + ... + f_{k-1})). So the steps that a gradient has
    missed never add up to more than one step size, and a step size that converges without delays converges with any
    bounded delays, known beforehand or not. This is the second policy of Wu, Magnusson, Feyzmahdavian and Johansson,
    "Delay-adaptive step-sizes for asynchronous learning" (ICML 2022), whose analysis requires a step size below one
    over the curvature; where tasks differ, the method ends at a distance from the optimum that shrinks with the step
    size, like any stochastic method.

    Without `adapt`, every message is given a whole step: the asynchronous method as it is usually run.

    The recorded loss is the mean of what the messages say, at the models where they were computed.

    Arguments:
        adapt: whether old messages are given shorter steps.
        greatest_age: the greatest age of a message, in steps, at least 0; older ones are dropped.
    """

    wants_late = True

    def __init__(self, adapt: bool = True, greatest_age: int = GREATEST_AGE) -> None:
        self.adapt = adapt
        self.greatest_age = check_count("greatest_age", greatest_age, at_least=0)
        self._late: list[LateMessage] = []
        self._first = 0  # the step of the first of these
        self._sums = [0.0]  # for each step the shares of all steps before it
        self._share = 1.0

    def __repr__(self) -> str:
        return f"Asynchronous(adapt={self.adapt}, greatest_age={self.greatest_age})"

    def begin(self) -> Asynchronous:
        return Asynchronous(self.adapt, int(self.greatest_age))

    @property
    def share(self) -> float:
        return self._share

    def late(self, message: LateMessage) -> None:
        self._late.append(message)

    def estimate(self, decoding: Decoding, vectors: Sequence[Array], layout: Layout, order: Order) -> Array | None:
        late, self._late = self._late, []
        here = arrived_vectors(decoding, vectors)
        code = decoding.code
        # A message whose coefficients sum to 0, such as one without tasks, says nothing about the gradient.
        taken = [(one.message, one.age, one.vector) for one in late]
        taken += [(message, 0, here[message]) for message in sorted(here)]
        taken = [one for one in taken if code.totals[one[0]].all()]
        shares = [self._share_of(age, order.step) for _, age, _ in taken]
        total = math.fsum(shares)
        self._share = total / len(taken) if taken else 1.0
        self._extend(order.step, self._share if taken else 0.0)
        if total <= 0.0:
            return None
        messages = np.array([message for message, _, _ in taken], dtype=np.int64)
        parts = np.array(shares) / total
        weights = parts * code.n_tasks / code.totals[messages].T
        mean = Decoding(code, messages, weights, residual=0.0)
        return layout.decode(mean, [vector for _, _, vector in taken])

    def _share_of(self, age: int, step: int) -> float:
        """Return the fraction of the step size that a message may be given."""
        if not self.adapt:
            return 1.0
        return max(0.0, min(1.0 / (age + 1.0), 1.0 - (self._sum(step) - self._sum(step - age))))

    def _sum(self, step: int) -> float:
        """Return the sum of the shares of all steps before a given one, up to a constant."""
        place = min(max(step - self._first, 0), len(self._sums) - 1)
        return self._sums[place]

    def _extend(self, step: int, share: float) -> None:
        """Record a step's share; steps in between that were not estimated have a share of 0."""
        wanted = step - self._first + 1
        if wanted < 1:
            said = f"step {step} is before step {self._first}, before which nothing is kept."
            raise InvalidArgument("step", f"must be at least {self._first}", step, sentence=said)
        self._sums += [self._sums[-1]] * (wanted - len(self._sums))
        self._sums[wanted:] = [self._sums[wanted - 1] + share]
        spare = len(self._sums) - 2 * (int(self.greatest_age) + 2)
        if spare > 0:
            # Subtracted from the sums as well, so that they do not lose digits as they grow.
            drop = len(self._sums) - int(self.greatest_age) - 2
            base = self._sums[drop]
            self._sums = [one - base for one in self._sums[drop:]]
            self._first += drop

    def state(self) -> dict[str, Any]:
        return {"first": self._first, "sums": np.array(self._sums)}

    def restore(self, state: Mapping[str, Any]) -> None:
        self._first = int(state["first"])
        self._sums = np.asarray(state["sums"], dtype=np.float64).tolist()
