"""The manifest of a folder of shards: what the shards are, where their rows came from, and the checksum of every file.

It is JSON with a checksum of itself, and written last; it tells the shape of the data, the tasks and their files
without reading any of them.
"""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

from erasurehead._internal.documents import Entries
from erasurehead._internal.storage.folders import Folder
from erasurehead._internal.storage.names import is_name
from erasurehead._internal.storage.sealed import NOT_SEALED, Unfit, sealed, unsealed, why
from erasurehead._internal.typed import COUNT, Rule, maker, one_of
from erasurehead.datasets._encoded import TASKS, Task
from erasurehead.errors import DataError

MANIFEST = "manifest.json"
FORMAT, VERSION, KEY = "erasurehead-shards", 2, "shards"

Form: TypeAlias = Literal["dense", "sparse", "pattern"]
"""How rows are stored: all numbers; the nonzero numbers, with their columns; or only the columns of ones."""

_NAME = Rule("the name of a file in the folder", is_name)  # a manifest must not refer to others


@dataclass(frozen=True)
class StoredFile:
    """A file of the folder.

    Arguments:
        name: name of the file in the folder.
        bytes: its length.
        sha256: its checksum, in hexadecimal.
        rows: number of rows of data in it; 0 if it holds none.
    """

    name: Annotated[str, _NAME]
    bytes: Annotated[int, COUNT]
    sha256: str
    rows: Annotated[int, COUNT] = 0


@dataclass(frozen=True)
class Origin:
    """Where the rows came from.

    Arguments:
        file: the path of the file that was sharded.
        bytes: its length.
        rows: number of rows that it had.
        test_fraction: fraction of the rows set aside for testing.
        seed: seed of that random split.
    """

    file: str
    bytes: int
    rows: int
    test_fraction: float
    seed: int


@dataclass(frozen=True)
class ShardManifest:
    """The description of a folder of shards.

    Arguments:
        name: short name of the data.
        task: the kind of problem: `logistic`, `least_squares` or `softmax`.
        classes: number of classes; 0 for least squares.
        form: how the rows are stored.
        columns: number of columns of the design matrix, including the constant.
        origin: where the rows came from.
        notes: what a user should know about how they were read.
        encoding: the file with the encoding, which is applied to new data.
        supports: the file with the columns that each task touches; None if rows are dense.
        test: the file with the test rows; None if there are none.
        tasks: one file per task, in order; together all training rows.
        loss: what is trained from them unless a run says otherwise; empty for the loss of the task.
    """

    name: str
    task: Annotated[Task, one_of(*TASKS)]
    classes: int
    form: Annotated[Form, one_of("dense", "sparse", "pattern")]
    columns: int
    origin: Origin
    notes: tuple[str, ...]
    encoding: StoredFile
    supports: StoredFile | None
    test: StoredFile | None
    tasks: tuple[StoredFile, ...]
    loss: str = ""

    @property
    def n_tasks(self) -> int:
        """Number of tasks."""
        return len(self.tasks)

    @cached_property
    def n_train(self) -> int:
        """Number of training rows."""
        return sum(file.rows for file in self.tasks)

    @property
    def n_test(self) -> int:
        """Number of test rows."""
        return 0 if self.test is None else self.test.rows

    @property
    def files(self) -> tuple[StoredFile, ...]:
        """All files except for the manifest."""
        others = (self.encoding, self.supports, self.test)
        return (*(file for file in others if file is not None), *self.tasks)

    @cached_property
    def text(self) -> str:
        """The manifest as JSON, with its own checksum."""
        facts = asdict(self)
        if not self.loss:  # as in folders from before there was any other
            del facts["loss"]
        return sealed(FORMAT, VERSION, KEY, facts).decode()

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the manifest, which contains that of every file, so that it identifies the data."""
        return hashlib.sha256(self.text.encode()).hexdigest()


def read_manifest(folder: Path) -> ShardManifest:
    """Read the manifest of a folder.

    Raises:
        DataError: if it is missing, or not as `shard` wrote it.
    """
    path = folder / MANIFEST
    try:
        with Folder.open(folder) as opened:
            return _manifest(unsealed(opened.read(MANIFEST), FORMAT, VERSION, KEY, path))
    except DataError:
        raise
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}; is {folder} a folder of shards?") from None
    except NOT_SEALED as error:
        raise DataError(
            f"{path} is damaged, was edited, or is not a manifest of shards ({why(error)}); copy it again, or shard "
            "the data again."
        ) from None


def _manifest(data: Entries) -> ShardManifest:
    manifest = maker(ShardManifest)(data)
    least = {"logistic": 2, "softmax": 2}.get(manifest.task, 0)
    if manifest.columns < 1 or not manifest.tasks or manifest.classes < least:
        raise Unfit("its values contradict each other")
    return manifest
