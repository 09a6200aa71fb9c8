"""Outer steps: what ranks changed in some steps of their own is a gradient for Nesterov's method (DiLoCo).

A round is closed by those that arrive in time, and the others send what they have. Each change counts per step, so that
slow ranks' samples count as much as fast ones': where ranks have samples of different kinds, a sum would lead towards
those of the fast. A change that comes too late counts in the next round.

The outer momentum is not sent to anybody: each rank finds it from how the model moved. The steps are those of
`torch.optim.SGD(nesterov=True)`, u' = m u + g and x' = x + r (g + m u'), so u' = ((x' - x) / r + m u) / (1 + m): an
error, such as that of a rank which came later, becomes less than half of what it was with each version.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection
from typing import final

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead.torch._ways._base import Way
from erasurehead.torch._ways._first_k import ask_again, time_left

_REMEMBERED = 32  # rounds of each rank
_PATIENCE = 0.5  # of what a round took until late ranks were called, within which they must answer


@final
class Outer(Way):
    """Averages what ranks changed in a step, and moves the model by so many times that, by Nesterov's method.

    Arguments:
        model: one like the team's, which is heard of first.
        n_parameters: elements of it that are parameters; the others, statistics of batch norm, are averaged alone.
        every: steps of a rank in a round.
        rate, momentum: of the outer steps.
    """

    name = "outer"
    waits = False
    keeps = True

    def __init__(self, model: Array, n_parameters: int, every: int, rate: float, momentum: float) -> None:
        self.steps = {}
        self.momentum = np.zeros(n_parameters, model.dtype)
        self._told: Array | None = None  # as long as nothing was heard of the others
        self._every, self._rate, self._decay = every, rate, momentum
        self._sum = np.zeros_like(model)
        self._durations: dict[int, deque[float]] = {}
        self._opened: float | None = None
        self._open(None)

    def fold(self, rank: int, vector: Array, steps: int, samples: float, seconds: float) -> None:
        end = len(self.momentum)
        self.steps[rank] = self.steps.get(rank, 0) + steps
        self._sum[:end] += vector[:end] * (self._every / steps)
        self._sum[end:] += vector[end:]
        self._came += 1
        self._longest = max(self._longest, seconds)
        self._durations.setdefault(rank, deque(maxlen=_REMEMBERED)).append(seconds * self._every / steps)
        if steps >= self._every:
            self._arrived.add(rank)
        self._called.discard(rank)

    def dropped(self, rank: int, seconds: float, now: float) -> None:
        self._called.discard(rank)

    def calls(self, members: Collection[int], now: float) -> Collection[int]:
        if self._due < math.inf or not self._arrived:
            return ()
        if self._opened is None:
            self._opened = now - self._longest
        elapsed, late = now - self._opened, set(members) - self._arrived
        known = self._durations
        alike = [known[rank][-1] for rank in self._arrived]  # so long a rank is expected to take that is not known
        left = [time_left(known.get(rank, alike), elapsed) for rank in late]
        again = ask_again(elapsed, len(self._arrived), left)
        if again > elapsed:
            self.asks_at = self._opened + again
            return ()
        self._called = late
        self._due = self.asks_at = now + _PATIENCE * elapsed
        return tuple(late)

    def closes(self, members: Collection[int], now: float) -> bool:
        if self._due < math.inf:
            return now >= self._due or self._called.isdisjoint(members)
        return not members

    def close(self, members: Collection[int], now: float, out: Array) -> None:
        """Write the team's model, which has moved."""
        told, end = self._told, len(self.momentum)
        assert told is not None
        mean = self._sum
        mean *= 1.0 / self._came
        self.momentum *= self._decay
        self.momentum += mean[:end]
        mean[:end] += self._decay * self.momentum
        mean[:end] *= self._rate
        np.add(told, mean, out=out)
        self._told = out
        self._open(now)

    def heard(self, newest: Array) -> None:
        """Find the momentum after a version that another rank has closed."""
        told, self._told = self._told, newest
        if told is newest:
            return
        if told is not None:
            end = len(self.momentum)
            self.momentum *= self._decay
            self.momentum += (newest[:end] - told[:end]) / self._rate
            self.momentum /= 1.0 + self._decay

    def restart(self, newest: Array) -> None:
        self._told = newest
        self._open(None)

    def _open(self, now: float | None) -> None:
        self._opened = now
        self._sum[:] = 0.0
        self._came, self._longest = 0, 0.0
        self._arrived: set[int] = set()
        self._called: set[int] = set()
        self.steps, self._due, self.asks_at = {}, math.inf, math.inf
