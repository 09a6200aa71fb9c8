"""The manifest of a checkpoint: a JSON file that lists its contents, with its own checksum."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from erasurehead._internal.documents import Entries
from erasurehead._internal.storage.checksums import Checksum
from erasurehead._internal.storage.folders import Folder
from erasurehead._internal.storage.names import is_name
from erasurehead._internal.storage.sealed import NOT_SEALED, Unfit, sealed, unsealed, why
from erasurehead._internal.tensor_files import TensorFile
from erasurehead._internal.tensor_format import DTYPES, Slot
from erasurehead.errors import DataError, check_count, unreadable
from erasurehead.runs._names import TENSORS_NAME

FORMAT, VERSION, KEY = "erasurehead-checkpoint", 15, "checkpoint"


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

    step: int
    records: Mapping[str, Checksum]
    facts: Entries
    files: Mapping[str, TensorFile]
    next_tensor: int
    next_file: int
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
        files = {
            name: {
                "bytes": file.size,
                "sha256": file.sha256,
                "tensors": {str(number): [slot.dtype.name, list(slot.shape)] for number, slot in file.tensors.items()},
            }
            for name, file in self.files.items()
        }
        body = {
            "step": self.step,
            "records": {name: written.as_plain() for name, written in self.records.items()},
            "facts": dict(self.facts),
            "files": files,
            "next_tensor": self.next_tensor,
            "next_file": self.next_file,
            "state": self.state,
        }
        folder.write_whole(self.name, [sealed(FORMAT, VERSION, KEY, body)])


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
    manifest = Manifest(
        step=check_count("step", body["step"], at_least=0),
        records={_row_file(name): Checksum.from_plain(entry) for name, entry in body["records"].items()},
        facts=dict(cast("Mapping[str, Any]", body["facts"])),
        files={_file_name(name): _tensor_file(file) for name, file in body["files"].items()},
        next_tensor=check_count("next_tensor", body["next_tensor"], at_least=0),
        next_file=check_count("next_file", body["next_file"], at_least=0),
        state=body["state"],
    )
    if manifest.name != path.name:
        raise Unfit(f"it is that of step {manifest.step}")
    return manifest


def _tensor_file(entry: Entries) -> TensorFile:
    tensors = {int(number): _tensor(*described) for number, described in entry["tensors"].items()}
    return TensorFile(check_count("bytes", entry["bytes"], at_least=0), str(entry["sha256"]), tensors)


def _tensor(dtype: str, shape: list[int]) -> Slot:
    if dtype not in DTYPES:
        raise Unfit(f"a tensor of {dtype!r}")
    return Slot(np.dtype(dtype), tuple(check_count("shape", length, at_least=0) for length in shape))


def _row_file(name: str) -> str:
    if not is_name(name):
        raise Unfit(f"{name!r} is not the name of a rows file")
    return name


def _file_name(name: str) -> str:
    if not TENSORS_NAME.fullmatch(name):
        raise Unfit(f"no checkpoint has a file {name!r}")
    return name
