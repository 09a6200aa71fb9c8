"""Many lives: the same run again and again, each time with other kills, and one verdict over all."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import final

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead._internal.documents import Entries, PlainData
from erasurehead._internal.resources import usable_cores
from erasurehead._internal.user_files import StrPath
from erasurehead.drills._drill import Rehearsal
from erasurehead.drills._life import Strike, life_name
from erasurehead.drills._supervisor import CommandResult, kill_all
from erasurehead.drills._verdicts import CLOSE, DrillVerdict, Judged
from erasurehead.errors import EngineError, ErasureHeadError, check_count
from erasurehead.runs import RunFolder
from erasurehead.runs._config import RunSection, merged

DELAYS = "exponential(mean=0.05, seed=0)"
"""The default injected delays."""

_TIDY = ("virtual", "processes")
"""Engines that leave nothing in the folder for temporary files. The others have files of their own there."""

_IN_A_ROW = 9  # lives that processes on the virtual clock play in a row, as starting one takes longer than a life
_CHECKPOINTS = 8  # number of checkpoints in a run
_SECONDS = 3.0  # of the run, by the engine's clock
_LIMIT = 300.0  # seconds that one process may take
_MAX_PROCESSES = 3  # processes of one life: it is struck once


@dataclass(frozen=True)
class Life:
    """The result of one life.

    Attributes:
        number: number of the life.
        strike: what was killed when.
        processes: number of processes that have coordinated it, one after the other.
        broken: the broken promises, as sentences; empty if all were kept.
    """

    number: int
    strike: Strike
    processes: int
    broken: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class LivesOutcome(Judged):
    """The results of all lives.

    Attributes:
        engine: name of the engine.
        seed: seed of the strikes.
        steps: number of steps of each life.
        lives: the result of each life.
        seconds: duration in real time.
    """

    engine: str
    seed: int
    steps: int
    lives: tuple[Life, ...]
    seconds: float

    def judge(self) -> list[DrillVerdict]:
        return [DrillVerdict(self.verdict, not self.broken)]

    @property
    def broken(self) -> list[Life]:
        """The lives in which a promise was broken."""
        return [life for life in self.lives if life.broken]

    @property
    def verdict(self) -> str:
        """The verdict, as a sentence."""
        kept = len(self.lives) - len(self.broken)
        return (
            f"{kept} of {len(self.lives)} lives on the {self.engine} engine kept every promise, in {self.seconds:.0f} s"
        )

    def as_dict(self) -> PlainData:
        lives = [{**vars(life), "strike": vars(life.strike)} for life in self.lives]
        figures = {name: value for name, value in vars(self).items() if name != "verdicts"}
        return {**figures, "lives": lives, "passed": self.passed, "verdict": self.verdict}


@final
class Lives(Rehearsal):
    """A rehearsal of many short runs, each of which is struck once, and continued.

    Arguments:
        tables: tables of the run file, above those that drills take by default.
        count: number of lives, 1 to 100,000.
        seed: seed of the strikes.
        out: folder for lives that have broken a promise, which must be unused; by default a new one in `drills`.

    Raises:
        InvalidArgument, DataError: as for `Rehearsal`.
    """

    def __init__(self, tables: Entries, count: int, seed: int = 0, out: StrPath | None = None) -> None:
        self.count = check_count("lives", count, at_most=100_000)
        super().__init__(merged({"delays": {"model": DELAYS}}, tables), _SECONDS, seed, out, _CHECKPOINTS)
        self._aborted = False

    def strike(self, life: int) -> Strike:
        """Return what is killed in a life, and when."""
        return Strike.drawn(self.seed, life, self.config.run.workers, self.steps)

    def run(self, say: Callable[[str], None] = lambda text: None) -> LivesOutcome:
        """Run all lives: on the virtual clock as many at once as there are processors, otherwise one after the other.

        Arguments:
            say: called with lines about the progress.

        Raises:
            EngineError: if the baseline run does not finish.
            MissingExtra: if what the engine needs is not installed.
        """
        begin, engine = time.monotonic(), self.config.run.engine
        self.prepare()
        at_once = usable_cores() if engine == "virtual" else 1
        in_a_row = min(_IN_A_ROW, -(-self.count // at_once)) if engine == "virtual" else 1
        rows = [range(first, min(first + in_a_row, self.count)) for first in range(0, self.count, in_a_row)]
        lives: list[Life] = []
        baseline = self.coordinate("baseline", _LIMIT)
        if baseline.code != 0:
            output = baseline.output or "it printed nothing"
            raise EngineError(f"the baseline run of a drill ended with code {baseline.code}: {output}")
        expected = RunFolder.open(self.out / "baseline").x
        with ThreadPoolExecutor(at_once) as threads:
            try:
                for life in chain.from_iterable(threads.map(partial(self._live, expected), rows)):
                    lives.append(life)
                    for text in life.broken:
                        say(f"life {life.number}, {life.strike}: {text}")
            except BaseException:
                self._aborted = True
                threads.shutdown(wait=False, cancel_futures=True)
                kill_all()
                raise
        seconds = time.monotonic() - begin
        return LivesOutcome(str(self.out), engine, self.seed, self.steps, tuple(lives), seconds).write()

    def _live(self, expected: Array, lives: Iterable[int]) -> list[Life]:
        """Play lives in a row: each process takes up the one that ended the last, and begins those after it."""
        left, played, found = [*lives], list[CommandResult](), list[Life]()
        while left and not self._aborted:
            kills = len(self.strike(left[0]).workers)
            played.append(self.coordinate("lives", _LIMIT, kills, self.seed, int(bool(played)), *left))
            while left:
                finished = _status(self.out / life_name(left[0])) == "finished"
                if not finished and played[-1].code is not None and len(played) < _MAX_PROCESSES:
                    break
                found.append(self._judged(left.pop(0), played, expected))
                played = played[-1:] if finished else []
                if not finished:
                    break
        return found

    def _judged(self, number: int, played: Sequence[CommandResult], expected: Array) -> Life:
        out, strike, run = self.out / life_name(number), self.strike(number), self.config.run
        broken_promises: list[str] = []
        if played[-1].code is None and _status(out) != "finished":
            broken_promises.append(f"a process had not ended within {_LIMIT:.0f} s")
        broken_promises += [f"left running: {', '.join(one.leftovers)}" for one in played if one.leftovers]
        if run.engine in _TIDY:
            broken_promises += [f"left in the temporary folder: {', '.join(one.files)}" for one in played if one.files]
        try:
            broken_promises += _broken_promises(RunFolder.open(out), strike, run, expected)
        except ErasureHeadError as error:
            broken_promises.append(f"{error} {played[-1].output}".strip())
        if not broken_promises:
            shutil.rmtree(out, ignore_errors=True)
        return Life(number, strike, len(played), tuple(broken_promises))


def _status(out: Path) -> str:
    try:
        return str(RunFolder.open(out).summary.get("status", ""))
    except ErasureHeadError:
        return ""


def _broken_promises(folder: RunFolder, strike: Strike, run: RunSection, expected: Array) -> Iterator[str]:
    """Yield the promises that a run has broken, as far as a user could see from its folder."""
    summary, rows, x = folder.summary, folder.step_rows(), folder.x
    if summary.get("status") != "finished":
        yield f"the run did not finish: {summary.get('reason') or summary.get('status')}"
        return
    if [row.step for row in rows] != list(range(run.steps)) or not all(row.stepped for row in rows):
        yield f"{len(rows)} of {run.steps} steps are recorded, but not each of them once and in order"
    apart = float(np.abs(x - expected).max(initial=0.0)) / max(float(np.abs(expected).max(initial=0.0)), 1e-300)
    if strike.who == "coordinator" and run.engine == "virtual":
        if not np.array_equal(x, expected):
            yield f"the model differs from that of the baseline run: relative difference {apart:.2g}"
    elif not apart <= CLOSE:
        yield f"the model differs from that of the baseline run by {apart:.2g} (at most {CLOSE:g} is allowed)"
    died = {worker for row in rows for worker in row.workers_noticed("died")}
    if strike.who == "workers":
        if died != set(strike.workers):
            yield f"the records report the deaths of workers {sorted(died)}, but {list(strike.workers)} were killed"
        if summary.get("deaths") != sum(len(row.workers_noticed("died")) for row in rows):
            yield f"the summary reports {summary.get('deaths')} deaths, but the steps of others"
    elif died - set(strike.workers):
        yield f"workers {sorted(died - set(strike.workers))} died without having been killed"
    if summary.get("workers_at_end") != run.workers:
        yield f"{summary.get('workers_at_end')} of {run.workers} workers were present at the end"
