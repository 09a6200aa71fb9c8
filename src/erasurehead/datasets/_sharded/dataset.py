"""A folder of shards as a data set: what `Dataset` says about data in memory, without the data."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead.datasets._base import Published
from erasurehead.datasets._encoded import Task
from erasurehead.datasets._preprocessing.encoding import Encoding
from erasurehead.datasets._sharded.folder import ShardFolder
from erasurehead.errors import counted


@dataclass(frozen=True, eq=False)
class ShardedDataset:
    """A data set in a folder of shards.

    Arguments:
        folder: the folder with the shards.
    """

    folder: ShardFolder
    published: Published | None = None

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> ShardedDataset:
        """Open a folder.

        Raises:
            DataError: if it has no manifest.
        """
        return cls(ShardFolder.open(path))

    @property
    def name(self) -> str:
        """Short name."""
        return self.folder.manifest.name

    @property
    def task(self) -> Task:
        """The kind of problem: `logistic`, `least_squares` or `softmax`."""
        return self.folder.manifest.task

    @property
    def encoding(self) -> Encoding:
        """How raw rows become rows of the matrix."""
        return self.folder.encoding

    @property
    def source(self) -> str:
        """The folder."""
        return str(self.folder.path)

    @property
    def notes(self) -> tuple[str, ...]:
        """What a user should know about the rows."""
        manifest, what = self.folder.manifest, "shard" if self.folder.in_place is None else "task"
        return (f"{counted(what, manifest.n_tasks)} of {manifest.origin.file}", *manifest.notes)

    @property
    def n_train(self) -> int:
        """Number of training rows."""
        return self.folder.manifest.n_train

    @property
    def n_test(self) -> int:
        """Number of test rows."""
        return self.folder.manifest.n_test

    @property
    def n_columns(self) -> int:
        """Number of columns of the design matrix, the constant included."""
        return self.folder.manifest.columns

    @property
    def n_classes(self) -> int:
        """Number of classes; 0 for least squares."""
        return self.folder.manifest.classes

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the manifest, and so of all data."""
        return self.folder.manifest.fingerprint

    def covariance(self, vector: Array) -> Array:
        """Return `X^T X vector` over the training rows, shape (n_columns,); all shards are read, one by one."""
        total = np.zeros(self.n_columns)
        for task in range(self.folder.manifest.n_tasks):
            X: Any = self.folder.task(task).X
            total += X.T @ (X @ vector)
        return total
