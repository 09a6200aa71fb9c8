"""Tensors on disk in the safetensors format, written piece by piece and read from bytes that were verified before.

The library `safetensors` can read these files. It cannot write a file that is larger than memory, nor guarantee that it
decodes the very bytes whose checksum was taken; therefore the 8 bytes of length and the JSON header of the format are
written and read here.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self, cast

import numpy as np

from erasurehead._internal.arrays import AnyArray
from erasurehead._internal.documents import Entries, PlainData, from_json
from erasurehead.errors import DataError

_LENGTH = 8  # bytes that say how long the header is
_TYPES = {"F64": np.dtype("<f8"), "I64": np.dtype("<i8"), "I32": np.dtype("<i4")}
_NAMES = {kind: name for name, kind in _TYPES.items()}


@dataclass(frozen=True)
class Slot:
    """Room for a tensor.

    Arguments:
        dtype: float64, int64 or int32.
        shape: of the tensor.
    """

    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    @property
    def bytes(self) -> int:
        """Its size."""
        size = self.dtype.itemsize
        for length in self.shape:
            size *= length
        return size


class TensorWriter:
    """A file of tensors, each of which is written from beginning to end, in any number of pieces.

    Arguments:
        path: path of the file, which is overwritten.
        slots: slots by name, those with larger elements first, so that all are aligned.
        about: description of the file, as texts.
    """

    def __init__(self, path: Path, slots: Mapping[str, Slot], about: Mapping[str, str]) -> None:
        header: PlainData = {"__metadata__": dict(about)}
        begin = 0
        for name, slot in slots.items():
            end = begin + slot.bytes
            header[name] = {"dtype": _NAMES[slot.dtype], "shape": list(slot.shape), "data_offsets": [begin, end]}
            begin = end
        text = json.dumps(header, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)
        start = _LENGTH + len(text)
        self._left = {name: slot.bytes for name, slot in slots.items()}
        self._next = {name: start + header[name]["data_offsets"][0] for name in slots}
        self._file = path.open("wb")
        self._file.write(len(text).to_bytes(_LENGTH, "little") + text)
        self._file.truncate(start + begin)

    def write(self, name: str, values: AnyArray) -> None:
        """Write the next elements of a tensor, in its dtype."""
        data = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
        assert len(data) <= self._left[name]
        self._file.seek(self._next[name])
        self._file.write(data.data)
        self._next[name] += len(data)
        self._left[name] -= len(data)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                assert not any(self._left.values())
                self._file.flush()
                os.fsync(self._file.fileno())
        finally:
            self._file.close()


def decode_tensors(data: bytearray, path: str) -> tuple[dict[str, AnyArray], dict[str, str]]:
    """Return the tensors in the bytes of a file, as views of them, and the file's description.

    Arguments:
        data: the whole file.
        path: its path, for messages.

    Raises:
        DataError: if the bytes are not such a file.
    """
    try:
        length = int.from_bytes(data[:_LENGTH], "little")
        start = _LENGTH + length
        if start > len(data):
            raise ValueError(f"its header is said to have {length} bytes")
        header = from_json(data[_LENGTH:start])
        about = cast("dict[str, str]", header.pop("__metadata__", {}))
        return {name: _tensor(data, start, entry) for name, entry in header.items()}, about
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise DataError(f"{path} is not a file of tensors in the safetensors format ({error}).") from None


def _tensor(data: bytearray, start: int, entry: Entries) -> AnyArray:
    dtype = _TYPES[entry["dtype"]]
    shape = tuple(int(length) for length in entry["shape"])
    low, high = (start + int(offset) for offset in entry["data_offsets"])
    if min(shape, default=0) < 0 or not start <= low <= high <= len(data) or high - low != Slot(dtype, shape).bytes:
        raise ValueError(f"a tensor of shape {list(shape)} does not fit bytes {entry['data_offsets']}")
    return np.frombuffer(data, dtype, (high - low) // dtype.itemsize, low).reshape(shape)
