"""One gradient a step from the ranks that have theirs, for optimizers whose steps cannot be averaged."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection
from typing import final

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead.torch._ways._base import Way
from erasurehead.torch._ways._first_k import ask_again, time_left

_REMEMBERED = 32  # steps of each rank


@final
class FirstGradients(Way):
    """Averages gradients, weighted by their samples, until the next one would take too long.

    Arguments:
        like: a vector as ranks send them, of which nothing is kept.
    """

    name = "first-gradients"
    waits = True

    def __init__(self, like: Array) -> None:
        self.steps = {}
        self.asks_at = math.inf
        self._sum, self._weighted = np.zeros_like(like), np.zeros_like(like)
        self._weight = self._unit = 0.0
        self._durations: dict[int, deque[float]] = {}
        self._began: dict[int, float] = {}
        self._opened: float | None = None

    def fold(self, rank: int, vector: Array, steps: int, samples: float, seconds: float) -> None:
        self.steps[rank] = self.steps.get(rank, 0) + steps
        self._durations.setdefault(rank, deque(maxlen=_REMEMBERED)).append(seconds)
        if not self._weight:
            self._unit = samples or 1.0
        weight = (samples or self._unit) / self._unit
        self._weight += weight
        self._sum += vector if weight == 1.0 else np.multiply(vector, weight, out=self._weighted)

    def dropped(self, rank: int, seconds: float, now: float) -> None:
        self._durations.setdefault(rank, deque(maxlen=_REMEMBERED)).append(seconds)
        self._began[rank] = now

    def closes(self, members: Collection[int], now: float) -> bool:
        opened = now if self._opened is None else self._opened
        left = [
            time_left(self._durations.get(rank, ()), now - self._began.get(rank, opened))
            for rank in members
            if rank not in self.steps
        ]
        elapsed = now - opened
        again = ask_again(elapsed, len(self.steps), left)
        self.asks_at = opened + again
        return again <= elapsed

    def close(self, members: Collection[int], now: float, out: Array) -> None:
        """Write the mean gradient, and what follows it."""
        self._began |= dict.fromkeys(self.steps, now)
        np.multiply(self._sum, 1.0 / self._weight, out=out)
        self._open(now)

    def restart(self, newest: Array) -> None:
        self._open(None)

    def _open(self, now: float | None) -> None:
        self._opened = now
        self._sum[:] = 0.0
        self._weight, self.steps, self.asks_at = 0.0, {}, math.inf
