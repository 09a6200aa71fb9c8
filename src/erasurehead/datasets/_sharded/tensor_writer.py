"""Files of tensors that are larger than memory, written piece by piece."""

from __future__ import annotations

import os
from collections.abc import Mapping
from itertools import accumulate
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np

from erasurehead._internal.arrays import AnyArray
from erasurehead._internal.tensor_format import Slot, header


class TensorWriter:
    """A file of tensors, each of which is written from beginning to end, in any number of pieces.

    Arguments:
        path: path of the file, which is overwritten.
        slots: slots by name, those with larger elements first, so that all are aligned.
        about: description of the file, as texts.
    """

    def __init__(self, path: Path, slots: Mapping[str, Slot], about: Mapping[str, str]) -> None:
        head = header(slots, about)
        self._left = {name: slot.bytes for name, slot in slots.items()}
        *begins, end = accumulate(self._left.values(), initial=len(head))
        self._next = dict(zip(slots, begins, strict=True))
        self._file = path.open("wb")
        self._file.write(head)
        self._file.truncate(end)

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
