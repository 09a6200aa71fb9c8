"""Where the workers run, how many there are, and for how long."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from erasurehead.cli.options.option import option

_PANEL = "Workers and steps"


@dataclass(frozen=True)
class WorkerOptions:
    """What a run file can say of the engine, its workers and the steps that they take. None is what was not given."""

    engine: Annotated[
        str | None,
        option(
            "--engine",
            panel=_PANEL,
            metavar="NAME",
            text="processes (of this machine; the default), virtual (a clock on which waiting takes no time), mpi "
            "(under mpiexec or srun) or ray.",
        ),
    ] = None
    address: Annotated[
        str | None,
        option("--address", panel=_PANEL, metavar="HOST:PORT", text="Of a Ray cluster, or auto; else one of our own."),
    ] = None
    workers: Annotated[int | None, option("--workers", "-w", panel=_PANEL, metavar="N", text="How many (30).")] = None
    steps: Annotated[int | None, option("--steps", "-n", panel=_PANEL, metavar="N", text="How many (100).")] = None
    evaluate_every: Annotated[
        int | None,
        option(
            "--evaluate-every",
            panel=_PANEL,
            metavar="STEPS",
            text="Measure the model on the test rows (1); 0 for never.",
        ),
    ] = None
    initial: Annotated[
        str | None,
        option(
            "--initial",
            panel=_PANEL,
            metavar="KIND",
            text="The first model: zeros (the default) or randn.",
        ),
    ] = None
    seed: Annotated[
        int | None,
        option(
            "--seed",
            panel=_PANEL,
            metavar="N",
            text="Of a random first model.",
        ),
    ] = None
