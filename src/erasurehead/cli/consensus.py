"""`erasurehead consensus`: training without a coordinator."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from erasurehead.cli.options import OutputOptions, option
from erasurehead.cli.ranks import stand_by
from erasurehead.cli.screen import Screen

if TYPE_CHECKING:
    from erasurehead.consensus.experiment import ConsensusExperiment
    from erasurehead.consensus.result import ConsensusRun
    from erasurehead.training.notices import Notice

HELP = """
Train without a coordinator: peers average with their neighbours, and wait
only for some of them.

[bold]erasurehead consensus[/bold]
  Ten peers learn MNIST (or, where its files are not here, a synthetic
  stand-in) on a virtual clock; one of them is five times slower, and the
  dynamic backup workers of cb-DyBW leave it out when that pays. Pictures show
  who was left out when, and what it saved against waiting for everybody.

[bold]erasurehead consensus --graph 'torus()' --peers 16 \\
    --policy 'local(window=8)' --split 'dirichlet(alpha=0.3)' \\
    --algorithm 'gradient_tracking()'[/bold]
  Other neighbours, another policy, data skewed by label.

[bold]erasurehead consensus run.toml --steps 50[/bold]
  A run file. Each run leaves one in its folder: [italic]config.toml[/italic].

[bold]erasurehead consensus --engine processes \\
    --delays 'shifted_exponential(shift=0.05, mean=0.05)'[/bold]
  Real peers: processes of this machine that sit their delays out. With
  --engine mpi, ranks: mpiexec -n 11 erasurehead consensus --engine mpi ...

[bold]erasurehead consensus --resume runs/x[/bold]
  A run that was cut off, from its newest checkpoint, to the bit.
"""

_NETWORK, _DATA, _OUTPUT = "Peers", "Data", "Output"

_KEYS = {
    "peers": "consensus.peers", "graph": "consensus.graph", "policy": "consensus.policy", "mixing": "consensus.mixing",
    "algorithm": "consensus.algorithm", "split": "consensus.split", "batch": "consensus.batch",
    "rate": "consensus.rate", "faults": "consensus.faults", "delays": "delays.model", "late": "delays.late",
    "latency": "delays.latency", "data": "data.source", "path": "data.path", "synthetic": "data.synthetic",
    "rows": "data.rows", "label": "data.target", "engine": "run.engine", "steps": "run.steps",
    "evaluate_every": "run.evaluate_every", "seed": "run.seed", "out": "run.out", "overwrite": "run.overwrite",
}  # fmt: skip


@dataclass(frozen=True)
class ConsensusOptions:
    """What a run file of this command can say, as options; None is what was not given."""

    peers: Annotated[
        int | None, option("--peers", "-n", panel=_NETWORK, text="How many; 10 unless a run file says otherwise.")
    ] = None
    graph: Annotated[
        str | None,
        option(
            "--graph",
            "-g",
            panel=_NETWORK,
            metavar="GRAPH",
            text="Who is whose neighbour: 'ring()', 'path()', 'torus()', 'star()', 'complete()', 'exponential()', "
            "'erdos_renyi(p=0.4, seed=0)' (the default), 'random_regular(degree=4)', 'small_world()', or "
            "\"edges(['a-b', 'b-c'])\".",
        ),
    ] = None
    policy: Annotated[
        str | None,
        option(
            "--policy",
            panel=_NETWORK,
            metavar="POLICY",
            text="Whom a peer waits for: 'full()', 'static(wait_for=2)', 'dynamic()' (cb-DyBW, the default), "
            "'local()', 'bounded_staleness(steps=4)', or 'pairwise()' (AD-PSGD).",
        ),
    ] = None
    mixing: Annotated[
        str | None,
        option("--mixing", panel=_NETWORK, metavar="MIXING", text="metropolis (the default), max_degree or fixed."),
    ] = None
    algorithm: Annotated[
        str | None,
        option(
            "--algorithm",
            panel=_NETWORK,
            metavar="ALGORITHM",
            text="'sgd()' (the default), 'momentum()', 'quasi_global()' or 'gradient_tracking()'.",
        ),
    ] = None
    split: Annotated[
        str | None,
        option("--split", panel=_NETWORK, metavar="SPLIT", text="'even()' (the default) or 'dirichlet(alpha=0.3)'."),
    ] = None
    batch: Annotated[
        int | None, option("--batch", panel=_NETWORK, text="Samples of a gradient (32); 0 for all that a peer has.")
    ] = None
    rate: Annotated[
        str | None, option("--rate", panel=_NETWORK, metavar="RATE", text="Step size, or a schedule; 0.05 by default.")
    ] = None
    delays: Annotated[
        str | None,
        option(
            "--delays",
            panel=_NETWORK,
            metavar="MODEL",
            text="What a gradient takes; by default 1 + Exp(1) seconds, and five times as much for peer 0.",
        ),
    ] = None
    late: Annotated[
        str | None,
        option(
            "--late",
            panel=_NETWORK,
            text="Whether work that nobody waits for is carried to its end, or dropped: "
            "carry (the default) or preempt.",
        ),
    ] = None
    latency: Annotated[float | None, option("--latency", panel=_NETWORK, text="Seconds that a message takes.")] = None
    faults: Annotated[
        str | None,
        option("--faults", panel=_NETWORK, metavar="FILE", text="A fault schedule of kills, stops and disconnections."),
    ] = None
    engine: Annotated[
        str | None,
        option(
            "--engine",
            "-e",
            panel=_NETWORK,
            text="Where peers run: virtual (the default: a clock that jumps), processes, or mpi, with one rank more "
            "than there are peers.",
        ),
    ] = None
    data: Annotated[
        str | None, option("--data", "-d", panel=_DATA, metavar="DATA", text="mnist (the default), cifar10, or a file.")
    ] = None
    path: Annotated[
        str | None, option("--path", panel=_DATA, metavar="FOLDER", text="Where the files of mnist or cifar10 are.")
    ] = None
    synthetic: Annotated[
        str | None,
        option("--synthetic", panel=_DATA, text="Whether a stand-in is made: never, fallback (the default) or always."),
    ] = None
    rows: Annotated[int | None, option("--rows", panel=_DATA, text="Training rows of mnist or cifar10 (10,000).")] = (
        None
    )
    label: Annotated[
        str | None, option("--label", panel=_DATA, metavar="COLUMN", text="Of a file: the column to predict.")
    ] = None
    steps: Annotated[int | None, option("--steps", panel=_OUTPUT, text="Of each peer, on the mean (200).")] = None
    evaluate_every: Annotated[
        float | None, option("--evaluate-every", panel=_OUTPUT, text="Steps between two looks at the mean model (2).")
    ] = None
    seed: Annotated[int | None, option("--seed", panel=_OUTPUT, text="Of mini-batches.")] = None
    out: Annotated[
        str | None, option("--out", "-o", panel=_OUTPUT, metavar="FOLDER", text="The run folder; by default a new one.")
    ] = None
    overwrite: Annotated[
        bool | None, typer.Option("--overwrite", help="Remove an earlier run there.", rich_help_panel=_OUTPUT)
    ] = None

    def tables(self) -> dict[str, Any]:
        """Return what was given, as a run file would have it."""
        made: dict[str, Any] = {}
        for name, key in _KEYS.items():
            value = getattr(self, name)
            if value is not None:
                section, _, entry = key.partition(".")
                made.setdefault(section, {})[entry] = _number(value) if name == "rate" else value
        return made

    def spelled(self) -> dict[str, str]:
        """Return key -> option, for those that were given."""
        return {key: f"--{name.replace('_', '-')}" for name, key in _KEYS.items() if getattr(self, name) is not None}


def _number(text: str) -> str | float:
    try:
        return float(text)
    except ValueError:
        return text


def run(
    *,
    run_file: Annotated[
        str | None, typer.Argument(metavar="RUN_FILE", help="TOML; options take precedence.", show_default=False)
    ] = None,
    resume: Annotated[
        str | None,
        option(
            "--resume",
            panel=_OUTPUT,
            metavar="FOLDER",
            text="Go on with the run in this folder, to the bit; with more --steps if it is finished.",
        ),
    ] = None,
    against: Annotated[
        bool,
        typer.Option(
            "--against-full/--no-against-full",
            help="Carry out full waiting, too, on the same delays, to show what was saved.",
            rich_help_panel=_OUTPUT,
        ),
    ] = True,
    pictures: Annotated[
        bool,
        typer.Option("--pictures/--no-pictures", help="Draw pictures (needs matplotlib).", rich_help_panel=_OUTPUT),
    ] = True,
    options: ConsensusOptions,
    output: OutputOptions,
) -> None:
    """Train without a coordinator, and record the run in a folder."""
    from erasurehead.consensus.experiment import ConsensusExperiment
    from erasurehead.errors import invalid
    from erasurehead.runs.config.toml import read_tables

    screen, tables, spelled = Screen(output), options.tables(), options.spelled()
    stand_by(tables, {} if run_file is None else read_tables(run_file), {"run": {"engine": "virtual"}})
    if resume is not None:
        if run_file is not None:
            raise invalid("RUN_FILE", "must be left out with --resume, as the run has its own", run_file)
        experiment = ConsensusExperiment.resume(resume, tables, spelled)
    elif run_file is not None:
        experiment = ConsensusExperiment.from_file(run_file, tables, spelled)
    else:
        experiment = ConsensusExperiment.from_tables(tables, spelled)
    _introduce(screen, experiment)
    done = experiment.run([_lines(screen)])
    full = _full(screen, experiment, done) if against and resume is None else None
    drawn = _draw(screen, experiment, done, full) if pictures else []
    _conclude(screen, experiment, done, full, drawn)
    if done.stopped:
        raise typer.Exit(130 if done.status == "interrupted" else 1)


def _introduce(screen: Screen, experiment: ConsensusExperiment) -> None:
    data, made, config = experiment.data, experiment.plan, experiment.config
    if data.name.endswith("-synthetic") and config.data.synthetic == "fallback":
        screen.warn(
            f"The files of {config.data.source} are not available here: synthetic images of its shape stand in."
        )
    screen.say(f"{data.name}: {data.n_train:,} x {data.n_columns:,} for training, {data.n_test:,} rows for testing")
    for note in data.notes:
        screen.say(f"  {note}")
    graph, clock = made.graph, "virtual clock" if config.run.engine == "virtual" else config.run.engine
    screen.say(
        f"{graph.n_peers} peers on {graph}: {len(graph.edges)} links, {min(graph.degrees)} to {max(graph.degrees)} "
        f"neighbours, spectral gap {graph.spectral_gap:.3g}"
        + (f", falls apart without {', '.join(map(str, sorted(graph.cut_vertices)))}" if graph.cut_vertices else "")
    )
    screen.say(
        f"{config.problem.loss}, {made.algorithm} at rate {config.consensus.rate}, policy {made.policy}, mixing "
        f"{made.mixing}, data {config.consensus.split}; {clock}, delays {made.delays}, {made.late}"
    )


def _lines(screen: Screen) -> Any:
    from erasurehead.consensus.rows import MeanRow, TroubleRow
    from erasurehead.consensus.watcher import Watcher

    class Lines(Watcher):
        """Says now and then how far it is."""

        said = time.monotonic()

        def on_mean(self, row: MeanRow) -> None:
            if time.monotonic() - self.said > 2.0:
                self.said = time.monotonic()
                screen.say(f"  step {row.step:.0f}: loss {row.objective:.4g}, distance {row.distance:.3g}")

        def on_trouble(self, row: TroubleRow) -> None:
            who = f"gone: {', '.join(map(str, row.gone))}" if row.gone else "everybody is there"
            screen.say(f"  after {row.time:.3g} s {who}{'; the network is cut' if row.sides else ''}")

        def on_notice(self, notice: Notice) -> None:
            screen.warn(notice.text)

    return Lines()


def _full(screen: Screen, experiment: ConsensusExperiment, done: ConsensusRun) -> ConsensusRun | None:
    """Return what full waiting does in as many steps on the same delays; None if that is what was done."""
    from dataclasses import replace

    from erasurehead.consensus.conduct import Conduct
    from erasurehead.consensus.policies import Full
    from erasurehead.consensus.training import carry_out

    if isinstance(experiment.plan.policy, Full) or done.stopped:
        return None
    screen.say("full waiting on the same delays, to compare ...")
    run = experiment.config.run
    conduct = Conduct(steps=run.steps, evaluate_every=run.evaluate_every, records=False)
    return carry_out(replace(experiment.plan, policy=Full()), conduct, run.engine)


def _draw(screen: Screen, experiment: ConsensusExperiment, done: ConsensusRun, full: ConsensusRun | None) -> list[str]:
    from erasurehead.consensus.pictures import draw_links, draw_progress
    from erasurehead.consensus.rows import MeanRow, PeerRow
    from erasurehead.errors import MissingExtra
    from erasurehead.runs.folder import RunFolder
    from erasurehead.runs.names import FIGURES, MEANS, PEERS

    if experiment.out is None:
        return []
    opened = RunFolder.open(experiment.out)
    folder = experiment.out / FIGURES
    title = f"{experiment.data.name}, {done.policy}, {done.graph}"
    rows = [PeerRow(**row) for row in opened.lines(PEERS)]
    runs = {done.policy: [MeanRow(**row) for row in opened.lines(MEANS)]}
    seconds = {done.policy: done.seconds_per_step}
    if full is not None:
        runs[full.policy], seconds[full.policy] = full.means, full.seconds_per_step
    try:
        folder.mkdir(exist_ok=True)
        made = draw_links(done.graph, rows, title, folder) if rows else []
        made += draw_progress(runs, seconds, f"{experiment.data.name}, {done.graph}", folder)
    except MissingExtra as missing:
        screen.warn(f"No pictures: {missing}")
        return []
    return [str(path) for path in made]


def _conclude(
    screen: Screen, experiment: ConsensusExperiment, done: ConsensusRun, full: ConsensusRun | None, drawn: list[str]
) -> None:
    from erasurehead.reports.units import seconds_text

    summary = done.summary()
    last = done.means[-1]
    measured = "".join(f", {name} {value:.4g}" for name, value in last.metrics.items())
    lines = [
        f"{done.policy}: {done.steps / done.graph.n_peers:.0f} steps a peer in {seconds_text(done.seconds)} of the "
        f"clock, {seconds_text(done.seconds_per_step)} a step",
        f"mean model: objective {last.objective:.5g}{measured}; distance from consensus {last.distance:.3g}",
        f"{summary['messages_per_step']:.1f} messages a step, {done.vectors / max(1, done.steps):.1f} with models",
    ]
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
    lines.append(f"records, the mean model{' and pictures' if drawn else ''} in {experiment.out}")
    screen.result({"folder": str(experiment.out), **summary, "pictures": drawn}, "\n".join(lines))
