"""A process that outlives a drill, however the drill ends, and then kills and removes everything that it has left.

It is run as a script with nothing but the standard library: `python cleanup_process.py MARK FOLDER...`. Only processes
of the drill have the mark in their environment.
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
"""Environment variable that all processes of a drill inherit, by which those that outlive it are found."""

_POLL_INTERVAL = 0.5  # seconds between two checks of the parent: a forked child may keep our input open
_TIMEOUT = 5.0  # seconds after which it gives up


def marked(mark: str) -> dict[int, str]:
    """Return id and name of all processes with a mark, as far as the system shows them."""
    variable, processes = f"{MARK}={mark}".encode(), dict[int, str]()
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if variable in (folder / "environ").read_bytes() and (folder / "cmdline").read_bytes():
                processes[int(folder.name)] = (folder / "comm").read_text().strip()
    return processes


def main(mark: str, folders: list[str]) -> None:
    """Wait for the end of the input or of the parent, then kill the processes and remove the folders."""
    parent = os.getppid()
    while os.getppid() == parent and not select.select([sys.stdin], [], [], _POLL_INTERVAL)[0]:
        pass
    begin = time.monotonic()
    while (left := marked(mark)) and time.monotonic() - begin < _TIMEOUT:
        for pid in left:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
