"""The journal of a run of a drill: what was done to it, and what was noticed. The report is made from it."""

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
    """A file of JSON lines to which several processes append, one after the other.

    Each line is in the file when `add` returns, so that nothing is lost if the process is killed; but while the disk is
    full, lines are kept in memory.

    Arguments:
        path: path of the file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._unwritten = b""

    def add(self, entry: dict[str, Any]) -> None:
        """Append an entry."""
        self._unwritten += to_line(entry).encode()
        self.flush()

    def flush(self) -> None:
        """Append the lines that could not be written before."""
        try:
            with Folder.open(self.path.parent) as folder:
                descriptor = folder.writable(self.path.name)
            try:
                os.lseek(descriptor, 0, os.SEEK_END)
                self._unwritten = self._unwritten[os.write(descriptor, self._unwritten) :]
            finally:
                os.close(descriptor)
        except OSError:
            return  # tried again at the next flush

    def read(self) -> list[dict[str, Any]]:
        """Return all entries."""
        return read_lines(self.path)


@final
class NoticeRecorder(Callback):
    """Records all notices of a run, with the time of the fault schedule.

    Arguments:
        record: called with each entry.
        time: returns the seconds since the first order.
    """

    def __init__(self, record: Callable[[dict[str, Any]], None], time: Callable[[], float]) -> None:
        self._record, self._time = record, time

    def on_notice(self, notice: Notice) -> None:
        time = round(self._time(), 6)
        self._record({"what": "notice", "time": time, "kind": notice.kind, "text": notice.text})
