"""What to do when workers die, hang or lie."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from erasurehead.cli.options.option import option

_PANEL = "Death, hanging and lies"


@dataclass(frozen=True)
class SurvivalOptions:
    """What a run file can say of death, hanging and lies. None is what was not given."""

    on_death: Annotated[
        str | None,
        option(
            "--on-death",
            panel=_PANEL,
            metavar="WHAT",
            text="replace dead workers (the default), spread their tasks over the living, or leave them out.",
        ),
    ] = None
    replacements: Annotated[
        int | None, option("--replacements", panel=_PANEL, metavar="N", text="How often one worker is replaced (3).")
    ] = None
    on_loss: Annotated[
        str | None,
        option(
            "--on-loss",
            panel=_PANEL,
            metavar="WHAT",
            text="stop when the wait rule cannot be met any more (the default), or go_on with what can still come.",
        ),
    ] = None
    grow: Annotated[
        bool | None, option("--grow", panel=_PANEL, text="Take more workers when the cluster has room for them.")
    ] = None
    on_suspicion: Annotated[
        str | None,
        option(
            "--on-suspicion",
            panel=_PANEL,
            metavar="WHAT",
            text="report workers that seem to hang (the default), or replace them.",
        ),
    ] = None
    suspect_after: Annotated[
        float | None,
        option(
            "--suspect-after",
            panel=_PANEL,
            metavar="SECONDS",
            text="Silence after which a worker seems to hang; by default derived from the arrivals.",
        ),
    ] = None
    verify: Annotated[
        bool | None,
        option("--verify", panel=_PANEL, text="Compare messages before they are used, and put liars aside."),
    ] = None
