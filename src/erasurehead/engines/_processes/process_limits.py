"""Which limit keeps a process from being started, and what raises it."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
from collections.abc import Iterator
from pathlib import Path

from erasurehead._internal.resources import control_groups

_SPARE = 2
"""Processes below a limit at which it is taken for reached: some have ended since, and threads count, too."""

STARTING = (errno.EAGAIN, errno.ENOMEM)
"""Errors with which a system refuses another process."""


def why_no_process(number: int, fewer: str) -> str:
    """Return why no process can be started, as a sentence that names the limit and what to do.

    Arguments:
        number: the error of the system, one of `STARTING`.
        fewer: advice to use fewer processes.
    """
    if number == errno.ENOMEM:
        return f"there is no memory for another process (fork: Cannot allocate memory); {fewer}, or free some memory"
    return reached(fewer) or (
        "the system allows no more processes (fork: Resource temporarily unavailable; see ulimit -u, pids.max of the "
        f"control group, and /proc/sys/kernel/pid_max); raise that limit, or {fewer}"
    )


def reached(fewer: str) -> str:
    """Return which limit of processes is reached, as a sentence without a full stop; empty if none seems to be.

    Arguments:
        fewer: advice to use fewer processes.
    """
    for folder, most, there in _of_groups():
        if there >= most - _SPARE:
            return (
                f"the control group of this process may have {most:,} processes and threads, and has {there:,} "
                f"(pids.max in {folder}); raise that limit (TasksMax= of systemd, --pids-limit of a container), or "
                f"{fewer}"
            )
    most = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    if most != resource.RLIM_INFINITY and os.geteuid() != 0 and _of_user() >= most - _SPARE:
        return (
            f"this user may have {most:,} processes and threads (RLIMIT_NPROC), and they are used up; raise the limit "
            f"(ulimit -u), or {fewer}"
        )
    return ""


def _of_groups() -> Iterator[tuple[Path, int, int]]:
    """Yield each control group around this process that has a limit: its folder, the limit, and how many there are."""
    for folder in control_groups("pids"):
        with contextlib.suppress(OSError, ValueError):  # "max", or no such file
            yield folder, int((folder / "pids.max").read_text()), int((folder / "pids.current").read_text())


def _of_user() -> int:
    """Return how many processes and threads of this user there are, as far as they can be seen."""
    count, user = 0, os.getuid()
    for tasks in Path("/proc").glob("[0-9]*/task"):
        with contextlib.suppress(OSError):
            count += len(os.listdir(tasks)) if tasks.stat().st_uid == user else 0
    return count
