"""One life of many: what happens to it, drawn from a seed, and how a run is struck."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self, TypeAlias, final, get_args

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead.engines import Engine, Program
from erasurehead.engines._engine_around import EngineAround
from erasurehead.engines._fault_injection import injection
from erasurehead.runs import Experiment
from erasurehead.training import Callback, StepRow

_START = 0.3  # seconds after its beginning within which a coordinator is killed at the start
_WRITES = 40  # openings and renamings of files within which it is killed while files are written
_FILE_EVENTS = frozenset({"open", "os.rename", "os.remove", "os.truncate", "os.mkdir"})

Who: TypeAlias = Literal["workers", "coordinator", "both"]
Moment: TypeAlias = Literal["start", "middle", "writing"]

_MOST_WORKERS = 3  # that are killed at once, but for all of them at the start


@dataclass(frozen=True)
class Strike:
    """Kills of one life.

    Arguments:
        who: is killed.
        moment: at the start, in the middle of a step, or while files are written.
        workers: which of them; empty if it is only the coordinator.
        step: at which it happens, of those in the middle and while files are written.
        share: how far the start, or the writing of files, has come: 0 to 1.
    """

    who: Who
    moment: Moment
    workers: tuple[int, ...]
    step: int
    share: float

    @classmethod
    def drawn(cls, seed: int, life: int, workers: int, steps: int) -> Self:
        """Draw a strike; of nine lives that follow each other, each does another of the nine kinds.

        >>> [Strike.drawn(0, life, workers=6, steps=20).moment for life in range(3)]
        ['start', 'middle', 'writing']
        """
        rng = np.random.default_rng([seed, life, workers])
        moments, whom = get_args(Moment), get_args(Who)
        moment, who = moments[life % len(moments)], whom[life // len(moments) % len(whom)]
        most = workers if moment == "start" and rng.random() < 0.3 else min(_MOST_WORKERS, workers)
        least = most if most == workers else 1
        count = int(rng.integers(least, most + 1))
        struck: list[int] = [] if who == "coordinator" else rng.choice(workers, count, replace=False).tolist()
        return cls(who, moment, tuple(sorted(struck)), int(rng.integers(1, steps - 1)), float(rng.random()))

    def __str__(self) -> str:
        whom = f"worker{'s' * (len(self.workers) > 1)} {', '.join(map(str, self.workers))}"
        victim = {"workers": whom, "coordinator": "the coordinator", "both": f"the coordinator and {whom}"}[self.who]
        at = "at the start" if self.moment == "start" else f"in step {self.step}"
        return f"{victim} killed {at}{', while files were written' * (self.moment == 'writing')}"


def life_name(life: int) -> str:
    """Return the name of the run of a life, and of its folder."""
    return f"life-{life}"


def _end() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@final
class StruckEngine(EngineAround):
    """Kills some workers as soon as they have begun.

    Arguments:
        engine: where the workers are.
        workers: those that are killed.
    """

    name: ClassVar[str] = "struck"

    def __init__(self, engine: Engine, workers: Iterable[int]) -> None:
        super().__init__(engine)
        self._newborn = set(workers)

    def assign(self, worker: int, program: Program | None, host: str | None = None) -> None:
        super().assign(worker, program, host)
        if program is not None and worker in self._newborn:
            self._newborn.discard(worker)
            self.kill(worker)


@final
class Striker(Callback):
    """Strikes, but for the workers that are killed at the start.

    Arguments:
        strike: what is to be done.
        engine: where the workers are.
    """

    def __init__(self, strike: Strike, engine: Engine) -> None:
        self.strike, self.engine = strike, engine
        self._left = -1  # events of files until the coordinator is killed; negative for none
        self._ends_at_start = strike.who != "workers" and strike.moment == "start"
        if self._ends_at_start:
            timer = threading.Timer(_START * strike.share, _end)
            timer.daemon = True
            timer.start()

    def on_start(self, seconds: float) -> None:
        if self._ends_at_start:
            _end()

    def on_step_end(self, row: StepRow, x: Array) -> None:
        if row.step != self.strike.step or self.strike.moment == "start":
            return
        for worker in self.strike.workers:
            injection(self.engine).kill(worker)
        if self.strike.who != "workers":
            if self.strike.moment == "middle":
                _end()
            self._left = round(_WRITES * self.strike.share)
            sys.addaudithook(self._audit)

    def on_state(self, step: int, state: Any) -> None:
        if self._left >= 0 and step > self.strike.step + 2:
            _end()  # fewer files were touched than it takes

    def _audit(self, event: str, arguments: Any) -> None:
        if event in _FILE_EVENTS:
            self._left -= 1
            if self._left < 0:
                _end()


def struck(experiment: Experiment, seed: int, life: int) -> tuple[Engine, list[Callback]]:
    """Return the engine and the callback with which a run lives until it is struck.

    Arguments:
        experiment: the run.
        seed: seed of the strikes.
        life: number of the life.
    """
    run = experiment.config.run
    strike = Strike.drawn(seed, life, run.workers, run.steps)
    engine = StruckEngine(experiment.engine(), strike.workers if strike.moment == "start" else ())
    return engine, [Striker(strike, engine)]
