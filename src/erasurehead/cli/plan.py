"""`erasurehead plan`: which code, how much redundancy and how long to wait, and what that gains."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from erasurehead.cli.options import OutputOptions, RunOptions, option
from erasurehead.cli.screen import Screen
from erasurehead.cli.traces import TraceOptions

HELP = """
Plan a run before it is made: which code, what redundancy, how long to wait.

[bold]erasurehead plan --trace latencies.csv[/bold]
  All you need is how long each worker took in each step (delays --help says
  how traces are written). Prints the ranking; the folder has a picture, and a
  run file: [italic]erasurehead train runs/plan-1/run.toml[/italic].

  A worker that did not answer has no row in that step; --absent says how to
  treat it.

[bold]erasurehead plan --trace runs/houses --data houses.csv --label price \\
    --target gap=0.001 --explain[/bold]
  From the delays of an earlier run; the settings that could be the best are
  tried on a sample of your data, to measure the times to a target.

[bold]erasurehead plan --delays 'exponential(mean=0.5)' --workers 30 \\
    --seconds-per-task 0.02 --current 'exact(load=3)'[/bold]
  From assumed delays, and compared with the setting in use.

Options of [italic]train[/italic] on how to train are written to the run file.
"""

_DELAYS, _SEARCH, _OUTPUT = "Delays", "Search", "Output"


@dataclass(frozen=True)
class _SourceOptions:
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
class _SearchOptions:
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
class _PageOptions:
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


@dataclass(frozen=True)
class PlanOptions(_PageOptions, RunOptions, _SearchOptions, TraceOptions, _SourceOptions):
    """All options of the command; in its help, those of the classes on the right come first."""


FREE, USUAL = 3, 10
"""Largest load of the settings that are tried, if the cost of a further task is not known, and if it is."""


def run(*, asked: PlanOptions, output: OutputOptions) -> None:
    """Plan a run."""
    config = asked.config(None)
    from erasurehead.cli import plan_pages
    from erasurehead.cli.plan_asked import (
        PlanTarget,
        SampledData,
        TaskCost,
        Workers,
        check_options,
        check_schemes,
        goal_accuracy,
    )
    from erasurehead.errors import counted
    from erasurehead.planning import adaptive_settings, default_settings, plan

    screen = Screen(output)
    check_options(asked)
    goal = PlanTarget.named(asked)
    folder = plan_pages.folder(asked.out, bool(asked.overwrite))
    workers = Workers.named(asked)
    check_schemes(asked, workers.count)
    sampled = None if asked.data is None else SampledData.load(asked, workers.count, screen)
    cost = workers.known_cost(asked)
    if cost is None and sampled is not None:
        cost = workers.measured_cost(sampled.experiment.problem, screen)
    cost = cost or TaskCost()
    delays, text, trace = workers.drawn(asked, cost, folder, screen)
    target = None if goal is None else goal.predicted(sampled, workers.count)
    accuracy = goal_accuracy(goal, asked, sampled, workers.count, screen)
    most = asked.max_load or (FREE if cost.known_from is None else USUAL)
    settings = tuple(asked.scheme or (default_settings(workers.count, most) if workers.count >= 2 else ()))
    if sampled is not None and sampled.solver is not None and target is None and not asked.scheme and settings:
        settings += adaptive_settings(workers.count, most, delays)  # their optimizer's steps are measured on the data
    screen.say(f"trying {counted('setting', len(settings))} on {text} ...")
    what = f"A plan of {counted('setting', len(settings))} for {counted('worker', workers.count)}"
    with screen.counting("settings") as progress:
        ranked = plan(
            delays,
            workers.count,
            cost.seconds,
            settings,
            target,
            asked.current or workers.current,
            most,
            late=config.delays.late,
            accuracy=accuracy,
            progress=plan_pages.foreseen(what, progress, screen),
        )
    limited = not asked.scheme and asked.max_load is None and workers.count > FREE
    page = plan_pages.Page(ranked, cost, limited, asked=goal is not None and asked.task_noise is not None)
    if sampled is not None:
        page = page.tried(sampled, None if goal is None else goal.measured, target is None, asked.repeats or 3, screen)
    facts = page.facts()
    if not page.reached:
        screen.result({**facts, "files": []}, page.table(asked.top), "", "\n".join(page.nothing()))
        raise typer.Exit(1)
    files = page.write(folder, facts, trace, asked, screen)
    screen.result(
        {**facts, "files": [str(path) for path in files]},
        page.table(asked.top),
        "",
        page.why(asked.top),
        "",
        "\n".join(page.advice(asked.explain)),
        "",
        page.last_words(files, folder, asked),
    )
