"""How long answers take, learned from those so far, in closed form: the hazard of an answer as silence grows.

The body of the law is the Nelson-Aalen estimate, which makes no assumptions. Beyond it are the slowest fifth of the
answers, which are too few for that, so a tail is fitted to them: exponential in time, or (a Pareto tail) in the
logarithm of time where that makes the answers clearly more likely. Both have closed forms with censored samples: the
mean excess over the threshold, including the time waited for those that were given up.

Fewer than 30 answers have no body: all of their time is that of an exponential tail, of half as many answers as there
are. So it takes 400 times the mean of four to suspect a worker, and 35 times the mean of sixteen.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from erasurehead._internal.arrays import Array, BoolArray

_TAIL = 0.2
"""Fraction of the answers that the tail is fitted to."""

_FEWEST = 10
"""Least number of answers that the tail is fitted to."""

FEW = 30
"""Number of answers below which there is no body."""

_CLEARLY = 2.0
"""Least gain in log-likelihood with which a Pareto tail is accepted."""

_REGULAR = 0.05
"""Smallest mean excess, relative to the threshold: no machine is assumed to be more regular."""


@dataclass(frozen=True, eq=False)
class Law:
    """The cumulative hazard of an answer: one in exp(h) answers is still missing after a silence of hazard h.

    Attributes:
        answers: number of answers that it was learned from.
        times: times at which the hazard of the body rises, ascending, in seconds, shape (points,).
        hazards: its value from each of these times on, shape (points,).
        threshold: where the tail begins, in seconds.
        scale: mean excess of the tail, in seconds, or in the logarithm of seconds for a Pareto tail.
        pareto: whether the tail is a Pareto tail.
        tail: number of answers that the tail was fitted to.
    """

    answers: int
    times: Array
    hazards: Array
    threshold: float
    scale: float
    pareto: bool
    tail: int

    @classmethod
    def of(cls, seconds: Array, censored: BoolArray) -> Law:
        """Learn a law from samples.

        Arguments:
            seconds: how long answers took, or were awaited in vain, at least 0, shape (n,).
            censored: which were awaited in vain, shape (n,); not all of them.

        Source: Nelson (1972), Aalen (1978) for the body; Hill (1975) for the Pareto tail.
        """
        answers = np.sort(seconds[~censored])
        few = len(answers) < FEW
        tail = math.ceil(len(answers) / 2) if few else max(_FEWEST, math.ceil(_TAIL * len(answers)))
        threshold, slowest = 0.0 if few else float(answers[-tail - 1]), answers[-tail:]
        times, counts = np.unique(answers[answers <= threshold], return_counts=True)
        at_risk = len(seconds) - np.searchsorted(np.sort(seconds), times, side="left")
        hazards = np.cumsum(counts / at_risk)
        beyond = seconds[seconds > threshold]
        excess = max(float((beyond - threshold).sum()) / tail, _REGULAR * threshold, 1e-9)
        pareto, scale = False, excess
        if threshold > 0.0:
            ratio = max(float(np.log(beyond / threshold).sum()) / tail, _REGULAR)
            gain = tail * math.log(excess / ratio) - float(np.log(slowest).sum())
            if gain > _CLEARLY:
                pareto, scale = True, ratio
        return cls(len(answers), times, hazards, threshold, scale, pareto, tail)

    @cached_property
    def _rises(self) -> tuple[list[float], list[float]]:
        """Times and hazards as lists: they are looked up at every arrival, and numpy would take ten times as long."""
        return self.times.tolist(), self.hazards.tolist()

    def body(self, seconds: float) -> float:
        """Return the hazard of a silence up to the threshold."""
        times, hazards = self._rises
        place = bisect_right(times, seconds)
        return hazards[place - 1] if place else 0.0

    def beyond(self, seconds: float) -> float:
        """Return how far a silence reaches into the tail, in units of its mean excess."""
        if seconds <= self.threshold:
            return 0.0
        over = math.log(seconds / self.threshold) if self.pareto else seconds - self.threshold
        return over / self.scale

    def hazard(self, body: float, beyond: float) -> float:
        """Return the total hazard of silences with the given `body` and `beyond`.

        The mean excess is itself estimated, from only `tail` answers. Taking that into account, a silence that reaches
        x times as far has the probability (1 + x / tail) ** -tail: exactly so for an exponential tail.
        """
        return body + self.tail * math.log1p(beyond / self.tail)

    def seconds(self, hazard: float, body: float = 0.0, beyond: float = 0.0) -> float:
        """Return after how many seconds of silence a hazard is reached, including that of earlier silences."""
        left = hazard - self.hazard(body, beyond)
        if left <= 0.0:
            return 0.0
        times, hazards = self._rises
        if hazards and left <= hazards[-1]:
            return times[bisect_left(hazards, left)]
        left = hazard - body - (hazards[-1] if hazards else 0.0)
        reach = self.tail * math.expm1(min(left / self.tail, 700.0)) - beyond
        if not self.pareto:
            return self.threshold + reach * self.scale
        return self.threshold * math.exp(min(reach * self.scale, 700.0))
