"""`erasurehead plan`: which code, how much redundancy and how long to wait, and what that gains."""

from __future__ import annotations

from typing import TYPE_CHECKING

from erasurehead.cli.options import OutputOptions, RunOptions
from erasurehead.cli.plan_options import PageOptions, SearchOptions, SourceOptions
from erasurehead.cli.screen import Screen
from erasurehead.cli.traces import TraceOptions

if TYPE_CHECKING:
    from erasurehead.cli.plan_trials import Goal, Tried
    from erasurehead.cli.planned_delays import Planned
    from erasurehead.planning import Accuracy, ErrorTarget, Plan
    from erasurehead.runs.config import Config

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
    import typer

    from erasurehead.cli import plan_files, plan_pages
    from erasurehead.cli.plan_checks import check_options, check_schemes
    from erasurehead.cli.plan_costs import FREE, Cost, about_cost, measured_cost
    from erasurehead.cli.plan_trials import Tried, check_target
    from erasurehead.cli.planned_delays import named, planned
    from erasurehead.planning import explain

    screen = Screen(output)
    check_options(source, reading, search, options)
    goal = check_target(search, options)
    folder = plan_files.folder(options.out, bool(options.overwrite))
    given = named(source, reading, options)
    check_schemes(search, given.n_workers)
    tried = None if options.data is None else Tried.load(options, given.n_workers, search.sample, screen)
    cost = given.cost
    if cost is None and tried is not None:
        cost = measured_cost(tried.experiment.problem, given.n_workers, given.trace, given.config, screen)
    found = planned(given, source, cost or Cost(), search.current, folder, screen)
    target = None if goal is None else goal.target(tried, found.n_workers)
    accuracy = goal_accuracy(goal, search, tried, found.n_workers, screen)
    solved = tried is not None and tried.solver is not None and target is None
    searched = _searched(search, config, found, target, accuracy, solved, screen)
    limited = not search.scheme and search.max_load is None and found.n_workers > FREE
    costs = about_cost(found.cost, tried is not None, limited)
    page = plan_pages.Page(searched, asked=_asked(goal, search), known_from=found.cost.known_from, costs=costs)
    if tried is not None:
        wanted = None if goal is None else goal.measured
        page = tried.page(page, wanted, target is None, search.repeats, screen)
    facts = plan_pages.facts(page)
    if not page.reached:
        said = "\n".join(plan_pages.nothing(page))
        screen.result({**facts, "files": []}, plan_pages.table(page, printed.top), "", said)
        raise typer.Exit(1)
    files = plan_files.write(folder, page, facts, found, options, printed.figures, screen)
    data = {**facts, "files": [str(path) for path in files]}
    said = explain(page.plan, page.trials, page.goal).splitlines()
    begin = said if printed.explain else [said[0], *plan_pages.caveats(page)]
    shown = [*begin, *plan_pages.beyond(page), *(plan_pages.three_sentences(page) if printed.explain else ())]
    screen.result(
        data,
        plan_pages.table(page, printed.top),
        "",
        plan_pages.why(page, printed.top),
        "",
        "\n".join([*shown, *plan_pages.cases(page)]),
        "",
        plan_files.last_words(files, folder, page, options),
    )


def _asked(goal: Goal | None, search: SearchOptions) -> bool:
    """Whether the user gave both a target and the task noise of the data."""
    return search.task_noise is not None and goal is not None


def goal_accuracy(
    goal: Goal | None, search: SearchOptions, tried: Tried | None, n_workers: int, screen: Screen
) -> Accuracy:
    """Return target, noise and pace for the forecast of steps: from options, measured on the data, or by default.

    Arguments:
        goal: the target; None for the default.
        search: options of the command.
        tried: the user's data, if any.
        n_workers: number of workers of the plan.
        screen: prints what was measured.
    """
    from erasurehead.planning import Accuracy

    noise, accuracy = search.task_noise, Accuracy()
    if tried is not None and (goal is None or goal.measured is not None):
        deep = accuracy.gap if goal is None or goal.gap is None else goal.gap
        accuracy = tried.accuracy(n_workers, deep, screen)
    if noise is not None:
        accuracy = Accuracy(accuracy.gap, noise, accuracy.pace)
    return accuracy if goal is None or goal.gap is None else accuracy.to(goal.gap)


def _searched(
    search: SearchOptions,
    config: Config,
    found: Planned,
    target: ErrorTarget | None,
    accuracy: Accuracy,
    solved: bool,
    screen: Screen,
) -> Plan:
    """Return the plan, including `adaptive` settings if there are data on which to measure their optimizer's steps."""
    from erasurehead.cli.plan_costs import FREE, foreseen
    from erasurehead.errors import counted
    from erasurehead.planning import adaptive_settings, default_settings, plan

    usual = FREE if found.cost.known_from is None else 10
    most = usual if search.max_load is None else search.max_load
    settings = tuple(search.scheme or (default_settings(found.n_workers, most) if found.n_workers >= 2 else ()))
    if solved and not search.scheme and settings:
        settings += adaptive_settings(found.n_workers, most, found.delays)
    screen.say(f"trying {counted('setting', len(settings))} on {found.said} ...")
    current = search.current or found.current
    what = f"A plan of {counted('setting', len(settings))} for {counted('worker', found.n_workers)}"
    with screen.counting("settings") as progress:
        return plan(
            found.delays,
            found.n_workers,
            found.cost.seconds,
            settings,
            target,
            current,
            most,
            late=config.delays.late,
            accuracy=accuracy,
            progress=foreseen(what, progress, screen),
        )
