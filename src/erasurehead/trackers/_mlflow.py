"""Runs in MLflow, by its client alone: a run of the script's own stays the active one."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

from erasurehead._internal.user_files import StrPath
from erasurehead.errors import MissingExtra, invalid
from erasurehead.trackers._tracked_run import Point, TrackedRun
from erasurehead.trackers._tracker import Tracker, place

_MOST, _LONGEST = 1000, 6000  # metrics at once, and letters of a text, that its servers take
_DATABASES = ("sqlite", "postgresql", "mysql", "mssql")
_SCHEMES = ("http", "https", "databricks", "file", *_DATABASES)
_WHERE = "must be a folder, or the address of a server or a database"
_ENDED = {"finished": "FINISHED", "interrupted": "KILLED"}


class MLflow(Tracker):
    """Shows runs in MLflow.

    Times of metrics are those of the run's own clock, counted from when it began. What a server asks for is taken from
    the environment, as MLflow does: `MLFLOW_TRACKING_USERNAME`, `MLFLOW_TRACKING_PASSWORD`, `MLFLOW_TRACKING_TOKEN`.

    Arguments:
        where: a folder, in which a database is made, `mlflow.db`; or the address of a server or a database, such as
            `"http://127.0.0.1:5000"`.
        experiment: its name there; it is made if there is none.
        files: whether settings, summary and evaluations in the run's folder become artifacts.
        patience: see `Tracker`.
    """

    package: ClassVar[str] = "mlflow"

    def __init__(
        self,
        where: StrPath = "mlflow",
        experiment: str = "erasurehead",
        *,
        files: bool = False,
        patience: float = 30.0,
    ) -> None:
        super().__init__(patience, files)
        self._where, self._experiment = place("where", where, _WHERE), experiment
        scheme, address, _ = self._where.partition("://")
        known = not address or scheme.partition("+")[0].lower() in _SCHEMES
        if not known and scheme not in entry_points(group="mlflow.tracking_store").names:  # those of plugins
            raise invalid("where", _WHERE, where, f"addresses begin with one of {', '.join(_SCHEMES)}")
        self._folder = None if address else Path(self._where).expanduser().absolute()

    def __str__(self) -> str:
        return f"mlflow={self._folder or self._where}"

    def open(self, run: TrackedRun, known: str) -> str:
        """Begin a run, or go on with one."""
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
        self._metric: Any = import_module("mlflow.entities").Metric
        address, artifacts = self._where, None
        if (self._folder or address.lower().startswith(_DATABASES)) and find_spec("alembic") is None:
            raise MissingExtra("mlflow-skinny can only write to a server; this needs all of it (pip install mlflow)")
        if self._folder is not None:
            self._folder.mkdir(parents=True, exist_ok=True)
            address, artifacts = f"sqlite:///{self._folder / 'mlflow.db'}", (self._folder / "artifacts").as_uri()
        self._client = client = import_module("mlflow").MlflowClient(address)
        if known:
            client.update_run(known, "RUNNING")
        else:
            there = client.get_experiment_by_name(self._experiment)
            number = there.experiment_id if there else client.create_experiment(self._experiment, artifacts)
            known = str(client.create_run(number, tags={"group": run.group}, run_name=run.name).info.run_id)
            for name, value in run.settings.items():
                client.log_param(known, name, value[:_LONGEST])
        self._id = known
        return known

    def write(self, points: Sequence[Point]) -> None:
        """Add metrics, and notices as tags."""
        metrics = [
            self._metric(name, value, int(point.time * 1000.0), int(point.step))
            for point in points
            for name, value in point.values.items()
        ]
        for first in range(0, len(metrics), _MOST):
            self._client.log_batch(self._id, metrics[first : first + _MOST])
        for number, point in enumerate(points):
            if point.text:
                key = f"{point.kind} {point.seconds:.3f} s {number}"
                self._client.set_tag(self._id, key, point.text[:_LONGEST])

    def close(self, status: str, files: Sequence[Path]) -> None:
        """Add the files, and end the run."""
        for path in files:
            self._client.log_artifact(self._id, str(path))
        self._client.set_terminated(self._id, _ENDED.get(status, "FAILED"))
