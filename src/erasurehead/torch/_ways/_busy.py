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

from collections.abc import Collection, Iterator
from typing import final

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead.torch._ways._base import Way

COUNTED = 4096
"""Where the counter of a version begins again if there are no moments: it counts steps, divided by ranks."""


_MOST = 8  # vectors that are summed at once: each is read once then, and the sum so often as well
_PIECE = 1 << 16  # elements: what is made of them stays in the cache


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
        self._n_moments = decay[-1][0] if decay else 0
        self._length = len(model) - self._n_moments * (1 + first) - 1
        self._came: list[Array] = []  # what was not summed yet
        self._sum = np.zeros(self._length + self._n_moments, model.dtype)
        self._piece = np.empty(_PIECE, model.dtype)

    def fold(self, rank: int, vector: Array, steps: int, samples: float, seconds: float) -> None:
        again = rank in self.steps
        self.steps[rank] = self.steps.get(rank, 0) + steps
        self._came.append(vector)
        if again or len(self._came) > _MOST:
            for piece, total in self._totals(0, len(vector)):
                self._sum[piece] = total
            self._came = [self._sum]

    def _totals(self, begin: int, end: int) -> Iterator[tuple[slice, Array]]:
        """Yield the sum of what came, piece by piece, so that each is read once: where it is, and the piece."""
        for low in range(begin, end, _PIECE):
            piece = slice(low, min(low + _PIECE, end))
            first, *others = (vector[piece] for vector in self._came)
            total = np.add(first, others.pop(0) if others else 0.0, out=self._piece[: len(first)])
            for vector in others:
                total += vector
            yield piece, total

    def closes(self, members: Collection[int], now: float) -> bool:
        return sum(self.steps.values()) >= max(len(members), 1)

    def close(self, members: Collection[int], now: float, out: Array) -> None:
        """Write the team's model, which has moved, and what follows it."""
        n_members, steps = max(len(members), len(self.steps)), sum(self.steps.values())
        told, begin = self._told, self._length
        for piece, change in self._totals(0, begin):
            change *= 1.0 / n_members
            np.add(told[piece], change, out=out[piece])
        for end, first, second in self._decay:
            for piece, own in self._totals(begin, self._length + end):
                own *= 1.0 / steps
                if self._first:
                    out[piece] = told[piece] * first + (1.0 - first) * own
                    piece = slice(piece.start + self._n_moments, piece.stop + self._n_moments)
                own *= own
                out[piece] = told[piece] * second + (1.0 - second) * own
            begin = self._length + end
        out[-1] = told[-1] + 1.0 if self._decay else (told[-1] + steps / n_members) % COUNTED
        self.restart(out)

    def restart(self, newest: Array) -> None:
        self._told, self._came, self.steps = newest, [], {}
