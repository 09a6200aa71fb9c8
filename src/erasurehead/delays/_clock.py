"""Delays that depend on time: models that follow the clock, traces in their own order, stalls that last.

A delay that is drawn per step is drawn twenty times as often by a method with twenty times as many steps. These delays
are drawn by the time when an order is posted instead.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Self, final

import numpy as np

from erasurehead._internal.arrays import Array, real_numbers
from erasurehead._internal.foreign_arrays import freeze
from erasurehead.delays._base import Around, Combined, Declared, Delays, check_models, room
from erasurehead.delays._distributions import grow
from erasurehead.delays._draws import draw
from erasurehead.delays._trace import Trace
from erasurehead.errors import DataError, check_count, check_positive, counted, invalid

_BLOCK = 256  # stalls of each worker that are drawn at once


def _check_seconds(name: str, value: float) -> None:
    check_positive(name, value, "must be a finite number of seconds greater than 0")


@final
@dataclass(frozen=True)
class AlongClock(Around, Declared):
    """A model whose draws follow the clock: orders posted in the same interval of time meet the same draw.

    `along(markov(...), every=1.0)` keeps a worker slow for as many seconds as the chain stays, not for as many steps;
    `along(trace('trace.csv'), every=0.5)` plays a trace with two rounds a second.

    Arguments:
        model: the model to draw from; draw k is for orders posted at times in [k * every, (k + 1) * every).
        every: length of an interval, in seconds, greater than 0.
    """

    name = "along"
    model: Delays
    every: float
    follows_clock = True

    def __post_init__(self) -> None:
        _check_seconds("every", self.every)
        check_models("model", (self.model,))
        if self.model.follows_clock:
            raise invalid("model", "must be one that is drawn by the step", str(self.model), "it follows the clock")

    def draw_of(self, step: int, posted: float) -> int:
        return int(max(posted, 0.0) / self.every)


@final
@dataclass(frozen=True, eq=False)
class InOrder(Delays):
    """A trace in its own order, round after round, and from the beginning again after its end.

    Nothing is drawn: unlike `Bootstrap` it keeps the order of the rounds. Under `along` its rounds are `every` seconds
    apart.

    Arguments:
        table: seconds, shape (rounds, workers), without missing values; under the scaled law, seconds of one task.
        start: the round at which it begins.
        scale_with_load: whether delays grow with the load.
        source: the file that the table was read from, for run files; empty if there is none.
    """

    table: Array
    start: int = 0
    scale_with_load: bool = False
    source: str = ""

    def __post_init__(self) -> None:
        table = real_numbers("table", self.table).copy()
        if table.ndim != 2 or not table.size or not ((table >= 0.0) & np.isfinite(table)).all():
            raise invalid("table", "must be finite seconds of at least 0, shape (rounds, workers)", table.shape)
        check_count("start", self.start, at_least=0)
        object.__setattr__(self, "table", freeze(table))

    @classmethod
    def from_trace(cls, trace: Trace, start: int = 0, scale_with_load: bool = False) -> Self:
        """Build the model from a trace; rounds that lack a worker are left out.

        Raises:
            DataError: if some samples are censored, or no round is complete.
        """
        if trace.censored.any():
            raise DataError(
                f"{trace.source}: {int(trace.censored.sum())} of {len(trace.seconds)} samples are censored, so that "
                "the slow delays are not known; fit a distribution instead, which takes them into account."
            )
        table = trace.table(per_task=scale_with_load)
        complete = ~np.isnan(table).any(axis=1)
        if not complete.any():
            raise DataError(f"{trace.source}: no step has samples of all {trace.n_workers} workers.")
        return cls(table[complete], start, scale_with_load, trace.source)

    @classmethod
    def from_file(cls, path: str, start: int = 0, scale_with_load: bool = False) -> Self:
        """Build the model from a trace file with the standard column names, as run files do."""
        return cls.from_trace(Trace.read(path), start, scale_with_load)

    @property
    def rounds_known(self) -> int:
        return len(self.table)

    def rows(
        self, first: int, count: int, n_workers: int, unit: int = 0, work: float | Array = 1.0, out: Array | None = None
    ) -> Array:
        self.check_workers(n_workers)
        values = room(out, count, n_workers)
        values[:] = self.table[(self.start + np.arange(first, first + count)) % len(self.table), :n_workers]
        return grow(values, work, self.scale_with_load)

    def check_workers(self, n_workers: int) -> None:
        if n_workers > self.table.shape[1]:
            raise invalid(
                "the trace", f"must have {counted('worker', n_workers)}", f"{counted('worker', self.table.shape[1])}"
            )

    def __str__(self) -> str:
        text = f"trace({self.source!r}, start={self.start}"
        return f"{text}, scale_with_load=True)" if self.scale_with_load else f"{text})"


@final
@dataclass(frozen=True)
class Stalls(Declared):
    """Workers that stall for a while, each at its own times, and answer when the stall is over.

    Each worker runs for an exponential time and then stalls for another: an order that is posted during a stall waits
    for its end, and other orders are not delayed. Add whatever else takes time: `stalls(20, 3) + ...`. Only the first
    message of an order waits, as the others come after it.

    Arguments:
        every: mean seconds between the end of a stall and the next, greater than 0.
        lasting: mean seconds of a stall, greater than 0.
        seed: at least 0.
        resolution: resolution of an order's time, in seconds, greater than 0.
    """

    name = "stalls"
    every: float
    lasting: float
    seed: int = 0
    resolution: float = 0.001
    follows_clock = True

    def __post_init__(self) -> None:
        for name in ("every", "lasting", "resolution"):
            _check_seconds(name, getattr(self, name))
        check_count("seed", self.seed, at_least=0)

    @property
    def expected(self) -> float:
        # Seen at a random moment, an exponential stall has its mean length before it.
        return self.lasting * self.lasting / (self.every + self.lasting)

    def draw_of(self, step: int, posted: float) -> int:
        return int(max(posted, 0.0) / self.resolution)

    def rows(
        self, first: int, count: int, n_workers: int, unit: int = 0, work: float | Array = 1.0, out: Array | None = None
    ) -> Array:
        values = room(out, count, n_workers)
        if unit:
            values[:] = 0.0
            return values
        moments = np.arange(first, first + count) * self.resolution
        blocks = 1
        while True:
            edges = _edges(self.every, self.lasting, self.seed, n_workers, blocks)
            if edges[:, -1].min() > moments[-1]:
                break
            blocks *= 2
        for worker in range(n_workers):
            # Edges: when the first stall begins, when it ends, when the second begins, and so on.
            place = np.searchsorted(edges[worker], moments, side="right")
            values[:, worker] = np.where(place % 2 == 1, edges[worker][np.minimum(place, len(edges[0]) - 1)], moments)
        values -= moments[:, None]
        return values


@lru_cache(maxsize=32)
def _edges(every: float, lasting: float, seed: int, n_workers: int, blocks: int) -> Array:
    """Return when each worker's stalls begin and end, alternately, shape (n_workers, 2 * blocks * _BLOCK)."""
    count = blocks * _BLOCK
    lengths = np.empty((n_workers, 2 * count))
    lengths[:, ::2] = draw("exponential", seed, 0, count, n_workers, 0, stream=5, factor=every).T
    lengths[:, 1::2] = draw("exponential", seed, 0, count, n_workers, 0, stream=6, factor=lasting).T
    return np.cumsum(lengths, axis=1)


@final
@dataclass(frozen=True)
class PerOrder(Combined, Around):  # pyright: ignore[reportIncompatibleVariableOverride]
    """A model that delays each order once: only the first message of a worker.

    Arguments:
        model: the model of that delay.
    """

    name = "per_order"
    model: Delays

    def __post_init__(self) -> None:
        check_models("model", (self.model,))

    @property
    def parts(self) -> tuple[Delays, ...]:
        return (self.model,)

    def joined(self, draw: Callable[[Delays], Array], first: int, count: int, n_workers: int, unit: int) -> Array:
        if unit == 0:
            return draw(self.model)
        self.check_workers(n_workers)
        return np.zeros((count, n_workers))
