"""The start of an MPI job: ranks that are killed before MPI is up, hang or never come, and ranks that are only slow."""

from __future__ import annotations

import subprocess
import textwrap
import time
from pathlib import Path

import pytest

from erasurehead.engines._launcher import Launched, launched
from erasurehead.engines._mpi.start import FAILED, watched
from erasurehead.errors import InvalidArgument
from erasurehead.testing._pacing import at_some_pace

from ..bounded import PATIENCE, PROMPT
from .mpi_jobs import environment, job

SCRIPT = """
import os, signal, subprocess, sys, time
from erasurehead.engines import MPIEngine
rank = int(os.environ["PMIX_RANK"])
{before}
MPIEngine.serve_unless_coordinator(start_limit={limit})
print("up", flush=True)
"""

DIES = "if rank == 2: os.kill(os.getpid(), signal.SIGKILL)"
DIES_IN_INIT = """
if rank == 1:  # the others wait for it inside of MPI_Init when it is killed
    subprocess.Popen(["sh", "-c", f"sleep 1; kill -9 {os.getpid()}"])
    time.sleep(600)
"""
HANGS = "if rank == 3: time.sleep({pace} * 30)"
TAKES_ITS_TIME = "time.sleep({pace} * 0.9 * rank)"


def play(folder: Path, before: str, limit: float) -> tuple[int, str, float]:
    """Run a job of four ranks; return its exit code, what it said, and the seconds that it took."""
    script = SCRIPT.format(before=textwrap.dedent(before), limit=limit)
    begin = time.monotonic()
    done = subprocess.run(
        job(4, "-c", script), capture_output=True, text=True, timeout=PATIENCE, check=False, env=environment(folder)
    )
    return done.returncode, done.stdout + done.stderr, time.monotonic() - begin


@pytest.mark.processes
@pytest.mark.slow
@pytest.mark.xdist_group("mpi")
@pytest.mark.parametrize(
    ("before", "missing"),
    [(DIES, 2), (DIES_IN_INIT, 1), (HANGS, 3)],
    ids=["dies before", "dies while the others wait for it", "hangs"],
)
@at_some_pace
def test_a_start_that_fails_ends_in_time_with_an_exit_code_and_says_so(
    tmp_path: Path, before: str, missing: int, pace: float
) -> None:
    limit = 8.0 * pace
    code, said, seconds = play(tmp_path, before.format(pace=pace) if missing == 3 else before, limit)
    assert code == FAILED, said
    waited = [f"MPI did not start within {limit:g} s (start_limit): rank {rank} of 4 waited" for rank in range(4)]
    assert any(sentence in said for sentence in waited), said
    assert waited[missing] not in said
    assert seconds < (30.0 if missing == 3 else 0.0) * pace + limit + PROMPT


@pytest.mark.processes
@pytest.mark.slow
@pytest.mark.xdist_group("mpi")
@at_some_pace
def test_ranks_that_are_there_and_slow_are_waited_for(tmp_path: Path, pace: float) -> None:
    code, said, _ = play(tmp_path, TAKES_ITS_TIME.format(pace=pace), pace * 60.0)
    assert (code, said.count("up"), said.count("MPI did not start")) == (0, 1, 0), said


@pytest.mark.parametrize("limit", [0.0, -1.0, float("inf")])
def test_a_limit_that_is_none_is_refused(limit: float) -> None:
    with pytest.raises(InvalidArgument, match="start_limit must be a positive number of seconds"), watched(limit):
        pass


def test_what_launchers_say_is_read() -> None:
    prrte = {"PMIX_RANK": "3", "OMPI_COMM_WORLD_SIZE": "8"}
    assert launched(prrte) == Launched("PMIX_RANK", 3, 8)
    assert launched({"PMI_RANK": "1", "PMI_SIZE": "2"}) == Launched("PMI_RANK", 1, 2)
    assert launched({}) is None
