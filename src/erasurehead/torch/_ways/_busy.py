"""Nobody waits and nothing is dropped: the team's model moves by the mean of what ranks changed in theirs.

A sum of changes divided by the number of ranks, rather than each rank's change by its own steps: the two train alike,
on unequal data, too, and the first needs no counts. A rank's samples count as often as it gets to them.

What an optimizer averages over steps must be the team's, too. A rank's own momentum leads it towards its own samples,
which is three times slower than waiting where each rank has two classes of its own; and its own second moment is larger
than that of all ranks' mean gradient, whose noise is less, so that its steps would be too short. The momentum of SGD is
seen in how the model moved. For optimizers with second moments, ranks send the sums of their gradients, too, and what
goes out are the model, both moments of the mean gradient, and a counter.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import final

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead.torch._ways._base import Way

COUNTED = 4096
"""Where the counter of a version begins again if there are no moments: it counts steps, divided by ranks."""


@final
class Busy(Way):
    """Sums the changes of all steps, and closes a version when there are as many steps as ranks.

    Arguments:
        model: the team's model; with `decay`, followed by its first moments, if there are any, and by its second ones;
            and a counter.
        decay: of both moments, in ascending order of where they end in the model: ends, and decays up to there.
        first: whether there are first moments.
    """

    name = "busy"
    waits = False

    def __init__(
        self,
        model: Array,
        decay: tuple[tuple[int, float, float], ...] = (),
        first: bool = False,
    ) -> None:
        self.steps = {}
        self._told = model
        self._decay, self._first = decay, first
        n_moments = decay[-1][0] if decay else 0
        self._length = len(model) - n_moments * (1 + first) - 1
        self._sum = np.zeros(self._length + n_moments, model.dtype)

    def fold(self, rank: int, vector: Array, steps: int, samples: float, seconds: float) -> None:
        self.steps[rank] = self.steps.get(rank, 0) + steps
        self._sum += vector

    def closes(self, members: Collection[int], now: float) -> bool:
        return sum(self.steps.values()) >= max(len(members), 1)

    def close(self, members: Collection[int], now: float) -> Array:
        """Return the team's model, which has moved, and what follows it."""
        model, change, gradients = self._told[: self._length], self._sum[: self._length], self._sum[self._length :]
        n_members, steps = max(len(members), len(self.steps)), sum(self.steps.values())
        change *= 1.0 / n_members
        model += change
        if self._decay:
            moments, begin = self._told[self._length : -1].reshape(1 + self._first, -1), 0
            gradients *= 1.0 / steps
            for end, first, second in self._decay:
                own = gradients[begin:end]
                if self._first:
                    moments[0, begin:end] *= first
                    moments[0, begin:end] += (1.0 - first) * own
                own *= own
                own *= 1.0 - second
                moments[-1, begin:end] *= second
                begin = end
            moments[-1] += gradients
            self._told[-1] += 1.0
        else:
            self._told[-1] = (self._told[-1] + steps / n_members) % COUNTED
        self._sum[:] = 0.0
        self.steps = {}
        return self._told

    def restart(self, newest: Array) -> None:
        self._told[:] = newest
        self._sum[:] = 0.0
        self.steps = {}
