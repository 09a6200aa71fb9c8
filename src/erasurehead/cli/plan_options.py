"""What is planned with, what is searched, and what is shown of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from erasurehead.cli.options import option

_DELAYS, _SEARCH, _OUTPUT = "Delays", "Search", "Output"


@dataclass(frozen=True)
class SourceOptions:
    """Where the delays come from, besides `--delays`."""

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
            "were), workers (each draws its own), or pooled (all alike, for any number of workers).",
        ),
    ] = None
    scale_with_load: Annotated[
        bool,
        typer.Option(
            "--scale-with-load",
            help="The trace's delays grow with the load, instead of staying what they are.",
            rich_help_panel=_DELAYS,
        ),
    ] = False
    seconds_per_task: Annotated[
        float,
        typer.Option(
            "--seconds-per-task",
            metavar="SECONDS",
            help="What computing one task takes, where a task is what an uncoded worker has. A trace does not tell.",
            rich_help_panel=_DELAYS,
        ),
    ] = 0.0


@dataclass(frozen=True)
class SearchOptions:
    """What is searched, and for what."""

    scheme: Annotated[
        list[str] | None,
        option("--scheme", "-s", panel=_SEARCH, metavar="SCHEME",
               text="Try these settings only; say it once for each. By default more than a hundred."),
    ] = None  # fmt: skip
    max_load: Annotated[
        int | None,
        option("--max-load", panel=_SEARCH, metavar="N", text="Most tasks that a worker may hold (10): its memory."),
    ] = None
    current: Annotated[
        str | None,
        option("--current", panel=_SEARCH, metavar="SCHEME",
               text="The setting in use now; by default, that of the run whose folder is the trace."),
    ] = None  # fmt: skip
    target: Annotated[
        str | None,
        option(
            "--target",
            panel=_SEARCH,
            metavar="METRIC=VALUE",
            text="What to reach with --data, such as auc=0.84; by default 95% of what uncoded training reaches. Or "
            "error=VALUE, above the minimum of the objective, by Theorem 1, with --data or --constants.",
        ),
    ] = None
    constants: Annotated[
        str | None,
        option("--constants", panel=_SEARCH, metavar="mu=A,beta=B,sigma=C,gap=D",
               text="Of the objective, for --target error=VALUE without data."),
    ] = None  # fmt: skip
    sample: Annotated[
        int | None,
        option("--sample", panel=_SEARCH, metavar="ROWS", text="Of the data, to try settings on (5000)."),
    ] = None
    repeats: Annotated[
        int | None, option("--repeats", panel=_SEARCH, metavar="N", text="Trials of each setting on the data (3).")
    ] = None


@dataclass(frozen=True)
class PageOptions:
    """How much is printed and drawn."""

    explain: Annotated[bool, typer.Option("--explain", help="Say it in words.", rich_help_panel=_OUTPUT)] = False
    top: Annotated[
        int, typer.Option("--top", metavar="N", help="Settings that are printed.", rich_help_panel=_OUTPUT, min=1)
    ] = 10
    figures: Annotated[
        bool, typer.Option("--figures/--no-figures", help="Draw (needs matplotlib).", rich_help_panel=_OUTPUT)
    ] = True
