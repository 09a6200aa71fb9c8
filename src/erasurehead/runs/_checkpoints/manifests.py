"""The manifest of a checkpoint: a JSON file that lists its contents, with its own checksum."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from erasurehead._internal.documents import Entries
from erasurehead._internal.storage.checksums import Checksum
from erasurehead._internal.storage.folders import Folder
from erasurehead._internal.storage.names import is_name
from erasurehead._internal.storage.sealed import NOT_SEALED, Unfit, sealed, unsealed, why
from erasurehead._internal.tensor_files import TensorFile
from erasurehead._internal.typed import COUNT, maker, written
from erasurehead.errors import DataError, unreadable
from erasurehead.runs._names import TENSORS_NAME

FORMAT, VERSION, KEY = "erasurehead-checkpoint", 16, "checkpoint"


@dataclass(frozen=True, eq=False)
class Manifest:
    """The contents of a checkpoint.

    Arguments:
        step: number of steps done.
        records: for each file of rows, how much of it was written by then.
        facts: what identifies the run, as plain data.
        files: for each file of tensors, by name, its contents.
        next_tensor: number of the next new tensor.
        next_file: number of the next file of tensors.
        state: as `trees.encode` wrote it.
    """

    step: Annotated[int, COUNT]
    records: Mapping[str, Checksum]
    facts: Entries
    files: Mapping[str, TensorFile]
    next_tensor: Annotated[int, COUNT]
    next_file: Annotated[int, COUNT]
    state: Any

    @property
    def name(self) -> str:
        """Name of the manifest's file."""
        return f"step-{self.step:07d}.json"

    def write(self, folder: Folder) -> None:
        """Write the manifest into a folder, atomically.

        Raises:
            OSError: if it cannot be written.
        """
        folder.write_whole(self.name, [sealed(FORMAT, VERSION, KEY, written(self))])


def read_manifest(folder: Folder, name: str) -> Manifest:
    """Read a manifest.

    Raises:
        DataError: if it is damaged, or not of this library, or of another version of it.
    """
    path = folder.path / name
    try:
        return _manifest(unsealed(folder.read(name), FORMAT, VERSION, KEY, path), path)
    except DataError:
        raise
    except OSError as error:
        raise unreadable(path, error) from None
    except NOT_SEALED as error:
        raise DataError(f"{path} is damaged, or is not a checkpoint of erasurehead ({why(error)}).") from None


def _manifest(body: Entries, path: Path) -> Manifest:
    manifest = maker(Manifest)(body)
    if manifest.name != path.name:
        raise Unfit(f"it is that of step {manifest.step}")
    for name in manifest.records:
        if not is_name(name):
            raise Unfit(f"{name!r} is not the name of a rows file")
    for name in manifest.files:
        if not TENSORS_NAME.fullmatch(name):
            raise Unfit(f"no checkpoint has a file {name!r}")
    return manifest
