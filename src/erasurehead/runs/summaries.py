"""The summary of a run: its data, its figures, and the versions of the software."""

from __future__ import annotations

import platform
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from statistics import fmean
from typing import Any

import numpy as np
import scipy

from erasurehead.datasets.base import Dataset
from erasurehead.datasets.sharded import ShardedDataset
from erasurehead.training.result import Run


def figures(run: Run) -> dict[str, Any]:
    """Return the figures of a whole run, as plain data; means are over its steps."""
    steps = run.steps
    told = next((row for row in reversed(steps) if not row.rejected), None)
    last = run.evaluations[-1] if run.evaluations else None
    return {
        "steps": len(steps),
        "ended": run.ended,
        "optimum": None if run.optimum is None else asdict(run.optimum),
        "measured": None if not run.measured else asdict(run.measured[-1]),
        "measuring_seconds": sum(one.seconds for one in run.measured if not one.beside),
        "measuring_seconds_beside": sum(one.seconds for one in run.measured if one.beside),
        "steps_without_estimate": sum(not row.stepped for row in steps),
        "seconds": run.seconds,
        "seconds_per_step": run.seconds_per_step,
        "start_seconds": run.start_seconds,
        "loss": None if told is None else told.loss,
        "loss_share": None if told is None else told.coverage,
        "objective": run.objective,
        "final": None if run.final is None else asdict(run.final),
        "neglected": [asdict(task) for task in run.neglected],
        "metrics": dict(last.metrics) if last else {},
        "workers_waited_for": fmean(row.arrived for row in steps) if steps else None,
        "residual": fmean(row.residual for row in steps) if steps else None,
        "coverage": fmean(row.coverage for row in steps) if steps else None,
        "bytes_per_step": fmean(row.received for row in steps) if steps else None,
        "dead": sorted({worker for row in steps for worker in row.dead}),
        "deaths": sum(len(row.workers_noticed("died")) for row in steps),
        "joined": sum(len(row.workers_noticed("joined")) for row in steps),
        "byzantine": sorted({worker for row in steps for worker in row.workers_noticed("lied")}),
        "workers_at_end": steps[-1].workers - len(steps[-1].dead) if steps else None,
        "failures": sum(row.failures for row in steps),
    }


def describe(data: Dataset | ShardedDataset) -> dict[str, Any]:
    """Return the description of a data set, as plain data."""
    return {
        "name": data.name,
        "source": data.source,
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
