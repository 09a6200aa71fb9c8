"""`erasurehead consensus`: train without a coordinator."""

from __future__ import annotations

import shlex
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import typer

from erasurehead._internal.atomic_files import why
from erasurehead._internal.signals import stopped_by
from erasurehead._internal.storage.folders import Folder
from erasurehead.cli._findings import spanned
from erasurehead.cli._options import (
    FileOptions,
    OutputOptions,
    argument,
    option,
    options_of,
    pictures as pictures_option,
)
from erasurehead.cli._output import Screen
from erasurehead.cli._ranks import stand_by
from erasurehead.cli._streams import FAILED, INTERRUPTED
from erasurehead.cli._train import introduce_data
from erasurehead.consensus._config import ConsensusConfig
from erasurehead.errors import MissingExtra, counted, invalid
from erasurehead.reports._units import seconds_text
from erasurehead.runs._config import merged, read_tables
from erasurehead.runs._names import FIGURES, MEANS, PEERS, has_checkpoints

if TYPE_CHECKING:
    from erasurehead.consensus._experiment import ConsensusExperiment
    from erasurehead.consensus._result import ConsensusRun, SlowestPeer
    from erasurehead.consensus._rows import PeerRow
    from erasurehead.training import Notice

HELP = """
Train without a coordinator: peers average with their neighbours, and wait
only for some of them.

[bold]erasurehead consensus[/bold]
  Ten peers learn MNIST (or a synthetic stand-in if its files are not
  available) on a virtual clock; one of them is five times slower, and the
  dynamic backup workers of cb-DyBW leave it out where that saves time.
  Pictures show who was left out when, and what that saved compared with
  waiting for everybody.

[bold]erasurehead consensus --graph 'torus()' --peers 16 \\
    --policy 'local(window=8)' --split 'dirichlet(alpha=0.3)' \\
    --algorithm 'gradient_tracking()'[/bold]
  Other neighbours, another policy, data skewed by label.

[bold]erasurehead consensus run.toml --steps 50[/bold]
  A run file. Each run leaves one in its folder: [italic]config.toml[/italic].

[bold]erasurehead consensus --engine processes \\
    --delays 'shifted_exponential(shift=0.05, mean=0.05)'[/bold]
  Real peers: processes of this machine that wait for their delays. With
  --engine mpi, peers are ranks:
  mpiexec -n 11 erasurehead consensus --engine mpi ...

[bold]erasurehead consensus --resume runs/x[/bold]
  Continue a run that was cut off, from its newest checkpoint, to the bit.
  Ctrl-C, SIGTERM, SIGHUP and SIGUSR1 end a run at the next evaluation, with
  a checkpoint; a second one ends it at once.
"""

COMMON = dict.fromkeys(
    (
        *("--peers", "--graph", "--policy", "--algorithm", "--model", "--data", "--split", "--delays", "--engine"),
        *("--steps", "--rate", "--batch", "--out", "--resume", "--json"),
    ),
    "",
)

_OUTPUT = "Output"
_SLOW = 1.1  # times as long as the others, from which a peer is named: one is always the slowest


@options_of(ConsensusConfig)
class ConsensusOptions(FileOptions):
    """The keys of this command's run files."""


def run(
    *,
    run_file: str | None = argument("RUN_FILE", "A run file, in TOML; options take precedence.", default=None),
    resume: str | None = option(
        "--resume",
        "Resume the run in this folder, to the bit; with more --steps if it is finished.",
        panel=_OUTPUT,
        metavar="FOLDER",
    ),
    against: bool = option(
        "--against-full/--no-against-full",
        "Also run with full waiting on the same delays, to show what was saved.",
        panel=_OUTPUT,
        shown=True,
        default=True,
    ),
    pictures: bool = pictures_option("pictures", "pictures"),
    options: ConsensusOptions,
    output: OutputOptions,
) -> None:
    """Train without a coordinator, and record the run in a folder."""
    from erasurehead.consensus._experiment import ConsensusExperiment
    from erasurehead.consensus._result import SlowestPeer
    from erasurehead.consensus._rows import MeanRow, PeerRow
    from erasurehead.runs import RunFolder

    screen, tables = Screen(output), options.tables()
    below = {} if run_file is None else read_tables(run_file)
    stand_by(tables, below, {"run": {"engine": "virtual"}})
    if resume is not None:
        if run_file is not None:
            raise invalid("RUN_FILE", "must be left out with --resume, as the run has its own", run_file)
        experiment = ConsensusExperiment.resume(resume, tables)
    else:
        experiment = ConsensusExperiment.from_tables(merged(below, tables), starting=screen.starting)
    _introduce(screen, experiment)
    screen.opening(experiment.config.run.track)
    try:
        done = experiment.run([_lines(screen)])
    except KeyboardInterrupt:  # before training began, or after a second one
        screen.say(f"The run's folder is {experiment.out}.{_way_on(experiment)}")
        raise
    opened = RunFolder.open(experiment.out)
    rows, done.means = opened.rows(PEERS, PeerRow), opened.rows(MEANS, MeanRow)  # of before it was resumed, too
    full = _full(screen, experiment, done) if against else None
    hurried = done.status == "interrupted" and done.stopped != stopped_by(KeyboardInterrupt())  # drawn when resumed
    drawn = _draw(screen, experiment, done, rows, full) if pictures and not hurried else []
    _conclude(screen, experiment, done, full, drawn, SlowestPeer.of_rows(rows))
    if done.stopped:
        raise typer.Exit(INTERRUPTED if done.status == "interrupted" else FAILED)


def _way_on(experiment: ConsensusExperiment) -> str:
    """Return a sentence on how to resume a run that ended early; empty if it has no checkpoint."""

    if not has_checkpoints(experiment.out):
        return ""
    folder = shlex.quote(str(experiment.out))
    return f" To resume it from its last checkpoint: erasurehead consensus --resume {folder}"


def _introduce(screen: Screen, experiment: ConsensusExperiment) -> None:

    plan, config = experiment.plan, experiment.config
    introduce_data(screen, experiment, screen.say)
    graph, clock = plan.graph, "virtual clock" if config.run.engine == "virtual" else config.run.engine
    screen.say(
        f"{graph.n_peers} peers on {graph}: {counted('link', len(graph.edges))}, {spanned('neighbour', graph.degrees)} "
        f"each, spectral gap {graph.spectral_gap:.3g}"
        + (f", disconnected without {', '.join(map(str, sorted(graph.cut_vertices)))}" if graph.cut_vertices else "")
    )
    screen.say(
        f"{config.problem.loss}, {plan.algorithm} at rate {config.consensus.rate}, policy {plan.policy}, mixing "
        f"{plan.mixing}, data {config.consensus.split}; {clock}, delays {plan.delays}, {plan.late}"
    )


def _lines(screen: Screen) -> Any:
    from erasurehead.consensus import ConsensusCallback
    from erasurehead.consensus._rows import MeanRow, ViewChangeRow

    class Lines(ConsensusCallback):
        """Prints the progress every few seconds."""

        latest = time.monotonic()

        def on_mean(self, row: MeanRow) -> None:
            if time.monotonic() - self.latest > 2.0:
                self.latest = time.monotonic()
                screen.say(f"  step {row.step:.0f}: loss {row.objective:.4g}, distance {row.distance:.3g}")

        def on_view_change(self, row: ViewChangeRow) -> None:
            who = f"gone: {', '.join(map(str, row.gone))}" if row.gone else "all peers are present"
            screen.say(f"  after {row.time:.3g} s {who}{'; the network is cut' if row.sides else ''}")

        def on_notice(self, notice: Notice) -> None:
            screen.warn(notice.text)

    return Lines()


def _full(screen: Screen, experiment: ConsensusExperiment, done: ConsensusRun) -> ConsensusRun | None:
    """Run full waiting with the same delays and steps; return None if it was the policy, or the run ended early."""

    from erasurehead.consensus._experiment import peers_as_workers
    from erasurehead.consensus._policies import Full
    from erasurehead.consensus._training import run_plan
    from erasurehead.consensus._training_options import TrainingOptions

    if isinstance(experiment.plan.policy, Full) or done.stopped:
        return None
    screen.say("full waiting on the same delays, to compare ...")
    run = experiment.config.run
    conduct = TrainingOptions(steps=run.steps, evaluate_every=run.evaluate_every, records=False)
    with peers_as_workers():
        return run_plan(replace(experiment.plan, policy=Full()), conduct, run.engine)


def _draw(
    screen: Screen, experiment: ConsensusExperiment, done: ConsensusRun, rows: list[PeerRow], full: ConsensusRun | None
) -> list[str]:
    from erasurehead.consensus._pictures import draw_links, draw_progress

    title = f"{experiment.data.name}, {done.policy}, {done.graph}"
    runs, seconds = {done.policy: done.means}, {done.policy: done.seconds_per_step}
    if full is not None:
        runs[full.policy], seconds[full.policy] = full.means, full.seconds_per_step
    try:
        with Folder.open(experiment.out, experiment.config.run.access) as out, out.inside(FIGURES, make=True) as folder:
            pictures = draw_links(done.graph, rows, title, folder) if rows else []
            pictures += draw_progress(runs, seconds, f"{experiment.data.name}, {done.graph}", folder)
    except MissingExtra as missing:
        screen.warn(f"No pictures: {missing}")
        return []
    except OSError as error:  # the run is complete, and its summary still to come
        screen.warn(f"No pictures: {error.filename or experiment.out} cannot be written: {why(error)}.")
        return []
    return [str(path) for path in pictures]


def _conclude(
    screen: Screen,
    experiment: ConsensusExperiment,
    done: ConsensusRun,
    full: ConsensusRun | None,
    drawn: list[str],
    slowest: SlowestPeer | None,
) -> None:

    summary, steps = done.summary(), max(1, done.steps)
    last = done.means[-1]
    measured = "".join(f", {name} {value:.4g}" for name, value in last.metrics.items())
    lines = [
        f"{done.policy}: {counted('step', round(done.steps / done.graph.n_peers))} a peer in "
        f"{seconds_text(done.seconds)} of the "
        f"clock, {seconds_text(done.seconds_per_step)} a step",
        f"mean model: objective {last.objective:.5g}{measured}; distance from consensus {last.distance:.3g}",
        f"{done.messages / steps:.1f} messages a step, {done.vectors / steps:.1f} with models",
    ]
    if slowest is not None:
        if slowest.times >= _SLOW:
            lines.append(
                f"peer {slowest.peer}, whose gradients take {slowest.times:.2g} times as long as the others', took "
                f"part in {slowest.rounds} of {slowest.of} rounds ({slowest.rounds / slowest.of:.0%})"
            )
        summary["slowest"] = vars(slowest)
    if full is not None:
        goal = max(last.objective, full.means[-1].objective)
        own, other = done.time_to(goal), full.time_to(goal)
        lines.append(
            f"waiting for everybody: {seconds_text(full.seconds_per_step)} a step"
            + (
                f"; objective {goal:.4g} after {seconds_text(other)} instead of {seconds_text(own)}: {other / own:.2f} "
                "times as long"
                if own and other
                else ""
            )
        )
        summary["against_full"] = {"objective": goal, "seconds": own, "seconds_full": other}
    if done.stopped:
        lines.append(f"ended early: {done.stopped}")
        if way_on := _way_on(experiment):
            screen.say(way_on.strip())
    of = experiment.config.run.model_of
    model = "the mean model" if of is None else f"the model of peer {of}"
    lines.append(f"records, {model}{' and pictures' if drawn else ''} in {experiment.out}")
    screen.result({"folder": str(experiment.out), **summary, "pictures": drawn}, "\n".join(lines))
