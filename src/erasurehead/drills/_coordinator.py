"""The process that coordinates the runs of a drill, in subfolders of its folder, and resumes them where others ended.

`python -m erasurehead.drills._coordinator FOLDER ROLE` takes one run under a fault schedule, and `... FOLDER lives SEED
STRUCK LIFE...` some of many lives, until one of them is its own end. STRUCK is 1 if the first of them was the end of
another process, and is not struck again; one that was killed early enough has left no folder, from which that could be
seen.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Literal, TypeAlias, final, get_args

import numpy as np

from erasurehead._internal.atomic_files import write_whole
from erasurehead._internal.documents import PlainData
from erasurehead.drills._faulty_engine import FaultyEngine
from erasurehead.drills._journal import Journal
from erasurehead.drills._life import life_name, struck
from erasurehead.drills._schedule import OF_WORKERS, Fault, FaultSchedule, read_schedule
from erasurehead.errors import DataError, ErasureHeadError
from erasurehead.runs import Experiment, RunFolder
from erasurehead.runs._checkpoints.store import Checkpoint, CheckpointStore
from erasurehead.runs._config.checking import read_config
from erasurehead.runs._jsonl import to_text
from erasurehead.runs._names import has_checkpoints
from erasurehead.training import Run

Role: TypeAlias = Literal["baseline", "faulty", "unbroken"]
"""The run without faults; with all of them; and, on the virtual clock, with all except for those of the coordinator."""

RUN_FILE, SCHEDULE_FILE = "run.toml", "faults.toml"

ENDED = 3
"""Exit code if training has ended with an error, whose text is in the journal."""


def outcome_file(folder: Path, role: Role) -> Path:
    """Return the path of the figures of a finished run."""
    return folder / f"{role}.json"


def journal_file(folder: Path, role: Role) -> Path:
    """Return the path of the journal of a run."""
    return folder / f"{role}.jsonl"


def experiment_in(folder: Path, name: str) -> tuple[Experiment, Checkpoint | None]:
    """Return a run of a drill as it goes on from its newest checkpoint, which is returned, too, or else begins.

    Arguments:
        folder: the folder of the drill, with the run file.
        name: of the run, whose folder is in it.
    """
    out = folder / name
    checkpoint: Checkpoint | None = None
    if has_checkpoints(out):
        with contextlib.suppress(DataError):  # it died before its first checkpoint was whole
            checkpoint = CheckpointStore(out).load()
    if checkpoint is not None:
        return Experiment.resume(out), checkpoint
    config = read_config(folder / RUN_FILE)
    section = config.run.model_copy(update={"out": str(out), "overwrite": True})
    return Experiment.from_config(config.model_copy(update={"run": section})), None


@final
class FullDisk:
    """The disk of this process, which can be filled and freed.

    It lowers the limit of the size of files (`RLIMIT_FSIZE`) to zero: writes to files then fail, with the error "File
    too large" in place of "No space left on device". Pipes, sockets and existing memory maps are not affected; memory
    for new workers is a file, and must therefore be created in `spared`. Processes that are started meanwhile inherit
    the limit.
    """

    def __init__(self) -> None:
        self.full = False
        self._room = resource.getrlimit(resource.RLIMIT_FSIZE)[0]

    def fill(self) -> None:
        """Fill the disk."""
        self.full = True
        self._limit(0)

    def free(self) -> None:
        """Free the disk."""
        self.full = False
        self._limit(self._room)

    @contextlib.contextmanager
    def spared(self) -> Generator[None]:
        """Allow writes within the block."""
        if self.full:
            self._limit(self._room)
        try:
            yield
        finally:
            if self.full:
                self._limit(0)

    def _limit(self, room: int) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))


def main(folder: Path, name: str, seed: int = 0, was_struck: int = 0, *lives: int) -> None:
    """Run until the end, or until a fault; the exit code is 0, `ENDED`, or that of the fault's signal."""
    if not lives:
        _rehearse(folder, next(role for role in get_args(Role) if role == name))
    for life in lives:
        try:
            experiment, _ = experiment_in(folder, life_name(life))
            engine, callbacks = (None, []) if was_struck else struck(experiment, seed, life)
            if experiment.run(callbacks, engine).stopped:
                return
        except ErasureHeadError as error:
            sys.stderr.write(f"{error}\n")
            raise SystemExit(ENDED) from None
        was_struck = 0


def _rehearse(folder: Path, role: Role) -> None:
    journal, disk = Journal(journal_file(folder, role)), FullDisk()
    schedule = FaultSchedule() if role == "baseline" else read_schedule(folder / SCHEDULE_FILE)
    injected = {int(entry["fault"]) for entry in journal.read() if entry["what"] == "injected"}
    experiment, checkpoint = experiment_in(folder, role)
    elapsed, step = (0.0, 0) if checkpoint is None else (float(checkpoint.state["elapsed"]), checkpoint.step)

    def on_coordinator_fault(fault: Fault, begins: bool) -> None:
        if role != "faulty":
            return
        if begins and fault.kind == "disk_full":
            disk.fill()
            return
        disk.free()
        if fault.kind == "coordinator":
            journal.flush()
            os.kill(os.getpid(), signal.SIGKILL)

    engine = FaultyEngine(
        experiment.engine(),
        schedule.faults,
        elapsed=elapsed,
        spent=[number for number in injected if schedule.faults[number].kind not in OF_WORKERS],
        record=journal.add,
        assigning=disk.spared,
        on_coordinator_fault=on_coordinator_fault,
    )
    journal.add({"what": "life", "time": round(elapsed, 6), "step": step, "resumed": experiment.resuming})
    try:
        run = experiment.run((), engine)
    except ErasureHeadError as error:
        disk.free()
        ended = {"what": "ended", "time": round(engine.time, 6), "text": str(error), "kind": type(error).__name__}
        journal.add(ended)
        raise SystemExit(ENDED) from None
    finally:
        disk.free()
    write_whole(outcome_file(folder, role), [to_text(_figures(experiment, run)).encode()])


def _figures(experiment: Experiment, run: Run) -> PlainData:
    """Return the result of a run as plain data, from its folder and from steps that could not be recorded."""
    folder = RunFolder.open(str(run.summary["model"]))
    rows = run.steps if run.summary.get("unrecorded") else folder.step_rows()
    late: dict[int, list[float]] = {}
    for row in rows:
        for worker in row.missing:
            late.setdefault(worker, []).append(round(row.begin, 6))
    with np.errstate(over="ignore", invalid="ignore"):
        loss = experiment.problem.objective(folder.x)
    return {
        "steps": len(rows),
        "seconds": run.seconds,
        "loss": float(loss),
        "metrics": dict(run.evaluations[-1].metrics) if run.evaluations else {},
        "received": sum(row.received for row in rows),
        "residual": max((row.residual for row in rows), default=0.0),
        "in_order": [row.step for row in rows] == list(range(len(rows))),
        "all_stepped": all(row.stepped for row in rows),
        "workers": [row.workers for row in rows][-1:],
        "ends": [round(row.end, 6) for row in rows],
        "late": {str(worker): times for worker, times in sorted(late.items())},
        "stopped": run.stopped,
    }


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], *map(int, sys.argv[3:]))
