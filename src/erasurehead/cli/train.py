"""`erasurehead train`: one run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from erasurehead.cli.options import OutputOptions, RunOptions, option
from erasurehead.cli.screen import Screen

if TYPE_CHECKING:
    from erasurehead.experiment import Experiment
    from erasurehead.run import Run

HELP = """
Train one model, and record the run in a folder.

[bold]erasurehead train[/bold]
  ErasureHead on the paper's Amazon data: 30 processes, the published settings.

[bold]erasurehead train --data houses.csv --target price --scheme 'exact(load=3)'[/bold]
  A file of your own; exact gradients, whoever of three is late.

[bold]erasurehead train run.toml --steps 50[/bold]
  A run file. Each run leaves one in its folder: [italic]config.toml[/italic].

[bold]erasurehead train runs/x/config.toml --engine virtual \\
    --delays "recorded('runs/x/arrivals.jsonl')"[/bold]
  A run once more, on the virtual clock: same arrivals, same model.
"""


@dataclass(frozen=True)
class TrainOptions(RunOptions):
    """The options of one run."""

    label: Annotated[
        str | None,
        option(
            "--target", "--label", panel="Data", metavar="COLUMN", text="Column to predict (by default the last one)."
        ),
    ] = None


def run(
    *,
    run_file: Annotated[
        str | None, typer.Argument(metavar="RUN_FILE", help="TOML; options go before it.", show_default=False)
    ] = None,
    scheme: Annotated[
        str | None,
        option(
            "--scheme",
            "-s",
            panel="Scheme",
            metavar="SCHEME",
            text="uncoded, 'ignore_stragglers(wait_for=20)', 'exact(load=3)', 'erasurehead(load=3, wait_for=11)' (the "
            "default), or \"custom(code='cyclic_repetition(stragglers=2)', wait='first(20) | decodable()')\".",
        ),
    ] = None,
    options: TrainOptions,
    output: OutputOptions,
) -> None:
    """Train one model, and record the run in a folder."""
    config = options.config(run_file, scheme=scheme)
    from erasurehead.errors import ErasureHeadError
    from erasurehead.experiment import Experiment

    screen = Screen(output)
    screen.say(f"reading {config.data.source} ...")
    experiment = Experiment.from_config(config)
    introduce(screen, experiment)
    screen.say(str(experiment.scheme))
    try:
        with screen.watching() as instruments:
            done = experiment.run(instruments)
    except ErasureHeadError:
        screen.say(f"The records up to then are in {experiment.out}.")
        raise
    _conclude(screen, experiment, done)
    if done.stopped:
        raise typer.Exit(130)


def introduce(screen: Screen, experiment: Experiment) -> None:
    """Say what is learned from, on how many workers, with what delays."""
    data, config = experiment.data, experiment.config
    if config.data.twin == "fallback" and data.name != config.data.source:
        screen.warn(f"The data set {config.data.source} is not to be had here: a synthetic twin stands in.")
    screen.say(
        f"{data.name}: {data.n_train:,} x {data.n_columns:,} for training, {data.n_test:,} rows for testing "
        f"({data.source})"
    )
    for note in data.notes:
        screen.say(f"  {note}")
    where = "processes" if config.run.engine == "processes" else "workers on a virtual clock"
    screen.say(
        f"{config.problem.loss} with l2 {config.problem.l2:.4g}, {config.optimizer.name} at rate "
        f"{config.optimizer.rate}; {config.run.workers} {where}, delays {config.delays.model}, {config.delays.late}"
    )


def _conclude(screen: Screen, experiment: Experiment, done: Run) -> None:
    from erasurehead.progress import seconds_text
    from erasurehead.records.folder import RunFolder

    assert experiment.out is not None
    summary = RunFolder.open(experiment.out).summary
    lines = [f"{done.scheme}: {len(done.steps)} steps in {seconds_text(done.seconds)}"]
    if done.steps:
        lines[0] += (
            f", {seconds_text(done.seconds_per_step)} a step; waited for {summary['workers_waited_for']:.1f} of "
            f"{summary['workers']} workers, {1 - summary['coverage']:.1%} of the gradient left out"
        )
    if done.stopped:
        lines.append(f"{done.stopped} after {len(done.steps)} of {summary['steps_planned']} steps")
    loss = [] if summary["loss"] is None else [f"training loss {summary['loss']:.5g}"]
    measured = [f"{name} {value:.5g}" for name, value in summary["metrics"].items() if value is not None]
    if loss or measured:
        lines.append(", ".join([*loss, *measured]))
    lines.append(f"records and model in {experiment.out}")
    screen.result({"folder": str(experiment.out), **summary}, "\n".join(lines))
