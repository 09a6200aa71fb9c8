"""What a run is asked for while it goes on, by way of its folder: no port is opened for it."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

from erasurehead._internal.atomic_files import writing
from erasurehead._internal.storage import Folder
from erasurehead.errors import DataError, check_count
from erasurehead.runs.locks import is_locked
from erasurehead.runs.names import CONTROL, LOCK, check_tame


class Control:
    """The coordinator's side: looks before each step whether something new is asked for.

    Arguments:
        folder: of the run. Requests to an earlier run there are ignored.
    """

    def __init__(self, folder: Path) -> None:
        self._place = folder
        self._seen = 0
        with contextlib.suppress(OSError), Folder.open(folder) as opened:
            opened.remove(CONTROL)

    def wanted(self) -> int | None:
        """Return how many workers are asked for, once; None if nothing new is."""
        try:
            with Folder.open(self._place) as folder:
                changed = folder.changed(CONTROL)
                if changed in (0, self._seen):
                    return None
                self._seen = changed
                return check_count("workers", json.loads(folder.read(CONTROL))["workers"])
        except (OSError, ValueError, KeyError, TypeError):  # half a file of somebody else's: not ours to stumble over
            return None


def ask_for_workers(folder: Path, workers: int) -> None:
    """Ask a run that is going on for another number of workers, from its next step on.

    Arguments:
        folder: of the run.
        workers: at least 1.

    Raises:
        InvalidArgument: if the number is not one.
        DataError: if no run is going on there, or its folder is not as a run leaves it.
        RecordsError: if nothing can be written there.
    """
    check_count("workers", workers)
    check_tame(folder)
    if not is_locked(folder / LOCK):
        raise DataError(
            f"No run is under way in {str(folder)!r}, so nothing would use the workers; name the folder of one that is."
        )
    with writing(folder / CONTROL), Folder.open(folder) as opened:
        opened.write_whole(CONTROL, [json.dumps({"workers": workers}).encode()])
