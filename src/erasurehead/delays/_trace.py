"""Latency traces: how long each worker took in each step, and which were not waited for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from erasurehead._internal.arrays import Array, BoolArray, IntArray, real_numbers
from erasurehead._internal.shown import shown
from erasurehead._internal.user_files import StrPath
from erasurehead.delays._base import LEAST_SECONDS, MOST_SECONDS
from erasurehead.errors import DataError, counted, invalid

TABLE = "the table"
"""The source of a trace that was built from a table in memory."""


@dataclass(frozen=True, eq=False)
class Trace:
    """Measured delays. Every run gives one.

    Arguments:
        step: step of each sample, counted from 0, shape (samples,).
        worker: worker of each sample, 0..n_workers-1, shape (samples,).
        seconds: its delay, from 0 to 1e15, shape (samples,). For a censored sample, when waiting stopped. Less than
            1e-15 is taken for 0.
        load: number of tasks that the worker computed, greater than 0, shape (samples,).
        censored: whether the worker is known only to be slower than `seconds`, shape (samples,).
        names: name of each worker in the source, shape (n_workers,).
        source: where the samples come from, for error messages.
    """

    step: IntArray
    worker: IntArray
    seconds: Array
    load: Array
    censored: BoolArray
    names: tuple[str, ...]
    source: str = "the trace"

    def __post_init__(self) -> None:
        if not len(self.seconds):
            raise DataError(f"{self.source} holds no samples.")
        if (longest := float(self.seconds.max())) > MOST_SECONDS:
            raise DataError(f"{self.source} has a delay of {longest:g} s: delays must be at most {MOST_SECONDS:g} s.")
        tiny = (self.seconds > 0.0) & (self.seconds < LEAST_SECONDS)
        if tiny.any():
            object.__setattr__(self, "seconds", np.where(tiny, 0.0, self.seconds))

    def __repr__(self) -> str:
        of = f"{counted('step', self.n_steps)} of {counted('worker', self.n_workers)}"
        return f"Trace({counted('sample', len(self.seconds))}: {of}, from {self.source})"

    @classmethod
    def from_table(cls, table: Array, source: str = TABLE, load: float = 1.0) -> Self:
        """Build a trace from a table of seconds, shape (steps, workers), NaN where none is; else as for `Trace`."""
        table = real_numbers("table", table)
        if table.ndim != 2:
            raise invalid("table", "must have shape (steps, workers)", table.shape)
        step, worker = np.nonzero(~np.isnan(table))
        seconds = table[step, worker]
        wrong = seconds[~((seconds >= 0.0) & np.isfinite(seconds))]
        if len(wrong):
            raise invalid("table", "must hold finite seconds of at least 0, or NaN", float(wrong[0]))
        return cls(
            step.astype(np.int64),
            worker.astype(np.int64),
            seconds,
            np.full(len(seconds), float(load)),
            np.zeros(len(seconds), dtype=bool),
            tuple(str(index) for index in range(table.shape[1])),
            source,
        )

    @classmethod
    def read(
        cls,
        path: StrPath,
        columns: Mapping[str, str] | None = None,
        where: Mapping[str, str | float] | None = None,
        unit: str = "s",
    ) -> Trace:
        """Read a trace. Oddities are warned about; errors raise.

        Arguments:
            path: `.csv`, `.csv.gz`, `.csv.bz2`, `.parquet`, or a run's `arrivals.jsonl`.
            columns: for files with other column names, a dict from ours to theirs: `{"step": "round", "seconds":
                "latency_s"}`; columns with the standard names need not be listed.
            where: keep only the rows in which these columns have these values: `{"region": "Tokyo", "load": 0.5}`.
            unit: unit of the seconds column: `"s"`, `"ms"`, `"us"` or `"ns"`.

        Raises:
            InvalidArgument: if `columns` has an unknown name, or the unit is unknown.
            DataError: if there is no such file, a column is missing (the message lists those that there are), a value
                is not a number, negative or NaN (the message names its line), or nothing is left.

        Warns:
            UserWarning: each of `remarks()`.
        """
        return shown("delays._trace_files", "read_trace")(path, columns, where, unit)

    @property
    def n_workers(self) -> int:
        """Number of workers."""
        return len(self.names)

    @property
    def n_steps(self) -> int:
        """Number of steps, including those with missing samples."""
        return int(self.step.max()) + 1

    def table(self, per_task: bool = False) -> Array:
        """Return the seconds, or the seconds per task, as a table, shape (n_steps, n_workers); NaN for missing samples.

        Raises:
            DataError: if a worker has two samples in one step.
        """
        table = np.full((self.n_steps, self.n_workers), np.nan)
        table[self.step, self.worker] = self.seconds / self.load if per_task else self.seconds
        filled = int(np.count_nonzero(~np.isnan(table)))
        if filled < len(self.seconds):
            key = self.step * self.n_workers + self.worker
            _, first, counts = np.unique(key, return_index=True, return_counts=True)
            at = int(first[counts > 1][0])
            raise DataError(
                f"{self.source} has several samples of worker {self.names[int(self.worker[at])]} in step "
                f"{int(self.step[at])}, and a step has one of each worker. If it has blocks, such as regions, take one "
                "(--where COLUMN=VALUE); if another column counts the steps, name it (--column step=COLUMN); if it has "
                "neither, keep one line for each worker and step."
            )
        return table

    def steps(self, first: int, stop: int) -> Self:
        """Return the samples of steps first..stop-1, renumbered from 0."""
        kept = (self.step >= first) & (self.step < stop)
        return replace(
            self,
            step=self.step[kept] - first,
            worker=self.worker[kept],
            seconds=self.seconds[kept],
            load=self.load[kept],
            censored=self.censored[kept],
        )

    def without_computing(self, seconds_per_task: float) -> Self:
        """Return the samples without the time of computing their tasks; at least 0.

        Plans and engines add the computing time for each load: total times would count it twice.

        Arguments:
            seconds_per_task: computing time per task, at least 0.
        """
        return replace(self, seconds=np.maximum(self.seconds - seconds_per_task * self.load, 0.0))

    def write(self, path: StrPath) -> None:
        """Write the samples to a file, which plans and run files can name.

        Arguments:
            path: Parquet if it ends in .parquet, compressed CSV if it ends in .gz or .bz2, else CSV.
        """
        shown("delays._trace_files", "write_trace")(self, path)

    def remarks(self) -> tuple[str, ...]:
        """Return warnings about this trace, as sentences; empty if there are none."""
        remarks: list[str] = []
        if self.n_workers == 1:
            remarks.append(f"{self.source} has one worker only: it says nothing of how workers differ.")
        if self.n_steps == 1:
            remarks.append(f"{self.source} has one step only: it says nothing of how delays change in time.")
        complete = np.bincount(self.step, minlength=self.n_steps) >= self.n_workers
        if not complete.all():
            remarks.append(f"{self.source}: {np.count_nonzero(~complete)} of {self.n_steps} steps lack some workers.")
        repeats = len(self.step) - len(np.unique(self.step * self.n_workers + self.worker))
        if repeats:
            remarks.append(
                f"{self.source}: {counted('line', repeats)} {'repeats' if repeats == 1 else 'repeat'} the worker and "
                "the step of another: samples that are counted twice make intervals too narrow, and plans and runs "
                "take one line for each worker and step."
            )
        if np.ptp(self.seconds) == 0.0:
            remarks.append(f"{self.source}: all samples are {self.seconds[0]:g} s.")
        for what, index in (("workers", self.worker), ("steps", self.step)):
            factor = _unit_gap(self.seconds, index)
            if factor:
                remarks.append(
                    f"{self.source}: the typical delays of some {what} are about {factor:,.0f} times those of others; "
                    "seconds and milliseconds may be mixed."
                )
        return tuple(remarks)


def _unit_gap(seconds: Array, index: IntArray) -> float:
    # Medians fall into two clusters that differ by a factor of about 1,000; single stalls do not move a median.
    order = np.lexsort((seconds, index))
    counts = np.bincount(index)
    starts = np.cumsum(counts) - counts
    present = counts > 1  # one delay alone is not typical
    medians = np.sort(seconds[order][starts[present] + counts[present] // 2])
    medians = medians[medians > 0.0]
    if len(medians) < 2:
        return 0.0
    gap = int(np.argmax(np.diff(np.log(medians))))
    factor = float(np.median(medians[gap + 1 :]) / np.median(medians[: gap + 1]))
    return factor if 300.0 <= factor <= 3000.0 and medians[gap + 1] / medians[gap] > 10.0 else 0.0
