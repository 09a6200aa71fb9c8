"""Delays drawn from a trace: whole rounds, or each worker's own samples, or all samples alike."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, Self, TypeAlias, cast, final

import numpy as np

from erasurehead._internal.arrays import Array, BoolArray, IntArray, real_numbers
from erasurehead._internal.foreign_arrays import freeze
from erasurehead.delays._base import Delays, room
from erasurehead.delays._distributions import grow
from erasurehead.delays._draws import draw
from erasurehead.delays._stationarity import effective_rounds, tail_index
from erasurehead.delays._trace import TABLE, Trace
from erasurehead.delays._unobserved import ABSENT, Absent, completed
from erasurehead.errors import check_count, counted, invalid

Keep: TypeAlias = Literal["rounds", "workers", "pooled"]
"""What a draw keeps together: all workers of a round, each worker's own samples, or nothing."""

KEEP: tuple[Keep, ...] = ("rounds", "workers", "pooled")


@final
@dataclass(frozen=True, eq=False)
class Bootstrap(Delays):
    """Delays drawn from the samples of a trace.

    Arguments:
        table: seconds, shape (steps, workers), without missing values, inf for a worker that does not answer; under the
            scaled law, seconds of one task.
        keep: `"rounds"` draws one recorded round per step, so that workers are slow together as in the trace;
            `"workers"` draws for each worker from its own samples; `"pooled"` draws from all samples, for any number
            of workers.
        block: number of successive rounds that are drawn together: 1 breaks the correlation in time, more preserves it
            over that many steps (the trace is taken as a circle). Must be 1 with `"pooled"`.
        seed: at least 0.
        scale_with_load: whether delays grow with the load.
        source: the file that the table was read from, for run files; empty if there is none.
        absent: what was assumed of workers without a row: see `erasurehead.delays._unobserved`.
        unanswered: where the file has no row, shape (steps, workers); None if it is complete.
    """

    table: Array
    keep: Keep = "rounds"
    block: int = 1
    seed: int = 0
    scale_with_load: bool = False
    source: str = ""
    absent: Absent = "censored"
    unanswered: BoolArray | None = None

    def __post_init__(self) -> None:
        table = real_numbers("table", self.table).copy()
        if table.ndim != 2 or not table.size or not (table >= 0.0).all() or not np.isfinite(table).any():
            raise invalid("table", "must be seconds of at least 0, some finite, shape (steps, workers)", table.shape)
        if self.keep not in KEEP:
            raise invalid("keep", "must be 'rounds', 'workers' or 'pooled'", self.keep)
        check_count("block", self.block, at_least=1, at_most=1 if self.keep == "pooled" else None)
        check_count("seed", self.seed, at_least=0)
        object.__setattr__(self, "table", freeze(table))

    @classmethod
    def from_trace(
        cls,
        trace: Trace,
        keep: Keep = "rounds",
        block: int = 1,
        seed: int = 0,
        scale_with_load: bool = False,
        absent: Absent = "censored",
    ) -> Self:
        """Build the model from a trace; censored and missing delays are drawn from those that took longer.

        Arguments:
            trace: at most one sample per worker and step.
            keep, block, seed, scale_with_load: as for the class.
            absent: what to assume of workers without a row in a round: see `erasurehead.delays._unobserved.completed`.

        Raises:
            DataError: if a worker has two samples in one step, or no delay is known exactly.
        """
        if absent not in ABSENT:
            raise invalid("absent", f"must be {', '.join(map(repr, ABSENT[:-1]))} or {ABSENT[-1]!r}", absent)
        whole = completed(trace, absent, scale_with_load)
        unanswered = whole.absent if whole.absent.any() and absent == "censored" else None
        source = "" if trace.source == TABLE else trace.source
        return cls(whole.seconds, keep, block, seed, scale_with_load, source, absent, unanswered)

    @classmethod
    def from_file(
        cls,
        path: str,
        keep: str = "rounds",
        block: int = 1,
        seed: int = 0,
        scale_with_load: bool = False,
        absent: str = "censored",
    ) -> Self:
        """Build the model from a trace file with the standard names, as run files do; arguments as of `Bootstrap`."""
        trace = Trace.read(path)
        return cls.from_trace(trace, cast("Keep", keep), block, seed, scale_with_load, cast("Absent", absent))

    @cached_property
    def effective_rounds(self) -> float:
        """Number of independent rounds with as much information as these, which may be correlated."""
        return effective_rounds(self.table)

    @cached_property
    def tail_index(self) -> float:
        """The exponent of the delays' tail: below 2 their mean converges more slowly than means usually do."""
        return tail_index(self.table)

    @property
    def rounds_known(self) -> int:
        return len(self.table)

    def if_dead(self) -> Bootstrap | None:
        """Return the same model if workers that did not answer never did; None if all answered."""
        if self.unanswered is None:
            return None
        return replace(self, table=np.where(self.unanswered, np.inf, self.table), absent="dead", unanswered=None)

    def rows(
        self, first: int, count: int, n_workers: int, unit: int = 0, work: float | Array = 1.0, out: Array | None = None
    ) -> Array:
        n_steps = len(self.table)
        self.check_workers(n_workers)
        size = self.table.size if self.keep == "pooled" else n_steps
        chosen = self._chosen(first, count, 1 if self.keep == "rounds" else n_workers, unit, size)
        values = room(out, count, n_workers)
        if self.keep == "rounds":
            values[:] = self.table[chosen[:, 0], :n_workers]  # several times as fast as number by number
        elif self.keep == "workers":
            values[:] = self.table[chosen, np.arange(n_workers)]
        else:
            values[:] = self.table.ravel()[chosen]
        return grow(values, work, self.scale_with_load)

    def _chosen(self, first: int, count: int, n_columns: int, unit: int, size: int) -> IntArray:
        steps = np.arange(first, first + count)
        blocks = steps // self.block
        origin = int(blocks[0])
        uniform = draw("uniform", self.seed, origin, int(blocks[-1]) - origin + 1, n_columns, unit, stream=3)
        starts = np.minimum((uniform * size).astype(np.int64), size - 1)
        return (starts[blocks - origin] + (steps % self.block)[:, None]) % size

    def check_workers(self, n_workers: int) -> None:
        recorded = self.table.shape[1]
        if self.keep != "pooled" and n_workers > recorded:
            raise invalid(
                "the trace",
                f"must have {counted('worker', n_workers)}",
                f"{counted('worker', recorded)}",
                "keep='pooled' draws for any number",
            )

    def __str__(self) -> str:
        n_rounds, n_workers = self.table.shape
        drawn = repr(self.source) if self.source else f"{counted('round', n_rounds)} of {counted('worker', n_workers)}"
        text = f"bootstrap({drawn}, keep={self.keep!r}, block={self.block}, seed={self.seed}"
        text += ", scale_with_load=True" * self.scale_with_load
        return text + (f", absent={self.absent!r})" if self.absent != "censored" else ")")
