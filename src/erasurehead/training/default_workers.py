"""How many workers a run has if nobody says: as many as can compute at the same time where they run."""

from __future__ import annotations

from erasurehead._internal.resources import usable_cores
from erasurehead.delays.base import Delays
from erasurehead.engines.base import Engine
from erasurehead.schemes.text import PAPER_WORKERS

FEW_WORKERS = 4
"""Workers on a virtual clock on which nobody is late. Their number changes nothing then but how samples are split into
tasks; as it does not depend on the machine, the same command gives the same bits on every machine."""


def default_workers(engine: Engine | str, delayed: bool = False, address: str | None = None) -> int:
    """Return how many workers a run has if nobody says.

    That is one for each rank of an MPI job but the coordinator's, for each CPU of a Ray cluster, and for each core that
    processes may use on this machine; one in the coordinator's process. On a virtual clock it is 30, as in the
    published experiments, if there are delays, and few if there are none.

    Arguments:
        engine: an engine, or the name of one. An engine whose hosts have room for a limited number has that many.
        delayed: whether delays are injected, for the name of an engine.
        address: address of a Ray cluster, likewise.

    Raises:
        EngineError: if this process is not the coordinator of an MPI job, or the Ray cluster cannot be reached.
    """
    if isinstance(engine, Engine):
        rooms = [*engine.hosts().values()]
        if rooms and None not in rooms:
            return max(1, sum(room or 0 for room in rooms))
        delays: Delays | None = getattr(engine, "delays", None)
        return default_workers(engine.name, delays is not None and delays.expected != 0.0)
    if engine == "in_process":
        return 1
    if engine == "virtual":
        return PAPER_WORKERS if delayed else FEW_WORKERS
    if engine == "mpi":
        from erasurehead.engines.mpi.rendezvous import check_place
        from erasurehead.engines.mpi.transport import world

        check_place(world(None))
        return world(None).Get_size() - 1
    if engine == "ray":
        from erasurehead.engines.ray.cluster import cpus

        return cpus(address)
    return usable_cores()
