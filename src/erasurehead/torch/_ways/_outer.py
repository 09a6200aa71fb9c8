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
_LONGEST = 2.0  # of what changes took to come in the last round, within which they must come after a call
_LEAST, _UNKNOWN = 1.0, 60.0  # seconds in which they may, at least, and as long as that is not known


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
        self._carried, self._first = 0.0, True  # seconds from the last call until all changes had come
        self._open(None)

    def announced(self, rank: int, steps: int, seconds: float, now: float, late: bool) -> None:
        self._coming.add(rank)
        if late:
            return
        if self._opened is None:
            self._opened = now - seconds
        left = seconds * max(self._every / steps - 1.0, 0.0)
        self._took(rank, now - self._opened + left)
        if not left:
            self._arrived.add(rank)
        self._called.discard(rank)

    def fold(self, rank: int, vector: Array, steps: int, samples: float, seconds: float) -> None:
        end = len(self.momentum)
        self.steps[rank] = self.steps.get(rank, 0) + steps
        self._sum[:end] += vector[:end] * (self._every / steps)
        self._sum[end:] += vector[end:]
        self._came += 1
        self._coming.discard(rank)

    def dropped(self, rank: int, seconds: float, now: float) -> None:
        self._called.discard(rank)
        if self._opened is not None:
            self._took(rank, 2.0 * (now - self._opened))

    def _took(self, rank: int, seconds: float) -> None:
        """Note how long a rank takes for a round, from when it opens, as far as is known."""
        self._durations.setdefault(rank, deque(maxlen=_REMEMBERED)).append(seconds)

    def calls(self, members: Collection[int], now: float) -> Collection[int]:
        if self._closing < math.inf or self._opened is None or not self._arrived:
            return ()
        elapsed, late = now - self._opened, set(members) - self._arrived
        known = self._durations
        alike = [known[rank][-1] for rank in self._arrived]  # so long a rank is expected to take that is not known
        left = [time_left(known.get(rank, alike), elapsed) for rank in late]
        whole = elapsed + self._carried
        again = ask_again(whole, len(self._arrived), left)
        if again > whole:
            self.asks_at = now + again - whole
            return ()
        self._called, self._closing = late, now
        self._due = self.asks_at = now + _PATIENCE * elapsed
        return tuple(late)

    def closes(self, members: Collection[int], now: float) -> bool:
        if self._closing == math.inf:
            return not members
        if not self._called.isdisjoint(members) and now < self._due:
            return False
        self.asks_at = self._closing + max(_LONGEST * self._carried, _UNKNOWN if self._first else _LEAST)
        return now >= self.asks_at or self._coming.isdisjoint(members)

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
        if self._closing < math.inf:
            self._carried, self._first = now - self._closing, False
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
        self._came = 0
        self._arrived: set[int] = set()  # who is through
        self._called: set[int] = set()  # who has not answered
        self._coming: set[int] = set()  # whose change is on its way
        self.steps, self._closing, self._due, self.asks_at = {}, math.inf, math.inf, math.inf
