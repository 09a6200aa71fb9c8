"""The options of `erasurehead plan`."""

from __future__ import annotations

from dataclasses import dataclass

from erasurehead.cli._options import RunOptions, option, pictures
from erasurehead.cli._traces import TraceOptions

_DELAYS, _SEARCH, _OUTPUT = "Delays", "Search", "Output"


@dataclass(frozen=True)
class _SourceOptions:
    """Options on the source of the delays, other than `--delays`."""

    trace: str | None = option(
        "--trace, -t",
        "A trace, or the folder of a run, to draw delays from; instead of --delays.",
        panel=_DELAYS,
        metavar="TRACE",
    )
    keep: str | None = option(
        "--keep",
        "What a draw from the trace keeps together: rounds (the default: workers are slow together as they "
        "were), workers (each draws its own), or pooled (all workers alike, for any number of them).",
        panel=_DELAYS,
        metavar="WHAT",
    )
    scale_with_load: bool = option(
        "--scale-with-load",
        "The trace's delays grow with the load; by default they do not.",
        panel=_DELAYS,
        default=False,
    )
    seconds_per_task: float | None = option(
        "--seconds-per-task",
        "Time in which a worker computes one task, where a task is the data of an uncoded worker; a trace's "
        "times include it, and it is subtracted from them. By default it is read from the run folder, if that is "
        "of a run on the virtual clock, or measured on this machine with --data. If it is not known, no setting "
        "with more than 3 tasks per worker is tried, unless --max-load asks for it.",
        panel=_DELAYS,
        metavar="SECONDS",
        shown=True,
    )
    absent: str | None = option(
        "--absent",
        "How to treat workers without a row in a round of the trace: dead (they never answered), late "
        "(they answered after all others), or censored (the default: only known to be slower than the "
        "round's slowest; those missing to the end are gone). For a worker that did not answer, leave its row "
        "out, or give the time that it was waited for with censored=1; never write inf.",
        panel=_DELAYS,
        metavar="WHAT",
    )


@dataclass(frozen=True)
class _SearchOptions:
    """Options on the settings to try, and on the target."""

    scheme: list[str] | None = option(
        "--scheme, -s",
        "Try these settings only; repeat it for each. By default a grid: 43 for 8 workers, 137 for 30, "
        "with loads up to 10.",
        panel=_SEARCH,
        metavar="SCHEME",
    )
    max_load: int | None = option(
        "--max-load",
        "The most tasks that a worker may hold in memory (10; 3 if the cost of a task is not known).",
        panel=_SEARCH,
        metavar="N",
    )
    current: str | None = option(
        "--current",
        "The setting in use now; by default, that of the run that recorded the trace.",
        panel=_SEARCH,
        metavar="SCHEME",
    )
    target: str | None = option(
        "--target",
        "Target to reach: gap=0.01, the fraction of the objective's initial gap that may remain (the "
        "default); with --data a metric, such as auc=0.84; or error=VALUE, the distance of the objective from its "
        "minimum, with --data or --constants.",
        panel=_SEARCH,
        metavar="METRIC=VALUE",
    )
    constants: str | None = option(
        "--constants",
        "Constants of the objective, for --target error=VALUE without data.",
        panel=_SEARCH,
        metavar="mu=A,beta=B,sigma=C,gap=D",
    )
    task_noise: float | None = option(
        "--task-noise",
        "How much tasks differ: the fraction of the initial gap around which a run hovers if each step "
        "sees one random task (0.01, as for rows in random order; 0.3 for rows sorted by label). With --data "
        "it is measured.",
        panel=_SEARCH,
        metavar="SHARE",
    )
    sample: int | None = option(
        "--sample", "Rows of the data for trials of settings (5000).", panel=_SEARCH, metavar="ROWS"
    )
    repeats: int | None = option(
        "--repeats", "Trials per setting before a close comparison (3).", panel=_SEARCH, metavar="N"
    )


@dataclass(frozen=True)
class _PageOptions:
    """Options on what is printed and drawn."""

    explain: bool = option("--explain", "Explain the advice in words.", panel=_OUTPUT, default=False)
    top: int = option(
        "--top", "Number of settings to print.", panel=_OUTPUT, metavar="N", min=1, shown=True, default=10
    )
    figures: bool = pictures("a picture")


@dataclass(frozen=True)
class PlanOptions(_PageOptions, RunOptions, _SearchOptions, TraceOptions, _SourceOptions):
    """All options of the command; in its help, those of the classes on the right come first."""


FREE, USUAL = 3, 10
"""Largest load of the settings that are tried, if the cost of a further task is not known, and if it is."""
