"""Workers that are sometimes slow: independently in each step, or for a while."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import numpy as np

from erasurehead._internal.arrays import Array, BoolArray, IntArray
from erasurehead.delays._base import Combined, Delays, check_models
from erasurehead.delays._draws import draw
from erasurehead.errors import check_count, invalid, real

_BACK = 64  # number of steps that are looked back at a time


class _UsualOrSlow(Combined):
    """Workers whose messages have one of two delays; subclasses decide which."""

    usual: Delays
    slow: Delays

    @abstractmethod
    def is_slow(self, first: int, count: int, n_workers: int, unit: int = 0) -> BoolArray:
        """Return which workers are slow in which steps, shape (count, n_workers)."""

    @property
    def parts(self) -> tuple[Delays, ...]:
        return self.usual, self.slow

    def joined(self, draw: Callable[[Delays], Array], first: int, count: int, n_workers: int, unit: int) -> Array:
        return np.where(self.is_slow(first, count, n_workers, unit), draw(self.slow), draw(self.usual))


@final
@dataclass(frozen=True)
class Bimodal(_UsualOrSlow):
    """Each message is slow with a fixed probability, independently of all others.

    Arguments:
        share: probability of being slow, from 0 to 1.
        usual: the delay of a message that is not slow.
        slow: the delay of a slow message.
        seed: seed of the choice, at least 0.
    """

    name = "bimodal"
    share: float
    usual: Delays
    slow: Delays
    seed: int = 0

    def __post_init__(self) -> None:
        check_models("usual", (self.usual,))
        check_models("slow", (self.slow,))
        if not 0.0 <= real(self.share) <= 1.0:
            raise invalid("share", "must be from 0 to 1", self.share)
        check_count("seed", self.seed, at_least=0)

    @property
    def expected(self) -> float | None:
        return _mixed(self.share, self.usual, self.slow)

    def is_slow(self, first: int, count: int, n_workers: int, unit: int = 0) -> BoolArray:
        return draw("uniform", self.seed, first, count, n_workers, unit, stream=1) < self.share


@final
@dataclass(frozen=True)
class MarkovModulated(_UsualOrSlow):
    """Each worker is usual or slow, and stays so for a while: a two-state Markov chain over the steps.

    A worker is slow for 1/leave steps on average, and in a fraction enter / (enter + leave) of all steps, the first
    included. All messages of a step are in the same state.

    Arguments:
        enter: probability of turning slow from one step to the next, greater than 0.
        leave: probability of turning usual again, greater than 0; `enter + leave` is at most 1.
        usual: the delay in the usual state.
        slow: the delay in the slow state.
        seed: seed of the chain, at least 0.
    """

    name = "markov"
    enter: float
    leave: float
    usual: Delays
    slow: Delays
    seed: int = 0

    def __post_init__(self) -> None:
        check_models("usual", (self.usual,))
        check_models("slow", (self.slow,))
        for name, value in (("enter", self.enter), ("leave", self.leave)):
            if not 0.0 < real(value) <= 1.0:
                raise invalid(name, "must be greater than 0 and at most 1", value)
        if self.enter + self.leave > 1.0:
            raise invalid(
                "enter + leave", "must be at most 1, or states alternate instead of lasting", self.enter + self.leave
            )
        check_count("seed", self.seed, at_least=0)

    @property
    def expected(self) -> float | None:
        return _mixed(self.enter / (self.enter + self.leave), self.usual, self.slow)

    def is_slow(self, first: int, count: int, n_workers: int, unit: int = 0) -> BoolArray:
        """Return which workers are slow in which steps, shape (count, n_workers).

        One uniform number u moves a worker from either state: below `enter` it is slow afterwards, above
        `1 - leave` usual, and in between it stays as it was. So the state is that of the last step whose u was not
        in between, and any step can be computed without going through all earlier ones.
        """
        slow = np.empty((count, n_workers), dtype=bool)
        state = self._before(first, n_workers)
        for step, moves in enumerate(self._moves(first, count, n_workers)):
            state = np.where(moves == 0, state, moves > 0)
            slow[step] = state
        return slow

    def _moves(self, first: int, count: int, n_workers: int) -> IntArray:
        # 1: slow from here on; -1: usual; 0: as before. The first step of all is drawn from the stationary law.
        uniform = draw("uniform", self.seed, first, count, n_workers, stream=2)
        moves = (uniform < self.enter).astype(np.int64) - (uniform >= 1.0 - self.leave)
        if first == 0:
            moves[0] = np.where(uniform[0] < self.enter / (self.enter + self.leave), 1, -1)
        return moves

    def _before(self, first: int, n_workers: int) -> BoolArray:
        state = np.zeros(n_workers, dtype=bool)
        settled = np.zeros(n_workers, dtype=bool)
        while first > 0 and not settled.all():
            low = max(0, first - _BACK)
            for moves in self._moves(low, first - low, n_workers)[::-1]:
                state = np.where(settled, state, moves > 0)
                settled |= moves != 0
            first = low
        return state


def _mixed(share: float, usual: Delays, slow: Delays) -> float | None:
    """Return the mean of delays of which a fraction is slow; None if the mean of either kind is not known."""
    total = 0.0
    for part, delays in ((1.0 - share, usual), (share, slow)):
        if part > 0.0:  # a kind that never occurs may have an infinite mean
            mean = delays.expected
            if mean is None:
                return None
            total += part * mean
    return total
