"""How many workers a run has if nobody says: as many as can compute at the same time where they run."""

from __future__ import annotations

from collections.abc import Sequence

from erasurehead._internal.resources import usable_cores
from erasurehead.delays.base import Delays
from erasurehead.engines.base import Engine
from erasurehead.engines.engine_around import EngineAround
from erasurehead.errors import InvalidArgument
from erasurehead.schemes.text import PAPER_WORKERS, parse_scheme

FEW_WORKERS = 4
"""Workers on a virtual clock on which nobody is late. Their number changes nothing then but how samples are split into
tasks; as it does not depend on the machine, the same command gives the same bits on every machine."""


def default_workers(
    engine: Engine | str,
    schemes: Sequence[str] = (),
    delayed: bool = False,
    published: bool = False,
    address: str | None = None,
) -> int:
    """Return how many workers a run has if nobody says.

    That is one for each rank of an MPI job but the coordinator's, for each CPU of a Ray cluster, and for each core that
    processes may use on this machine; one in the coordinator's process. On a virtual clock it is 30, as in the
    published experiments, if there are delays, and few if there are none. Where there can be any number of workers,
    there are more if schemes need more.

    Arguments:
        engine: an engine, or the name of one. An engine whose hosts have room for a limited number has that many.
        schemes: texts of schemes that must exist for this number of workers.
        delayed: whether delays are injected, for the name of an engine.
        published: whether the settings are published ones, likewise: 30 then, of processes or on a virtual clock.
        address: address of a Ray cluster, likewise.

    Raises:
        EngineError: if this process is not the coordinator of an MPI job, or the Ray cluster cannot be reached.
    """
    if isinstance(engine, EngineAround):
        return default_workers(engine.engine, schemes)
    if isinstance(engine, Engine):
        rooms = [*engine.hosts().values()]
        if rooms and None not in rooms:
            return max(1, sum(room or 0 for room in rooms))
        delays: Delays | None = getattr(engine, "delays", None)
        return default_workers(engine.name, schemes, delays is not None and delays.expected != 0.0)
    if engine == "mpi":
        from erasurehead.engines.mpi.rendezvous import check_place
        from erasurehead.engines.mpi.transport import world

        check_place(world(None))
        return world(None).Get_size() - 1
    if engine == "ray":
        from erasurehead.engines.ray.cluster import cpus

        return cpus(address)
    if engine == "in_process":
        return _enough(1, schemes)
    if published or (engine == "virtual" and delayed):
        return _enough(PAPER_WORKERS, schemes)
    return _enough(FEW_WORKERS if engine == "virtual" else usable_cores(), schemes)


def _enough(workers: int, schemes: Sequence[str]) -> int:
    """Return the least number of workers, from this one on, for which all schemes exist; this one if there is none."""
    for number in range(workers, max(workers, PAPER_WORKERS) + 1):
        try:
            for text in schemes:
                parse_scheme(text, number)
        except InvalidArgument:
            continue
        return number
    return workers
