"""The first steps of a run, from few arrivals each: rough gradients, while they still point the right way."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, final

import numpy as np

from erasurehead._internal.arrays import Array, product, squared_norm
from erasurehead.optimizers.base import PartialGradient
from erasurehead.optimizers.scaling import POWERS, scalings, spreads

_MOST_NUMBERS = 2**22  # of all gradients that are kept: 32 MiB, and as much for the models that they are of
_MOST_ROUNDS = 100
_OVER = 2  # times as many rounds as it took to hear every part, after which the steps end
_NEWER = 3  # power of a model's number that is its weight in the mean: the newer, the more
_AGREED = 5  # successive estimates, after which their agreement says something
_LARGEST_SHARE = 0.2  # of the data, up to which an estimate is rough; beyond it a whole gradient is worth its time


@final
class FewArrivals:
    """Steps along the gradients of the first few parts of the data that arrive, as long as it pays.

    Each order asks for one arrival at first, and moves the model by what it brings. A parameter's estimate is the sum
    over the parts that came, scaled up by the share of its curvature that they have, as far as all parts are known: a
    column that is in one part alone is not scaled up at all. The metric is a power of the curvatures, and the length of
    a step that of Barzilai and Borwein (1988), both from the newest pair of every part: its gradient now and where it
    was last computed, which are of the *same* data and differ by no noise (after Berahas, Nocedal and Takac, "A
    multi-batch L-BFGS method for machine learning", 2016).

    Once successive estimates do not agree any more (the sum of the cosines between them, after five at least, is
    negative: the test of Pflug, 1983, for noise that has the upper hand), the model becomes the mean of those since the
    number of arrivals was chosen, in which newer ones weigh more (polynomial-decay averaging: Shamir and Zhang,
    "Stochastic gradient descent for non-smooth optimization", 2013), and twice as many arrivals are waited for. It is
    over when those would be more than a fifth of the data; when it has taken twice as many steps as it took to hear
    every part, which is as long as two whole gradients where delays are exponential; or when a whole gradient has come
    nearly as soon. What is lost where rough steps are of no use is therefore of the order of one or two gradients.
    There is no guarantee for these steps, as there is none for stochastic gradients of constant length but a
    neighbourhood of the minimum.

    Arguments:
        penalty: curvature of the penalty along each parameter, shape (n_parameters,).

    Attributes:
        why: why it is over: `"noise"`, `"heard"` or `"rounds"`; empty while it is not.
        chosen: number of the power, among `scaling.POWERS`, that the metric is.
        scale: length of a step, in that metric.
    """

    def __init__(self, penalty: Array) -> None:
        self._penalty = penalty
        self.why = ""
        self.chosen, self.scale = 0, 1.0
        self._arrivals, self._rounds = 1, 0
        self._known: dict[tuple[int, ...], float] = {}  # the share of the samples of each part that was heard
        self._entries = 0.0
        self._curvature = np.zeros(len(penalty))  # of all parts that were heard
        self._kept: dict[tuple[int, ...], tuple[int, Array]] = {}  # of each part: the round, and its gradient then
        self._points: dict[int, Array] = {}  # the models of those rounds
        self._pairs: list[tuple[float, list[float], list[float]]] = []
        self._before: Array | None = None  # the estimate of the last round
        self._cosines: list[float] = []
        self._heard = 0  # after how many rounds every part had been heard; 0 while some are missing
        self._mean: Array | None = None  # of the models since the number of arrivals was last changed
        self._models = 0  # how many those are

    @property
    def note(self) -> dict[str, Any]:
        """What the next order is to say beside its point: see `wait_rules.early`."""
        return {"arrivals": self._arrivals, "probing": self._rounds == 0}

    @property
    def decision(self) -> dict[str, Any]:
        """What was decided when the last parts came."""
        act = {"act": "few", "arrivals": self._arrivals} if not self.why else {"act": "whole", "why": self.why}
        said = {**act, "scaling": POWERS[self.chosen], "step": self.scale}
        return {**said, "agreement": sum(self._cosines) / len(self._cosines)} if self._cosines else said

    @property
    def bound(self) -> tuple[Array, float] | None:
        """The curvature along each parameter and a sample's entries, of all data; None while parts are missing."""
        return (self._curvature, self._entries) if math.fsum(self._known.values()) > 1.0 - 1e-9 else None

    def hear(self, parts: Sequence[PartialGradient]) -> bool:
        """Take note of the curvatures of parts; return whether they fit those that were heard before."""
        heard = {task for tasks in self._known for task in tasks}
        for part in parts:
            if part.tasks in self._known:
                continue
            if heard.intersection(part.tasks):  # the code was resized, and cuts the data in other places
                return False
            self._known[part.tasks] = part.share
            self._curvature = self._curvature + part.curvature
            self._entries += part.entries
        return bool(parts)

    def move(self, x: Array, parts: Sequence[PartialGradient], slope: Array) -> Array:
        """Return the model that parts of the data lead to.

        Arguments:
            x: the model that they are of, shape (n_parameters,).
            parts: what arrived; `hear` has taken note of them.
            slope: gradient of the penalty there, shape (n_parameters,).
        """
        covered = math.fsum(self._known.values())
        diagonals = scalings(self._curvature / covered, self._entries / covered, self._penalty)
        for part in parts:
            self._learn(part, x, covered, diagonals)
        self._choose()
        came = math.fsum(part.share for part in parts)
        gradient = sum((part.gradient for part in parts), np.zeros(len(x)))
        curvature = sum((part.curvature for part in parts), np.zeros(len(x)))
        estimate = self._of_all(gradient, curvature, came, covered) + slope
        scaled = estimate / diagonals[self.chosen]
        self._agree(estimate, scaled, diagonals[self.chosen])
        self._rounds += 1
        there = x - self.scale * scaled
        self._average(there)
        return self._go_on(came / len(parts), there)

    def _average(self, x: Array) -> None:
        """Take a model into the mean (polynomial-decay averaging: Shamir and Zhang, 2013)."""
        self._models += 1
        weight = (_NEWER + 1) / (self._models + _NEWER)
        self._mean = x if self._mean is None else (1.0 - weight) * self._mean + weight * x

    def _of_all(self, own: Array, curvature: Array, share: float, covered: float) -> Array:
        """Scale what some parts say up to all data.

        Arguments:
            own: their sum, shape (n_parameters,).
            curvature: theirs.
            share: of the samples, that they have.
            covered: share of the samples whose curvatures are known.
        """
        most = covered / share
        factor = np.divide(self._curvature, curvature, out=np.full(len(own), most), where=curvature > 0.0)
        return own * np.minimum(factor, most) / covered

    def _learn(self, part: PartialGradient, x: Array, covered: float, diagonals: Sequence[Array]) -> None:
        """Take the pair that a part makes with what it said before, and keep what it says now."""
        before = self._kept.pop(part.tasks, None)
        if before is not None:
            since, gradient = before
            step = x - self._points[since]
            change = self._of_all(part.gradient - gradient, part.curvature, part.share, covered) + self._penalty * step
            bent = product(step, change)
            if bent > 1e-12 * squared_norm(step) ** 0.5 * squared_norm(change) ** 0.5:
                self._pairs.append((bent, *spreads(step, change, diagonals)))
                del self._pairs[: -max(3, len(self._known))]
        self._kept[part.tasks] = self._rounds, part.gradient
        self._points[self._rounds] = x
        while len(self._kept) > max(3, _MOST_NUMBERS // max(1, len(x))):
            del self._kept[next(iter(self._kept))]  # the oldest
        asked = {since for since, _ in self._kept.values()}
        self._points = {number: point for number, point in self._points.items() if number in asked}

    def _choose(self) -> None:
        """Choose the power and the length that the pairs speak for."""
        if not self._pairs:
            return
        powers = range(len(POWERS))
        apart = [
            sum(
                math.log(steps[power]) + math.log(changes[power]) - 2.0 * math.log(bent)
                for bent, steps, changes in self._pairs
            )
            for power in powers
        ]
        self.chosen = int(np.argmin(apart))
        self.scale = sum(bent for bent, _, _ in self._pairs) / sum(
            changes[self.chosen] for _, _, changes in self._pairs
        )

    def _agree(self, estimate: Array, scaled: Array, diagonal: Array) -> None:
        """Measure how far an estimate points the same way as the one before."""
        before, self._before = self._before, estimate
        if before is not None:
            lengths = product(before, before / diagonal) * product(estimate, scaled)
            self._cosines.append(product(before, scaled) / math.sqrt(lengths) if lengths > 0.0 else 0.0)

    def _go_on(self, share: float, x: Array) -> Array:
        """Decide for how many arrivals the next order asks, or that it is over; return the model to go on from.

        Arguments:
            share: of the samples, that one part has.
            x: the newest model.
        """
        if len(self._cosines) >= _AGREED and sum(self._cosines) < 0.0:
            assert self._mean is not None
            x, self._mean, self._models = self._mean, None, 0
            self._arrivals, self._cosines, self._before = 2 * self._arrivals, [], None
            if self._arrivals > max(1.0, _LARGEST_SHARE / share):
                self.why = "noise"
        if self.bound is not None:
            self._heard = self._heard or self._rounds
        if 0 < _OVER * self._heard <= self._rounds:
            self.why = self.why or "heard"
        elif self._rounds >= _MOST_ROUNDS:
            self.why = self.why or "rounds"
        return x

    # --- its state --------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Return everything that `restore` needs to continue bit for bit."""
        return {
            "penalty": self._penalty,
            "arrivals": self._arrivals,
            "rounds": self._rounds,
            "chosen": self.chosen,
            "scale": self.scale,
            "known": [[list(tasks), share] for tasks, share in self._known.items()],
            "entries": self._entries,
            "curvature": self._curvature,
            "kept": [[list(tasks), since, gradient] for tasks, (since, gradient) in self._kept.items()],
            "points": [[number, point] for number, point in self._points.items()],
            "pairs": [[bent, list(steps), list(changes)] for bent, steps, changes in self._pairs],
            "before": self._before,
            "cosines": list(self._cosines),
            "heard": self._heard,
            "mean": self._mean,
            "models": self._models,
        }

    @classmethod
    def restored(cls, state: Mapping[str, Any]) -> FewArrivals:
        """Return an object that continues from what `state` returned."""
        made = cls(np.asarray(state["penalty"]))
        made._arrivals, made._rounds = int(state["arrivals"]), int(state["rounds"])
        made.chosen, made.scale = int(state["chosen"]), float(state["scale"])
        made._known = {tuple(map(int, tasks)): float(share) for tasks, share in state["known"]}
        made._entries, made._curvature = float(state["entries"]), np.asarray(state["curvature"])
        made._kept = {tuple(map(int, tasks)): (int(since), np.asarray(one)) for tasks, since, one in state["kept"]}
        made._points = {int(number): np.asarray(point) for number, point in state["points"]}
        made._pairs = [
            (float(bent), list(map(float, steps)), list(map(float, changes))) for bent, steps, changes in state["pairs"]
        ]
        made._before = None if state["before"] is None else np.asarray(state["before"])
        made._cosines = list(map(float, state["cosines"]))
        made._heard, made._models = int(state["heard"]), int(state["models"])
        made._mean = None if state["mean"] is None else np.asarray(state["mean"])
        return made
