"""What is known of each part of the data: its newest gradient, the model that this is of, and its curvature."""

from __future__ import annotations

from dataclasses import dataclass
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
        point: the model of that order, shape (n_parameters,).
        gradient: its summand of the gradient there, without the penalty, shape (n_parameters,).
        curvature: its summand of the bound on the curvature along each parameter, shape (n_parameters,).
        block: its summand of the second derivatives between columns; None if they are not known.
    """

    step: int
    share: float
    loss: float
    entries: float
    point: Array
    gradient: Array
    curvature: Array
    block: Array | None = None


@final
class PartMemory(Resumable):
    """Remembers the newest gradient of each part of the data, and adds them up.

    Arguments:
        n_parameters: length of the model.

    Attributes:
        parts: what is known of each part, by its tasks.
        share: fraction of all samples that the known parts have.
        gradient: the sum of their gradients, shape (n_parameters,).
        curvature: the sum of their curvatures, shape (n_parameters,).
        block: the sum of what is known of second derivatives between columns; None if nothing is.
        block_share: fraction of all samples that these are of.
    """

    checkpointed = ("parts", "share", "gradient", "curvature", "block", "block_share", "_weighted")
    records = (KnownPart,)

    def __init__(self, n_parameters: int) -> None:
        self.parts: dict[tuple[int, ...], KnownPart] = {}
        self.share = 0.0
        self.gradient = np.zeros(n_parameters)
        self.curvature = np.zeros(n_parameters)
        self.block: Array | None = None
        self.block_share = 0.0
        self._weighted = np.zeros(n_parameters)  # the sum of their points, each weighted by its curvature

    @property
    def whole(self) -> bool:
        """Whether the parts are all there."""
        return self.share > 1.0 - 1e-9

    @property
    def entries(self) -> float:
        """The sum of what the known parts have of a sample's entries."""
        return sum(part.entries for part in self.parts.values())

    @property
    def loss(self) -> float:
        """The sum of their losses, each at its own point."""
        return sum(part.loss for part in self.parts.values())

    def fits(self, part: PartialGradient) -> bool:
        """Return whether a part is one of those that are known, or has no task in common with any of them."""
        return part.tasks in self.parts or not any(set(part.tasks) & set(tasks) for tasks in self.parts)

    def take(self, part: PartialGradient, point: Array) -> bool:
        """Take what a part says; return whether it is news, and its curvature is known.

        Arguments:
            part: what it says.
            point: the model that this is of, shape (n_parameters,).
        """
        before = self.parts.get(part.tasks)
        if before is None:
            if part.curvature is None:
                return False
            self.parts[part.tasks] = KnownPart(
                part.step, part.share, part.loss, part.entries, point, part.gradient, part.curvature
            )
            self.share += part.share
            self.curvature = self.curvature + part.curvature
            self.gradient = self.gradient + part.gradient  # never in place: a state may have it
            self._weighted = self._weighted + part.curvature * point
            return True
        if part.step <= before.step:
            return False
        block = before.block
        if part.block is not None and block is None:
            block = part.block
            self.block = block if self.block is None else self.block + block
            self.block_share += part.share
        self.parts[part.tasks] = KnownPart(
            part.step, part.share, part.loss, before.entries, point, part.gradient, before.curvature, block
        )
        self.gradient = self.gradient + part.gradient - before.gradient
        self._weighted = self._weighted + before.curvature * (point - before.point)
        return True

    def centre(self, x: Array) -> Array:
        """Return the mean of the points, along each parameter weighted by the parts' curvatures.

        A parameter that matters to one part alone is where it was when that part last spoke.

        Arguments:
            x: what it is for parameters that matter to no part, shape (n_parameters,).
        """
        return np.where(self.curvature > 0.0, self._weighted / np.maximum(self.curvature, TINY), x)
