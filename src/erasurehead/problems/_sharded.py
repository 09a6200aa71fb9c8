"""Linear problems over a folder of shards, of any size: each worker reads the files of its own tasks."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import accumulate
from typing import final

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead.datasets._sharded.folder import ShardFolder
from erasurehead.datasets._sharded.manifest import StoredFile
from erasurehead.errors import DataError, invalid
from erasurehead.problems._base import Exact, Problem
from erasurehead.problems._checks import intercept_parameters
from erasurehead.problems._families import read_loss, task_of
from erasurehead.problems._losses import Labels
from erasurehead.problems._models import LinearModel, Samples, check_samples
from erasurehead.problems._penalties import Penalty, as_penalty
from erasurehead.problems._separation import all_correct
from erasurehead.problems._shards import LinearShard, hold_rows
from erasurehead.problems._stored import Store, StoredShard


@final
class ShardedProblem(Problem):
    """A linear problem over a folder of shards that `erasurehead.datasets.shard` made.

    Programs that are sent to workers carry no data: each worker reads the files of its tasks from a folder that it can
    see. The coordinator needs the manifest, the supports and the test rows, which it holds in memory; the whole
    loss and the whole gradient read one task after the other.

    Arguments:
        folder: the folder as the coordinator sees it: its path, or an opened folder.
        l2: factor of the penalty, at least 0.
        at: the folder's path on the workers, if it differs there; `{host}` in it stands for the name of the
            worker's host.
        penalize_intercept: whether the penalty also applies to the column of ones that the folder was given when it
            was sharded.
        penalty: a penalty in place of l2, which must then be left out.
        loss: a loss of numbers, with its parameters, where the folder is one for least squares; None for that which it
            is for.

    Raises:
        DataError: if there is no such folder, or a file that the coordinator needs is missing or damaged.
        InvalidArgument: if l2 is negative or not finite.
    """

    preload = ("erasurehead.problems._machine_code", "erasurehead.problems._sharded")
    curved = True
    newton = True

    def __init__(
        self,
        folder: str | os.PathLike[str] | ShardFolder,
        *,
        l2: float = 0.0,
        at: str | None = None,
        penalize_intercept: bool = False,
        penalty: Penalty | None = None,
        loss: str | None = None,
    ) -> None:
        as_penalty(l2, penalty, ())
        self.folder = folder if isinstance(folder, ShardFolder) else ShardFolder.open(folder)
        manifest = self.folder.manifest
        if loss is not None and task_of(loss) != manifest.task:
            raise invalid("loss", f"must be for what {self.folder.path} is sharded for, {manifest.task}", loss)
        self.sample_loss = read_loss(loss or manifest.loss or manifest.task, manifest.classes)
        self.n_samples = manifest.n_train
        self.n_features = manifest.columns
        self.outputs, self.quadratic = self.sample_loss.n_outputs, self.sample_loss.quadratic
        self.n_parameters = self.outputs * self.n_features
        penalized = l2 or penalty is not None
        intercept = -1 if penalized and not penalize_intercept and self.folder.encoding.constant else None
        self._penalize(l2, penalty, intercept_parameters(intercept, self.n_features, self.sample_loss.n_outputs))
        own = str(self.folder.path)
        form, columns, n_train = manifest.form, manifest.columns, manifest.n_train
        self._store = Store(own, form, columns, n_train, self.sample_loss, self.folder.in_place)
        self._remote = replace(self._store, folder=at or own)
        self._places = {low: task for task, low in enumerate(accumulate((f.rows for f in manifest.tasks), initial=0))}

    heaviest = 1.0
    """As for `LinearProblem`: all samples count alike."""

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the manifest, and so of all data."""
        return self.folder.manifest.fingerprint

    def check_files(self) -> None:
        """Raise unless all files of the tasks are there, with their lengths, as seen from here; none is read.

        Raises:
            DataError: if one is not; the error names it.
        """
        self.folder.check_there()

    def check_tasks(self, n_tasks: int) -> None:
        """Raise unless the shards can be combined into that many tasks.

        Raises:
            InvalidArgument: if they cannot; the error names the numbers that work.
        """
        n_stored = self.folder.manifest.n_tasks
        if n_stored % n_tasks:
            fits = [str(number) for number in range(1, n_stored + 1) if n_stored % number == 0]
            raise invalid(
                "n_tasks",
                f"must divide the {n_stored} tasks that {self.folder.path} is cut into",
                n_tasks,
                f"{', '.join(fits)} work{'s' * (len(fits) == 1)}, or shard the data into {n_tasks} tasks",
            )

    def shard(self, tasks: Sequence[slice]) -> StoredShard:
        numbers = [self._files(rows) for rows in tasks]
        files = [[self.folder.manifest.tasks[number] for number in own] for own in numbers]
        return StoredShard(self._remote, files, self.folder.support([number for own in numbers for number in own]))

    def _files(self, rows: slice) -> range:
        """Return which files hold a range of rows."""
        first, end = self._places.get(rows.start), self._places.get(rows.stop)
        if first is None or end is None:
            raise invalid(
                "tasks",
                "must begin and end where the shards do",
                (rows.start, rows.stop),
                f"the {self.folder.manifest.n_tasks} shards of {self.folder.path} begin at {_few(self._places)}",
            )
        return range(first, end)

    def loss(self, x: Array) -> float:
        return sum(shard.loss(x, share) for shard, share in self._each())

    def gradient(self, x: Array) -> Array:
        total, part = np.zeros(self.n_parameters), np.empty(self.n_parameters)
        for shard, share in self._each():
            shard.combine(x, share, 0, part)
            total += part
        return total

    def exact(self, points: Sequence[Array], without: Sequence[slice] = ()) -> list[Exact]:
        """Return what `Problem.exact` does, for the shards that can be read here: workers may have others."""
        losses, gradients = np.zeros(len(points)), np.zeros((len(points), self.n_parameters))
        part, low, count = np.empty(self.n_parameters), 0, 0
        for file in self.folder.manifest.tasks:
            high = low + file.rows
            left_out = any(rows.start < high and low < rows.stop for rows in without)
            low = high
            if left_out:
                continue
            try:
                shard = self._read(file)
            except DataError:
                continue
            count += file.rows
            for place, x in enumerate(points):
                losses[place] += shard.combine(x, np.array([float(file.rows)]), 0, part)
                gradients[place] += part
        if not count:
            return [Exact(math.nan, np.full(self.n_parameters, math.nan), 0) for _ in points]
        return [
            Exact(float(loss) / count, gradient / count, count)
            for loss, gradient in zip(losses, gradients, strict=True)
        ]

    def _each(self) -> Iterator[tuple[LinearShard, Array]]:
        """Yield each task's rows, over all columns, and the fraction of all rows that they are."""
        for file in self.folder.manifest.tasks:
            yield self._read(file), np.array([file.rows / self.n_samples])

    def _read(self, file: StoredFile) -> LinearShard:
        rows = self._store.read([file])
        return hold_rows(self._store.design(rows), rows.y, self.sample_loss)

    def without_minimum(self, loss: float) -> bool:
        if not self.sample_loss.endless or self.regularizer.smooth or self.regularizer.sharp:
            return False
        return all_correct(loss, self.n_samples, lightest=1.0)

    def metrics(self, x: Array) -> dict[str, float]:
        """Return the quality of a model on the test rows, as `LinearProblem.metrics` does."""
        return {} if self._test is None else self.model(x).measure(self._test)

    def training_metrics(self, x: Array) -> dict[str, float]:
        """Return the same measures on the training rows, read once more; empty where a file is out of reach."""
        weights, margins, labels = x.reshape(self.sample_loss.n_outputs, -1), list[Array](), list[Labels]()
        for file in self.folder.manifest.tasks:
            try:
                rows = self._store.read([file])
            except DataError:
                return {}
            margins.append(self._store.design(rows).margins(weights))
            labels.append(rows.y)
        return self.sample_loss.scores(np.concatenate(margins, axis=1), np.concatenate(labels))

    def model(self, x: Array) -> LinearModel:
        """Return the model with the parameters `x`, shape (n_parameters,), which predicts for new samples."""
        return LinearModel(self.sample_loss, x)

    @cached_property
    def _test(self) -> Samples | None:
        rows = self.folder.test_rows()
        return None if rows is None else check_samples(rows.X, rows.y, self.sample_loss, self.n_features)


def _few(places: dict[int, int], most: int = 8) -> str:
    shown = ", ".join(map(str, list(places)[:most]))
    return f"{shown}, ..." if len(places) > most else shown
