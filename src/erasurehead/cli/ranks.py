"""Ranks of an MPI job: all of them are started with one command line, and only the first one reads it."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping, Sequence
from typing import Any, cast

import typer

_PLACES = (("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"), ("PMI_RANK", "PMI_SIZE"))
"""Where Open MPI, and MPICH and its kin, say which rank a process is, and of how many."""


def stand_by(*tables: Mapping[str, Any]) -> None:
    """Serve as a worker, and never return, if the engine is MPI and this is not the coordinator's rank.

    To be called before anything is said or read that only the coordinator needs.

    Arguments:
        *tables: settings as run files have them; earlier ones go before later ones.
    """
    engine = _first("engine", tables)
    if engine != "mpi":
        _warn_of_many(engine or "processes")
    else:
        from erasurehead.engines.mpi import Start, serve_unless_coordinator
        from erasurehead.engines.mpi.rendezvous import check_place
        from erasurehead.engines.mpi.start import launched
        from erasurehead.engines.mpi.transport import world
        from erasurehead.training.signals import end_at_once

        given = {key: _first(f"start_{key}", tables) for key in ("patience", "limit")}
        start = Start(**{key: value for key, value in given.items() if isinstance(value, float | int) and value > 0})
        place = launched()
        if place is not None and place.number:  # it has nothing to put in order
            end_at_once()
        before = signal.signal(signal.SIGUSR1, signal.SIG_IGN)  # launchers pass it on to all; it is the coordinator's
        serve_unless_coordinator(start=start)
        signal.signal(signal.SIGUSR1, before)
        check_place(world(None))


def _first(key: str, tables: Sequence[Mapping[str, Any]]) -> Any:
    """Return what the first of some tables that says it says of a key of `[run]`."""
    sections = (table.get("run") for table in tables)  # as they were read: what they hold is checked later
    named = (cast("Mapping[str, Any]", section).get(key) for section in sections if isinstance(section, Mapping))
    return next((value for value in named if value is not None), None)


def _warn_of_many(engine: str) -> None:
    """Say that each rank makes a run of its own: under `mpiexec`, but without the engine MPI."""
    for rank, size in _PLACES:
        ranks = os.environ.get(size, "1")
        if os.environ.get(rank) == "0" and ranks != "1":
            typer.echo(
                f"Each of the {ranks} ranks of this job makes a run of its own, as the engine is {engine}; for one run "
                "on all of them, add --engine mpi.",
                err=True,
            )
            return
