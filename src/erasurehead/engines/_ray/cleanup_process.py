"""A small process that stays until the coordinator has gone, however that was, and removes what is left of its cluster.

Ray's processes end with the process that started them, but two of its agents take a minute, and nobody removes the
folder. This runs as a script of its own, with nothing but the standard library: `python cleanup_process.py FOLDER`.
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

_LOOK = 0.5  # seconds between two looks at the parent: a child that it forked may hold our input open
_GRACE = 1.0  # seconds that Ray's processes have to end by themselves
_BOUND = 5.0  # seconds after which nothing more is tried


def holders(folder: str) -> list[int]:
    """Return the processes of Ray that have files of a folder open; none where the system cannot tell."""
    found: list[int] = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            title = (process / "cmdline").read_bytes()
            if not title.startswith(b"ray::") and os.fsencode(folder) not in title:
                continue  # a process that the coordinator forked has them open as well
            if any(os.readlink(file).startswith(folder + os.sep) for file in (process / "fd").iterdir()):
                found.append(int(process.name))
    return found


def main(folder: str) -> None:
    """Wait for the end of the input or of the parent, then tidy up."""
    parent = os.getppid()
    while os.getppid() == parent and not select.select([sys.stdin], [], [], _LOOK)[0]:
        pass
    begin = time.monotonic()
    while (left := set(holders(folder)) - {os.getpid()}) and time.monotonic() - begin < _BOUND:
        if time.monotonic() - begin > _GRACE:
            for pid in left:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(sys.argv[1])
