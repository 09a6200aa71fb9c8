"""What launchers tell the processes that they start: which rank of how many each is, and which of its host's.

Each launcher says it in environment variables of its own. Nothing is asked of any of them, so that none is needed.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import sys
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from struct import Struct
from typing import Any, final

from erasurehead.errors import ErasureHeadError

TEAM = "ERASUREHEAD_TEAM"
"""The environment variable by which our own launcher names a team; its ranks are told as torchrun tells them."""

NUMBER = "ERASUREHEAD_NUMBER"
"""The environment variable by which our own launcher numbers a rank that it starts in the place of a dead one."""

ENDS = "ERASUREHEAD_ENDS"
"""The environment variable by which our own launcher names a pipe in which it tells a rank who has ended."""

END = Struct("q?")
"""What is written there: the number of a rank, and whether it was in its team and its script came to the end."""

JOINED = "ERASUREHEAD_JOINED"
"""The environment variable by which our own launcher names a pipe in which a rank tells it that it has joined."""

JOINS = Struct("q")
"""What is written there: the number of a rank."""


@final
@dataclass(frozen=True)
class Started:
    """How a process was started.

    Attributes:
        by: the launcher, as one calls it.
        rank, size: number of the rank, from 0, and of how many that were started together.
        number: the same, or for a rank that was started later a number that no other rank has ever had.
        local_rank, local_size: the same among those on its host.
        team: equal for the ranks of one start, and different for each start on a host.
        contact: where rank 0 listens to ranks of other hosts, a host and a port, if the launcher says or it can be
            told from what it says.
        ends: the pipe in which the launcher tells which ranks have ended, if it does.
        joined: the pipe in which it wants to be told that this one has joined its team, if it does.
    """

    by: str
    rank: int
    size: int
    local_rank: int
    local_size: int
    team: str
    contact: tuple[str, int] | None
    number: int
    ends: str | None = None
    joined: str | None = None

    def say_joined(self) -> None:
        """Tell the launcher that this rank has joined its team, if it wants to know."""
        with contextlib.suppress(OSError):  # it is gone, or of another host
            if self.joined is not None:
                Path(self.joined).write_bytes(JOINS.pack(self.number))


@dataclass(frozen=True)
class _Launcher:
    """The names of a launcher's variables; `names` together tell one start from another."""

    by: str
    rank: str
    size: str
    local_rank: str
    local_size: str
    names: tuple[str, ...]
    needs: str = ""  # a variable without which the others mean nothing


_PORTS = range(20_000, 30_000)
"""Among which ranks that srun has started choose one by their job and step: below those that systems give out."""

_LAUNCHERS = (
    _Launcher(
        "torchrun",
        "RANK",
        "WORLD_SIZE",
        "LOCAL_RANK",
        "LOCAL_WORLD_SIZE",
        (TEAM, "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "MASTER_ADDR", "MASTER_PORT"),
    ),
    _Launcher(
        "mpiexec (Open MPI)",
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "OMPI_COMM_WORLD_LOCAL_SIZE",
        ("PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "PMIX_SERVER_URI2"),
    ),
    _Launcher(
        "mpiexec (MPICH)",
        "PMI_RANK",
        "PMI_SIZE",
        "MPI_LOCALRANKID",
        "MPI_LOCALNRANKS",
        ("PMI_PORT", "PMI_ID", "HYDI_CONTROL_FD"),
    ),
    _Launcher(
        "srun",
        "SLURM_PROCID",
        "SLURM_STEP_NUM_TASKS",
        "SLURM_LOCALID",
        "",
        ("SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT"),
        needs="SLURM_STEP_ID",  # the script of a batch job has the others, too, and is no task
    ),
)


def started(environment: Mapping[str, str] | None = None) -> Started | None:
    """Return how this process was started; None if no launcher says that it is one of several.

    Arguments:
        environment: by default this process's.

    Raises:
        ErasureHeadError: if what a launcher says makes no sense.
    """
    given = os.environ if environment is None else environment
    for launcher in _LAUNCHERS:
        if launcher.rank in given and (not launcher.needs or launcher.needs in given):
            return _read(launcher, given)
    if "PMIX_RANK" in given:
        raise ErasureHeadError(
            f"A launcher with PMIx has started this process as rank {given['PMIX_RANK']} (PMIX_RANK), and does not say "
            "of how many: start with mpiexec, srun or torchrun, or set RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, "
            "MASTER_ADDR and MASTER_PORT as torchrun does."
        )
    return None


def _read(launcher: _Launcher, given: Mapping[str, str]) -> Started:
    by = "erasurehead.torch.run" if TEAM in given and launcher.rank == "RANK" else launcher.by
    rank, size = (_count(by, name, given) for name in (launcher.rank, launcher.size))
    if not rank < size:
        raise ErasureHeadError(
            f"{by} says that this is rank {rank} ({launcher.rank}) of {size} ({launcher.size}), and ranks count from 0."
        )
    local = launcher.local_size or _tasks_here(given)
    if launcher.local_rank in given and local in given:
        local_rank, local_size = (_count(by, name, given) for name in (launcher.local_rank, local))
    elif launcher.local_rank in given and local.isdigit():
        local_rank, local_size = _count(by, launcher.local_rank, given), int(local)
    elif launcher.local_rank not in given and size == 1:
        local_rank, local_size = 0, 1
    else:
        tasks = launcher.local_size or "SLURM_STEP_TASKS_PER_NODE"
        missing = launcher.local_rank if launcher.local_rank not in given else tasks
        raise ErasureHeadError(
            f"{by} says that this is rank {rank} of {size}, but not how many of them are on this host ({missing} "
            "does not say so), so that they cannot be told from those elsewhere: set it, or start with "
            "python -m erasurehead.torch.run or torchrun."
        )
    if not local_rank < local_size <= size:
        raise ErasureHeadError(
            f"{by} says that this is number {local_rank} of {local_size} ranks on its host, and that there are {size} "
            "in all, which cannot be."
        )
    team = " ".join(f"{name}={given[name]}" for name in launcher.names if given.get(name))
    if not team:
        if size > 1:
            raise ErasureHeadError(
                f"{by} says that this is rank {rank} of {size}, and nothing by which one start can be told from "
                f"another (none of {', '.join(launcher.names)} is set): set {TEAM} to a name of your choice, the same "
                "for all ranks and new for each start."
            )
        team = "alone"
    contact = None
    if given.get("MASTER_ADDR") and given.get("MASTER_PORT", "").isdigit():
        own = by != "erasurehead.torch.run"  # torchrun's store is at the port itself
        contact = given["MASTER_ADDR"], int(given["MASTER_PORT"]) + own
    elif first := _first_host(given.get("SLURM_STEP_NODELIST", "")) if by == "srun" else "":
        contact = first, _PORTS[zlib.crc32(team.encode()) % len(_PORTS)]
    number = _count(by, NUMBER, given) if NUMBER in given else rank
    return Started(by, rank, size, local_rank, local_size, team, contact, number, given.get(ENDS), given.get(JOINED))


def _tasks_here(given: Mapping[str, str]) -> str:
    """Return how many tasks srun has started on this host: `SLURM_STEP_TASKS_PER_NODE` is such as 4(x2),3."""
    counts: list[str] = []
    for part in given.get("SLURM_STEP_TASKS_PER_NODE", "").split(","):
        count, _, times = part.removesuffix(")").partition("(x")
        counts += [count] * (int(times) if times.isdigit() else 1)
    node = given.get("SLURM_NODEID", "0")
    return counts[int(node)] if node.isdigit() and int(node) < len(counts) else ""


def _first_host(names: str) -> str:
    """Return the first host, where srun's first task is, of a list such as node[03-05,7],big1."""
    found = re.match(r"([^\[\],]+)(?:\[(\d+)[^\]]*\])?([^\[\],]*)(?:,|$)", names)
    return "" if found is None else "".join(part or "" for part in found.groups())


def told_by_mpi() -> tuple[str, int] | None:
    """Return what rank 0 tells the others by MPI, if the script has initialized it: its host, and a free port there."""
    mpi: Any = sys.modules.get("mpi4py.MPI")
    if mpi is None or not mpi.Is_initialized() or mpi.Is_finalized():
        return None
    told = bytearray(256)
    if mpi.COMM_WORLD.rank == 0:
        with socket.socket() as free:
            free.bind(("", 0))
            said = f"{free.getsockname()[1]} {socket.gethostname()}".encode()
        told[: len(said)] = said
    mpi.COMM_WORLD.Bcast(told)
    port, host = told.rstrip(b"\0").decode().split(" ", 1)
    return host, int(port)


def _count(by: str, name: str, given: Mapping[str, str]) -> int:
    value = given.get(name, "")
    if not value.isascii() or not value.isdigit():
        what = f"is {value!r}" if name in given else "is not set"
        raise ErasureHeadError(
            f"{by} says which rank this is, but {name} {what}, where a number of at least 0 must be."
        )
    return int(value)
