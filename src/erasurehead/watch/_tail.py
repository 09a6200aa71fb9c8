"""The lines of a file that somebody is writing, each read once."""

from __future__ import annotations

import os
from pathlib import Path

from erasurehead._internal.documents import PlainData
from erasurehead._internal.storage.folders import Folder
from erasurehead.errors import DataError
from erasurehead.runs._jsonl import object_in

_PIECE = 1 << 20  # bytes that are read at once
_LONGEST = 1 << 28  # bytes of a line
_COMPARED = 256  # bytes before the place of reading that must be what they were


class Tail:
    """The objects in a file of JSON lines that grows: `read` returns those since the last call.

    Arguments:
        path: of the file; a link in its place is not followed.

    Attributes:
        done: number of bytes read.
        size: bytes of the file, when it was read last.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.done = self.size = self._rows = self._inode = 0
        self._last, self._piece = b"", _PIECE

    def read(self) -> list[PlainData] | None:
        """Return the objects of some more lines; none at the end of the file, before which a line may be incomplete.

        Returns:
            The objects; None if the file is not the one that was read before, or was cut off, as a run that is resumed
            cuts it.

        Raises:
            OSError: if the file cannot be read any more. One that is not there yet has no lines.
            DataError: if a line is damaged.
        """
        with Folder.open(self._path.parent) as folder:
            if not self._inode and not folder.kind(self._path.name):
                return []
            file = folder.opened(self._path.name)
        try:
            status = os.fstat(file)
            before = os.pread(file, len(self._last), self.done - len(self._last))
            if self._inode not in (0, status.st_ino) or status.st_size < self.done or before != self._last:
                return None
            self._inode, self.size = status.st_ino, status.st_size
            data = os.pread(file, self._piece, self.done)
        finally:
            os.close(file)
        end = data.rfind(b"\n") + 1
        if not end:
            if self._piece > _LONGEST:
                raise DataError(f"{self._path}, line {self._rows + 1}: it has more than {_LONGEST} bytes.")
            self._piece *= 1 + (len(data) == self._piece)
            return []
        self._last, self.done = data[max(0, end - _COMPARED) : end], self.done + end
        first = self._rows + 1
        self._rows += data.count(b"\n", 0, end)
        return [object_in(line, self._path, first + n) for n, line in enumerate(data[: end - 1].split(b"\n"))]
