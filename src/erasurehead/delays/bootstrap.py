"""Delays drawn from a trace: whole rounds, or each worker's own samples, or all samples alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Self, TypeAlias, cast, final

import numpy as np

from erasurehead._internal.arrays import Array, IntArray
from erasurehead.delays.base import Delays, numbers
from erasurehead.delays.distributions import grow
from erasurehead.delays.draws import draw
from erasurehead.delays.trace import Trace
from erasurehead.delays.trace_files import read_trace
from erasurehead.errors import DataError, check_count, invalid

Keep: TypeAlias = Literal["rounds", "workers", "pooled"]
"""What a draw keeps together: all workers of a round, each worker's own samples, or nothing."""


@final
@dataclass(frozen=True, eq=False)
class Bootstrap(Delays):
    """The empirical distribution of a trace.

    Arguments:
        table: seconds, shape (steps, workers), complete; under the scaled law, seconds of one task.
        keep: `"rounds"` draws a recorded round for each step, so that workers are slow together as they were;
            `"workers"` draws for each worker from its own samples; `"pooled"` from all samples, for any number of
            workers.
        block: how many successive rounds are taken together: 1 breaks the correlation in time, more keeps it over
            so many steps (the trace is taken as a circle). Only 1 with `"pooled"`.
        seed: at least 0.
        scale_with_load: whether delays grow with the load.
        source: the file the table was read from, for configurations; empty if there is none.
    """

    table: Array
    keep: Keep = "rounds"
    block: int = 1
    seed: int = 0
    scale_with_load: bool = False
    source: str = ""

    def __post_init__(self) -> None:
        table = numbers(self.table, "table").copy()
        if table.ndim != 2 or not table.size or not ((table >= 0.0) & np.isfinite(table)).all():
            raise invalid("table", "must be finite seconds of at least 0, shape (steps, workers)", table.shape)
        if self.keep not in ("rounds", "workers", "pooled"):
            raise invalid("keep", "must be 'rounds', 'workers' or 'pooled'", self.keep)
        check_count("block", self.block, at_least=1, at_most=1 if self.keep == "pooled" else None)
        check_count("seed", self.seed, at_least=0)
        table.flags.writeable = False
        object.__setattr__(self, "table", table)

    @classmethod
    def from_trace(
        cls, trace: Trace, keep: Keep = "rounds", block: int = 1, seed: int = 0, scale_with_load: bool = False
    ) -> Self:
        """Draw from a trace; steps that lack a worker are left out.

        Raises:
            DataError: some samples are censored (drawing them as they are would make everybody look fast), or no
                step is complete.
        """
        n_censored = int(trace.censored.sum())
        if n_censored:
            raise DataError(
                f"{trace.source}: {n_censored} of {len(trace.seconds)} samples are censored, so that the slow delays "
                "are not known; fit a distribution instead, which takes account of them."
            )
        table = trace.table()
        if scale_with_load:
            loads = np.full_like(table, np.nan)
            loads[trace.step, trace.worker] = trace.load
            table = table / loads
        complete = ~np.isnan(table).any(axis=1)
        if not complete.any():
            raise DataError(f"{trace.source}: no step has samples of all {trace.n_workers} workers.")
        return cls(table[complete], keep, block, seed, scale_with_load, trace.source)

    @classmethod
    def from_file(
        cls, path: str, keep: str = "rounds", block: int = 1, seed: int = 0, scale_with_load: bool = False
    ) -> Self:
        """Draw from a trace file with our own column names: what a configuration says."""
        return cls.from_trace(read_trace(path), cast("Keep", keep), block, seed, scale_with_load)

    def rows(
        self, first: int, count: int, n_workers: int, unit: int = 0, work: float | Array = 1.0, out: Array | None = None
    ) -> Array:
        n_steps = len(self.table)
        self.check_workers(n_workers)
        size = self.table.size if self.keep == "pooled" else n_steps
        chosen = self._chosen(first, count, 1 if self.keep == "rounds" else n_workers, unit, size)
        pool = self.table.ravel() if self.keep == "pooled" else self.table
        values = pool[chosen] if self.keep == "pooled" else pool[chosen, np.arange(n_workers)]
        if out is not None:
            out[:] = values
            values = out
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
                "the trace", f"must have {n_workers} workers", f"{recorded} workers",
                "keep='pooled' draws for any number",
            )  # fmt: skip

    def __str__(self) -> str:
        text = f"bootstrap({self.source!r}, keep={self.keep!r}, block={self.block}, seed={self.seed}"
        return f"{text}, scale_with_load=True)" if self.scale_with_load else f"{text})"
