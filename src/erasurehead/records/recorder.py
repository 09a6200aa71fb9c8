"""The instrument that writes a run down while it goes on."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from statistics import fmean
from typing import Any, TextIO

import numpy as np
import scipy

from erasurehead.arrays import Array
from erasurehead.instruments import Instrument
from erasurehead.records.folder import RunFolder
from erasurehead.records.jsonlines import to_line
from erasurehead.records.places import ARRIVALS, EVALUATIONS, STEPS
from erasurehead.records.rows import ArrivalRow, StepRow
from erasurehead.run import Run
from erasurehead.schemes import Scheme


class Recorder(Instrument):
    """Writes a run into its folder: each step as it ends, and model, evaluations and summary at the end.

    Arguments:
        folder: made by `RunFolder.create`.
        facts: what else is to stand in `summary.json`, such as the data's name and shape.
    """

    def __init__(self, folder: RunFolder, facts: Mapping[str, Any] | None = None) -> None:
        self.folder = folder
        self._summary: dict[str, Any] = {"status": "running", "reason": "", **(facts or {}), "versions": _versions()}
        self._files: list[TextIO] = []
        self._x: Array | None = None

    def preparing(self, scheme: Scheme, steps: int) -> None:
        self._summary |= {
            "scheme": scheme.name,
            "code": repr(scheme.code),
            "wait": str(scheme.rule),
            "workers": scheme.code.n_workers,
            "steps_planned": steps,
        }
        self._files = [(self.folder.path / name).open("w", encoding="utf-8") for name in (STEPS, ARRIVALS)]
        self.folder.write_summary(self._summary)

    def ready(self, seconds: float) -> None:
        self._summary["start_seconds"] = seconds
        self.folder.write_summary(self._summary)

    def arrival(self, row: ArrivalRow) -> None:
        self._files[1].write(to_line(vars(row)))

    def step(self, row: StepRow, x: Array) -> None:
        self._x = x
        self._files[0].write(to_line(vars(row)))
        for file in self._files:
            file.flush()

    def finished(self, run: Run) -> None:
        lines = [to_line({"step": e.step, "time": e.time, "metrics": dict(e.metrics)}) for e in run.evaluations]
        self.folder.write(EVALUATIONS, "".join(lines))
        self._x = run.x
        self._summary |= {"engine": run.engine} | figures(run)
        status = "finished" if not run.stopped else "stopped" if run.stopped.startswith("stopped") else "failed"
        self.end(status, run.stopped)

    def end(self, status: str, reason: str) -> None:
        """Save the last model and the summary, and close the files. What was ended once stays as it was.

        Arguments:
            status: `"finished"`, `"stopped"` (by the user) or `"failed"`.
            reason: why it ended early, in a sentence.
        """
        if self._summary["status"] != "running":
            return
        for file in self._files:
            file.close()
        if self._x is not None:
            self.folder.write_model(self._x)
        self._summary |= {"status": status, "reason": reason}
        self.folder.write_summary(self._summary)


def figures(run: Run) -> dict[str, Any]:
    """Return what a whole run comes to, as plain data; means are over its steps."""
    steps = run.steps
    last = run.evaluations[-1] if run.evaluations else None
    return {
        "steps": len(steps),
        "steps_without_estimate": sum(not row.stepped for row in steps),
        "seconds": run.seconds,
        "seconds_per_step": run.seconds_per_step,
        "start_seconds": run.start_seconds,
        "loss": steps[-1].loss if steps else None,
        "metrics": dict(last.metrics) if last else {},
        "workers_waited_for": fmean(row.arrived for row in steps) if steps else None,
        "residual": fmean(row.residual for row in steps) if steps else None,
        "coverage": fmean(row.coverage for row in steps) if steps else None,
        "bytes_per_step": fmean(row.received for row in steps) if steps else None,
        "dead": sorted({worker for row in steps for worker in row.dead}),
        "failures": sum(len(row.failed) for row in steps),
    }


def _versions() -> dict[str, str]:
    try:
        own = version("erasurehead")
    except PackageNotFoundError:  # run from its source, without being installed
        own = "unknown"
    return {
        "erasurehead": own,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "platform": platform.platform(),
    }
