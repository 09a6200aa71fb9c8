"""The format safetensors, which holds numbers and no code: 8 bytes of length, a header in JSON, and the tensors.

The library of this name can read these files. It cannot write a file that is larger than memory, nor guarantee that it
decodes the very bytes whose checksum was taken, and it copies everything while it holds the interpreter's lock.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from erasurehead._internal.arrays import AnyArray
from erasurehead._internal.documents import Entries, PlainData, from_json
from erasurehead._internal.storage.sealed import Unfit
from erasurehead.errors import DataError, check_count

_LENGTH = 8  # bytes that say how long the header is
_TYPES: Mapping[str, np.dtype[Any]] = {
    "BOOL": np.dtype(bool),
    **{f"F{8 * size}": np.dtype(f"<f{size}") for size in (2, 4, 8)},
    **{f"{kind.upper()}{8 * size}": np.dtype(f"<{kind}{size}") for kind in "iu" for size in (1, 2, 4, 8)},
}
_NAMES = {kind: name for name, kind in _TYPES.items()}

DTYPES = tuple(kind.name for kind in _TYPES.values())
"""Types of arrays that can be stored, as numpy names them."""


@dataclass(frozen=True)
class Slot:
    """Room for a tensor.

    Arguments:
        dtype: of truth values, whole numbers or floats, the least significant byte first.
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

    @classmethod
    def from_plain(cls, entry: Any) -> Slot:
        """Return the slot that `as_plain` wrote; raises `ValueError` and the like for anything else."""
        dtype, shape = entry
        if dtype not in DTYPES:
            raise Unfit(f"a tensor of {dtype!r}")
        return cls(np.dtype(dtype), tuple(check_count("shape", length, at_least=0) for length in shape))

    def as_plain(self) -> list[Any]:
        """Return it as plain JSON data."""
        return [self.dtype.name, list(self.shape)]


def slot_of(array: AnyArray) -> Slot:
    """Return the room that an array needs."""
    return Slot(array.dtype.newbyteorder("<"), array.shape)


def header(slots: Mapping[str, Slot], about: Mapping[str, str]) -> bytes:
    """Return what stands in a file before its tensors, which follow in the order of their slots.

    Arguments:
        slots: slots by name.
        about: description of the file, as texts.
    """
    entries: PlainData = {"__metadata__": dict(about)}
    begin = 0
    for name, slot in slots.items():
        end = begin + slot.bytes
        entries[name] = {"dtype": _NAMES[slot.dtype], "shape": list(slot.shape), "data_offsets": [begin, end]}
        begin = end
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(_LENGTH, "little") + text


def decode_tensors(
    data: bytes | bytearray, path: object, what: str = "a file of tensors in the safetensors format"
) -> tuple[dict[str, AnyArray], dict[str, str]]:
    """Return the tensors in the bytes of a file, as views of them, and the file's description.

    Arguments:
        data: the whole file.
        path: its path, for messages.
        what: what it should be, for messages.

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
        raise DataError(f"{path} is not {what} ({error}).") from None


def _tensor(data: bytes | bytearray, start: int, entry: Entries) -> AnyArray:
    dtype = _TYPES[entry["dtype"]]
    shape = tuple(int(length) for length in entry["shape"])
    low, high = (start + int(offset) for offset in entry["data_offsets"])
    if min(shape, default=0) < 0 or not start <= low <= high <= len(data) or high - low != Slot(dtype, shape).bytes:
        raise ValueError(f"a tensor of shape {list(shape)} does not fit bytes {entry['data_offsets']}")
    if low == high:
        return np.empty(shape, dtype)
    flat = np.frombuffer(data, dtype, (high - low) // dtype.itemsize, low)
    return (flat if flat.flags.aligned else flat.copy()).reshape(shape)
