"""The whole gradient at one model, as it comes together from parts of the data, in time or late."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, final

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead.optimizers.base import PartialGradient


@final
class Anchor:
    """Sums what parts of the data say of one model, each part once, until they are all there.

    Arguments:
        x: the model, shape (n_parameters,).
        step: the step of the order that asked for it.

    Attributes:
        gradient: the sum so far, without the penalty, shape (n_parameters,).
        share: fraction of all samples that it covers.
    """

    def __init__(self, x: Array, step: int) -> None:
        self.x, self.step = x, step
        self.gradient = np.zeros(len(x))
        self.share = 0.0
        self._heard: set[tuple[int, ...]] = set()

    @property
    def whole(self) -> bool:
        """Whether all samples are covered."""
        return self.share > 1.0 - 1e-9

    def take(self, part: PartialGradient) -> bool:
        """Add what a part says; return whether it is news: of this model, and of tasks that were missing."""
        if part.step != self.step or part.tasks in self._heard:
            return False
        self._heard.add(part.tasks)
        self.gradient = self.gradient + part.gradient
        self.share += part.share
        return True

    def state(self) -> dict[str, Any]:
        """Return everything that `restored` needs to continue bit for bit."""
        return {
            "x": self.x,
            "step": self.step,
            "gradient": self.gradient,
            "share": self.share,
            "heard": [list(tasks) for tasks in sorted(self._heard)],
        }

    @classmethod
    def restored(cls, state: Mapping[str, Any]) -> Anchor:
        """Return an object that continues from what `state` returned."""
        made = cls(np.asarray(state["x"]), int(state["step"]))
        made.gradient, made.share = np.asarray(state["gradient"]), float(state["share"])
        made._heard = {tuple(map(int, tasks)) for tasks in state["heard"]}
        return made
