"""How slow the workers are made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from erasurehead.cli.options.option import option

_PANEL = "Delays"


@dataclass(frozen=True)
class DelayOptions:
    """What a run file can say of injected delays. None is what was not given."""

    delays: Annotated[
        str | None,
        option(
            "--delays",
            panel=_PANEL,
            metavar="MODEL",
            text="Injected after computing: 'exponential(mean=0.5, seed=0)' (the default for the paper's data), "
            "'none()' (for yours), 'pareto(0.1, 2.0)', ..., sums of such, or \"recorded('runs/x/arrivals.jsonl')\".",
        ),
    ] = None
    late: Annotated[
        str | None,
        option(
            "--late",
            panel=_PANEL,
            metavar="KIND",
            text="What a late worker does when a newer step is out: preempt (drop its work, as the papers assume) or "
            "carry (finish it).",
        ),
    ] = None
