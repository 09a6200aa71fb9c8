"""A small process that stays until a drill has gone, however that was, and ends and removes all that it has started.

It runs as a script of its own, with nothing but the standard library: `python keeper.py MARK FOLDER...`. The mark is in
the environment of the drill's processes, and of none else.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import sys
import time
from pathlib import Path

MARK = "ERASUREHEAD_DRILL"
"""Environment variable that a drill's processes inherit, by which those that outlive it are found."""

_LOOK = 0.5  # seconds between two looks at the parent: a child that it forked may hold our input open
_BOUND = 5.0  # seconds after which nothing more is tried


def marked(mark: str) -> dict[int, str]:
    """Return number and name of the processes with a mark, where the system shows them."""
    wanted, found = f"{MARK}={mark}".encode(), dict[int, str]()
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if wanted in (folder / "environ").read_bytes() and (folder / "cmdline").read_bytes():
                found[int(folder.name)] = (folder / "comm").read_text().strip()
    return found


def main(mark: str, folders: list[str]) -> None:
    """Wait for the end of the input or of the parent, then tidy up."""
    parent = os.getppid()
    while os.getppid() == parent and not select.select([sys.stdin], [], [], _LOOK)[0]:
        pass
    begin = time.monotonic()
    while (left := marked(mark)) and time.monotonic() - begin < _BOUND:
        for pid in left:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
