"""The start of an MPI job: ranks that are killed before MPI is up, hang or never come, and ranks that are only slow."""

from __future__ import annotations

import subprocess
import textwrap
import time
from pathlib import Path

import pytest

from erasurehead.engines._mpi.start import FAILED, Launched, Start, launched
from erasurehead.engines._mpi.watch import RankWatch
from erasurehead.errors import InvalidArgument
from erasurehead.testing._pacing import at_some_pace

from ..bounded import PATIENCE, PROMPT
from .mpi_jobs import environment, job

SCRIPT = """
import os, signal, subprocess, sys, time
from erasurehead.engines._mpi import Start
from erasurehead.engines import serve_unless_coordinator
rank = int(os.environ["PMIX_RANK"])
{before}
serve_unless_coordinator(start=Start(patience={patience}, limit={limit}))
print("up", flush=True)
"""

DIES = "if rank == 2: os.kill(os.getpid(), signal.SIGKILL)"
DIES_IN_INIT = """
if rank == 1:  # the others wait for it inside of MPI_Init when it is killed
    subprocess.Popen(["sh", "-c", f"sleep 1; kill -9 {os.getpid()}"])
    time.sleep(600)
"""
HANGS = "if rank == 3: time.sleep(600)"
TAKES_ITS_TIME = "time.sleep({pace} * 0.9 * rank)"


def play(folder: Path, before: str, patience: float, limit: float) -> tuple[int, str, float]:
    """Run a job of four ranks; return its exit code, what it said, and the seconds that it took."""
    script = SCRIPT.format(before=textwrap.dedent(before), patience=patience, limit=limit)
    begin = time.monotonic()
    done = subprocess.run(
        job(4, "-c", script), capture_output=True, text=True, timeout=PATIENCE, check=False, env=environment(folder)
    )
    return done.returncode, done.stdout + done.stderr, time.monotonic() - begin


@pytest.mark.processes
@pytest.mark.slow
@pytest.mark.xdist_group("mpi")
@pytest.mark.parametrize(
    ("before", "patience", "limit", "sentence"),
    [
        (DIES, 2.0, 60.0, "MPI did not start: rank 2 of 4 is missing"),
        (DIES_IN_INIT, 4.0, 60.0, "rank 1 of 4 is missing on"),
        (
            HANGS,
            3.0,
            8.0,
            "it was not up within {limit:g} s (start_limit): although all 4 ranks of this machine are there",
        ),
    ],
    ids=["dies before", "dies while the others wait for it", "hangs"],
)
@at_some_pace
def test_a_start_that_fails_ends_in_time_with_an_exit_code_and_names_who_is_missing(
    tmp_path: Path, before: str, patience: float, limit: float, sentence: str, pace: float
) -> None:
    code, said, seconds = play(tmp_path, before, pace * patience, pace * limit)
    assert code == FAILED, said
    assert sentence.format(limit=pace * limit) in said
    assert said.count("MPI did not start") == 1
    assert seconds < pace * limit + PROMPT  # and not when the last rank has slept its ten minutes


@pytest.mark.processes
@pytest.mark.slow
@pytest.mark.xdist_group("mpi")
@at_some_pace
def test_ranks_that_are_there_and_slow_are_waited_for_beyond_the_patience(tmp_path: Path, pace: float) -> None:
    code, said, _ = play(tmp_path, TAKES_ITS_TIME.format(pace=pace), pace * 2.0, pace * 60.0)
    assert (code, said.count("up")) == (0, 1), said


def test_the_patience_begins_anew_with_every_rank_that_comes_up() -> None:
    watch = RankWatch(size=31, here=31, patience=30.0, limit=1000.0)
    begin = watch.begin
    for number in range(30):
        assert not watch.look(set(range(number + 1)), begin + 29.0 * number)
    assert not watch.look(set(range(30)), begin + 29.0 * 29 + 29.9)
    assert watch.look(set(range(30)), begin + 29.0 * 29 + 30.1).startswith("rank 30 of 31 is missing on")


def test_ranks_of_other_machines_are_nobody_to_be_missed() -> None:
    watch = RankWatch(size=8, here=4, patience=30.0, limit=120.0)
    assert not watch.look({0, 2, 4, 6}, watch.begin + 100.0)
    assert "although all 4 ranks of this machine are there" in watch.look({0, 2, 4, 6}, watch.begin + 121.0)
    said = watch.look({0, 2}, watch.begin + 131.0)
    assert said.startswith("ranks 4, 6 of 8 are missing on")
    assert "(4, 6 came up and ended)" in said
    never = RankWatch(size=8, here=4, patience=30.0, limit=120.0)
    assert never.look({0, 2, 4}, never.begin + 1.0) == ""
    assert never.look({0, 2, 4}, never.begin + 31.0).startswith("1 rank that never came up of 8 is missing on")


@pytest.mark.parametrize("start", [{"patience": 0.0}, {"limit": -1.0}, {"limit": float("inf")}])
def test_times_that_are_none_are_refused(start: dict[str, float]) -> None:
    with pytest.raises(InvalidArgument, match=r"start\.(patience|limit) must be a positive number of seconds"):
        Start(**start)


def test_what_launchers_say_is_read_and_where_there_is_none_nothing_is_watched() -> None:
    prrte = {"PMIX_RANK": "3", "OMPI_COMM_WORLD_SIZE": "8", "OMPI_COMM_WORLD_LOCAL_SIZE": "4", "PMIX_NAMESPACE": "a@1"}
    assert launched(prrte) == Launched("PMIX_RANK", 3, 8, 4, {"OMPI_COMM_WORLD_SIZE": "8", "PMIX_NAMESPACE": "a@1"})
    hydra = {"PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALNRANKS": "2"}
    assert launched(hydra) == Launched("PMI_RANK", 1, 2, 2, {"PMI_SIZE": "2"})
    assert launched({}) is None
