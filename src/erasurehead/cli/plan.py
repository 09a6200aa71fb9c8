"""`erasurehead plan`: which code, how much redundancy, how long to wait, and what it will buy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from erasurehead.cli.options import OutputOptions, RunOptions, option
from erasurehead.cli.screen import Screen
from erasurehead.cli.traces import TraceOptions

if TYPE_CHECKING:
    from erasurehead.cli.planned_delays import Planned
    from erasurehead.config import Config
    from erasurehead.planning import Plan, Target

HELP = """
Plan a run before it is made: which code, what redundancy, how long to wait.

[bold]erasurehead plan --trace latencies.csv[/bold]
  All you need is how long each worker took in each step (delays --help says
  how traces are written). Prints the ranking; the folder has a picture, and a
  run file: [italic]erasurehead train runs/plan-1/run.toml[/italic].

[bold]erasurehead plan --trace runs/houses --data houses.csv --label price \\
    --target mse=0.05 --explain[/bold]
  From the delays of an earlier run; the best settings are tried on a sample
  of your data, so that times are times to a target.

[bold]erasurehead plan --delays 'exponential(mean=0.5)' --workers 30 \\
    --seconds-per-task 0.02 --current 'exact(load=3)'[/bold]
  From a hunch, and compared with what is in use.

Options of [italic]train[/italic] that say how the run is to be made go into the run file.
"""

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


def run(
    *,
    source: SourceOptions,
    reading: TraceOptions,
    search: SearchOptions,
    options: RunOptions,
    printed: PageOptions,
    output: OutputOptions,
) -> None:
    """Plan a run."""
    config = options.config(None)
    from erasurehead.cli import plan_files, plan_pages
    from erasurehead.cli.plan_trials import Tried, check_target
    from erasurehead.cli.planned_delays import planned
    from erasurehead.planning import explain

    screen = Screen(output)
    goal = check_target(search, options)
    folder = plan_files.folder(options.out, bool(options.overwrite))
    found = planned(source, reading, options, search.current, folder, screen)
    tried = None if options.data is None else Tried.load(options, found.n_workers, search.sample, screen)
    target = None if goal is None else goal.target(tried, found.n_workers)
    page = plan_pages.Page(_searched(source, search, config, found, target, screen))
    if tried is not None:
        wanted = None if goal is None else goal.measured
        page = tried.page(page.plan, wanted, target is None, search.repeats, screen)
    files = plan_files.write(folder, page, found, options, printed.figures, screen)
    data = {**plan_pages.facts(page), "files": [str(path) for path in files]}
    said = explain(page.plan, page.trials, page.goal).splitlines()
    shown = said if printed.explain else [said[0], *plan_pages.doubts(page)]
    screen.result(
        data, plan_pages.table(page, printed.top), "", plan_pages.why(page, printed.top), "", "\n".join(shown), "",
        plan_files.last_words(files, folder, page, options),
    )  # fmt: skip


def _searched(
    source: SourceOptions,
    search: SearchOptions,
    config: Config,
    found: Planned,
    target: Target | None,
    screen: Screen,
) -> Plan:
    from erasurehead.errors import check_count, invalid
    from erasurehead.planning import default_settings, plan

    if not (source.seconds_per_task >= 0.0 and source.seconds_per_task < float("inf")):
        raise invalid("--seconds-per-task", "must be finite and at least 0", source.seconds_per_task)
    most = check_count("--max-load", 10 if search.max_load is None else search.max_load)
    settings = search.scheme or (default_settings(found.n_workers, most) if found.n_workers >= 2 else ())
    screen.say(f"trying {len(settings)} settings on {found.said} ...")
    current = search.current or found.current
    if search.current is not None:
        _check_current(search.current, found.n_workers)
    return plan(
        found.delays, found.n_workers, source.seconds_per_task, settings, target, current, most, late=config.delays.late
    )


def _check_current(text: str, n_workers: int) -> None:
    from erasurehead.config.texts import parse_scheme
    from erasurehead.errors import InvalidArgument

    try:
        parse_scheme(text, n_workers)
    except InvalidArgument as error:
        raise InvalidArgument(f"--current{str(error).removeprefix('scheme')}") from None
