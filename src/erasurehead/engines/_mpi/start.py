"""The start of MPI, under watch: it either comes up, or the process ends in time with an exit code that says so."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Generator

from erasurehead.engines._launcher import launched
from erasurehead.engines._mpi import watch
from erasurehead.errors import check_positive

START_LIMIT = 120.0
"""Seconds that MPI may take to start, by default."""

FAILED = int(signal.SIGALRM)
"""Exit code of a rank whose start has failed."""


@contextlib.contextmanager
def watched(limit: float) -> Generator[None]:
    """Watch over the start of MPI, which happens in this block, where a launcher has started several ranks.

    While the block lasts, SIGALRM, which a process beside this one sends, ends this one with the exit code `FAILED`:
    while MPI starts, it holds the interpreter, so that no Python code would run. A launcher that tolerates deaths
    returns 0 if ranks were killed by other signals.

    Arguments:
        limit: seconds that the start may take.

    Raises:
        InvalidArgument: if that is no number of seconds.
    """
    check_positive("start_limit", limit, "must be a positive number of seconds")
    place = launched()
    if place is None or place.size < 2:
        yield
        return
    sentence = (
        f"erasurehead: MPI did not start within {limit:g} s (start_limit): rank {place.number} of {place.size} waited "
        "for the others in vain."
    )
    command = [sys.executable, "-I", "-S", watch.__file__, str(limit), str(os.getpid()), sentence]
    with _exiting(), subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True) as beside:
        try:
            yield
        finally:
            beside.kill()


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
