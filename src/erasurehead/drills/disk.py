"""A full disk without one: the system refuses every write of this process to a file, as it does where none has room."""

from __future__ import annotations

import contextlib
import resource
from collections.abc import Generator
from typing import final


@final
class Disk:
    """The disk of this process, which can be filled and freed.

    It is the limit of the size of files (`RLIMIT_FSIZE`), lowered to nothing: writes to files fail then, with the
    error "File too large" in place of "No space left on device". Pipes, sockets and memory that is mapped already are
    not touched; memory for new workers is a file, and so must be made in `spared`. Processes that are started
    meanwhile inherit the limit.
    """

    def __init__(self) -> None:
        self.full = False
        self._room = resource.getrlimit(resource.RLIMIT_FSIZE)[0]

    def fill(self) -> None:
        """From now on there is no room."""
        self.full = True
        self._limit(0)

    def free(self) -> None:
        """From now on there is room again."""
        self.full = False
        self._limit(self._room)

    @contextlib.contextmanager
    def spared(self) -> Generator[None]:
        """Make room for what is done in here."""
        if self.full:
            self._limit(self._room)
        try:
            yield
        finally:
            if self.full:
                self._limit(0)

    def _limit(self, room: int) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
