"""Ranks of an MPI job: all of them are started with one command line, and only the first one reads it."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from typing import Any


def stand_by(*tables: Mapping[str, Any]) -> None:
    """Serve as a worker, and never return, if the engine is MPI and this is not the coordinator's rank.

    To be called before anything is said or read that only the coordinator needs.

    Arguments:
        *tables: settings as run files have them; earlier ones go before later ones.
    """
    named = (table.get("run", {}).get("engine") for table in tables)
    if next((engine for engine in named if engine is not None), None) == "mpi":
        from erasurehead.engines.mpi import serve_unless_coordinator
        from erasurehead.engines.mpi.muster import check_place
        from erasurehead.engines.mpi.wire import world

        before = signal.signal(signal.SIGUSR1, signal.SIG_IGN)  # launchers pass it on to all; it is the coordinator's
        serve_unless_coordinator()
        signal.signal(signal.SIGUSR1, before)
        check_place(world(None))
