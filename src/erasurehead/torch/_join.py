"""How a script finds its team."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from time import monotonic
from typing import Any, final

from erasurehead.errors import ErasureHeadError
from erasurehead.torch._endpoints._base import RankEndpoint
from erasurehead.torch._endpoints.local import LocalEndpoint
from erasurehead.torch._launchers import Started, started, told_by_mpi
from erasurehead.torch._member import Member
from erasurehead.torch._place import RankPlace, current_place
from erasurehead.torch._port import MemberPort
from erasurehead.torch._runtime import ProcessPlace


def joined_place(secret_file: str | os.PathLike[str] | None, trusted_network: bool) -> RankPlace:
    """Return where this process's script runs, for a team of whichever library; arguments as those of `join`."""
    place = current_place() or _found_place(secret_file, trusted_network)
    if place.joined:
        raise ErasureHeadError(
            f"Rank {place.rank} has joined its team already: call join() once, and go on with the team it returned."
        )
    place.joined = True
    return place


def _found_place(secret_file: str | os.PathLike[str] | None, trusted_network: bool) -> RankPlace:
    """Return where this process runs, by what its launcher says."""
    how = started()
    if how is not None:
        how.say_joined()
    if how is None or how.size == 1:
        return SoloPlace()
    if how.local_size < how.size:
        return ProcessPlace(_across_hosts(how, secret_file, trusted_network), how.size)
    return ProcessPlace(LocalEndpoint(how.team, how.number, max(how.size, how.number), how.ends), how.size)


def _across_hosts(how: Started, secret_file: str | os.PathLike[str] | None, trusted_network: bool) -> RankEndpoint:
    from erasurehead.torch._endpoints.zmq import ZmqEndpoint

    contact = how.contact or told_by_mpi()
    if contact is None:
        mpi = ", or import mpi4py.MPI before join(), by which ranks find the first one" * how.by.startswith("mpiexec")
        raise ErasureHeadError(
            f"{how.by} has started ranks on several hosts, and does not say where the first one can be reached: set "
            f"MASTER_ADDR to a host name and MASTER_PORT to a free port there, the same for all ranks{mpi}."
        )
    team = f"{how.team} {contact[0]}:{contact[1]}"
    return ZmqEndpoint(team, how.number, how.size, contact, secret_file, trusted_network, listens=how.rank == 0)


@final
class SoloPlace(RankPlace):
    """A team of one."""

    def __init__(self) -> None:
        self.rank, self.size = 0, 1
        self._began = monotonic()

    def now(self) -> float:
        return monotonic() - self._began

    def begin(self, member: Member) -> None:
        raise AssertionError("a team of one has no member")

    def port(self) -> MemberPort:
        raise AssertionError("a team of one has no port")

    def held(self) -> AbstractContextManager[Any]:
        return nullcontext()

    def at_end(self, call: Callable[[], object]) -> None:
        pass

    def wait(self, ready: Callable[[], bool], what: str) -> None:
        assert ready()
