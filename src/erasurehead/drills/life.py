"""One life of a fault schedule: a run that is struck once, and continued.

`python -m erasurehead.drills.life FOLDER NAME SEED LIFE` trains in the folder's subfolder NAME; where there is a run
already it goes on with that, and nothing strikes it any more. LIFE is -1 for the baseline run.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any, final

from erasurehead._internal.arrays import Array
from erasurehead.drills.coordinator import ENDED, RUN_FILE
from erasurehead.drills.strikes import Strike
from erasurehead.engines.base import Engine, Program
from erasurehead.engines.fault_injection import injection
from erasurehead.errors import DataError, ErasureHeadError
from erasurehead.runs.config.checking import read_config
from erasurehead.runs.experiment import Experiment
from erasurehead.training.callbacks import Callback
from erasurehead.training.rows import StepRow

_START = 0.3  # seconds after its beginning within which a coordinator is killed at the start
_WRITES = 40  # openings and renamings of files within which it is killed while files are written
_FILE_EVENTS = frozenset({"open", "os.rename", "os.remove", "os.truncate", "os.mkdir"})


def _end() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@final
class Striker(Callback):
    """Strikes.

    Arguments:
        strike: what is to be done.
        engine: where the workers are.
    """

    def __init__(self, strike: Strike, engine: Engine) -> None:
        self.strike, self.engine = strike, engine
        self._newborn = set(strike.workers) if strike.moment == "start" else set[int]()
        self._left = -1  # events of files until the coordinator is killed; negative for none
        self._assign = engine.assign
        setattr(engine, "assign", self._assigned)  # noqa: B010  # this engine's alone: who is killed has just begun

    def _assigned(self, worker: int, program: Program | None, host: str | None = None) -> None:
        self._assign(worker, program, host)
        if program is not None and worker in self._newborn:
            self._newborn.discard(worker)
            injection(self.engine).kill(worker)

    def begin(self) -> None:
        """Begin what happens to the coordinator at the start."""
        if self.strike.who != "workers" and self.strike.moment == "start":
            timer = threading.Timer(_START * self.strike.share, _end)
            timer.daemon = True
            timer.start()

    def on_start(self, seconds: float) -> None:
        if self.strike.who != "workers" and self.strike.moment == "start":
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


def main(folder: Path, name: str, seed: int, life: int) -> None:
    """Live until it is over, or struck; the process ends with 0, with `ENDED`, or by SIGKILL."""
    config = read_config(folder / RUN_FILE)
    out = folder / name
    try:
        if out.exists():
            experiment, strike = _again(folder, out), None
        else:
            where = config.run.model_copy(update={"out": str(out)})
            experiment = Experiment.from_config(config.model_copy(update={"run": where}))
            strike = None if life < 0 else Strike.drawn(seed, life, config.run.workers, config.run.steps)
        engine = experiment.engine()
        striker = None if strike is None else Striker(strike, engine)
        if striker is not None:
            striker.begin()
        experiment.run([] if striker is None else [striker], engine)
    except ErasureHeadError as error:
        sys.stderr.write(f"{error}\n")
        raise SystemExit(ENDED) from None


def _again(folder: Path, out: Path) -> Experiment:
    """Return a run that goes on from its newest checkpoint; where there is none, as the error says: from its start."""
    try:
        return Experiment.resume(out)
    except DataError:
        config = read_config(folder / RUN_FILE)
        where = config.run.model_copy(update={"out": str(out), "overwrite": True})
        return Experiment.from_config(config.model_copy(update={"run": where}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
