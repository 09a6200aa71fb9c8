"""The latest samples of how long answers took, and what is known of each worker's silence."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from erasurehead._internal.arrays import Array, BoolArray, Tree
from erasurehead._internal.documents import Entries
from erasurehead._internal.resumable import Resumable


@dataclass
class Silence:
    """What is known about one worker.

    Attributes:
        since: when its present silence began; None if it has nothing to answer.
        heard: when it was last heard from; None if never.
        silent: seconds of silence since then in orders that it has dropped.
        orders: number of those orders.
        body, beyond: hazard of the silence in those orders.
        answers, hazard: discounted totals over silences that ended in an answer; their ratio is its slowness.
        due: when it will be suspected, if that has been computed.
        times: how many times as much work as a gradient it has to answer; `ahead`, what it has after that.
    """

    since: float | None = None
    heard: float | None = None
    silent: float = 0.0
    body: float = 0.0
    beyond: float = 0.0
    orders: int = 0
    answers: float = 0.0
    hazard: float = 0.0
    due: float | None = None
    times: float = 1.0
    ahead: float = 1.0


class Window(Resumable):
    """The latest samples, in a ring.

    Arguments:
        size: number of samples that are kept.

    Attributes:
        taken: number of samples ever taken.
        answers: number of answers among them.
        kept_answers: number of answers among the kept samples.
    """

    def __init__(self, size: int) -> None:
        self.taken = self.answers = self.kept_answers = 0
        # Seconds, censored, worker; written through Python's own array, which takes a tenth of the time for a number.
        self._cells = array("d", bytes(24 * size))
        self._ring = np.frombuffer(self._cells).reshape(size, 3)
        self._size = size

    def __len__(self) -> int:
        return min(self.taken, self._size)

    def add(self, seconds: float, censored: bool, worker: int) -> None:
        """Add a sample: an answer or, if censored, a silence that ended without one."""
        cells, place = self._cells, 3 * (self.taken % self._size)
        if self.taken >= self._size:
            self.kept_answers -= cells[place + 1] == 0.0
        cells[place], cells[place + 1], cells[place + 2] = seconds if seconds > 0.0 else 0.0, censored, worker
        self.taken += 1
        if not censored:
            self.answers += 1
            self.kept_answers += 1

    def samples(self, suspects: Sequence[int]) -> tuple[Array, BoolArray]:
        """Return seconds and whether they are censored, without the silence of suspects."""
        ring = self._ring[: len(self)]
        censored = ring[:, 1] > 0.0
        if not suspects:
            return ring[:, 0].copy(), censored
        kept = ~(censored & np.isin(ring[:, 2], suspects))
        return ring[kept, 0], censored[kept]

    def state(self) -> dict[str, Tree]:
        """Return everything that `restore` needs."""
        return {"samples": self._ring[: len(self)].copy(), "taken": self.taken, "answers": self.answers}

    def restore(self, state: Entries) -> None:
        """Continue from what `state` returned, in a window of the same size."""
        self._ring[: len(state["samples"])] = state["samples"]
        self.taken, self.answers = int(state["taken"]), int(state["answers"])
        self.kept_answers = int(np.count_nonzero(self._ring[: len(self), 1] == 0.0))
