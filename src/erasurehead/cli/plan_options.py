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
        float | None,
        typer.Option(
            "--seconds-per-task",
            metavar="SECONDS",
            help="What computing one task takes your workers, where a task is what an uncoded worker has; it is part "
            "of a trace's times, and taken out of them. The folder of a run on the virtual clock tells it; else, with "
            "--data, it is measured on this machine. Where nobody knows it, no setting with more than 3 tasks a worker "
            "is tried, unless --max-load asks for it.",
            rich_help_panel=_DELAYS,
        ),
    ] = None
    absent: Annotated[
        str | None,
        option(
            "--absent",
            panel=_DELAYS,
            metavar="WHAT",
            text="What became of workers that a round of the trace has no row of: dead (they never answered), late "
            "(they did, after all others), or censored (the default: only longer than the round's latest answer is "
            "known; who is missing to the end is gone). Write a worker that did not answer by leaving its row out, "
            "or with the time that it was waited for and censored=1; never as inf.",
        ),
    ] = None


@dataclass(frozen=True)
class SearchOptions:
    """Options on the settings to try, and on the target."""

    scheme: Annotated[
        list[str] | None,
        option("--scheme", "-s", panel=_SEARCH, metavar="SCHEME",
               text="Try these settings only; repeat it for each. By default a grid: 38 for 8 workers, 129 for 30, "
               "with loads up to 10."),
    ] = None  # fmt: skip
    max_load: Annotated[
        int | None,
        option(
            "--max-load",
            panel=_SEARCH,
            metavar="N",
            text="Most tasks that a worker may hold: its memory (10; 3 where nobody knows what a task costs).",
        ),
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
            text="Target to reach: gap=0.01, the part of the first gap of the objective that may remain (the default), "
            "or a metric with --data, such as auc=0.84. Or error=VALUE, above the minimum of the objective, with "
            "--data or --constants.",
        ),
    ] = None
    constants: Annotated[
        str | None,
        option("--constants", panel=_SEARCH, metavar="mu=A,beta=B,sigma=C,gap=D",
               text="Of the objective, for --target error=VALUE without data."),
    ] = None  # fmt: skip
    task_noise: Annotated[
        float | None,
        option("--task-noise", panel=_SEARCH, metavar="SHARE",
               text="How much tasks differ, without --data: the part of the first gap around which a run hovers that "
               "sees one random task a step (0.01, as rows in no order; 0.3 is like rows sorted by their label). With "
               "--data it is measured."),
    ] = None  # fmt: skip
    sample: Annotated[
        int | None,
        option("--sample", panel=_SEARCH, metavar="ROWS", text="Of the data, to try settings on (5000)."),
    ] = None
    repeats: Annotated[
        int | None,
        option("--repeats", panel=_SEARCH, metavar="N", text="Trials of a setting before it is compared closely (3)."),
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
