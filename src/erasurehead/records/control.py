"""What a run is asked for while it goes on, by way of its folder: no port is opened for it."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path

from erasurehead.errors import DataError, check_count
from erasurehead.records.locks import is_locked
from erasurehead.records.places import CONTROL, LOCK


class Control:
    """The coordinator's side: looks before each step whether something new is asked for.

    Arguments:
        folder: of the run. What was asked of an earlier run there is passed over.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / CONTROL
        with contextlib.suppress(FileNotFoundError):
            self._path.unlink()
        self._seen = 0

    def wanted(self) -> int | None:
        """Return how many workers are asked for, once; None if nothing new is."""
        try:
            changed = os.stat(self._path).st_mtime_ns
        except OSError:
            return None
        if changed == self._seen:
            return None
        self._seen = changed
        try:
            return check_count("workers", json.loads(self._path.read_text(encoding="utf-8"))["workers"])
        except (OSError, ValueError, KeyError, TypeError):  # half a file of somebody else's: not ours to stumble over
            return None


def ask_for_workers(folder: Path, workers: int) -> None:
    """Ask a run that is going on for another number of workers, from its next step on.

    Arguments:
        folder: of the run.
        workers: at least 1.

    Raises:
        InvalidArgument: if the number is none.
        DataError: if no run is going on there.
    """
    check_count("workers", workers)
    if not is_locked(folder / LOCK):
        raise DataError(
            f"No run is going on in {str(folder)!r}, so that nobody would take workers there; name the folder of one "
            "that is."
        )
    scratch = folder / f".{CONTROL}.new"
    scratch.write_text(json.dumps({"workers": workers}), encoding="utf-8")
    scratch.replace(folder / CONTROL)
