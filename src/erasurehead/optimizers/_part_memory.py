"""What is known of each part of the data: its newest gradient, the model that this is of, and its curvature."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import final

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead._internal.resumable import Resumable
from erasurehead.optimizers._base import PartialGradient

TINY = float(np.finfo(np.float64).tiny)
"""The least number with all its digits: dividing by it in place of 0 takes less time than leaving such elements out."""


@dataclass(frozen=True, eq=False)
class KnownPart:
    """What is known of one part.

    Attributes:
        step: the step of the order that its newest gradient answers.
        share: fraction of all samples that it has.
        loss: its summand of the mean loss at the point.
        entries: its summand of the mean number of entries in a sample that are not zero.
        point: the model of that order, or the part's own, shape (n_parameters,).
        gradient: its summand of the gradient there, without the penalty, shape (n_parameters,).
        curvature: its summand of the bound on the curvature along each parameter, shape (n_parameters,).
        block: its summand of the second derivatives between columns; None if they are not known.
        own: whether the point is the part's own.
        counts: whether its gradient counts; if not, it is of an order before the first that does (`PartMemory.first`).
    """

    step: int
    share: float
    loss: float
    entries: float
    point: Array
    gradient: Array
    curvature: Array
    block: Array | None = None
    own: bool = False
    counts: bool = True


@final
class PartMemory(Resumable):
    """Remembers the newest gradient of each part of the data, and adds them up.

    Arguments:
        n_parameters: length of the model.

    Attributes:
        parts: what is known of each part, by its tasks.
        first: the first step whose gradients count.
        share: fraction of all samples that the parts have whose gradients count.
        gradient: the sum of these gradients, shape (n_parameters,).
        curved: fraction of all samples that the parts have whose curvatures are known.
        curvature: the sum of these curvatures, shape (n_parameters,).
        block: the sum of what is known of second derivatives between columns; None if nothing is.
        block_share: fraction of all samples that these are of.
    """

    checkpointed = (
        "parts",
        "first",
        "share",
        "gradient",
        "curved",
        "curvature",
        "block",
        "block_share",
        "_weight",
        "_weighted",
    )
    records = (KnownPart,)

    def __init__(self, n_parameters: int) -> None:
        self.parts: dict[tuple[int, ...], KnownPart] = {}
        self.curved = 0.0
        self.curvature = np.zeros(n_parameters)
        self.block: Array | None = None
        self.block_share = 0.0
        self.restart(0)

    def restart(self, first: int) -> None:
        """Let no gradients count but those of a step, and of later ones."""
        self.first, self.share = first, 0.0
        # Of the parts that count: the curvatures, and the points, each weighted by its curvature.
        self.gradient, self._weight, self._weighted = np.zeros((3, len(self.curvature)))
        for tasks, part in self.parts.items():
            self.parts[tasks] = part = replace(part, counts=part.counts and part.step >= first)
            if part.counts:  # summed anew: what subtracting leaves of columns that no other part has is not 0
                self._count(part)

    def _count(self, part: KnownPart) -> None:
        """Add a part to the sums, never in place: a state may have them."""
        self.share += part.share
        self.gradient = self.gradient + part.gradient
        self._weight = self._weight + part.curvature
        self._weighted = self._weighted + part.curvature * part.point

    @property
    def whole(self) -> bool:
        """Whether the parts all count."""
        return self.share > 1.0 - 1e-9

    @property
    def bounded(self) -> bool:
        """Whether the curvatures of all parts are known."""
        return self.curved > 1.0 - 1e-9

    @property
    def entries(self) -> float:
        """The sum of what the known parts have of a sample's entries."""
        return sum(part.entries for part in self.parts.values())

    @property
    def mean_bound(self) -> tuple[Array, float]:
        """The curvature along each parameter and a sample's entries, as those of the known parts say."""
        return self.curvature / self.curved, self.entries / self.curved

    @property
    def loss(self) -> float:
        """The sum of the losses of those that count, each at its own point."""
        return sum(part.loss for part in self.parts.values() if part.counts)

    @property
    def own(self) -> bool:
        """Whether some of those that count are known at models of their own."""
        return any(part.own for part in self.parts.values() if part.counts)

    def fits(self, part: PartialGradient) -> bool:
        """Return whether a part is one of those that are known, or has no task in common with any of them."""
        return part.tasks in self.parts or not any(set(part.tasks) & set(tasks) for tasks in self.parts)

    def take(self, part: PartialGradient, point: Array, own: bool = False) -> bool:
        """Take what a part says; return whether it is news, and its curvature is known.

        Arguments:
            part: what it says.
            point: the model that this is of, shape (n_parameters,).
            own: whether that is the part's own.
        """
        before = self.parts.get(part.tasks)
        if before is None:
            if part.curvature is None:
                return False
            curvature, entries, block, counted = part.curvature, part.entries, None, False
            self.curved += part.share
            self.curvature = self.curvature + curvature  # never in place: a state may have it
        else:
            if part.step <= before.step:
                return False
            curvature, entries, block, counted = before.curvature, before.entries, before.block, before.counts
        if part.block is not None and block is None and before is not None:
            block = part.block
            self.block = block if self.block is None else self.block + block
            self.block_share += part.share
        counts = part.step >= self.first
        self.parts[part.tasks] = known = KnownPart(
            part.step, part.share, part.loss, entries, point, part.gradient, curvature, block, own, counts
        )
        if counted and before is not None:
            self.gradient = self.gradient + part.gradient - before.gradient
            self._weighted = self._weighted + curvature * (point - before.point)
        elif counts:
            self._count(known)
        return True

    def centre(self, x: Array) -> Array:
        """Return the mean of the points, along each parameter weighted by the parts' curvatures.

        A parameter that matters to one part alone is where it was when that part last spoke.

        Arguments:
            x: what it is for parameters that matter to none that counts, shape (n_parameters,).
        """
        return np.where(self._weight > 0.0, self._weighted / np.maximum(self._weight, TINY), x)
