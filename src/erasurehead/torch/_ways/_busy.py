"""Nobody waits and nothing is dropped: the team's model moves by the mean of what ranks changed in theirs.

Optimizers that divide by the root of a second moment need the team's: the gradient of a rank's few samples is noisier
than that of all ranks' together, so that its own moment is larger, and its steps too short. So ranks send the sums of
their gradients, too, and what goes out is the model, the second moment, and the number of versions that it has seen.
"""

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
        model: the team's model; with `decay`, followed by the second moment of its parameters, and a counter.
        decay: of the second moment, in ascending order of where they end in the model: ends, and the decay up to there.
        weighted: `"steps"`: the sum of all changes, divided by the number of ranks, so that a fast rank's samples count
            as often as it got to them. `"ranks"`: the mean over ranks of their change a step, so that each rank that
            made any counts the same.
    """

    name = "busy"
    waits = False

    def __init__(
        self,
        model: Array,
        decay: tuple[tuple[int, float], ...] = (),
        weighted: Literal["steps", "ranks"] = "steps",
    ) -> None:
        self.steps = {}
        self._told = model
        self._decay, self._weighted = decay, weighted
        n_moments = decay[-1][0] if decay else 0
        self._length = len(model) - n_moments - bool(decay)
        self._sum = np.zeros(self._length + n_moments, model.dtype)
        self._sums: dict[int, Array] = {}

    def fold(self, rank: int, vector: Array, steps: int, samples: float, seconds: float) -> None:
        self.steps[rank] = self.steps.get(rank, 0) + steps
        if self._weighted == "steps":
            self._sum += vector
        elif rank in self._sums:
            self._sums[rank] += vector
        else:
            self._sums[rank] = vector.copy()

    def closes(self, members: Collection[int]) -> bool:
        return sum(self.steps.values()) >= max(len(members), 1)

    def close(self, members: Collection[int]) -> Array:
        """Return the team's model, which has moved, and what follows it."""
        for rank, vector in self._sums.items():
            vector *= max(len(members), len(self.steps)) / (self.steps[rank] * len(self._sums))
            self._sum += vector
        model, change, gradients = self._told[: self._length], self._sum[: self._length], self._sum[self._length :]
        change *= 1.0 / max(len(members), len(self.steps))
        model += change
        if self._decay:
            moment, begin = self._told[self._length : -1], 0
            gradients *= 1.0 / sum(self.steps.values())
            gradients *= gradients
            for end, decay in self._decay:
                moment[begin:end] *= decay
                gradients[begin:end] *= 1.0 - decay
                begin = end
            moment += gradients
            self._told[-1] += 1.0
        self._sum[:] = 0.0
        self._sums.clear()
        self.steps = {}
        return self._told

    def restart(self, newest: Array) -> None:
        self._told[:] = newest
        self._sum[:] = 0.0
        self._sums.clear()
        self.steps = {}
