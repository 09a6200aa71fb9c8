"""Options of `erasurehead plan`: the source of the delays, the search, and the output."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from erasurehead.cli.options import option

_DELAYS, _SEARCH, _OUTPUT = "Delays", "Search", "Output"


@dataclass(frozen=True)
class SourceOptions:
    """Options on the source of the delays, other than `--delays`."""

    trace: Annotated[
        str | None,
        option(
            "--trace",
            "-t",
            panel=_DELAYS,
            metavar="TRACE",
            text="A trace, or the folder of a run, to draw delays from; instead of --delays.",
        ),
    ] = None
    keep: Annotated[
        str | None,
        option(
            "--keep",
            panel=_DELAYS,
            metavar="WHAT",
            text="What a draw from the trace keeps together: rounds (the default: workers are slow together as they "
            "were), workers (each draws its own), or pooled (all workers alike, for any number of them).",
        ),
    ] = None
    scale_with_load: Annotated[
        bool,
        typer.Option(
            "--scale-with-load",
            help="The trace's delays grow with the load; by default they do not.",
            rich_help_panel=_DELAYS,
        ),
    ] = False
    seconds_per_task: Annotated[
        float | None,
        typer.Option(
            "--seconds-per-task",
            metavar="SECONDS",
            help="Time in which a worker computes one task, where a task is the data of an uncoded worker; a trace's "
            "times include it, and it is subtracted from them. By default it is read from the run folder, if that is "
            "of a run on the virtual clock, or measured on this machine with --data. If it is not known, no setting "
            "with more than 3 tasks per worker is tried, unless --max-load asks for it.",
            rich_help_panel=_DELAYS,
        ),
    ] = None
    absent: Annotated[
        str | None,
        option(
            "--absent",
            panel=_DELAYS,
            metavar="WHAT",
            text="How to treat workers without a row in a round of the trace: dead (they never answered), late "
            "(they answered after all others), or censored (the default: only known to be slower than the "
            "round's slowest; those missing to the end are gone). For a worker that did not answer, leave its row "
            "out, or give the time that it was waited for with censored=1; never write inf.",
        ),
    ] = None


@dataclass(frozen=True)
class SearchOptions:
    """Options on the settings to try, and on the target."""

    scheme: Annotated[
        list[str] | None,
        option(
            "--scheme",
            "-s",
            panel=_SEARCH,
            metavar="SCHEME",
            text="Try these settings only; repeat it for each. By default a grid: 38 for 8 workers, 129 for 30, "
            "with loads up to 10.",
        ),
    ] = None
    max_load: Annotated[
        int | None,
        option(
            "--max-load",
            panel=_SEARCH,
            metavar="N",
            text="Most tasks that a worker may hold in memory (10; 3 if the cost of a task is not known).",
        ),
    ] = None
    current: Annotated[
        str | None,
        option(
            "--current",
            panel=_SEARCH,
            metavar="SCHEME",
            text="The setting in use now; by default, that of the run that recorded the trace.",
        ),
    ] = None
    target: Annotated[
        str | None,
        option(
            "--target",
            panel=_SEARCH,
            metavar="METRIC=VALUE",
            text="Target to reach: gap=0.01, the fraction of the objective's initial gap that may remain (the "
            "default); with --data a metric, such as auc=0.84; or error=VALUE, the distance of the objective from its "
            "minimum, with --data or --constants.",
        ),
    ] = None
    constants: Annotated[
        str | None,
        option(
            "--constants",
            panel=_SEARCH,
            metavar="mu=A,beta=B,sigma=C,gap=D",
            text="Constants of the objective, for --target error=VALUE without data.",
        ),
    ] = None
    task_noise: Annotated[
        float | None,
        option(
            "--task-noise",
            panel=_SEARCH,
            metavar="SHARE",
            text="How much tasks differ: the fraction of the initial gap around which a run hovers if each step "
            "sees one random task (0.01, as for rows in random order; 0.3 for rows sorted by label). With --data "
            "it is measured.",
        ),
    ] = None
    sample: Annotated[
        int | None,
        option("--sample", panel=_SEARCH, metavar="ROWS", text="Rows of the data for trials of settings (5000)."),
    ] = None
    repeats: Annotated[
        int | None,
        option("--repeats", panel=_SEARCH, metavar="N", text="Trials per setting before a close comparison (3)."),
    ] = None


@dataclass(frozen=True)
class PageOptions:
    """Options on what is printed and drawn."""

    explain: Annotated[
        bool, typer.Option("--explain", help="Explain the advice in words.", rich_help_panel=_OUTPUT)
    ] = False
    top: Annotated[
        int, typer.Option("--top", metavar="N", help="Number of settings to print.", rich_help_panel=_OUTPUT, min=1)
    ] = 10
    figures: Annotated[
        bool, typer.Option("--figures/--no-figures", help="Draw a picture (needs matplotlib).", rich_help_panel=_OUTPUT)
    ] = True
