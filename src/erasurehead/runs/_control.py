"""Requests to a running run, through its folder: no port is opened."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

from erasurehead._internal.atomic_files import writing
from erasurehead._internal.documents import from_json
from erasurehead._internal.storage.folders import Folder
from erasurehead.errors import DataError, ErasureHeadError, InvalidArgument, check_count, check_size
from erasurehead.runs._locks import is_locked
from erasurehead.runs._names import CONFIG, CONTROL, LOCK, check_tame


class Control:
    """The coordinator's side: checks before each step whether there is a new request.

    Arguments:
        folder: folder of the run. Requests to an earlier run in it are ignored.
    """

    def __init__(self, folder: Path) -> None:
        self._place = folder
        self._seen = 0
        with contextlib.suppress(OSError), Folder.open(folder) as opened:
            opened.remove(CONTROL)

    def wanted(self) -> int | None:
        """Return a newly requested number of workers, once; None if there is no new request."""
        try:
            with Folder.open(self._place) as folder:
                changed = folder.changed(CONTROL)
                if changed in (0, self._seen):
                    return None
                self._seen = changed
                return check_count("workers", from_json(folder.read(CONTROL))["workers"])
        except (OSError, ValueError, KeyError, TypeError):  # a partial or foreign file must not end the run
            return None


def ask_for_workers(folder: Path, workers: int) -> None:
    """Ask a running run for another number of workers, from its next step.

    Arguments:
        folder: folder of the run.
        workers: number of workers, at least 1.

    Raises:
        InvalidArgument: if the number is invalid, or the run's code cannot be resized for it.
        DataError: if no run is running there, or its folder is damaged.
        RecordsError: if the folder cannot be written to.
    """
    check_size("workers", workers)
    check_tame(folder)
    if not is_locked(folder / LOCK):
        raise DataError(
            f"No run is under way in {str(folder)!r}, so nothing would use the workers; name the folder of one that is."
        )
    _check_resizable(folder, workers)
    with writing(folder / CONTROL), Folder.open(folder) as opened:
        opened.write_whole(CONTROL, [json.dumps({"workers": workers}).encode()])


def _check_resizable(folder: Path, workers: int) -> None:
    """Raise if the code of a run cannot be resized; if the run file cannot be read, the run itself will say so."""
    from erasurehead.runs._config import read_config
    from erasurehead.schemes import parse_scheme

    try:
        config = read_config(folder / CONFIG)
        scheme = parse_scheme(config.scheme or "", config.run.workers)
    except (ErasureHeadError, OSError):
        return
    if workers == scheme.code.n_workers:
        return
    try:
        scheme.resized(workers)
    except InvalidArgument as error:
        raise error.but(argument="workers") from None
