"""What is left in shared memory by processes that are gone, on a machine where other tests run at the same time."""

from __future__ import annotations

import contextlib
import os
import re
import time
from pathlib import Path

from .bounded import PROMPT

SHARED = Path("/dev/shm")
_OWNER = re.compile(r"(?:erasurehead-|joblib_memmapping_folder_|torch_)(\d+)[-_]")


def unclaimed() -> set[str]:
    """Return our names in /dev/shm that no living process has open or mapped, or is the owner of by its number.

    Shared memory that another test is using is held by a process of that test; what a killed process could not take
    with it is held by nobody.
    """
    names = set[str]()
    for path in SHARED.iterdir() if SHARED.is_dir() else ():
        with contextlib.suppress(FileNotFoundError):
            if path.lstat().st_uid == os.getuid():
                names.add(path.name)
    for process in Path("/proc").glob("[0-9]*") if names else ():
        used = _used_by(process)
        names -= {
            name
            for name in names
            if f"{SHARED}/{name}" in used or ((found := _OWNER.match(name)) and found[1] == process.name)
        }
    return names


def _used_by(process: Path) -> str:
    """Return the names of what a process has mapped and open; nothing if it has gone meanwhile."""
    found: list[str] = []
    with contextlib.suppress(OSError):
        found.append((process / "maps").read_text(errors="replace"))
        for descriptor in (process / "fd").iterdir():
            with contextlib.suppress(FileNotFoundError):  # closed meanwhile, as the one of this very listing is
                found.append(os.readlink(descriptor))
    return "\n".join(found)


def left_since(before: set[str], seconds: float = PROMPT) -> set[str]:
    """Return what has been left since, and is still there after so many seconds: whoever is ending may take it along.

    Arguments:
        before: what was unclaimed then.
        seconds: how long to wait for it to go, at most.
    """
    deadline = time.monotonic() + seconds
    while (left := unclaimed() - before) and time.monotonic() < deadline:
        time.sleep(0.05)
    return left
