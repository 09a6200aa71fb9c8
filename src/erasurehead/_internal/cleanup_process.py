"""A process that outlives this one, however it ends, and then kills what is left of its children and removes folders.

It is run as a script with nothing but the standard library: `python cleanup_process.py WHICH WHAT FOLDER...`, where
WHICH is a key of `FINDERS`, and WHAT its argument.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterable
from pathlib import Path

MARK = "ERASUREHEAD_DRILL"
"""Environment variable that all processes of a drill inherit, by which those that outlive it are found."""

_POLL_INTERVAL = 0.5  # seconds between two checks of the parent: a forked child may keep our input open
_TIMEOUT = 5.0  # seconds after which it gives up


def marked(mark: str) -> dict[int, str]:
    """Return id and name of all processes with a mark, as far as the system shows them."""
    variable = f"{MARK}={mark}".encode()
    return _those(lambda process: variable in (process / "environ").read_bytes() and _title(process) != b"")


def holders(folder: str) -> dict[int, str]:
    """Return id and name of the processes of Ray that have files of a folder open: they hide their environment."""

    def holds(process: Path) -> bool:
        title = _title(process)
        if not title.startswith(b"ray::") and os.fsencode(folder) not in title:
            return False  # a process that the coordinator forked has them open as well
        return any(os.readlink(file).startswith(folder + os.sep) for file in (process / "fd").iterdir())

    return _those(holds)


def _title(process: Path) -> bytes:
    return (process / "cmdline").read_bytes()


def _those(wanted: Callable[[Path], bool]) -> dict[int, str]:
    found: dict[int, str] = {}
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if wanted(process):
                found[int(process.name)] = (process / "comm").read_text().strip()
    return found


FINDERS = {"marked": (marked, 0.0), "holders": (holders, 1.0)}
"""How processes are found, and seconds that they have to end by themselves."""


@contextlib.contextmanager
def cleanup(which: str, what: str, folders: Iterable[str]) -> Generator[None]:
    """Have everything removed that this block leaves, even if this process is killed in it.

    Arguments:
        which: a key of `FINDERS`.
        what: the mark, or the folder, by which processes are found.
        folders: the folders to remove.
    """
    command = [sys.executable, "-I", "-S", __file__, which, what, *folders]
    # A session of its own: Ctrl-C, which goes to the whole terminal, is not meant for it.
    with subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True) as process:
        assert process.stdin is not None
        try:
            yield
        finally:
            process.stdin.close()
            process.wait()


def main(which: str, what: str, folders: list[str]) -> None:
    """Wait for the end of the input or of the parent, then kill the processes and remove the folders."""
    find, grace = FINDERS[which]
    parent = os.getppid()
    while os.getppid() == parent and not select.select([sys.stdin], [], [], _POLL_INTERVAL)[0]:
        pass
    begin = time.monotonic()
    while (left := find(what).keys() - {os.getpid()}) and time.monotonic() - begin < _TIMEOUT:
        for pid in left if time.monotonic() - begin >= grace else ():
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
