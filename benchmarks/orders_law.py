"""Machines some of which are slow for a while, whose time grows with the work: see `orders.py`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead.delays import Delays

SLOWER, BEGIN = 5.0, 0.1
MOST = 2000  # steps drawn at once


@dataclass(frozen=True)
class Slowness(Delays):
    """Time that grows with the work, on machines some of which are slow for a while, and a start of its own.

    Arguments:
        enter, leave: probability of turning slow, and usual again, from one step to the next.
        task: seconds of a task on a usual machine.
        begin: mean seconds before a worker begins with an order.
        seed: of all draws.
        speeds: of the machines; all alike if empty.
    """

    enter: float
    leave: float
    task: float
    begin: float = BEGIN
    seed: int = 0
    speeds: tuple[float, ...] = ()

    def rows(
        self,
        first: int,
        count: int,
        n_workers: int,
        unit: int = 0,
        work: float | Array = 1.0,
        out: Array | None = None,
    ) -> Array:
        drawn = np.empty((count, n_workers)) if out is None else out
        drawn[:] = self.task * work * _factors(self, first + count, n_workers)[0][first:]
        if self.speeds:
            drawn /= np.array(self.speeds[:n_workers])
        if unit == 0:
            drawn += _factors(self, first + count, n_workers)[1][first:]
        return drawn

    def __str__(self) -> str:
        return f"slowness({self.enter}, {self.leave}, {self.task}, {self.begin}, {self.seed})"


_KNOWN: dict[tuple[object, int], tuple[Array, Array]] = {}


def _drawn(law: Slowness, n_workers: int) -> tuple[Array, Array]:
    if (law, n_workers) not in _KNOWN:
        _KNOWN[law, n_workers] = _draw(law, n_workers)
    return _KNOWN[law, n_workers]


def _draw(law: Slowness, n_workers: int) -> tuple[Array, Array]:
    factors, begins = np.empty((MOST, n_workers)), np.zeros((MOST, n_workers))
    for worker in range(n_workers):  # whose delays are the same however many there are
        rng = np.random.default_rng((law.seed, worker))
        slow = bool(rng.random() < law.enter / (law.enter + law.leave))
        for step, drawn in enumerate(rng.random(MOST)):
            slow = drawn >= law.leave if slow else drawn < law.enter
            factors[step, worker] = SLOWER if slow else 1.0
        if law.begin:
            begins[:, worker] = rng.exponential(law.begin, MOST)
    return factors, begins


def _factors(law: Slowness, steps: int, n_workers: int) -> tuple[Array, Array]:
    factors, begins = _drawn(law, n_workers)
    return factors[:steps], begins[:steps]
