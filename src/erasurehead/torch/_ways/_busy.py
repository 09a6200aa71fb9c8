"""Nobody waits and nothing is dropped: the team's model moves by the mean of what ranks changed in theirs."""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal, final

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead.torch._ways._base import Way


@final
class Busy(Way):
    """Sums the changes of all steps, and closes a version when there are as many steps as ranks.

    Arguments:
        model: the team's model, shape (length,).
        weighted: `"steps"`: the sum of all changes, divided by the number of ranks, so that a fast rank's samples count
            as often as it got to them. `"ranks"`: the mean over ranks of their change a step, so that each rank that
            made any counts the same.
    """

    name = "busy"
    waits = False

    def __init__(self, model: Array, weighted: Literal["steps", "ranks"] = "steps") -> None:
        super().__init__(len(model), model.dtype)
        self.model = model
        self._weighted = weighted
        self._sum = np.zeros_like(model)
        self._sums: dict[int, Array] = {}

    def fold(self, rank: int, vector: Array, steps: int, samples: float, now: float) -> None:
        self.steps[rank] = self.steps.get(rank, 0) + steps
        if self._weighted == "steps":
            self._sum += vector
        elif rank in self._sums:
            self._sums[rank] += vector
        else:
            self._sums[rank] = vector.copy()

    def closes(self, members: Collection[int]) -> bool:
        return sum(self.steps.values()) >= max(len(members), 1)

    def close(self, members: Collection[int], now: float) -> Array:
        """Return the team's model, which is moved; shape (length,)."""
        if self._weighted == "steps":
            self._sum *= 1.0 / max(len(members), len(self.steps))
        else:
            for rank, vector in self._sums.items():
                vector *= 1.0 / (self.steps[rank] * len(self._sums))
                self._sum += vector
            self._sums.clear()
        self.model += self._sum
        self._sum[:] = 0.0
        self.steps = {}
        return self.model
