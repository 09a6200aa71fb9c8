"""What happened in a run of a drill, line by line; the report is made from it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, final

from erasurehead._internal.storage import Folder
from erasurehead.runs.jsonl import read_lines, to_line
from erasurehead.training.callbacks import Callback
from erasurehead.training.notices import Notice


@final
class Journal:
    """A file of JSON lines that several processes, one after the other, append to.

    Each line is in the file when `add` returns, so that nothing is lost when the process is killed; but while the disk
    is full lines wait in memory.

    Arguments:
        path: of the file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._waiting = b""

    def add(self, entry: dict[str, Any]) -> None:
        """Append an entry."""
        self._waiting += to_line(entry).encode()
        self.flush()

    def flush(self) -> None:
        """Append what had to wait."""
        try:
            with Folder.open(self.path.parent) as folder:
                descriptor = folder.writable(self.path.name)
            try:
                os.lseek(descriptor, 0, os.SEEK_END)
                self._waiting = self._waiting[os.write(descriptor, self._waiting) :]
            finally:
                os.close(descriptor)
        except OSError:
            return  # it is tried again later

    def read(self) -> list[dict[str, Any]]:
        """Return all entries."""
        return read_lines(self.path)


@final
class Witness(Callback):
    """Takes down what a person would be told, with the time of the fault schedule.

    Arguments:
        told: takes entries.
        time: returns the seconds since the first order.
    """

    def __init__(self, told: Callable[[dict[str, Any]], None], time: Callable[[], float]) -> None:
        self._told, self._time = told, time

    def on_notice(self, notice: Notice) -> None:
        time = round(self._time(), 6)
        self._told({"what": "notice", "time": time, "kind": notice.kind, "text": notice.text})
