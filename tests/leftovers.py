"""What is left in shared memory by processes that are gone, on a machine where other tests run at the same time."""

from __future__ import annotations

import contextlib
import os
import re
import time
from pathlib import Path

SHARED = Path("/dev/shm")
_OWNER = re.compile(r"erasurehead-(\d+)-")


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
        names -= {name for name in names if (found := _OWNER.match(name)) and found[1] == process.name}
        with contextlib.suppress(OSError):
            mapped = (process / "maps").read_text(errors="replace")
            held = {os.readlink(descriptor) for descriptor in (process / "fd").iterdir()}
            names -= {name for name in names if f"{SHARED}/{name}" in held or f"{SHARED}/{name}" in mapped}
        if not names:
            break
    return names


def left_since(before: set[str], seconds: float = 3.0) -> set[str]:
    """Return what has been left since, and is still there after so many seconds: whoever is ending may take it along.

    Arguments:
        before: what was unclaimed then.
        seconds: how long to wait for it to go, at most.
    """
    deadline = time.monotonic() + seconds
    while (left := unclaimed() - before) and time.monotonic() < deadline:
        time.sleep(0.05)
    return left
