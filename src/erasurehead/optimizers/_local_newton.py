"""Newton steps of a few workers' own data, which stand for the inverse Hessian where L-BFGS begins with a diagonal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead._internal.resumable import Resumable
from erasurehead.optimizers._base import PartialGradient

_ARRIVALS, _SHARE = 3, 0.3  # parts whose steps are waited for, and of all parts at most
_MOST = 256  # products with second derivatives in a step; one in the first
_MORE = 16  # times as many products as before, in each of the next steps
_PATIENCE = 8  # steps without, if those from few arrivals did not turn out to be slow
_UNSURE, _SURE = 1.0, -3.0  # log of the odds that work takes time, up to which one product, or more, are asked for
_ROUNDS, _PROGRESS = 12, 0.5  # such steps, over which what they promise must fall to half, or they are given up
_SHORT, _LONG = 0.25, 0.5  # of a whole gradient's time: a shorter answer allows more products, a longer one is too long
_FIRST_SCALE, _LEAST_SCALE, _MOST_SCALE = 0.5, 1e-3, 1.5


@final
class LocalNewton(Resumable):
    """Asks a few parts of the data for Newton steps of their own, each as if all data were like its own.

    L-BFGS multiplies a vector by the inverse of an initial matrix, which is usually a diagonal. Here, that product is
    the mean of what the first workers answer: each solves, by a few conjugate gradients, the Newton system of its own
    tasks for this vector (`Shard.newton_step`). This is GIANT (Wang, Roosta, Xu and Mahoney, "GIANT: Globally improved
    approximate Newton method for distributed optimization", NeurIPS 2018), after DANE (Shamir, Srebro and Zhang,
    ICML 2014), with two differences: the means of *different* few workers serve, as they only begin the matrix, which
    the pairs of exact gradients correct; and whoever is slow is not waited for. The more alike the parts' data are, the
    fewer steps are needed; where they differ, L-BFGS corrects more. The product of the vector with the mean is positive
    however few conjugate gradients there are, so that the direction is one of descent whatever the data are. That it
    takes fewer steps than L-BFGS is not proved here.

    A step waits for three parts, but for no more than three in ten. Parameters that a part does not touch move as along
    a diagonal: its share of the curvature of all data. The direction is scaled by what the last one turned out to be
    too long or too short, along which the exact gradients at both ends tell how the objective bends.

    They begin where steps from few arrivals turned out to be slow, or after eight steps without them: what is solved
    in a few steps of L-BFGS needs no more. A solution is up to 256 times the work of a gradient. It is asked for only
    where messages seem to have a time of their own (`Answer.work_odds`), and with a single product with second
    derivatives at first: sixteen times as many each time if the answer took less than a quarter of what whole gradients
    take, a sixteenth, and never more again, if it took more than half. After half of that time it is not waited for. If
    one is too many, these steps are given up; likewise if what steps promise has not fallen to half in twelve of them,
    and where L-BFGS has the whole Hessian to begin with. How long the messages of such steps take soon shows whether
    work takes time after all.

    Attributes:
        off: whether such steps are not asked for any more.
    """

    checkpointed = ("off", "_iterations", "_most", "_scale", "_called", "_arrivals", "_whole", "_wanted", "_promises")

    def __init__(self) -> None:
        self.off = False
        self._iterations, self._most = 1, _MOST
        self._scale = _FIRST_SCALE  # of directions
        self._called, self._arrivals = False, 1
        self._whole = (0, 0.0)  # whole gradients, and the seconds that they took in all
        self._promises: list[float] = []  # of the last steps
        self._wanted: tuple[Array, list[float]] | None = None  # what is asked for, and factors of the first loop

    @property
    def waits(self) -> bool:
        """Whether an answer is awaited."""
        return self._wanted is not None

    def begin(self, n_parts: float, slow: bool) -> None:
        """Take note of how steps from few arrivals have ended.

        Arguments:
            n_parts: number of parts of the data.
            slow: whether steps without Newton steps turned out to be slow.
        """
        self._arrivals = min(_ARRIVALS, max(1, round(_SHARE * n_parts)))
        self._called = slow

    def give_up(self) -> None:
        """Ask for no more such steps."""
        self.off = True

    def pays(self, odds: float) -> bool:
        """Return whether such steps seem to take little time, by the odds that work takes time, as a log."""
        return not self.off and odds < 0.0

    def worth_asking(self, odds: float) -> bool:
        """Return whether to ask for such a step: whether they pay, or one is to find that out."""
        slow = self._called or self._whole[0] >= _PATIENCE
        return not self.off and slow and odds < (_UNSURE if self._iterations == 1 else _SURE)

    def hear_whole(self, waited: float) -> None:
        """Take note of the seconds that a whole gradient took."""
        count, seconds = self._whole
        self._whole = count + 1, seconds + waited

    def want(self, vector: Array, factors: Sequence[float]) -> None:
        """Take note of the vector to ask for, and of the factors to continue with."""
        self._wanted = vector, list(factors)

    def ask(self, damping: float) -> tuple[Array, dict[str, Any]]:
        """Return the vector to ask for, and what the order is to say beside it: see `Shard.newton_step`.

        Arguments:
            damping: the mean curvature of the penalty along a parameter.
        """
        assert self._wanted is not None
        count, seconds = self._whole
        note = {"arrivals": self._arrivals, "at_most": _LONG * seconds / max(1, count)}
        return self._wanted[0], {**note, "damping": damping, "iterations": self._iterations}

    def answer(
        self, parts: Sequence[PartialGradient], waited: float, curvature: Array, penalty: Array
    ) -> tuple[Array, list[float]] | None:
        """Return the product of the vector with the mean inverse, and the factors; None if no part has answered.

        Arguments:
            parts: what came.
            waited: the seconds that it took.
            curvature: along each parameter, of all data, shape (n_parameters,).
            penalty: that of the penalty, shape (n_parameters,).
        """
        assert self._wanted is not None
        (vector, factors), self._wanted = self._wanted, None
        count, seconds = self._whole
        if not parts or waited > _LONG * seconds / count:
            self.off = self.off or self._iterations == 1
            self._iterations = self._most = max(1, self._iterations // _MORE)
        elif waited < _SHORT * seconds / count:
            self._iterations = min(_MORE * self._iterations, self._most)
        if not parts:
            return None
        mean = np.zeros(len(vector))
        for part in parts:
            own = part.gradient != 0.0
            alone = part.share * curvature + penalty
            np.divide(vector, alone, out=alone, where=alone > 0.0)
            mean += np.where(own, part.gradient, alone)
        mean *= self._scale / len(parts)
        return mean, factors

    def expect(self, promise: float) -> None:
        """Take note of what a step with them promises to gain; give up if that has hardly fallen over the last ones.

        Arguments:
            promise: minus the slope of the objective along it.
        """
        self._promises.append(promise)
        del self._promises[: -_ROUNDS - 1]
        if len(self._promises) > _ROUNDS and promise > _PROGRESS * self._promises[0]:
            self.give_up()

    def learn(self, ideal: float) -> None:
        """Learn from a search along a direction that came of such steps.

        Arguments:
            ideal: how long it should have been, relative to what it was.
        """
        self._scale = min(max(self._scale * ideal, _LEAST_SCALE), _MOST_SCALE)
