"""Nobody waits and nothing is dropped: the team's model moves by the mean of what ranks changed in theirs.

A sum of changes divided by the number of ranks, rather than each rank's change by its own steps: the two train alike,
on unequal data, too, and the first needs no counts. A rank's samples count as often as it gets to them.

What an optimizer averages over steps must be the team's, too. A rank's own momentum leads it towards its own samples,
which is three times slower than waiting where each rank has two classes of its own; and its own second moment is larger
than that of all ranks' mean gradient, whose noise is less, so that its steps would be too short. The momentum of SGD is
seen in how the model moved, at the rates that ranks send, too, as schedulers change them: 0 for what a step had no
gradient of and left alone, such as the other network of a GAN. For optimizers with second moments, ranks send the sums
of their gradients, and of what there was a gradient; what goes out are the model, both moments of the mean gradient,
and a counter.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import final

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead.torch._ways._base import Way

COUNTED = 4096
"""Where the counter of a version begins again if there are no moments: it counts steps, divided by ranks."""


def totals(version: Array, n_tensors: int) -> Array:
    """Return what a version counts of each parameter: float64, whose rest is told, too."""
    return version[-1 - 2 * n_tensors : -1].reshape(2, n_tensors).sum(axis=0, dtype=np.float64)


_MOST = 8  # vectors that are summed at once: each is read once then, and the sum so often as well
_OF_EACH = 2  # of one rank, which has no other room for them
_PIECE = 1 << 17  # elements: what is made of them stays in the cache


@final
class Busy(Way):
    """Sums the changes of all steps, and closes a version when there are as many steps as ranks.

    Arguments:
        model: the team's model; with `decay`, followed by its first moments, if there are any, and by its second ones;
            the `totals` of its parameters; and a counter.
        decay: of both moments, in ascending order of where they end in the model: ends, and decays up to there.
        first: whether there are first moments.
        sizes: of the parameters, if steps may leave some alone. Then a rank's changes, and gradients, are followed by
            what its steps count for each: rates, or with `decay` 1; and 0 if it is left alone.
    """

    name = "busy"
    waits = False

    def __init__(
        self,
        model: Array,
        decay: tuple[tuple[int, float, float], ...] = (),
        first: bool = False,
        sizes: Sequence[int] = (),
    ) -> None:
        self.steps = {}
        self._told = model
        self._first, self._n_tensors = first, len(sizes)
        self._ends: list[int] = np.cumsum(sizes, dtype=int).tolist() if decay else []
        self.average(decay)
        self._n_moments = decay[-1][0] if decay else 0
        self._length = len(model) - self._n_moments * (1 + first) - 2 * self._n_tensors - 1
        self._came: list[Array] = []  # what was not summed yet
        self._by: list[int] = []  # whose that is
        self._sum = np.zeros(self._length + self._n_moments + self._n_tensors, model.dtype)
        self._piece = np.empty(_PIECE, model.dtype)

    def average(self, decay: tuple[tuple[int, float, float], ...]) -> None:
        """Take these decays from now on, as a schedule may change them."""
        self._decay = [(end, *next(own[1:] for own in decay if end <= own[0])) for end in self._ends] or decay

    def fold(self, rank: int, vector: Array, steps: int, samples: float, seconds: float) -> None:
        self.steps[rank] = self.steps.get(rank, 0) + steps
        self._came.append(vector)
        self._by.append(rank)
        if self._by.count(rank) > _OF_EACH or len(self._came) > _MOST:
            for piece, total in self._totals(0, len(vector)):
                self._sum[piece] = total
            self._came, self._by = [self._sum], []

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
        sent = np.array([each[begin + self._n_moments :] for each in self._came], np.float64)
        counts: Array = sent.sum(axis=0)
        counts = np.minimum(counts, 1.0) if self._decay else counts / n_members
        for length, first, second, moved in self._spans(counts):
            end = self._length + length
            for piece, own in self._totals(begin, end) if moved else ():
                own *= 1.0 / steps
                if self._first:
                    out[piece] = told[piece] * first + (1.0 - first) * own
                    piece = slice(piece.start + self._n_moments, piece.stop + self._n_moments)
                own *= own
                out[piece] = told[piece] * second + (1.0 - second) * own
            for beyond in () if moved else range(0, self._n_moments * (1 + self._first), self._n_moments):
                out[begin + beyond : end + beyond] = told[begin + beyond : end + beyond]
            begin = end
        if self._n_tensors:
            counted = totals(told, self._n_tensors) + counts
            whole, rest = out[-1 - 2 * self._n_tensors : -1].reshape(2, -1)
            whole[:] = counted
            rest[:] = counted - whole
        out[-1] = told[-1] + 1.0 if self._decay else (told[-1] + steps / n_members) % COUNTED
        self.restart(out)

    def _spans(self, counts: Array) -> Iterator[tuple[int, float, float, bool]]:
        """Yield where parameters end whose moments have the same decays, and whether they were moved at all."""
        moved: list[bool] = (counts > 0.0).tolist() or [True] * len(self._decay)
        kinds = [(*own[1:], moves) for own, moves in zip(self._decay, moved, strict=False)]
        for own, kind, following in zip(self._decay, kinds, [*kinds[1:], None], strict=False):
            if kind != following:
                yield own[0], *kind

    def restart(self, newest: Array) -> None:
        self._told, self._came, self._by, self.steps = newest, [], [], {}
