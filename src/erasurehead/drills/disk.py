"""A simulated full disk: the system refuses all writes of this process to files, as on a full disk."""

from __future__ import annotations

import contextlib
import resource
from collections.abc import Generator
from typing import final


@final
class Disk:
    """The disk of this process, which can be filled and freed.

    It lowers the limit of the size of files (`RLIMIT_FSIZE`) to zero: writes to files then fail, with the error "File
    too large" in place of "No space left on device". Pipes, sockets and existing memory maps are not affected; memory
    for new workers is a file, and must therefore be created in `spared`. Processes that are started meanwhile inherit
    the limit.
    """

    def __init__(self) -> None:
        self.full = False
        self._room = resource.getrlimit(resource.RLIMIT_FSIZE)[0]

    def fill(self) -> None:
        """Fill the disk."""
        self.full = True
        self._limit(0)

    def free(self) -> None:
        """Free the disk."""
        self.full = False
        self._limit(self._room)

    @contextlib.contextmanager
    def spared(self) -> Generator[None]:
        """Allow writes within the block."""
        if self.full:
            self._limit(self._room)
        try:
            yield
        finally:
            if self.full:
                self._limit(0)

    def _limit(self, room: int) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
