"""`erasurehead compare`: compare several schemes with the same delays and initial model."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from erasurehead._internal.atomic_files import write_whole
from erasurehead.cli._options import OutputOptions, RunOptions, argument, option, pictures
from erasurehead.cli._output import Screen
from erasurehead.cli._streams import INTERRUPTED
from erasurehead.cli._train import COMMON as TRAIN, introduce
from erasurehead.errors import ErasureHeadError, InvalidArgument, MissingExtra, invalid
from erasurehead.runs._jsonl import to_text
from erasurehead.runs._names import COMPARISON, FIGURES, RUNS, TABLE, make_folder, next_free

if TYPE_CHECKING:
    from erasurehead.runs import Comparison, Experiment
    from erasurehead.runs._comparison import Trained
    from erasurehead.runs._outcome import Outcome

HELP = """
Race several schemes: same data, same delays, same first model.

[bold]erasurehead compare[/bold]
  uncoded, exact(load=3) and erasurehead(load=3, wait_for=11) on the paper's
  Amazon data, or where that is not available its synthetic stand-in;
  30 processes, exponential delays of mean 0.5 s.

[bold]erasurehead compare --engine virtual --steps 50 --target auc=0.84[/bold]
  The same on a virtual clock, with the time that each takes to reach an AUC
  of 0.84.

[bold]erasurehead compare --data houses.csv --label price -w 12 \\
    -s uncoded -s 'exact(load=2)'[/bold]
  Your own data, twelve workers, your own schemes; the same delays, unless
  --delays says otherwise.

[bold]erasurehead compare runs/uncoded-1 runs/mnist-consensus-dynamic-1[/bold]
  Finished runs on the same data, with a coordinator or without one: nothing
  is trained. Speed-ups are relative to the first.

If adaptive races schemes with another optimizer, its own optimizer also runs
once waiting for everybody, so that you see what not waiting buys, and what
the optimizer does.

Prints a table, and the time that each scheme took to reach given distances
from the minimum of the objective. The folder keeps the tables, figures (PNG
and SVG), and one run folder for each scheme.
"""

COMMON = {
    "--scheme": "A scheme to race; repeat it for each. By default the three of the paper.",
    "--target": "",
    **{name: text for name, text in TRAIN.items() if name in ("--data", "--label", "--categorical", "--drop")},
    "--delays": "Delays injected after computing, such as 'exponential(mean=0.5, seed=0)' or 'none()'.",
    "--workers": "Number of workers; by default 30, as published.",
    "--engine": TRAIN["--engine"],
    "--steps": "Steps of each scheme; by default 5000 for adaptive, which ends when it has converged, or else 100.",
    "--out": "Folder for tables, figures and runs, new or empty; by default a new one in runs.",
    "--json": "",
}

_PANEL = "Schemes"


def run(
    *,
    named: list[str] | None = argument(
        "RUN_FILE | RUN...",
        "A run file, in TOML; options take precedence. Or the folders of finished runs.",
        default=None,
    ),
    scheme: list[str] | None = option(
        "--scheme, -s",
        "A scheme to race; repeat it for each. By default the three of the paper. See erasurehead train --help.",
        panel=_PANEL,
        metavar="SCHEME",
    ),
    target: str | None = option(
        "--target",
        "Target to reach, such as auc=0.84 or mse=0.05; by default 95% of what all schemes reach.",
        panel=_PANEL,
        metavar="METRIC=VALUE",
    ),
    options: RunOptions,
    figures: bool = pictures("figures"),
    alone: bool = option(
        "--alone/--no-alone",
        "Also measure how long the same problem takes on one core, without workers and delays; this takes at "
        "most as long as the comparison.",
        panel="Output",
        shown=True,
        default=True,
    ),
    output: OutputOptions,
) -> None:
    """Compare several schemes."""

    given = named or []
    if any(Path(place).expanduser().is_dir() for place in given):
        _compare_finished(given, scheme, target, options, figures, output)
        return
    if len(given) > 1:
        raise invalid("RUN_FILE", "must be one run file, or the folders of finished runs", " ".join(given))
    config = options.config(given[0] if given else None)
    from erasurehead.runs import Comparison

    screen = Screen(output)
    comparison = Comparison.from_config(config, scheme or (), target, screen.starting)
    introduce(screen, comparison.experiments[0], screen.say)
    for experiment in comparison.experiments:
        screen.say("; ".join(map(str, filter(None, (f"  {experiment.scheme}", experiment.held)))))
    began = time.perf_counter()
    trained = _trained(screen, comparison)
    stopped = any(run.status == "interrupted" for run in trained.runs)
    beside = trained.alone(time.perf_counter() - began) if alone and not stopped else []
    try:
        outcome = trained.report(("png", "svg") if figures and not stopped else (), beside)
    except MissingExtra as missing:
        screen.warn(f"No figures: {missing}")
        outcome = trained.report((), beside)
    _conclude(screen, comparison.experiments, outcome, alone)


def _trained(screen: Screen, comparison: Comparison) -> Trained:
    """Run the schemes; if that fails, say where the records so far are."""
    screen.opening(comparison.experiments[0].config.run.track)
    try:
        with screen.watching() as callbacks:
            return comparison.run(callbacks)
    except ErasureHeadError:
        if any(experiment.out is not None and experiment.out.is_dir() for experiment in comparison.experiments):
            screen.say(f"The records so far are in {comparison.folder}.")
        raise


def _conclude(screen: Screen, experiments: Sequence[Experiment], outcome: Outcome, alone: bool) -> None:
    from erasurehead.reports._descents import descent_table
    from erasurehead.runs._comparison import ALONE
    from erasurehead.runs._outcome import say_heard_once

    for line in (ALONE, *(f"  {one}" for one in outcome.alone)) if outcome.alone else ():
        screen.say(line)
    last = f"table{', figures' if outcome.figures else ''} and runs in {outcome.folder}"
    depths = [descent_table(outcome.descents)] if outcome.descents else []
    if not depths and not outcome.interrupted:
        rest = "" if alone else "; one core alone may find it: leave out --no-alone"
        screen.say(f"Times to each gap are not known, as the minimum is not known{rest}.")
    limits = [one for one in (outcome.pays, say_heard_once(outcome.heard)) if one]
    redundancy = [None if one.held is None else asdict(one.held) for one in experiments]
    screen.result(
        {**outcome.as_dict(), "held": redundancy}, outcome.compared.table(outcome.title), *depths, *limits, last
    )
    if outcome.interrupted:
        left = [one.scheme.name for one in experiments[len(outcome.folders) :]]
        if left:
            screen.warn(f"Stopped before these were raced: {'; '.join(left)}.")
        raise typer.Exit(INTERRUPTED)
    if outcome.failures:
        raise ErasureHeadError(" ".join(outcome.failures))


def _compare_finished(
    folders: list[str],
    scheme: list[str] | None,
    target: str | None,
    options: RunOptions,
    figures: bool,
    output: OutputOptions,
) -> None:
    """Compare finished runs, without training."""
    from erasurehead.consensus._finished import compare_finished

    screen, spelled = Screen(output), options.spelled()
    of_place = {"run.out", "run.overwrite", "run.access"}
    if of_training := ["--scheme"] if scheme else [spelled[key] for key in spelled if key not in of_place]:
        rule = "must be left out, as nothing is trained where finished runs are compared"
        raise InvalidArgument(of_training[0], rule)
    compared = compare_finished(folders, target)
    run = options.tables().get("run", {})
    access = run.get("access", "private")
    place = make_folder(run.get("out") or next_free(RUNS, "compare-finished"), bool(run.get("overwrite")), access)
    title, drawn = " and ".join(sorted({str(one.facts["delays"]) for one in compared.runs})), list[Path]()
    write_whole(place / TABLE, [compared.to_markdown().encode()], access)
    if figures:
        with screen.drawing("figures"):
            drawn = compared.draw(place / FIGURES, title=title, access=access)
    facts = {**compared.as_dict(), "folders": folders, "figures": [str(path) for path in drawn], "folder": str(place)}
    write_whole(place / COMPARISON, [to_text(facts).encode()], access)
    screen.result(facts, compared.to_table(title), f"table{' and figures' if drawn else ''} in {place}")
