"""The process that coordinates one run of a drill: `python -m erasurehead.drills.coordinator FOLDER ROLE`.

It resumes the run where an earlier such process ended.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from erasurehead._internal.atomic_files import write_whole
from erasurehead.drills.disk import Disk
from erasurehead.drills.faulty_engine import FaultyEngine
from erasurehead.drills.journal import Journal, NoticeRecorder
from erasurehead.drills.schedule import OF_WORKERS, Fault, FaultSchedule, read_schedule
from erasurehead.errors import DataError, ErasureHeadError
from erasurehead.runs.checkpoints.store import CheckpointStore
from erasurehead.runs.config.checking import read_config
from erasurehead.runs.experiment import Experiment
from erasurehead.runs.folder import RunFolder
from erasurehead.runs.jsonl import to_text
from erasurehead.runs.names import has_checkpoints
from erasurehead.training.result import Run

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


class _CoordinatorProcess:
    """The part of a run that is coordinated by one process."""

    def __init__(self, folder: Path, role: Role) -> None:
        self.folder = folder
        self.role: Role = role
        self.out = folder / role
        self.journal = Journal(journal_file(folder, role))
        self.disk = Disk()
        self.schedule = FaultSchedule() if role == "baseline" else read_schedule(folder / SCHEDULE_FILE)

    def run(self) -> None:
        """Train from the newest checkpoint, or from the beginning."""
        resuming = has_checkpoints(self.out)
        injected = [entry for entry in self.journal.read() if entry["what"] == "injected"]
        numbers = {int(entry["fault"]) for entry in injected}
        spent = [number for number in numbers if self.schedule.faults[number].kind not in OF_WORKERS]
        experiment, elapsed, step = self._resumed() if resuming else (self._begun(), 0.0, 0)
        engine = FaultyEngine(
            experiment.engine(),
            self.schedule,
            elapsed=elapsed,
            spent=spent,
            record=self.journal.add,
            assigning=self.disk.spared,
            on_coordinator_fault=self._on_coordinator_fault if self.role == "faulty" else lambda fault, begins: None,
        )
        self.journal.add({"what": "life", "time": round(elapsed, 6), "step": step, "resumed": experiment.resuming})
        try:
            run = experiment.run([NoticeRecorder(self.journal.add, lambda: engine.time)], engine)
        except ErasureHeadError as error:
            self.disk.free()
            ended = {"what": "ended", "time": round(engine.time, 6), "text": str(error), "kind": type(error).__name__}
            self.journal.add(ended)
            raise SystemExit(ENDED) from None
        finally:
            self.disk.free()
        write_whole(outcome_file(self.folder, self.role), [to_text(_figures(experiment, run)).encode()])

    def _begun(self) -> Experiment:
        config = read_config(self.folder / RUN_FILE)
        section = config.run.model_copy(update={"out": str(self.out), "overwrite": True})
        return Experiment.from_config(config.model_copy(update={"run": section}))

    def _resumed(self) -> tuple[Experiment, float, int]:
        try:
            checkpoint = CheckpointStore(self.out).load()
        except DataError:  # it died before its first checkpoint was whole
            return self._begun(), 0.0, 0
        return Experiment.resume(self.out), float(checkpoint.state["elapsed"]), checkpoint.step

    def _on_coordinator_fault(self, fault: Fault, begins: bool) -> None:
        if fault.kind == "coordinator":
            self.disk.free()
            self.journal.flush()
            os.kill(os.getpid(), signal.SIGKILL)
        elif begins:
            self.disk.fill()
        else:
            self.disk.free()


def _figures(experiment: Experiment, run: Run) -> dict[str, Any]:
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


def main(folder: Path, role: Role) -> None:
    """Run until the end, or until a fault; the exit code is 0, `ENDED`, or that of the fault's signal."""
    _CoordinatorProcess(folder, role).run()


if __name__ == "__main__":
    main(Path(sys.argv[1]), next(role for role in get_args(Role) if role == sys.argv[2]))
