"""Asynchronous training: a step at every message that is not too old, whatever model its gradient was computed at."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import final

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead.decoding._base import Decoding
from erasurehead.decoding._layout import Layout
from erasurehead.engines import Order
from erasurehead.errors import check_count
from erasurehead.schemes._aggregation import Aggregation, LateMessage, arrived_vectors
from erasurehead.schemes._recorded import RecordedArrival, RecordedStep
from erasurehead.schemes._shortened_steps import ShortenedSteps

GREATEST_AGE = 1_000
"""Default of the greatest age of a message, in steps; older ones are dropped."""


@final
class Asynchronous(Aggregation):
    """The mean of the messages that have come, whatever their age, each scaled up to all tasks.

    With `adapt`, the older the messages of a step are, the shorter it is (`ShortenedSteps`; Wu, Magnusson,
    Feyzmahdavian and Johansson, ICML 2022): a step size that converges without delays converges with any bounded
    delays, known beforehand or not. Their analysis requires a step size below one over the curvature; where tasks
    differ, the method ends at a distance from the optimum that shrinks with the step size, like any stochastic method.

    Without `adapt`, every message is given a whole step: the asynchronous method as it is usually run, and with a
    small `greatest_age` Ringmaster ASGD (`schemes.ringmaster`). Rennala (`schemes.rennala`), which waits for a batch of
    gradients at one point and takes no late ones, needs no aggregation of its own.

    As published, a worker that has answered is handed the model that its own message has moved; if the message is too
    old to be used, the newest one. Without `after_own_step` it does not wait for the coordinator, but goes on at once
    from the newest model, which its message has not moved yet.

    With `rescale`, steps are the shorter, the faster their worker is: in proportion to the mean time of its answers so
    far, and whole ones for the slowest. Each worker then moves the model equally much in the long run, and the method
    converges to the optimum also where tasks differ (rescaled ASGD, arXiv:2605.13434, which knows these times).

    The recorded loss is the mean of what the messages say, at the models where they were computed.

    Arguments:
        adapt: whether old messages are given shorter steps.
        greatest_age: the greatest age of a message, in steps, at least 0; older ones are dropped.
        after_own_step: whether a worker that has answered waits for the step that its message makes.
        rescale: whether faster workers are given shorter steps.
    """

    wants_late = True

    checkpointed = ("_steps", "_took")

    def __init__(
        self,
        adapt: bool = True,
        greatest_age: int = GREATEST_AGE,
        after_own_step: bool = True,
        rescale: bool = False,
    ) -> None:
        self.adapt, self.after_own_step, self._rescale = adapt, after_own_step, rescale
        self._took: dict[int, tuple[int, float]] = {}  # by message: how often it came, and the mean seconds it took
        self.greatest_age = check_count("greatest_age", greatest_age, at_least=0)
        self._late: list[LateMessage] = []
        self._steps = ShortenedSteps(self.greatest_age)
        self._share = 1.0

    def __repr__(self) -> str:
        more = "" if self.after_own_step else ", after_own_step=False"
        more += ", rescale=True" if self._rescale else ""
        return f"Asynchronous(adapt={self.adapt}, greatest_age={self.greatest_age}{more})"

    def begin(self) -> Asynchronous:
        return Asynchronous(self.adapt, int(self.greatest_age), self.after_own_step, self._rescale)

    @property
    def share(self) -> float:
        return self._share

    def lag(self, n_workers: int) -> float:
        return 0.0 if self.adapt else min(self.greatest_age, 2.0 * n_workers - 2.0)

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
        shares = [self._steps.fraction(age, order.step) if self.adapt else self._pace(row) for row, age, _ in taken]
        total = math.fsum(shares)
        self._share = total / len(taken) if taken else 1.0
        self._steps.take(order.step, self._share if taken else 0.0)
        if total <= 0.0:
            return None
        messages = np.array([message for message, _, _ in taken], dtype=np.int64)
        parts = np.array(shares) / total
        weights = parts * code.n_tasks / code.totals[messages].T
        mean = Decoding(code, messages, weights, residual=0.0)
        return layout.decode(mean, [vector for _, _, vector in taken])

    def _pace(self, message: int) -> float:
        """Return how long a message takes, as a share of the longest that one does; 1 while it is not known."""
        longest = max((seconds for _, seconds in self._took.values()), default=0.0)
        return self._took[message][1] / longest if message in self._took and longest > 0.0 else 1.0

    def learn(self, step: RecordedStep, arrivals: Sequence[RecordedArrival]) -> None:
        for row in arrivals if self._rescale else ():
            if row.taken is not None:
                count, mean = self._took.get(row.message, (0, 0.0))
                seconds = row.seconds - (row.started or 0.0)
                self._took[row.message] = count + 1, mean + (seconds - mean) / (count + 1)
