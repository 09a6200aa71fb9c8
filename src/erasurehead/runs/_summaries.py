"""The summary of a run: its data, its figures, and the versions of the software."""

from __future__ import annotations

import os
import platform
from array import array
from collections import Counter
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import fmean

import numpy as np
import scipy

from erasurehead._internal.documents import PlainData
from erasurehead.datasets import Dataset
from erasurehead.datasets._sharded import ShardFolder
from erasurehead.training import Run, StepRow


def figures(run: Run) -> PlainData:
    """Return the figures of a whole run, as plain data; means are over its steps."""
    accepted: StepRow | None = None
    arrived, residual, coverage, received = array("d"), array("d"), array("d"), array("d")
    dead, byzantine = set[int](), set[int]()
    counts = Counter[str]()
    for row in run.steps:  # once, as they may have to be read from a file
        accepted = accepted if row.rejected else row
        for values, value in ((arrived, row.arrived), (residual, row.residual), (coverage, row.coverage)):
            values.append(value)
        received.append(row.received)
        dead.update(row.dead)
        byzantine.update(row.workers_noticed("lied"))
        counts["unstepped"] += not row.stepped
        counts["deaths"] += len(row.workers_noticed("died"))
        counts["joined"] += len(row.workers_noticed("joined"))
        counts["failures"] += row.failures
    last = run.evaluations[-1] if run.evaluations else None
    ended = run.steps[-1] if run.steps else None
    return {
        "steps": run.steps_taken,
        "ended": run.ended,
        "optimum": None if run.optimum is None else asdict(run.optimum),
        "measured": None if not run.measured else asdict(run.measured[-1]),
        "measuring_seconds": sum(one.seconds for one in run.measured if not one.beside),
        "measuring_seconds_beside": sum(one.seconds for one in run.measured if one.beside),
        "steps_without_estimate": counts["unstepped"],
        "seconds": run.seconds,
        "seconds_per_step": run.seconds_per_step,
        "start_seconds": run.start_seconds,
        "loss": None if accepted is None else accepted.loss,
        "loss_share": None if accepted is None else accepted.coverage,
        "objective": run.objective,
        "final": None if run.final is None else asdict(run.final),
        "neglected": [asdict(task) for task in run.neglected],
        "metrics": dict(last.metrics) if last else {},
        "workers_waited_for": fmean(arrived) if arrived else None,
        "residual": fmean(residual) if residual else None,
        "coverage": fmean(coverage) if coverage else None,
        "bytes_per_step": fmean(received) if received else None,
        "dead": sorted(dead),
        "deaths": counts["deaths"],
        "joined": counts["joined"],
        "byzantine": sorted(byzantine),
        "workers_at_end": None if ended is None else ended.workers - len(ended.dead),
        "failures": counts["failures"],
    }


def describe(data: Dataset | ShardFolder) -> PlainData:
    """Return the description of a data set, as plain data; a file by its whole path, as in run files."""
    place = Path(data.source).expanduser()
    return {
        "name": data.name,
        "source": str(place.absolute()) if os.path.exists(place) else data.source,
        "task": data.task,
        "train_rows": data.n_train,
        "test_rows": data.n_test,
        "columns": data.n_columns,
        "notes": list(data.notes),
        "warnings": list(data.warnings) if isinstance(data, Dataset) else [],
    }


def versions() -> dict[str, str]:
    """Return the versions of the packages that a run depends on."""
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
