"""Memory that several ranks have, as this one sees it."""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable
from typing import Any, final

import numpy as np

from erasurehead._internal.arrays import Array


@final
class File:
    """A descriptor, closed when nobody has it any more."""

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def __del__(self) -> None:
        os.close(self.fd)


@final
class Mapped(mmap.mmap):
    """A mapping, as long as there is a vector in it.

    Attributes:
        file: what a private mapping is of; None if this one is shared.
        pinned: whether a GPU reaches it by itself; None as long as nobody has asked for that.
        release: called before it is unmapped.
    """

    file: File | None = None
    pinned: bool | None = None
    release: Callable[[], object] | None = None
    _seen_by_all: Mapped | None = None

    @classmethod
    def private(cls, file: File, size: int) -> Mapped:
        """Return a mapping whose writer changes nothing but their own view; others may change what was not written."""
        found = cls(file.fd, size, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE)
        found.file = file
        return found

    @classmethod
    def of(cls, vector: Array) -> Mapped | None:
        """Return the mapping in which a vector lies, if it does in one."""
        base: Any = vector
        while isinstance(base, np.ndarray):
            base = base.base
        base = base.obj if isinstance(base, memoryview) else base
        return base if isinstance(base, cls) else None

    @property
    def shared(self) -> Mapped:
        """The same memory as all see it: to pin a private mapping would copy it, as writing does."""
        if self.file is None:
            return self
        if self._seen_by_all is None:
            self._seen_by_all = Mapped(self.file.fd, len(self))
        return self._seen_by_all

    @property
    def address(self) -> int:
        """Where it begins."""
        return int(np.frombuffer(self, np.uint8).__array_interface__["data"][0])

    def __del__(self) -> None:
        if self.release is not None:
            self.release()
