"""Delays that are given, not drawn: none, the same workers late, a table, or a recorded run."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, final

import numpy as np

from erasurehead._internal.arrays import Array, real_numbers
from erasurehead._internal.documents import Entries
from erasurehead._internal.foreign_arrays import freeze
from erasurehead._internal.resources import check_memory
from erasurehead._internal.storage.checksums import check_beside
from erasurehead._internal.user_files import readable
from erasurehead.delays._base import MOST_SECONDS, Declared, Delays, room
from erasurehead.delays._script import Script
from erasurehead.errors import DataError, check_count, counted, invalid, real


@final
@dataclass(frozen=True)
class NoDelay(Delays):
    """No delay at all."""

    @property
    def expected(self) -> float:
        return 0.0

    def rows(
        self, first: int, count: int, n_workers: int, unit: int = 0, work: float | Array = 1.0, out: Array | None = None
    ) -> Array:
        values = room(out, count, n_workers)
        values[:] = 0.0
        return values

    def __str__(self) -> str:
        return "none()"


@final
@dataclass(frozen=True)
class Late(Declared):
    """The same workers are late in every step, and the others immediate: an adversary, or broken machines.

    Arguments:
        workers: the workers that are late, at least one, each at least 0.
        by: their delay in seconds, at least 0; inf, the default, means that they never answer.
        since: the first step in which they are late.
    """

    name = "late"
    workers: tuple[int, ...]
    by: float = math.inf
    since: int = 0

    def __post_init__(self) -> None:
        given: Any = self.workers
        if isinstance(given, str) or not isinstance(given, Sequence):
            raise invalid("workers", "must be a list of workers", self.workers, "late([3]) makes worker 3 late")
        if not len(self.workers):
            raise invalid("workers", "must name at least one worker", self.workers, "none() is for no delays at all")
        for position, worker in enumerate(self.workers):
            check_count(f"workers[{position}]", worker, at_least=0)
        if not real(self.by) >= 0.0:
            raise invalid("by", "must be at least 0", self.by)
        check_count("since", self.since, at_least=0)

    def rows(
        self, first: int, count: int, n_workers: int, unit: int = 0, work: float | Array = 1.0, out: Array | None = None
    ) -> Array:
        values = room(out, count, n_workers)
        values[:] = 0.0
        values[max(0, self.since - first) :, [worker for worker in self.workers if worker < n_workers]] = self.by
        return values

    def check_workers(self, n_workers: int) -> None:
        beyond = [worker for worker in self.workers if worker >= n_workers]
        if beyond:
            raise invalid("workers", f"must be among the {n_workers} workers, from 0 to {n_workers - 1}", beyond[0])


@final
@dataclass(frozen=True)
class Fixed(Declared):
    """A table of delays: step t uses row `t % len(table)`, and all messages of a step have the same delay.

    Arguments:
        table: one row per step, one column per worker, in seconds, each at least 0; inf means no answer.
    """

    name = "fixed"
    table: tuple[tuple[float, ...], ...]

    def __post_init__(self) -> None:
        try:
            rows = tuple(tuple(float(value) for value in row) for row in self.table)
        except (TypeError, ValueError):
            raise invalid("table", "must have rows of numbers", self.table) from None
        if not rows or not rows[0] or len({len(row) for row in rows}) > 1:
            shape = [len(row) for row in rows]
            raise invalid("table", "must have at least one row and one column, and rows of equal length", shape)
        for step, row in enumerate(rows):
            for worker, value in enumerate(row):
                if not value >= 0.0:
                    raise invalid(f"table[{step}][{worker}]", "must be at least 0", value)
                if MOST_SECONDS < value < math.inf:
                    raise invalid(f"table[{step}][{worker}]", f"must be inf, or at most {MOST_SECONDS:g}", value)
        object.__setattr__(self, "table", rows)

    def rows(
        self, first: int, count: int, n_workers: int, unit: int = 0, work: float | Array = 1.0, out: Array | None = None
    ) -> Array:
        self.check_workers(n_workers)
        values = room(out, count, n_workers)
        values[:] = [self.table[step % len(self.table)][:n_workers] for step in range(first, first + count)]
        return values

    def check_workers(self, n_workers: int) -> None:
        if n_workers > len(self.table[0]):
            raise invalid(
                "table",
                f"must have a column for each of {counted('worker', n_workers)}",
                f"{counted('column', len(self.table[0]))}",
            )


@final
@dataclass(frozen=True, eq=False)
class Recorded(Delays):
    """The arrivals of an earlier run, step by step, for replays.

    Arguments:
        table: when each message came, counted from the worker's previous message (the first one from the order), in
            seconds; inf where it never came. Shape (units, steps, workers).
        first_step: the step of the table's first row.
        source: the file that it was read from, for run files; empty if there is none.
        order: the order of messages that came at the same moment: smaller numbers were first, inf if not known. Same
            shape as the table; None if nothing is known.
        script: what came in each round of the run. The virtual engine then replays it exactly, late work included,
            whatever the engine otherwise does with late work; None for only a table of delays.
    """

    table: Array
    first_step: int = 0
    source: str = ""
    order: Array | None = None
    script: Script | None = None

    def __post_init__(self) -> None:
        table = real_numbers("table", self.table)
        if table.ndim != 3 or not table.size:
            raise invalid("table", "must have shape (units, steps, workers), none of them 0", table.shape)
        if not (table >= 0.0).all():
            raise invalid("table", "must hold seconds of at least 0, or inf", float(table[~(table >= 0.0)][0]))
        object.__setattr__(self, "table", freeze(table.copy()))
        if self.order is not None:
            order = np.array(self.order, dtype=np.float64)
            if order.shape != table.shape:
                raise invalid("order", f"must have the shape of the table, {table.shape}", order.shape)
            object.__setattr__(self, "order", freeze(order))

    @classmethod
    def from_rows(cls, rows: Iterable[Entries], source: str = "", steps: Iterable[Entries] | None = None) -> Self:
        """Build the replay from arrival records.

        Arguments:
            rows: with the keys step, worker, unit, seconds, censored, late and rank of
                `erasurehead.training.ArrivalRow`; `seconds` counts from the order. A censored message never comes,
                unless a later record has it late.
            source: the file that they come from, if any.
            steps: the rows of the run's steps, to replay it round by round; None for only a table of delays.

        Raises:
            DataError: if there are no arrivals.
        """
        came: dict[tuple[int, int, int], float] = {}
        ranks: dict[tuple[int, int, int], float] = {}
        rows = list(rows)
        for row in rows:
            key = (int(row["unit"]), int(row["step"]), int(row["worker"]))
            seconds = np.inf if row.get("censored") and not row.get("late") else float(row["seconds"])
            came[key] = min(seconds, came.get(key, np.inf))
            if row.get("rank") is not None:
                ranks[key] = float(row["rank"])
        if not came:
            raise DataError(f"{source or 'the records'} hold no arrivals, so that there is nothing to replay.")
        keys = np.array(list(came), dtype=np.int64)
        first = int(keys[:, 1].min())
        lengths = (int(keys[:, 0].max()) + 1, int(keys[:, 1].max()) + 1 - first, int(keys[:, 2].max()) + 1)
        size = f"{counted('step', lengths[1])} of {counted('worker', lengths[2])}"
        check_memory(f"{source or 'the records'}: a table of {size}", 24 * math.prod(lengths))
        absolute = np.full(lengths, np.inf)
        absolute[keys[:, 0], keys[:, 1] - first, keys[:, 2]] = list(came.values())
        table = absolute.copy()
        before = np.where(np.isfinite(absolute[:-1]), absolute[:-1], 0.0)
        table[1:] = np.maximum(absolute[1:] - before, 0.0)
        order = None
        if ranks:
            order = np.full(table.shape, np.inf)
            ranked = np.array(list(ranks), dtype=np.int64)
            order[ranked[:, 0], ranked[:, 1] - first, ranked[:, 2]] = list(ranks.values())
        return cls(table, first, source, order, None if steps is None else Script.of(steps, rows))

    @classmethod
    def from_file(cls, path: str, rounds: bool = False) -> Self:
        """Build the replay from a run's `arrivals.jsonl`.

        Arguments:
            path: path of the file.
            rounds: whether the run is to be replayed round by round, with the same scheme and optimizer, as by
                `erasurehead.runs.replay`: `steps.jsonl` must then lie beside the file. Otherwise the result is a model
                of the delays, for any scheme.
        """
        from erasurehead.delays._run_traces import check_arrival, json_lines

        rows: list[Entries] = []
        check_beside(path)
        for number, row in json_lines(readable(path)):
            lacking = [key for key in ("unit", "step", "worker", "seconds") if key not in row]
            if lacking:
                raise DataError(f"{path}, line {number}, is not an arrival: it lacks {', '.join(lacking)}.")
            check_arrival(row, f"{path}, line {number}")
            rows.append(row)
        if not rounds:
            return cls.from_rows(rows, str(path))
        beside = Path(path).with_name("steps.jsonl")
        check_beside(beside)
        try:
            return cls.from_rows(rows, str(path), [row for _, row in json_lines(beside)])
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, DataError):
                raise
            raise DataError(f"{beside} is not a record of a run's steps: {error!r}.") from None

    def rows(
        self, first: int, count: int, n_workers: int, unit: int = 0, work: float | Array = 1.0, out: Array | None = None
    ) -> Array:
        units, steps, workers = self.table.shape
        low = first - self.first_step
        if low < 0 or low + count > steps or n_workers > workers or unit >= units:
            raise invalid(
                "the recorded run",
                f"must hold steps {first} to {first + count - 1}, message {unit}, of {counted('worker', n_workers)}",
                f"steps {self.first_step} to {self.first_step + steps - 1}, {counted('message', units)}, "
                f"{counted('worker', workers)}",
            )
        values = room(out, count, n_workers)
        values[:] = self.table[unit, low : low + count, :n_workers]
        return values

    def check_workers(self, n_workers: int) -> None:
        recorded = self.table.shape[2]
        if n_workers > recorded:
            raise invalid(
                "the recorded run", f"must have {counted('worker', n_workers)}", f"{counted('worker', recorded)}"
            )

    def ranks(self, first: int, count: int, n_workers: int, unit: int = 0) -> Array | None:
        low = first - self.first_step
        return None if self.order is None else self.order[unit, low : low + count, :n_workers]

    def __str__(self) -> str:
        return f"recorded({self.source!r}{', rounds=True' if self.script is not None else ''})"
