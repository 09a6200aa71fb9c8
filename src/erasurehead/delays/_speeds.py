"""Shares of the work by measured speed, and when a change of speeds is worth another division.

One estimator for all that is divided by speed, be it the tasks of a code or the samples of a team's batch.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection, Sequence
from typing import final

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead._internal.documents import Entries
from erasurehead._internal.resumable import Resumable
from erasurehead._internal.shares import check_speeds
from erasurehead.errors import check_count

WINDOW = 9
"""How many of a worker's newest rates count: their median is its speed, so that four stalls among nine are nothing."""

LEAST_GAIN = 0.1
"""By which fraction the work must take longer than it would with other shares, for these to be worth a move."""

LASTS = 3
"""In how many rounds in a row it must."""

FIRST_PAUSE, LONGEST_PAUSE = 10, 640
"""Rounds from one move to the next at least: each move doubles the pause, and one in which none would pay halves it."""

_SPENT = 0.1
"""Of the time since the last move, over the moves so far and one, what trying who has nothing to do may take: it is
counted as if it were as slow as it was."""


@final
class Speeds(Resumable):
    """Measures how fast workers are, and divides the work by that; again only when a change lasts and pays.

    Shares stay as they are until in each of the last 3 rounds the slowest worker has needed 10% longer for its share
    than all would need with the best ones, and at least 10 rounds have passed since the last move. That pause doubles
    with each move, up to 640 rounds, and halves, down to 10, whenever it has passed without a round in which others
    would have paid: speeds that swing back and forth move them ever more seldom. The first move is made as soon as it
    is due. A worker of which nothing is known is taken to be like the median of the others. One that is too slow for
    the least piece of work is given that piece now and then, as it may have become faster.

    Arguments:
        n_workers: number of workers.
        given: the speeds to begin with, in any unit, one a worker; None for equal ones.

    Attributes:
        moves: number of times at which the shares have changed.
    """

    checkpointed = ("moves", "_rates", "_in_force", "_given", "_due", "_calm", "_rounds", "_pause")

    def __init__(self, n_workers: int, given: Sequence[float] | Array | None = None) -> None:
        self.n_workers = check_count("n_workers", n_workers, 1)
        self.moves = 0
        self._given: Array = np.ones(n_workers) if given is None else check_speeds(given, n_workers)
        self._in_force: Array = self._given / self._given.sum()
        self._rates = [deque[float](maxlen=WINDOW) for _ in range(n_workers)]
        self._due = 0  # rounds in a row in which a move would have paid
        self._calm = 0  # rounds in a row in which none would have
        self._rounds, self._pause = 0, FIRST_PAUSE  # since the last move, and the least number of them to the next

    @property
    def shares(self) -> Array:
        """The share of the work of each worker, shape (n_workers,); they add up to 1."""
        return self._in_force.copy()

    @property
    def speeds(self) -> Array:
        """The speed of each worker, in work a second, shape (n_workers,); relative ones where nothing was measured."""
        measured = np.array([np.median(rates) if rates else math.nan for rates in self._rates])
        if np.isnan(measured).all():
            return self._given.copy()
        # what was given says how those that have not been heard of compare with the others
        scale = float(np.nanmedian(measured / self._given))
        return np.where(np.isnan(measured), scale * self._given, measured)

    def observe(self, worker: int, work: float, seconds: float) -> None:
        """Take how long a worker needed for some work by itself; nothing is learned from no work or no time.

        Arguments:
            worker: its number.
            work: in any unit, the same for all.
            seconds: without what it waited for others.
        """
        if 0.0 < work < math.inf and 0.0 < seconds < math.inf:
            self._rates[worker].append(work / seconds)

    def settle(self, idle: Collection[int] = (), least: float = 0.0) -> bool:
        """End a round: move the shares if that is due, and return whether they were moved.

        Arguments:
            idle: the workers that have nothing to do.
            least: the share of the work that somebody who has something to do has at least.
        """
        speeds = self.speeds
        self._rounds += 1
        takes = float((self._in_force / speeds).max())
        resting = 0.0 if self._rounds <= self._pause else self._rounds * takes / (1 + self.moves)
        tried = [worker for worker in idle if LASTS * least <= _SPENT * resting * speeds[worker]]
        for worker in tried:
            self._rates[worker] = deque([least / takes], maxlen=WINDOW)
        if tried:
            self._move()
            self._rounds = self._pause  # nobody waits for longer than need be if it is as slow as before
            return True
        pays = takes * float(speeds.sum()) - 1.0 > LEAST_GAIN
        self._due, self._calm = (self._due + 1, 0) if pays else (0, self._calm + 1)
        if self._calm > self._pause > FIRST_PAUSE:
            self._pause, self._calm = self._pause // 2, 0
        if self._due < LASTS or (self.moves and self._rounds <= self._pause):
            return False
        self._move()
        return True

    def _move(self) -> None:
        """Put the best shares in force."""
        speeds = self.speeds
        self._pause = min(2 * self._pause, LONGEST_PAUSE) if self.moves else FIRST_PAUSE
        self.moves += 1
        self._in_force, self._due, self._rounds = speeds / speeds.sum(), 0, 0

    def restore(self, state: Entries) -> None:
        super().restore(state)
        self._rates = [deque(rates, maxlen=WINDOW) for rates in self._rates]  # which are lists in a state
