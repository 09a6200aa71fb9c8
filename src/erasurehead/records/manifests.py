"""The manifest of a checkpoint: one JSON file that says what belongs to it, with a checksum of itself."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, cast

from erasurehead.errors import DataError, check_count
from erasurehead.records.durable import write_whole
from erasurehead.records.tensors import DTYPES, TensorFile

FORMAT, VERSION = "erasurehead-checkpoint", 1

MANIFEST_NAME = re.compile(r"step-(\d{7,15})\.json")
TENSORS_NAME = re.compile(r"tensors-(\d{7,15})\.safetensors")
"""A manifest names files beside it, and cannot name any other."""


@dataclass(frozen=True, eq=False)
class Manifest:
    """What belongs to a checkpoint.

    Arguments:
        step: number of steps done.
        records: file of rows -> bytes of it that were written by then.
        facts: what the run is, to tell whether it may be gone on with: plain data.
        files: name -> what the file of tensors is to hold.
        next_tensor: number of the next new tensor.
        next_file: number of the next file of tensors.
        state: as `trees.encode` wrote it.
    """

    step: int
    records: Mapping[str, int]
    facts: Mapping[str, Any]
    files: Mapping[str, TensorFile]
    next_tensor: int
    next_file: int
    state: Any

    @property
    def name(self) -> str:
        """Name of the manifest's file."""
        return f"step-{self.step:07d}.json"

    def write(self, folder: Path) -> None:
        """Write it into a folder, as a whole.

        Raises:
            RecordsError: if it cannot be written.
        """
        files = {
            name: {
                "bytes": file.size,
                "sha256": file.sha256,
                "tensors": {str(number): [dtype, list(shape)] for number, (dtype, shape) in file.tensors.items()},
            }
            for name, file in self.files.items()
        }
        body = _text(
            {
                "step": self.step,
                "records": dict(self.records),
                "facts": dict(self.facts),
                "files": files,
                "next_tensor": self.next_tensor,
                "next_file": self.next_file,
                "state": self.state,
            }
        )
        head = f'{{"format":"{FORMAT}","version":{VERSION},"sha256":"{_digest(body)}",\n"checkpoint":'
        write_whole(folder / self.name, [f"{head}{body}}}\n".encode()])


def read_manifest(path: Path) -> Manifest:
    """Read a manifest.

    Raises:
        DataError: if it is damaged, or none of this library, or of a later version of it.
    """
    try:
        document: Any = json.loads(path.read_bytes(), parse_constant=_no_number)
        if document["format"] != FORMAT:
            raise ValueError(f"its format is {document['format']!r}")
        if document["version"] != VERSION:
            raise DataError(
                f"{path} has version {document['version']!r} of the format, of which this version of erasurehead"
                f" reads {VERSION}; resume with the version that wrote it."
            )
        body = document["checkpoint"]
        if _digest(_text(body)) != document["sha256"]:
            raise ValueError("its checksum is not that of what it holds")
        return _manifest(body, path)
    except DataError:
        raise
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.") from None
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        why = f"there is no {error}" if isinstance(error, KeyError) else str(error) or type(error).__name__
        raise DataError(f"{path} is damaged, or no checkpoint of erasurehead ({why}).") from None


def _manifest(body: Mapping[str, Any], path: Path) -> Manifest:
    manifest = Manifest(
        step=check_count("step", body["step"], at_least=0),
        records={str(name): check_count(name, size, at_least=0) for name, size in body["records"].items()},
        facts=dict(cast("Mapping[str, Any]", body["facts"])),
        files={_file_name(name): _tensor_file(file) for name, file in body["files"].items()},
        next_tensor=check_count("next_tensor", body["next_tensor"], at_least=0),
        next_file=check_count("next_file", body["next_file"], at_least=0),
        state=body["state"],
    )
    if manifest.name != path.name:
        raise ValueError(f"it is that of step {manifest.step}")
    return manifest


def _tensor_file(entry: Mapping[str, Any]) -> TensorFile:
    tensors = {int(number): _tensor(*described) for number, described in entry["tensors"].items()}
    return TensorFile(check_count("bytes", entry["bytes"], at_least=0), str(entry["sha256"]), tensors)


def _tensor(dtype: str, shape: list[int]) -> tuple[str, tuple[int, ...]]:
    if dtype not in DTYPES:
        raise ValueError(f"a tensor of {dtype!r}")
    return dtype, tuple(check_count("shape", length, at_least=0) for length in shape)


def _file_name(name: str) -> str:
    if not TENSORS_NAME.fullmatch(name):
        raise ValueError(f"no checkpoint has a file {name!r}")
    return name


def _text(body: Any) -> str:
    return json.dumps(body, allow_nan=False, separators=(",", ":"))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number")
