"""`erasurehead compare`: several schemes on the same delays and first model."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from erasurehead.cli.options import OutputOptions, RunOptions, option
from erasurehead.cli.screen import Screen
from erasurehead.cli.train import introduce

HELP = """
Race several schemes: same data, same delays, same first model.

[bold]erasurehead compare[/bold]
  uncoded, exact(load=3) and erasurehead(load=3, wait_for=11) on the paper's
  Amazon data, or where that is not available its synthetic stand-in;
  30 processes, exponential delays of mean 0.5 s.

[bold]erasurehead compare --engine virtual --steps 50 --target auc=0.84[/bold]
  The same on a virtual clock, and how long each takes to an AUC of 0.84.

[bold]erasurehead compare --data houses.csv --label price -w 12 \\
    -s uncoded -s 'exact(load=2)'[/bold]
  Your own data, twelve workers, your own schemes; the same delays, unless
  --delays says otherwise.

It prints a table, and how long each took until its objective was within so
much of the least. The folder keeps the tables, figures (PNG and SVG), and
one run folder for each scheme.
"""

_PANEL = "Schemes"


def run(
    *,
    run_file: Annotated[
        str | None, typer.Argument(metavar="RUN_FILE", help="TOML; options take precedence.", show_default=False)
    ] = None,
    scheme: Annotated[
        list[str] | None,
        option(
            "--scheme",
            "-s",
            panel=_PANEL,
            metavar="SCHEME",
            text="Say it once for each scheme; by default the three of the paper. See erasurehead train --help.",
        ),
    ] = None,
    target: Annotated[
        str | None,
        option(
            "--target",
            panel=_PANEL,
            metavar="METRIC=VALUE",
            text="What to reach, such as auc=0.84 or mse=0.05; by default 95% of what all schemes reach.",
        ),
    ] = None,
    options: RunOptions,
    figures: Annotated[
        bool, typer.Option("--figures/--no-figures", help="Draw figures (needs matplotlib).", rich_help_panel="Output")
    ] = True,
    alone: Annotated[
        bool,
        typer.Option(
            "--alone/--no-alone",
            help="Say what the same problem takes on one core alone, without workers and delays; it takes no longer "
            "than the comparison did.",
            rich_help_panel="Output",
        ),
    ] = True,
    output: OutputOptions,
) -> None:
    """Race several schemes against each other."""
    config = options.config(run_file)
    from erasurehead.errors import ErasureHeadError, MissingExtra
    from erasurehead.reports import descent_table, render_table
    from erasurehead.runs.comparison import ALONE, Comparison

    screen = Screen(output)
    screen.say(f"reading {config.data.source} ...")
    comparison = Comparison.from_config(config, scheme or (), target)
    introduce(screen, comparison.experiments[0])
    for experiment in comparison.experiments:
        screen.say(f"  {experiment.scheme}")
    began = time.perf_counter()
    try:
        with screen.watching() as callbacks:
            runs = comparison.run(callbacks)
    except ErasureHeadError:
        if any(experiment.out is not None and experiment.out.is_dir() for experiment in comparison.experiments):
            screen.say(f"The records so far are in {comparison.folder}.")
        raise
    stopped = any(run.status == "interrupted" for run in runs)
    beside = comparison.alone(runs, time.perf_counter() - began) if alone and not stopped else []
    try:
        outcome = comparison.report(runs, ("png", "svg") if figures else (), beside)
    except MissingExtra as missing:
        screen.warn(f"No figures: {missing}")
        outcome = comparison.report(runs, (), beside)
    for number, one in enumerate(beside):
        screen.say(f"{ALONE}\n  {one}" if number == 0 else f"  {one}")
    last = f"table{', figures' if outcome.figures else ''} and runs in {outcome.folder}"
    depths = [descent_table(outcome.descents)] if outcome.descents else []
    screen.result(outcome.as_dict(), render_table(outcome.rows, outcome.title), *depths, last)
    if outcome.interrupted:
        raise typer.Exit(130)
    if outcome.failures:
        raise ErasureHeadError(" ".join(outcome.failures))
