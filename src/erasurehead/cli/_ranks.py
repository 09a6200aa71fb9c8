"""Ranks of an MPI job: all are started with the same command line, and only the coordinator's rank carries it out."""

from __future__ import annotations

import math
import signal
from collections.abc import Mapping, Sequence
from typing import Any, cast

import typer

from erasurehead._internal.documents import Entries
from erasurehead._internal.plain_text import visible
from erasurehead._internal.signals import end_at_once
from erasurehead.engines._launcher import launched


def stand_by(*tables: Entries) -> None:
    """Serve as a worker, without returning, if the engine is MPI and this is not the coordinator's rank.

    Call it before printing or reading anything that only the coordinator needs.

    Arguments:
        *tables: tables of settings as in run files; earlier ones take precedence.
    """
    engine = _first("engine", tables)
    if engine != "mpi":
        _warn_of_many(engine or "processes")
    else:
        from erasurehead.engines._mpi.job import serve_unless_coordinator
        from erasurehead.engines._mpi.rendezvous import check_place
        from erasurehead.engines._mpi.start import START_LIMIT
        from erasurehead.engines._mpi.transport import world

        given = _first("start_limit", tables)
        place = launched()
        if place is not None and place.number:  # a worker has nothing to clean up
            end_at_once()
        before = signal.signal(signal.SIGUSR1, signal.SIG_IGN)  # sent to all ranks, meant for the coordinator
        serve_unless_coordinator(
            start_limit=given if isinstance(given, float | int) and 0 < given < math.inf else START_LIMIT
        )
        signal.signal(signal.SIGUSR1, before)
        check_place(world(None))


def _first(key: str, tables: Sequence[Entries]) -> Any:
    """Return the value of a key of `[run]` in the first table that has it; None if none has."""
    sections = (table.get("run") for table in tables)  # not validated yet
    named = (cast("Mapping[str, Any]", section).get(key) for section in sections if isinstance(section, Mapping))
    return next((value for value in named if value is not None), None)


def _warn_of_many(engine: str) -> None:
    """Warn that each rank makes a separate run, if started by `mpiexec` with an engine other than MPI."""
    place = launched()
    if place is not None and place.number == 0 and place.size > 1:
        typer.echo(
            f"Each of the {place.size} ranks of this job makes a run of its own, because the engine is "
            f"{visible(engine)}. For one run on all of them, add --engine mpi.",
            err=True,
        )
