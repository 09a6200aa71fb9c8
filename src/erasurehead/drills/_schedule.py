"""Fault schedules: faults with their times; plain data, drawn from a seed, stored as TOML."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast, get_args

import numpy as np

from erasurehead._internal.atomic_files import write_whole
from erasurehead._internal.documents import Entries, PlainData
from erasurehead._internal.typed import written
from erasurehead._internal.user_files import StrPath
from erasurehead.drills._lying_program import LIES
from erasurehead.errors import InvalidArgument, check_choice, check_count, check_not_negative, check_positive, invalid
from erasurehead.runs._config.toml import read_tables, to_toml

Kind: TypeAlias = Literal["kill", "stop", "slow", "corrupt", "disconnect", "disk_full", "coordinator"]

KINDS: tuple[Kind, ...] = get_args(Kind)
"""Every kind of fault: the first five strike a worker, the others the coordinator."""

OF_WORKERS: tuple[Kind, ...] = ("kill", "stop", "slow", "corrupt", "disconnect")
SILENCING: tuple[Kind, ...] = ("stop", "disconnect")
"""The kinds that keep a worker from answering until they are over."""

_AT_ONCE: tuple[Kind, ...] = ("kill", "coordinator")
_LASTING = frozenset({"stop", "slow", "disconnect", "disk_full"})
_CALM = 0.05  # fraction of the time before the first fault
_OVER = 0.85  # fraction of the time after which there are no faults
_PERIOD = 600.0  # seconds in which a worker meets about one fault, and the coordinator one of each kind
_SECONDS = "must be a finite number of seconds, at least 0"


@dataclass(frozen=True)
class Fault:
    """A fault.

    Arguments:
        kind: `"kill"` (SIGKILL), `"stop"` (the process hangs until it is continued), `"slow"` (each message arrives
            `by` seconds later), `"corrupt"` (its messages are wrong), `"disconnect"` (no order and no message gets
            through), `"disk_full"` (the coordinator can write to no file), `"coordinator"` (it is killed by SIGKILL).
        at: when it happens, in seconds since the first order of the run, at least 0.
        worker: number of the worker; None for faults of the coordinator.
        lasting: seconds until it is over; None if it is permanent. Kills are permanent.
        by: seconds of delay, for `"slow"`.
        lie: one of `LIES`, for `"corrupt"`.
    """

    kind: Kind
    at: float
    worker: int | None = None
    lasting: float | None = None
    by: float = 0.0
    lie: str = ""

    def __post_init__(self) -> None:
        check_choice("kind", self.kind, KINDS)
        check_not_negative("at", self.at, _SECONDS)
        if self.kind in OF_WORKERS:
            check_count(f"worker of {self.kind}", self.worker, at_least=0)
        elif self.worker is not None:
            raise invalid(
                f"worker of {self.kind}", "must be left out, because this fault strikes the coordinator", self.worker
            )
        if self.lasting is not None:
            if self.kind in _AT_ONCE:
                raise invalid(
                    f"lasting of {self.kind}", "must be left out, because this fault takes no time", self.lasting
                )
            check_not_negative("lasting", self.lasting, _SECONDS)
        elif self.kind in _LASTING:
            raise invalid(f"lasting of {self.kind}", "must be a number of seconds", self.lasting)
        check_not_negative("by", self.by, _SECONDS)
        if (self.by > 0.0) != (self.kind == "slow"):
            raise invalid(f"by of {self.kind}", "must be positive for slow, and left out for other kinds", self.by)
        if self.lie not in (LIES if self.kind == "corrupt" else ("",)):
            raise invalid(
                f"lie of {self.kind}",
                f"must be one of {', '.join(LIES)} for corrupt, and left out for all else",
                self.lie,
            )

    @staticmethod
    def drawn(
        seed: int,
        workers: int,
        seconds: float,
        kinds: Iterable[Kind] = KINDS,
        apart: Sequence[Sequence[int]] | None = None,
    ) -> tuple[Fault, ...]:
        """Draw faults, in the order of time: each kind at least once, and about one fault per worker in ten minutes.

        No worker meets two faults at once. At most one worker in ten lies, and no two that hold the same data, as the
        guarantees do not cover a majority of lies.

        Arguments:
            seed: seed of the draws; the same arguments give the same faults.
            workers: number of workers, at least 1.
            seconds: duration of the baseline run. The first 5% and the last 15% are free of faults.
            kinds: kinds of faults to draw.
            apart: groups of workers with the same data, of each of which one may lie; by default any worker may.

        >>> [fault.kind for fault in Fault.drawn(0, workers=9, seconds=60.0, kinds=("kill", "stop"))]
        ['kill', 'stop']
        """
        check_count("seed", seed, at_least=0)
        check_count("workers", workers)
        check_positive("seconds", seconds, "must be a finite number of seconds, positive")
        chosen: list[Kind] = [kind for kind in KINDS if kind in set(kinds)]
        unknown = sorted(set(kinds) - set(KINDS))
        if unknown or not chosen:
            raise invalid("kinds", f"must be among {', '.join(KINDS)}", ", ".join(unknown) or "none")
        return tuple(_Drawing(seed, workers, seconds, apart).faults(chosen))

    @property
    def until(self) -> float:
        """When it is over, in seconds; inf if never. A kill is over at once."""
        if self.kind in _AT_ONCE:
            return self.at
        return math.inf if self.lasting is None else self.at + self.lasting

    def as_dict(self) -> PlainData:
        """Return the fault as plain data, without what is as by default."""
        return written(self)

    def __str__(self) -> str:
        text = self.kind.replace("_", " ")
        if self.worker is not None:
            text += f" worker {self.worker}"
        if self.kind == "slow":
            text += f" by {self.by:.3g} s"
        if self.lie:
            text += f" ({self.lie})"
        return text if self.lasting is None else f"{text}, for {self.lasting:.3g} s"


@dataclass(frozen=True)
class FaultSchedule:
    """A fault schedule: faults, in the order of time.

    Arguments:
        faults: in any order.
    """

    faults: Sequence[Fault] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.faults, Sequence) or not all(isinstance(one, Fault) for one in self.faults):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise invalid("faults", "must be a list of faults", self.faults)
        object.__setattr__(self, "faults", tuple(sorted(self.faults, key=lambda fault: fault.at)))

    def of(self, *kinds: Kind) -> list[Fault]:
        """Return the faults of the given kinds."""
        return [fault for fault in self.faults if fault.kind in kinds]


class _Drawing:
    """Draws the faults of one schedule."""

    def __init__(self, seed: int, workers: int, seconds: float, apart: Sequence[Sequence[int]] | None) -> None:
        self.rng = np.random.default_rng([seed, workers])
        self.workers, self.seconds = workers, seconds
        self.free = np.zeros(workers)  # from when on each worker is free for another fault
        self.corruptible = [list(group) for group in (apart if apart is not None else [[w] for w in range(workers)])]
        self.most_corrupted = max(1, workers // 10)  # they are put aside for good

    def faults(self, kinds: Sequence[Kind]) -> list[Fault]:
        """Return faults of these kinds, ascending in time."""
        periods = max(1, round(self.seconds / _PERIOD))
        repeated: list[Kind] = [kind for kind in kinds if kind in OF_WORKERS]
        order: list[Kind] = [kind for kind in kinds for _ in range(1 if kind in repeated else periods)]
        wanted = round(self.workers * self.seconds / _PERIOD)
        while repeated and len(order) < wanted:
            kind = repeated[int(self.rng.integers(len(repeated)))]
            if kind != "corrupt" or order.count(kind) < self.most_corrupted:
                order.append(kind)
            elif len(repeated) == 1:
                break
        order = [order[index] for index in self.rng.permutation(len(order)).tolist()]
        # Each has its own share of the time, so that faults of the coordinator do not fall on each other.
        span = (_OVER - _CALM) / len(order)
        times = [_CALM + span * (index + float(self.rng.uniform(0.1, 0.6))) for index in range(len(order))]
        drawn = [self._fault(kind, round(self.seconds * time, 3)) for kind, time in zip(order, times, strict=True)]
        return [fault for fault in drawn if fault is not None]

    def _fault(self, kind: Kind, at: float) -> Fault | None:
        length = round(self.seconds * float(self.rng.uniform(0.02, 0.06)), 3)
        by = round(self.seconds * float(self.rng.uniform(0.002, 0.01)), 3)
        lie = LIES[int(self.rng.integers(len(LIES)))]
        if kind == "disk_full":
            return Fault(kind, at, lasting=round(0.02 * self.seconds, 3))
        if kind == "coordinator":
            return Fault(kind, at)
        worker = self._worker(at, kind)
        if worker is None:
            return None
        lasting = None if kind in ("kill", "corrupt") else length
        # Who was killed needs time to be replaced, and who lies is put aside for good.
        self.free[worker] = math.inf if kind == "corrupt" else at + (lasting or 0.1 * self.seconds)
        return Fault(kind, at, worker, lasting, by if kind == "slow" else 0.0, lie if kind == "corrupt" else "")

    def _worker(self, at: float, kind: Kind) -> int | None:
        """Draw a worker that is free; None if none is."""
        free = np.flatnonzero(self.free < at).tolist()
        if kind == "corrupt":
            free = [worker for worker in free if any(worker in group for group in self.corruptible)]
        if not free:
            return None
        worker = free[int(self.rng.integers(len(free)))]
        if kind == "corrupt":
            self.corruptible = [group for group in self.corruptible if worker not in group]
        return worker


_KEYS = tuple(field.name for field in fields(Fault))


def write_schedule(schedule: FaultSchedule, path: StrPath) -> None:
    """Write a fault schedule to a TOML file."""
    text = "\n".join(f"[[fault]]\n{to_toml(fault.as_dict())}" for fault in schedule.faults)
    write_whole(Path(path), [text.encode()])


def read_schedule(path: StrPath) -> FaultSchedule:
    """Read a fault schedule from a TOML file, as written by `write_schedule`.

    Raises:
        InvalidArgument: if it cannot be read, or has something that is not a fault; the error says which.
    """
    tables = read_tables(path, "schedule file")
    rows = tables.pop("fault", [])
    if tables or not isinstance(rows, list):
        rule = "must hold tables [[fault]], and nothing else"
        raise InvalidArgument("path", rule, str(path), sentence=f"The schedule file {str(path)!r} {rule}.")
    entries = cast("list[Any]", rows)
    return FaultSchedule(tuple(_fault(row, f"{path}, fault {number}") for number, row in enumerate(entries, start=1)))


def _fault(row: Any, where: str) -> Fault:
    if not isinstance(row, Mapping):
        raise InvalidArgument("fault", f"must be a table with the keys {', '.join(_KEYS)}", row, place=where)
    given = dict(cast("Entries", row))
    unknown = [key for key in given if key not in _KEYS]
    if unknown:
        sentence = f"there is no key {unknown[0]!r}; the keys are {', '.join(_KEYS)}."
        raise InvalidArgument(unknown[0], "must be a key of a fault", sentence=sentence, place=where)
    for key in ("kind", "at"):
        if key not in given:
            raise InvalidArgument(key, "must be given", sentence=f"the key {key!r} is missing.", place=where)
    try:
        return Fault(**given)
    except InvalidArgument as error:
        raise error.but(place=where) from None
