"""The first steps of a run, from few arrivals each: rough gradients, while they still point the right way."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, final

import numpy as np

from erasurehead._internal.arrays import Array, product, squared_norm
from erasurehead.optimizers.anchor import Anchor
from erasurehead.optimizers.base import LATE_PARTS, PartialGradient
from erasurehead.optimizers.scaling import POWERS, scalings, spreads
from erasurehead.problems.base import CURVATURE

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

    Orders ask for curvatures until those of all data are known.

    Where late workers finish their old work (`carried`), the later orders are answered slowly, as workers are busy, but
    the first one in the end by all: the whole gradient at the first model comes in meanwhile, with all curvatures, and
    nobody waits for it (`Anchor`). Then the steps end, at the latest after as many as there are parts: the next order
    asks for a whole gradient, and both make a pair of exact gradients for a quasi-Newton method. The anchors of
    stochastic variance-reduced gradients (Johnson and Zhang, 2013) are filled by late work in the same way; to correct
    the estimates of further steps by it does not pay here, as under `carry` half of the workers are waited for nearly
    as long as all groups.

    Arguments:
        penalty: curvature of the penalty along each parameter, shape (n_parameters,).
        carried: whether late workers finish their old work.

    Attributes:
        why: why it is over: `"noise"`, `"heard"`, `"anchor"` or `"rounds"`; empty while it is not.
        chosen: number of the power, among `scaling.POWERS`, that the metric is.
        scale: length of a step, in that metric.
    """

    def __init__(self, penalty: Array, carried: bool = False) -> None:
        self._penalty, self._carried = penalty, carried
        self.why = ""
        self.chosen, self.scale = 0, 1.0
        self._arrivals, self._rounds = 1, 0
        self._known: dict[tuple[int, ...], float] = {}  # the share of the samples of each part that was heard
        self._entries = 0.0
        self._curvature = np.zeros(len(penalty))  # of all parts that were heard
        self._curvatures: dict[tuple[int, ...], Array] = {}  # of each, for orders that do not ask for it any more
        self.anchor: Anchor | None = None  # at the first model, if late work is carried
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
        first = self._rounds == 0
        return {
            "arrivals": self._arrivals,
            "probing": first,
            "while_it_pays": not self._carried,
            CURVATURE: first or not (self._carried or self._all_curvatures),
            LATE_PARTS: first and self._carried,
        }

    @property
    def _all_curvatures(self) -> bool:
        """Whether the curvature of each part is known and kept."""
        return self.bound is not None and len(self._curvatures) == len(self._known)

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
            if part.curvature is None:
                continue
            self._known[part.tasks] = part.share
            self._curvature = self._curvature + part.curvature
            self._entries += part.entries
            if len(self._curvatures) < self._most_kept:
                self._curvatures[part.tasks] = part.curvature
        return bool(parts)

    def hear_late(self, parts: Sequence[PartialGradient]) -> None:
        """Take note of what parts say of the first model that come when it has been left."""
        for part in parts:
            if self.anchor is not None and self.hear([part]) and self.anchor.take(part):
                self._kept.setdefault(part.tasks, (0, part.gradient))

    @property
    def _most_kept(self) -> int:
        """How many vectors of the model's length are kept of each kind."""
        return max(3, _MOST_NUMBERS // max(1, len(self._penalty)))

    def move(self, x: Array, parts: Sequence[PartialGradient], slope: Array) -> Array:
        """Return the model that parts of the data lead to.

        Arguments:
            x: the model that they are of, shape (n_parameters,).
            parts: what arrived; `hear` has taken note of them.
            slope: gradient of the penalty there, shape (n_parameters,).
        """
        if self._carried and self._rounds == 0:
            self.anchor = Anchor(x, parts[0].step)
        covered = math.fsum(self._known.values())
        diagonals = scalings(self._curvature / covered, self._entries / covered, self._penalty)
        for part in parts:
            self._learn(part, x, covered, diagonals)
            if self.anchor is not None:
                self.anchor.take(part)
        self._choose()
        came = math.fsum(part.share for part in parts)
        gradient = sum((part.gradient for part in parts), np.zeros(len(x)))
        estimate = self._of_all(gradient, self._bending(parts), came, covered) + slope
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

    def _bending(self, parts: Sequence[PartialGradient]) -> Array | None:
        """Return the curvature of some parts; None if that of one is not known."""
        total = np.zeros(len(self._penalty))
        for part in parts:
            own = self._curvatures.get(part.tasks) if part.curvature is None else part.curvature
            if own is None:
                return None
            total += own
        return total

    def _of_all(self, own: Array, curvature: Array | None, share: float, covered: float) -> Array:
        """Scale what some parts say up to all data.

        Arguments:
            own: their sum, shape (n_parameters,).
            curvature: theirs; None if it is not known, and parameters then stay where they are of which no part that
                was heard knows any.
            share: of the samples, that they have.
            covered: share of the samples whose curvatures are known.
        """
        most = covered / share
        if curvature is None:
            return np.where(self._curvature > 0.0, own, 0.0) / share
        factor = np.divide(self._curvature, curvature, out=np.full(len(own), most), where=curvature > 0.0)
        return own * np.minimum(factor, most) / covered

    def _learn(self, part: PartialGradient, x: Array, covered: float, diagonals: Sequence[Array]) -> None:
        """Take the pair that a part makes with what it said before, and keep what it says now."""
        before = self._kept.pop(part.tasks, None)
        if before is not None:
            since, gradient = before
            step = x - self._points[since]
            change = self._of_all(part.gradient - gradient, self._bending([part]), part.share, covered)
            change += self._penalty * step
            bent = product(step, change)
            if bent > 1e-12 * squared_norm(step) ** 0.5 * squared_norm(change) ** 0.5:
                self._pairs.append((bent, *spreads(step, change, diagonals)))
                del self._pairs[: -max(3, len(self._known))]
        self._kept[part.tasks] = self._rounds, part.gradient
        self._points[self._rounds] = x
        while len(self._kept) > self._most_kept:
            del self._kept[next(iter(self._kept))]  # the oldest
        asked = {since for since, _ in self._kept.values()} | ({0} if self._carried else set[int]())
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
            if self._carried or self._arrivals > max(1.0, _LARGEST_SHARE / share):
                self.why = "noise"
        if self._carried:
            if self.anchor is not None and self.anchor.whole:
                self.why = self.why or "anchor"
            elif self._rounds * share >= 1.0:
                self.why = self.why or "rounds"
            return x
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
            "carried": self._carried,
            "why": self.why,
            "arrivals": self._arrivals,
            "rounds": self._rounds,
            "chosen": self.chosen,
            "scale": self.scale,
            "known": [[list(tasks), share] for tasks, share in self._known.items()],
            "entries": self._entries,
            "curvature": self._curvature,
            "curvatures": [[list(tasks), own] for tasks, own in self._curvatures.items()],
            "anchor": None if self.anchor is None else self.anchor.state(),
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
        made = cls(np.asarray(state["penalty"]), bool(state["carried"]))
        made.why = str(state["why"])
        made._arrivals, made._rounds = int(state["arrivals"]), int(state["rounds"])
        made.chosen, made.scale = int(state["chosen"]), float(state["scale"])
        made._known = {tuple(map(int, tasks)): float(share) for tasks, share in state["known"]}
        made._entries, made._curvature = float(state["entries"]), np.asarray(state["curvature"])
        made._curvatures = {tuple(map(int, tasks)): np.asarray(own) for tasks, own in state["curvatures"]}
        made.anchor = None if state["anchor"] is None else Anchor.restored(state["anchor"])
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
