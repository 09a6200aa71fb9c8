"""`erasurehead train`: train one model."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from erasurehead.cli._findings import ended_text, loss_text, measured_text, verdict, warn, workers_text
from erasurehead.cli._options import RunOptions, VerboseOptions, argument, option
from erasurehead.cli._output import Screen
from erasurehead.cli._ranks import stand_by
from erasurehead.cli._streams import INTERRUPTED
from erasurehead.errors import Diverged, ErasureHeadError, InvalidArgument, RecordsError, counted, invalid
from erasurehead.reports._units import seconds_text
from erasurehead.runs._names import CHECKPOINTS, CONFIG, has_steps

if TYPE_CHECKING:
    from erasurehead.cli._stopwatch import Stopwatch
    from erasurehead.consensus._experiment import ConsensusExperiment
    from erasurehead.runs import Experiment
    from erasurehead.training import Run

HELP = """
Train one model, and record the run in a folder.

[bold]erasurehead train --data houses.csv --label price --categorical[/bold]
  Train on a file of your own, to the optimum; there is nothing to set.

[bold]erasurehead train --data houses.csv --label price --categorical \\
    --workers 12 --scheme 'exact(load=3)'[/bold]
  The same with exact gradients whichever two of twelve workers are late.

[bold]erasurehead train --preset paper[/bold]
  The paper's Amazon data, scheme, optimizer and step size, on 30 processes.

[bold]erasurehead train run.toml --steps 50[/bold]
  A run file. Each run leaves one in its folder: [italic]config.toml[/italic].

[bold]erasurehead train runs/x/config.toml --engine virtual \\
    --delays "recorded('runs/x/arrivals.jsonl', rounds=True)"[/bold]
  The same run again, on the virtual clock, with the same arrivals and model.

[bold]erasurehead train --resume runs/x[/bold]
  Continue a run that was cut off, from its newest checkpoint. Ctrl-C,
  SIGTERM, SIGHUP and SIGUSR1 write one before they end a run. A finished run
  continues if --steps is raised: [italic]--resume runs/x --steps 202[/italic].

[bold]erasurehead train --data new.csv --initial runs/x[/bold]
  A new run that begins with the model of another, column by column.
"""

COMMON = {
    "--data": "Your own CSV, Parquet, LIBSVM, .npz or .npy file; a folder of shards (erasurehead shard); or amazon, "
    "kc_housing or covertype, the data sets of the paper.",
    "--label": "The column to predict; by default the last one.",
    "--categorical": "One-hot encode every column of text.",
    "--drop": "Columns to leave out.",
    "--loss": "",
    "--l2": "Factor of the penalty on squares of coefficients, or tuned (by cross-validation); by default 1 / number "
    "of training rows.",
    "--workers": "Number of workers; by default one for each core, or this process alone where that is faster.",
    "--engine": "Where workers run: processes, in_process, virtual (a clock on which waiting is free), mpi or ray.",
    "--scheme": "adaptive (the default: to the optimum, with nothing to set), uncoded, 'exact(load=3)', "
    "'erasurehead(load=3, wait_for=11)', ...",
    "--steps": "The most steps to take; by default 5000. Training ends when it has converged. Early steps wait for a "
    "few workers only, and are short: to give training a time, use --max-seconds.",
    "--out": "Folder for the model and the records, new or empty; by default a new one in runs.",
    "--resume": "Continue the run in this folder.",
    "--json": "",
    "--verbose": "",
}

_WHERE = {
    "processes": ("process", "processes", ""),
    "in_process": ("worker", "workers", " in this process"),
    "virtual": ("worker", "workers", " on a virtual clock"),
    "mpi": ("rank", "ranks", " of an MPI job"),
    "ray": ("actor", "actors", " of a Ray cluster"),
}
"""What workers are of each engine: one of them, several, and where."""


def run(
    *,
    run_file: str | None = argument("RUN_FILE", "A run file, in TOML; options take precedence.", default=None),
    scheme: str | None = option(
        "--scheme, -s",
        "adaptive (the default: to the optimum, with nothing to set), uncoded, "
        "'ignore_stragglers(wait_for=20)', asynchronous, piag, 'exact(load=3)', 'erasurehead(load=3, wait_for=11)' "
        "(the default with --preset paper; for the paper's data also with --rate or another --optimizer), or "
        "\"custom(code='cyclic_repetition(stragglers=2)', wait='first(20) | decodable()')\".",
        panel="Scheme",
        metavar="SCHEME",
    ),
    resume: str | None = option(
        "--resume",
        "Resume the run in this folder from its newest checkpoint, with more --steps if it is finished. "
        "Its settings stay; where it runs may change.",
        panel="Output",
        metavar="FOLDER",
    ),
    options: RunOptions,
    output: VerboseOptions,
) -> None:
    """Train one model, and record the run in a folder."""
    began = time.perf_counter()
    from erasurehead.cli._stopwatch import Stopwatch

    screen = Screen(output)
    if resume is None:
        experiment = _begun(screen, run_file, scheme, options)
    else:
        experiment = _resumed(screen, resume, run_file, scheme, options)
    introduce(screen, experiment, screen.detail)
    screen.detail(str(experiment.scheme))
    if (held := experiment.held) is not None:
        screen.say(str(held))
    stopwatch = Stopwatch(began, 0.0 if experiment.search is None else experiment.search.seconds)
    done = _trained(screen, experiment, stopwatch, resume is not None)
    _conclude(screen, experiment, done, stopwatch)
    if done.summary["model"] is None and done.steps:
        raise RecordsError(
            "The trained model is lost: nothing could be written, neither in the run folder nor elsewhere."
        )
    if done.status == "interrupted":
        raise typer.Exit(INTERRUPTED)


def _trained(screen: Screen, experiment: Experiment, stopwatch: Stopwatch, resumed: bool) -> Run:
    """Train; if that fails, say where the records so far are, and how to go on."""
    tried = _checkpoints(experiment) if resumed else set[str]()
    screen.opening(experiment.config.run.track)
    try:
        with screen.watching(transient=True) as callbacks:
            return experiment.run([*callbacks, stopwatch])
    except KeyboardInterrupt:  # before training began, or after a second one
        screen.say(f"The run's folder is {experiment.out}.{_way_on(experiment)}")
        raise
    except ErasureHeadError as error:
        taken = isinstance(error, InvalidArgument)  # another run uses the folder, and its records are not ours
        if not taken and experiment.out is not None and has_steps(experiment.out):
            # It makes no sense to resume again from the checkpoints that just failed, or if training diverged.
            hopeless = isinstance(error, Diverged) or (tried and _checkpoints(experiment) == tried)
            way_on = "" if hopeless else _way_on(experiment)
            screen.say(f"The records so far are in {experiment.out}.{way_on}")
        raise


def _begun(screen: Screen, run_file: str | None, scheme: str | None, options: RunOptions) -> Experiment:
    config = options.config(run_file, scheme=scheme)
    from erasurehead.runs import Experiment

    return Experiment.from_config(config, screen.starting)


def _resumed(screen: Screen, folder: str, run_file: str | None, scheme: str | None, options: RunOptions) -> Experiment:
    from erasurehead.runs import Experiment, RunFolder

    if run_file is not None:
        raise invalid("RUN_FILE", "must be left out with --resume, because the run has its own", run_file)
    changes = options.tables() | ({} if scheme is None else {"scheme": scheme})
    stand_by(changes, RunFolder.open(folder).tables)
    screen.say(f"resuming the run in {folder} ...")
    return Experiment.resume(folder, changes)


def _way_on(experiment: Experiment) -> str:
    """Return a sentence on how to resume a run that ended early; empty if it cannot be resumed."""
    from erasurehead.runs._resuming import can_be_resumed

    out = experiment.out
    if out is None or not (out / CONFIG).is_file():
        return ""
    if _checkpoints(experiment):
        if not can_be_resumed(out):
            return ""
        return f" To resume it from its last checkpoint: erasurehead train --resume {shlex.quote(str(out))}"
    begun = has_steps(out)
    return "" if begun else f" It had not begun yet; to start it: erasurehead train --resume {shlex.quote(str(out))}"


def _checkpoints(experiment: Experiment) -> set[str]:
    """Return the names of the checkpoints of a run."""

    return (
        set() if experiment.out is None else {path.name for path in (experiment.out / CHECKPOINTS).glob("step-*.json")}
    )


def introduce(screen: Screen, experiment: Experiment, tell: Callable[[str], None]) -> None:
    """Print what is to be known of the data before training, and the machinery of an experiment.

    Arguments:
        screen: prints the text.
        experiment: the experiment.
        tell: prints how it will be done: the problem, the optimizer, the number of workers and the delays.
    """
    config = experiment.config
    introduce_data(screen, experiment, tell)
    if experiment.initial is not None:
        screen.say(f"begins with the model of {config.run.initial}: {experiment.initial}")
    l1 = f", l1 {config.problem.l1:.4g}" if config.problem.l1 else ""
    balanced = ", classes balanced" if config.problem.class_weight else ""
    tell(
        f"{config.problem.loss} with l2 {config.problem.l2:.4g}{l1}{_intercept(experiment)}{balanced}, "
        f"{_optimizer(experiment)}; {_where(experiment)}"
    )
    if crowded := _crowded(experiment):
        screen.say(crowded)


def introduce_data(screen: Screen, experiment: Experiment | ConsensusExperiment, tell: Callable[[str], None]) -> None:
    """Print what is to be known of the data before training, and how the factor of the penalty was found.

    Arguments:
        screen, tell: as for `introduce`.
        experiment: the experiment, with or without a coordinator.
    """
    from erasurehead.runs._summaries import describe

    data, config = experiment.data, experiment.config
    stands_in = config.data.synthetic == "fallback" and data.name != config.data.source
    if stands_in:
        screen.warn(
            f"The data set {config.data.source} is not available here: synthetic data of the same shape are used."
        )
    source = "" if stands_in else f" ({data.source})"  # the warning has already said so
    tell(
        f"{data.name}: {data.n_train:,} x {data.n_columns:,} for training, "
        f"{counted('row', data.n_test)} for testing{source}"
    )
    said_at_the_end = data.encoding.target.note(data.task)  # which classes there are
    for note in data.notes:
        (tell if note == said_at_the_end else screen.say)(f"  {note}")
    for warning in describe(data)["warnings"]:
        screen.warn(warning)
    if experiment.search is not None:
        screen.say(str(experiment.search))


def _where(experiment: Experiment) -> str:
    """Return where the workers are, how many, and how late, as text."""

    config, why = experiment.config, experiment.unshared
    if why is not None:
        if why.workers == 1:
            return "in this process: there is nobody to share the work with"
        return (
            f"in this process: a pass over the data takes {seconds_text(why.pass_seconds)}, starting "
            f"{counted('worker', why.workers)} about {seconds_text(why.start_seconds)}"
        )
    one, several, where = _WHERE[config.run.engine]
    workers = f"{config.run.workers} {one if config.run.workers == 1 else several}{where}"
    return f"{workers}, delays {config.delays.model}, {config.delays.late}"


def _crowded(experiment: Experiment) -> str:
    """Return a sentence on workers that wait for cores rather than for stragglers; empty if they do not."""
    from erasurehead._internal.resources import usable_cores
    from erasurehead.schemes import parse_scheme

    run, cores = experiment.config.run, usable_cores()
    if run.engine != "processes" or run.workers <= cores or experiment.delays.expected != 0.0:
        return ""
    shared = f"{cores} cores" if cores > 1 else "one core"
    try:
        parse_scheme(experiment.config.scheme or "", cores)
        remedy = f"--workers {cores} trains faster"
    except InvalidArgument:
        remedy = f"a scheme that {counted('worker', cores)} can run trains faster"
    return (
        f"{run.workers} processes share {shared}, and no delays are injected: workers wait for cores, not for "
        f"stragglers; {remedy}"
    )


def _optimizer(experiment: Experiment) -> str:
    section = experiment.config.optimizer
    return f"{section.name}" if section.rate is None else f"{section.name} at rate {section.rate}"


def _intercept(experiment: Experiment) -> str:
    """Return whether the penalty applies to the intercept, as text; empty if there is no penalty or intercept."""
    if not (experiment.data.encoding.constant and (experiment.problem.l2 or experiment.config.problem.l1)):
        return ""
    return " on all but the intercept" if len(experiment.problem.unpenalized) else " on the intercept, too"


def _conclude(screen: Screen, experiment: Experiment, done: Run, stopwatch: Stopwatch) -> None:
    summary = done.summary
    for line in _machinery(done):
        screen.detail(line)
    lines = [_data_text(experiment)]
    if summary["resumed"]:
        lines[0] += f"; resumed after step {', '.join(map(str, summary['resumed']))}"
    if done.stopped:
        lines.append(f"{done.stopped} after {done.steps_taken} of {counted('step', summary['steps_planned'])}")
    ending = ended_text(experiment, done)
    if bool(summary["resumed"]) and summary["resumed"][-1] == len(done.steps):
        ending += ": nothing was left to do, and no worker was started"
    lines.append("" if ending == "converged" else ending)
    training, distributed = {}, None
    if done.status != "interrupted":
        training, distributed = experiment.problem.training_metrics(done.x), verdict(experiment, done)
        stopwatch.on_end(done)
    if tested := _listed(summary["metrics"]):
        lines.append(f"test rows: {tested}")
    if trained := _listed(training) or loss_text(done).removeprefix("training "):
        lines.append(f"training rows: {trained}")
    lines += [str(stopwatch), "" if distributed is None else str(distributed)]
    out = str(experiment.out)
    where = f"records in {out}, model in {summary['model'] or 'no folder: it is lost'}"
    where = f"model and records in {out}" if summary["model"] == out else where
    lines.append(f"converged; {where}" if ending == "converged" else where)
    warn(screen, experiment, done)
    if done.stopped and (way_on := _way_on(experiment)):
        screen.say(way_on.strip())
    paid = {"training_metrics": training, "distributing": None if distributed is None else asdict(distributed)}
    searched = {} if experiment.search is None else {"l2": asdict(experiment.search)}
    held = None if experiment.held is None else asdict(experiment.held)
    facts = {"folder": out, **summary, **paid, **searched, "held": held, "wall": stopwatch.as_dict()}
    screen.result(facts, "\n".join(filter(None, lines)))


def _data_text(experiment: Experiment) -> str:
    """Return what a model was trained on, and what it predicts."""

    data, target = experiment.data, experiment.data.encoding.target
    columns = counted("column", data.n_columns - bool(data.encoding.constant))
    means = "a number" if target.classes is None else f"one of {target.n_classes:,} classes"
    if target.classes is not None and target.n_classes == 2:
        means = " or ".join(target.classes.labels())
    loss = str(experiment.config.problem.loss)
    loss_note = "" if loss == data.task else f" ({loss.partition('(')[0]})"  # which goes without saying
    return (
        f"{data.name}: {counted('training row', data.n_train)}, {counted('test row', data.n_test)}, {columns}; "
        f"{target.name or 'the label'} is {means}{loss_note}"
    )


def _listed(metrics: Mapping[str, float | None]) -> str:
    return ", ".join(f"{name} {value:.4g}" for name, value in metrics.items() if value is not None)


def _machinery(done: Run) -> list[str]:
    """Return how a run was done: steps, waiting, gradients, and the objective that they led to."""

    line, summary = f"{done.scheme}: {counted('step', done.steps_taken)} in {seconds_text(done.seconds)}", done.summary
    if done.steps:
        line += (
            f", {seconds_text(done.seconds_per_step)} a step; waited for {summary['workers_waited_for']:.1f} of "
            f"{workers_text(done)}, {1 - summary['coverage']:.1%} of the gradient left out"
        )
    return [*filter(None, (line, measured_text(done), loss_text(done)))]
