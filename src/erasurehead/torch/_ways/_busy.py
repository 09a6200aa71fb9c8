"""Nobody waits and nothing is dropped: the team's model moves by the mean of what ranks changed in theirs.

A sum of changes divided by the number of ranks, rather than each rank's change by its own steps: the two train alike,
on unequal data, too, and the first needs no counts. A rank's samples count as often as it gets to them.

Optimizers that divide by the root of a second moment need the team's: the gradient of a rank's few samples is noisier
than that of all ranks' together, so that its own moment is larger, and its steps too short. So ranks send the sums of
their gradients, too, and what goes out is the model, the second moment, and the number of versions that it has seen.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import final

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead.torch._ways._base import Way


@final
class Busy(Way):
    """Sums the changes of all steps, and closes a version when there are as many steps as ranks.

    Arguments:
        model: the team's model; with `decay`, followed by the second moment of its parameters, and a counter.
        decay: of the second moment, in ascending order of where they end in the model: ends, and the decay up to there.
    """

    name = "busy"
    waits = False

    def __init__(
        self,
        model: Array,
        decay: tuple[tuple[int, float], ...] = (),
    ) -> None:
        self.steps = {}
        self._told = model
        self._decay = decay
        n_moments = decay[-1][0] if decay else 0
        self._length = len(model) - n_moments - bool(decay)
        self._sum = np.zeros(self._length + n_moments, model.dtype)

    def fold(self, rank: int, vector: Array, steps: int, samples: float, seconds: float) -> None:
        self.steps[rank] = self.steps.get(rank, 0) + steps
        self._sum += vector

    def closes(self, members: Collection[int], now: float) -> bool:
        return sum(self.steps.values()) >= max(len(members), 1)

    def close(self, members: Collection[int], now: float) -> Array:
        """Return the team's model, which has moved, and what follows it."""
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
        self.steps = {}
        return self._told

    def restart(self, newest: Array) -> None:
        self._told[:] = newest
        self._sum[:] = 0.0
        self.steps = {}
