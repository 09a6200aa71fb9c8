"""Arrays on disk: safetensors, which hold numbers and no code."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from erasurehead._internal.arrays import Array
from erasurehead._internal.storage.folders import Folder
from erasurehead._internal.tensor_format import DTYPES, Slot, decode_tensors, header, slot_of
from erasurehead._internal.typed import COUNT, KEY
from erasurehead.errors import DataError, invalid, unreadable

_NAME = "x"


def model_bytes(x: Array) -> bytes:
    """Return a model, shape (n_parameters,), as the bytes of a file that holds it as the tensor `x`."""
    return b"".join(_pieces({_NAME: x}, "model"))


def model_in(data: bytes, path: object) -> Array:
    """Return the model in the bytes of a file.

    Raises:
        DataError: if `model_bytes` did not write them.
    """
    what = "a model that erasurehead wrote"
    tensors, _ = decode_tensors(data, path, what)
    if _NAME not in tensors:
        raise DataError(f"{path} is not {what} (it has no tensor {_NAME!r}).")
    return np.asarray(tensors[_NAME], dtype=np.float64)


@dataclass(frozen=True)
class TensorFile:
    """The expected content of a file of numbered tensors.

    Arguments:
        size: size of the file in bytes.
        sha256: checksum of the file, in hexadecimal digits.
        tensors: number -> dtype and shape.
    """

    size: Annotated[int, COUNT] = field(metadata={KEY: "bytes"})
    sha256: str
    tensors: Mapping[int, Slot]

    @property
    def total(self) -> int:
        """The size of all tensors together in bytes."""
        return sum(slot.bytes for slot in self.tensors.values())


def save_tensors(folder: Folder, name: str, tensors: Mapping[int, NDArray[Any]]) -> TensorFile:
    """Write numbered arrays to a file, atomically.

    Raises:
        InvalidArgument: if an array has a type that cannot be stored.
        OSError: if it cannot be written.
    """
    for array in tensors.values():
        if array.dtype.name not in DTYPES:
            raise invalid("an array of a state", f"must be of {', '.join(sorted(DTYPES))}", array.dtype.name)
    slots = {number: slot_of(array) for number, array in tensors.items()}
    pieces = list(_pieces({str(number): array for number, array in tensors.items()}, "checkpoint"))
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(piece)
    folder.write_whole(name, pieces)
    return TensorFile(sum(len(piece) for piece in pieces), digest.hexdigest(), slots)


def _pieces(tensors: Mapping[str, NDArray[Any]], kind: str) -> Iterator[bytes | memoryview]:
    """Yield a file of tensors piece by piece."""
    slots = {name: slot_of(array) for name, array in tensors.items()}
    yield header(slots, {"format": f"erasurehead-{kind}"})
    for name, array in tensors.items():
        if array.nbytes:
            yield np.ascontiguousarray(array, dtype=slots[name].dtype).reshape(-1).view(np.uint8).data


def load_tensors(folder: Folder, name: str, expected: TensorFile) -> dict[int, NDArray[Any]]:
    """Read a file of numbered arrays; they are read-only.

    Raises:
        DataError: if the file is not exactly as expected.
    """
    path = folder.path / name
    try:
        folder.check_file(name)
        size = folder.size(name)  # checked first, so as not to allocate more memory than the file is long
        data = folder.read(name, size) if size == expected.size else b""
    except OSError as error:
        raise unreadable(path, error) from None
    if len(data) != expected.size or hashlib.sha256(data).hexdigest() != expected.sha256:
        raise DataError(f"{path} is damaged: its checksum is not that of the file that was written.")
    arrays, _ = decode_tensors(data, path)
    if {name: slot_of(array) for name, array in arrays.items()} != {
        str(number): slot for number, slot in expected.tensors.items()
    }:
        raise DataError(f"{path} holds other tensors than the manifest says.")
    return {int(name): array for name, array in arrays.items()}
