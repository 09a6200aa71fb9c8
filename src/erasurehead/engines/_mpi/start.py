"""The start of MPI, under watch: it either comes up, or the process ends in time with an exit code that says so."""

from __future__ import annotations

import contextlib
import ctypes
import math
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Any

from erasurehead.engines._mpi import watch
from erasurehead.errors import invalid

_LAUNCHERS = (
    # Rank, ranks in all, ranks on this machine, and what tells the job from others.
    ("PMIX_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", ("PMIX_NAMESPACE",)),  # Open MPI 5
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", ("PMIX_NAMESPACE",)),
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS", ()),  # MPICH and its kin
)

FAILED = int(signal.SIGALRM)
"""Exit code of a rank whose start has failed."""

_AFTER = 10
"""Seconds after the watch's limit within which a start ends even without the watch."""


@dataclass(frozen=True)
class Start:
    """How long MPI may take to start.

    Arguments:
        patience: seconds, after the last rank on a machine came up, for which others on it may be missing.
        limit: seconds that the start may take in total.
    """

    patience: float = 30.0
    limit: float = 120.0

    def __post_init__(self) -> None:
        for name in ("patience", "limit"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise invalid(f"start.{name}", "must be a positive number of seconds", value)


@dataclass(frozen=True)
class Launched:
    """What the launcher tells this rank.

    Attributes:
        name: name of the variable with the rank's number.
        number: number of this rank.
        size: number of ranks of the job.
        here: number of ranks of the job on this machine.
        job: environment variables that all its ranks have.
    """

    name: str
    number: int
    size: int
    here: int
    job: Mapping[str, str]


def launched(environment: Mapping[str, str] = os.environ) -> Launched | None:
    """Return what the launcher tells this process; None if it is not a rank of a job, or there is no telling."""
    for name, size, here, job in _LAUNCHERS:
        told = [environment.get(key, "") for key in (name, size, here)]
        if all(text.isdecimal() for text in told) and all(key in environment for key in job):
            number, in_all, on_this = map(int, told)
            return Launched(name, number, in_all, on_this, {size: str(in_all)} | {key: environment[key] for key in job})
    return None


@contextlib.contextmanager
def watched(start: Start) -> Generator[None]:
    """Watch over the start of MPI, which happens in this block.

    The first rank on a machine starts the watch for all ranks there. While the block lasts, SIGALRM, which the watch
    sends, ends this process with the exit code `FAILED`: while MPI starts, it holds the interpreter, so that no Python
    code would run. A launcher that tolerates deaths returns 0 if ranks were killed by other signals.
    """
    place = launched()
    if place is None or place.size < 2:
        yield
        return
    with _exiting(), _watch(place, start) as up:
        left = signal.alarm(math.ceil(start.limit) + _AFTER)
        try:
            yield
        finally:
            signal.alarm(left)
        up()


@contextlib.contextmanager
def _exiting() -> Generator[None]:
    """Let SIGALRM call `_exit` of the C library, for which its number is the exit code."""
    libc = ctypes.CDLL(None)
    libc.signal.argtypes, libc.signal.restype = [ctypes.c_int, ctypes.c_void_p], ctypes.c_void_p
    before = libc.signal(signal.SIGALRM, ctypes.cast(libc._exit, ctypes.c_void_p))
    try:
        yield
    finally:
        libc.signal(signal.SIGALRM, before)


@contextlib.contextmanager
def _watch(place: Launched, start: Start) -> Generator[Any]:
    """Start the watch if nobody on this machine has; yield what tells it that MPI is up."""
    with contextlib.ExitStack() as ends:
        door = _door(place)
        if door is None:
            yield lambda: None
            return
        job = [f"{key}={value}" for key, value in place.job.items()]
        told = [place.size, place.here, start.patience, start.limit, launcher_of(place), place.name, *job]
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", watch.__file__, *map(str, told)],
            stdin=subprocess.PIPE,
            env={key: value for key, value in os.environ.items() if key != place.name},  # it is none of the ranks
            pass_fds=[door.fileno()],
            start_new_session=True,
        )
        door.close()
        assert process.stdin is not None
        ends.enter_context(contextlib.suppress(OSError))
        stdin = process.stdin

        def up() -> None:
            with contextlib.suppress(BrokenPipeError):
                os.write(stdin.fileno(), watch.UP)
            stdin.close()
            process.wait()

        try:
            yield up
        finally:
            if process.poll() is None and not stdin.closed:  # an exception on the way: nobody waits for us any more
                stdin.close()


def _door(place: Launched) -> socket.socket | None:
    """Return what only one process of this machine can hold for a job; None if another does, or the system has none.

    It is a socket with an abstract name, which nobody connects to, and which is gone with its last holder.
    """
    if sys.platform != "linux":
        return None
    door = socket.socket(socket.AF_UNIX)
    job = place.job.get("PMIX_NAMESPACE") or str(launcher_of(place))
    try:
        door.bind(f"\0erasurehead-mpi-start-{os.getuid()}-{job}")
    except OSError:
        door.close()
        return None
    return door


def launcher_of(place: Launched) -> int:
    """Return the process that has started the ranks of this machine: above us, and above a shell of our rank's."""
    above = os.getppid()
    while watch.variables(str(above)).get(place.name) == str(place.number):
        above = watch.parent(str(above))
    return above
