"""What a launcher tells the ranks that it starts; and that they end with it, however it ends."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from erasurehead.engines._end_with_parent import end_with_parent
from erasurehead.engines._process_state import state_of

_LAUNCHERS = (
    ("PMIX_RANK", "OMPI_COMM_WORLD_SIZE"),  # Open MPI 5
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),  # MPICH and its kin
)
"""The variables for rank and number of ranks."""

_LOOK = 1.0  # seconds between two looks at a launcher that is not our parent


class Launched(NamedTuple):
    """What the launcher tells this rank."""

    name: str
    """The variable with the rank's number."""
    number: int
    """The rank."""
    size: int
    """The number of ranks of the job."""


def launched(environment: Mapping[str, str] = os.environ) -> Launched | None:
    """Return what the launcher tells this process; None if it is not a rank of a job, or there is no telling."""
    for name, size in _LAUNCHERS:
        number, ranks = environment.get(name, ""), environment.get(size, "")
        if number.isdecimal() and ranks.isdecimal():
            return Launched(name, int(number), int(ranks))
    return None


@cache
def end_with_launcher() -> None:
    """See to it, once, that this process ends when its launcher does; nothing happens if it is no rank of a job.

    The coordinator is asked to end (SIGTERM), so that it can leave a run that can be resumed; the others are
    killed. Where a shell stands between, which outlives the launcher, a thread looks once a second.
    """
    place = launched()
    if place is None or place.size < 2:
        return
    number = signal.SIGTERM if place.number == 0 else signal.SIGKILL
    launcher = _launcher_of(place)
    if launcher == os.getppid():
        end_with_parent(number)
        if os.getppid() != launcher:  # it has ended in between
            os.kill(os.getpid(), number)
    elif launcher > 1:
        threading.Thread(target=_look, args=(launcher, number), name="erasurehead-launcher", daemon=True).start()


def _launcher_of(place: Launched) -> int:
    """Return the process that has started the ranks of this machine: above us, and above a shell of our rank's."""
    above = os.getppid()
    while f"{place.name}={place.number}" in _variables(above):
        above = _parent(above)
    return above


def _variables(process: int) -> list[str]:
    """Return the environment that a process was started with, as `NAME=VALUE`; empty if it has ended."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{process}/environ").read_bytes().decode(errors="replace").split("\0")
    return []


def _parent(process: int) -> int:
    """Return the parent of a process; 0 if it has ended."""
    with contextlib.suppress(OSError):
        return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    return 0


def _look(launcher: int, number: signal.Signals) -> None:
    while state_of(launcher) not in ("", "Z", "X"):  # one that nobody has waited for yet has ended, too
        time.sleep(_LOOK)
    os.kill(os.getpid(), number)
