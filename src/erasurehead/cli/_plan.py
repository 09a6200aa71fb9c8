"""`erasurehead plan`: which code, how much redundancy and how long to wait, and what that gains."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from erasurehead.cli._options import OutputOptions
from erasurehead.cli._output import Screen
from erasurehead.cli._plan_options import FREE, USUAL, PlanOptions
from erasurehead.cli._train import COMMON as TRAIN
from erasurehead.errors import counted

if TYPE_CHECKING:
    from erasurehead.cli._plan_pages import Page
    from erasurehead.delays import Trace

HELP = """
Plan a run before you start it: which code, what redundancy, how long to wait.

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

Options of [italic]train[/italic] that say how to train, such as --loss, go into the run file.
"""

COMMON = {
    "--trace": "",
    "--delays": "Delays to assume where there is no trace: 'exponential(mean=0.5)', 'pareto(0.1, 2.0)', ..., or a sum.",
    "--workers": "Number of workers; by default that of the trace, or 30.",
    **{name: text for name, text in TRAIN.items() if name in ("--data", "--label")},
    "--target": "Target to reach, such as gap=0.01 or auc=0.84; with data of yours, times to it are measured.",
    **dict.fromkeys(
        ("--explain", "--seconds-per-task", "--scale-with-load", "--current", "--scheme", "--max-load"), ""
    ),
    "--out": "Folder for the plan, new or empty; by default a new one in runs.",
    "--json": "",
}


def run(*, asked: PlanOptions, output: OutputOptions) -> None:
    """Plan a run."""
    config = asked.config(None)
    from erasurehead.cli import _plan_pages as plan_pages
    from erasurehead.cli._plan_asked import TaskCost, Workers, check_options, check_schemes, folder as plan_folder
    from erasurehead.cli._plan_data import PlanTarget, SampledData, by_itself, goal_accuracy
    from erasurehead.planning import plan
    from erasurehead.planning._settings import adaptive_settings, default_settings

    screen = Screen(output)
    check_options(asked)
    goal = PlanTarget.named(asked)
    folder = plan_folder(asked.out, bool(asked.overwrite))
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
    settings = tuple(asked.scheme or default_settings(workers.count, most, delays))
    if target is None and not asked.scheme and by_itself(config):
        settings += adaptive_settings(workers.count, most, delays)  # their optimizer's steps are measured, or assumed
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
    _conclude(screen, page, folder, trace, asked)


def _conclude(screen: Screen, page: Page, folder: Path, trace: Trace | None, asked: PlanOptions) -> None:
    """Print the plan, and write it into its folder."""
    facts = page.facts()
    if not page.reached:
        screen.result({**facts, "files": []}, page.table(asked.top), "", "\n".join(page.nothing()))
        raise typer.Exit(1)
    files = page.write(folder, facts, trace, asked, screen)
    first, *others = page.advice(asked.explain)
    screen.result(
        {**facts, "files": [str(path) for path in files]},
        first,
        "",
        page.table(asked.top),
        "",
        page.why(asked.top),
        "",
        "\n".join(others),
        "",
        page.last_words(files, folder, asked),
    )
