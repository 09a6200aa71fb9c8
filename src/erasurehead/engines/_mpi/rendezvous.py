"""How the ranks of a job find each other, without blocking, and how a process leaves the job."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import time
from collections.abc import Callable
from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING

import numpy as np

from erasurehead.engines._machine import machine
from erasurehead.engines._mpi.backoff import Backoff
from erasurehead.engines._mpi.transport import Link, ended_after, library
from erasurehead.errors import EngineError

if TYPE_CHECKING:
    from mpi4py import MPI

RENDEZVOUS_TIMEOUT = 300.0
"""Seconds that the coordinator waits for the others to serve, once MPI is up; they wait as long as it lives."""

_RECORD = 512  # bytes that a rank tells of itself
_MET = 11  # tag of the word that a rank has met all others; none of `transport.Tag`
_GRACE = 10  # seconds that MPI may take to end; if a rank dies or hangs meanwhile, it takes for ever


@dataclass(frozen=True)
class Place:
    """Where a rank runs.

    Attributes:
        host: what its host calls itself.
        machine: equal for ranks that run beside each other.
        pid: its process number.
    """

    host: str
    machine: str
    pid: int


def rendezvous(comm: MPI.Intracomm, seconds: float = RENDEZVOUS_TIMEOUT) -> tuple[Link, list[Place]]:
    """Meet all other ranks, which must call this too.

    When this returns on rank 0, no rank waits for another any more: whichever is ended from then on, no other misses
    what it would have said.

    Arguments:
        comm: the job's.
        seconds: how long to wait for them.

    Returns:
        A link over communicators of its own, and where each rank is.

    Raises:
        EngineError: if a rank does not come in time, or fails meanwhile.
    """
    mpi = library()
    deadline = time.monotonic() + seconds
    record = np.zeros(_RECORD, dtype=np.uint8)
    told = json.dumps(astuple(Place(socket.gethostname(), machine(), os.getpid()))).encode().ljust(_RECORD)
    record[: len(told)] = np.frombuffer(told, dtype=np.uint8)
    records = np.empty((comm.Get_size(), _RECORD), dtype=np.uint8)
    try:
        own, request = comm.Idup()
        _wait(request.Test, comm, deadline, seconds)
        beside, request = comm.Idup()
        _wait(request.Test, comm, deadline, seconds)
        link = Link(own, beside)
        _wait(own.Iallgather(record, records).Test, comm, deadline, seconds)
        for request in _words_of_having_met(own):
            _wait(request.Test, comm, deadline, seconds)
    except mpi.Exception as error:
        _revoke(comm)
        raise EngineError(f"a rank of the job failed before it began: {error.Get_error_string()}.") from None
    except EngineError:
        _revoke(comm)
        raise
    return link, [Place(*json.loads(row.tobytes())) for row in records]


def _words_of_having_met(comm: MPI.Intracomm) -> list[MPI.Request]:
    """Begin to tell rank 0 that this rank has met all others, or on rank 0 to hear it of each."""
    nothing = np.empty(0, dtype=np.uint8)
    if comm.Get_rank() != 0:
        return [comm.Isend(nothing, 0, _MET)]
    return [comm.Irecv(nothing, rank, _MET) for rank in range(1, comm.Get_size())]


def _revoke(comm: MPI.Intracomm) -> None:
    """Have all fail, where MPI can, that wait for the ranks of a job that cannot begin: they would wait for ever."""
    with contextlib.suppress(NotImplementedError, library().Exception):
        comm.Revoke()


def _wait(done: Callable[[], bool], comm: MPI.Intracomm, deadline: float, seconds: float) -> None:
    backoff = Backoff()
    while not done():
        if time.monotonic() > deadline:
            raise EngineError(
                f"the {comm.Get_size()} ranks of the job did not all come within {seconds:.0f} s: every rank "
                "but 0 must call serve()."
            )
        backoff.sleep()


def check_place(comm: MPI.Intracomm) -> None:
    """Raise if a rank cannot coordinate, or would have nobody to coordinate.

    Raises:
        EngineError: saying what would work.
    """
    if comm.Get_size() < 2:
        tasks = os.environ.get("SLURM_STEP_NUM_TASKS", "1")
        if tasks != "1":
            raise EngineError(
                f"srun has started {tasks} tasks, but MPI was not told, so that each of them is alone: name the "
                "interface by which srun and this MPI speak (srun --mpi=pmix or --mpi=pmi2; srun --mpi=list shows what "
                "there is), or start the job with this MPI's own mpiexec."
            )
        raise EngineError(
            "the MPI engine has no rank to run a worker on: rank 0 coordinates, and there is no other; start the job "
            "with one rank more than there are workers, such as mpiexec -n 31, or under SLURM srun -n 31, for 30."
        )
    if comm.Get_rank() != 0:
        raise EngineError(
            f"rank {comm.Get_rank()} cannot coordinate: only rank 0 makes an MPIEngine; the others call serve()."
        )


def leave(whole: bool) -> None:
    """Leave the job, as the last thing that this process does.

    Arguments:
        whole: whether all ranks live. With dead ones, MPI may wait for them at its end, and for ever: a process that
            just ends is as good to Open MPI's launcher then.
    """
    mpi = library()
    if not whole:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(_GRACE)  # whoever imported mpi4py before us has it end MPI all the same
    elif not mpi.Is_finalized():
        with ended_after(_GRACE):
            mpi.Finalize()
