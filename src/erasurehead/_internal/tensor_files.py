"""Arrays on disk: safetensors, which hold numbers and no code."""

from __future__ import annotations

import hashlib
import importlib
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from erasurehead._internal.arrays import Array
from erasurehead._internal.storage.folders import Folder
from erasurehead.errors import DataError, invalid

_NAME = "x"

DTYPES = {
    "bool": "BOOL",
    "float16": "F16",
    "float32": "F32",
    "float64": "F64",
    **{f"{sign}int{bits}": f"{letter}{bits}" for sign, letter in (("", "I"), ("u", "U")) for bits in (8, 16, 32, 64)},
}
"""Types of arrays that can be stored: numpy's name -> safetensors' name."""


def model_bytes(x: Array) -> bytes:
    """Return a model, shape (n_parameters,), as the bytes of a file that holds it as the tensor `x`."""
    return _library().save({_NAME: np.ascontiguousarray(x)}, {"format": "erasurehead-model"})


def model_in(data: bytes, path: object) -> Array:
    """Return the model in the bytes of a file.

    Raises:
        DataError: if `model_bytes` did not write them.
    """
    try:
        return np.asarray(_library().load(data)[_NAME], dtype=np.float64)
    except Exception as error:  # safetensors raises KeyError, and an exception that is not an OSError
        raise DataError(f"{path} is not a model that erasurehead wrote ({error}).") from None


@dataclass(frozen=True)
class TensorFile:
    """The expected content of a file of numbered tensors.

    Arguments:
        size: size of the file in bytes.
        sha256: checksum of the file, in hexadecimal digits.
        tensors: number -> dtype, as numpy names it, and shape.
    """

    size: int
    sha256: str
    tensors: Mapping[int, tuple[str, tuple[int, ...]]]

    def bytes_of(self, number: int) -> int:
        """Return the size of a tensor in bytes."""
        dtype, shape = self.tensors[number]
        return np.dtype(dtype).itemsize * math.prod(shape)

    @property
    def total(self) -> int:
        """The size of all tensors together in bytes."""
        return sum(map(self.bytes_of, self.tensors))


def save_tensors(folder: Folder, name: str, tensors: Mapping[int, NDArray[Any]]) -> TensorFile:
    """Write numbered arrays to a file, atomically.

    Raises:
        InvalidArgument: if an array has a type that cannot be stored.
        OSError: if it cannot be written.
    """
    for array in tensors.values():
        if array.dtype.name not in DTYPES:
            raise invalid("an array of a state", f"must be of {', '.join(sorted(DTYPES))}", array.dtype.name)
    pieces = list(_pieces(tensors))
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(piece)
    folder.write_whole(name, pieces)
    entries = {number: (array.dtype.name, array.shape) for number, array in tensors.items()}
    return TensorFile(sum(len(piece) for piece in pieces), digest.hexdigest(), entries)


def _pieces(tensors: Mapping[int, NDArray[Any]]) -> Iterator[bytes | memoryview]:
    """Yield a file of safetensors piece by piece. safetensors would copy everything, holding the GIL."""
    header: dict[str, Any] = {"__metadata__": {"format": "erasurehead-checkpoint"}}
    place = 0
    for number, array in tensors.items():
        span = [place, place + array.nbytes]
        header[str(number)] = {"dtype": DTYPES[array.dtype.name], "shape": array.shape, "data_offsets": span}
        place += array.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    yield len(text).to_bytes(8, "little") + text
    for array in tensors.values():
        little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
        if little.nbytes:
            yield little.reshape(-1).view(np.uint8).data


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
        raise DataError(f"{path} cannot be read: {error.strerror}.") from None
    if len(data) != expected.size or hashlib.sha256(data).hexdigest() != expected.sha256:
        raise DataError(f"{path} is damaged: its checksum is not that of the file that was written.")
    try:
        arrays: dict[str, NDArray[Any]] = _library().load(data)
    except Exception as error:  # safetensors raises an exception of its own
        raise DataError(f"{path} holds no tensors ({error}).") from None
    entries = {name: (array.dtype.name, array.shape) for name, array in arrays.items()}
    if entries != {str(number): entry for number, entry in expected.tensors.items()}:
        raise DataError(f"{path} holds other tensors than the manifest says.")
    return {int(name): array for name, array in arrays.items()}


def _library() -> Any:
    # Its annotations are partial: it is Any from here on, and no other module touches it.
    return importlib.import_module("safetensors.numpy")
