"""The options that commands share, and the run file that they amount to."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any

import typer

from erasurehead.cli.ranks import stand_by

if TYPE_CHECKING:
    from erasurehead.runs.config import Config


def option(*names: str, text: str, panel: str, metavar: str | None = None) -> Any:
    """Return a typer option without a default of its own: what is not given is left to the run file."""
    return typer.Option(*names, help=text, rich_help_panel=panel, metavar=metavar, show_default=False)


KEYS: Mapping[str, str] = {
    "data": "data.source",
    "path": "data.path",
    "data_at": "data.worker_path",
    "synthetic": "data.synthetic",
    "rows": "data.rows",
    "label": "data.target",
    "drop": "data.drop",
    "delimiter": "data.delimiter",
    "one_hot": "data.one_hot",
    "categorical": "data.categorical",
    "test_fraction": "data.test_fraction",
    "loss": "problem.loss",
    "l2": "problem.l2",
    "optimizer": "optimizer.name",
    "rate": "optimizer.rate",
    "momentum": "optimizer.momentum",
    "delays": "delays.model",
    "late": "delays.late",
    "engine": "run.engine",
    "address": "run.address",
    "workers": "run.workers",
    "steps": "run.steps",
    "evaluate_every": "run.evaluate_every",
    "initial": "run.initial",
    "seed": "run.seed",
    "out": "run.out",
    "overwrite": "run.overwrite",
    "records": "run.records",
    "access": "run.access",
    "checkpoint_every": "checkpoints.every_steps",
    "checkpoint_seconds": "checkpoints.every_seconds",
    "keep_checkpoints": "checkpoints.keep_finished",
    "on_death": "faults.death",
    "replacements": "faults.replacements",
    "on_loss": "faults.lost",
    "grow": "faults.grow",
    "on_suspicion": "faults.suspected",
    "suspect_after": "faults.suspect_after",
    "verify": "faults.verify",
}
"""Option, as the field of `RunOptions` is called -> section and key."""


def value_of(option: str, given: Any) -> Any:
    """Return what a run file would have in place of what was given as an option."""
    return _READ[option](given) if option in _READ else given


def _number(text: str) -> str | float:
    try:
        return float(text)
    except ValueError:
        return text


def _names(text: str) -> list[str]:
    """Return names with commas between them; one that has a comma itself is quoted."""
    read = [name for line in csv.reader([text], skipinitialspace=True) for name in line]
    return [name.strip() for name in read if name.strip()]


def _names_or_all(text: str) -> str | list[str]:
    return "all" if text.strip() == "all" else _names(text)


_READ: Mapping[str, Callable[[str], Any]] = {"drop": _names, "one_hot": _names_or_all, "rate": _number}
"""How options that are texts become the values of a run file."""


_PANEL = "Data"


@dataclass(frozen=True)
class DataOptions:
    """What a run file can say of the data. None is what was not given."""

    data: Annotated[
        str | None,
        option(
            "--data",
            panel=_PANEL,
            metavar="NAME|FILE|FOLDER",
            text="amazon (the default), kc_housing, covertype; your own CSV, Parquet, LIBSVM, .npz or .npy file; or a "
            "folder of shards (erasurehead shard).",
        ),
    ] = None
    path: Annotated[
        str | None,
        option(
            "--path",
            panel=_PANEL,
            metavar="PLACE",
            text="The public file, or a folder that holds it (else ERASUREHEAD_DATA, a cache and the network).",
        ),
    ] = None
    data_at: Annotated[
        str | None,
        option(
            "--data-at",
            panel=_PANEL,
            metavar="FOLDER",
            text="Where the workers see a folder of shards, if elsewhere; {host} stands for the worker's host.",
        ),
    ] = None
    synthetic: Annotated[
        str | None,
        option(
            "--synthetic",
            panel=_PANEL,
            metavar="WHEN",
            text="never, fallback or always: whether synthetic data of the same shape stand in for the public file.",
        ),
    ] = None
    rows: Annotated[
        int | None,
        option(
            "--rows", panel=_PANEL, metavar="N", text="Of a synthetic stand-in; by default as many as the original."
        ),
    ] = None
    label: Annotated[
        str | None,
        option(
            "--label",
            panel=_PANEL,
            metavar="COLUMN",
            text="Column to predict (by default the last one).",
        ),
    ] = None
    drop: Annotated[
        str | None,
        option("--drop", panel=_PANEL, metavar="A,B,...", text="Columns that are left out."),
    ] = None
    delimiter: Annotated[
        str | None,
        option(
            "--delimiter",
            panel=_PANEL,
            metavar="CHARACTER",
            text="Of a CSV file, or its name: comma, semicolon, tab, bar, blanks; by default it is found out.",
        ),
    ] = None
    one_hot: Annotated[
        str | None,
        option(
            "--one-hot",
            panel=_PANEL,
            metavar="A,B,...",
            text="Columns whose distinct values become columns, or all.",
        ),
    ] = None
    categorical: Annotated[
        bool | None,
        option(
            "--categorical/--no-categorical",
            panel=_PANEL,
            text="One-hot encode every column of texts.",
        ),
    ] = None
    test_fraction: Annotated[
        float | None,
        option(
            "--test-fraction",
            panel=_PANEL,
            metavar="SHARE",
            text="Share of the rows set aside for testing (0.2).",
        ),
    ] = None


_PANEL_delays = "Delays"


@dataclass(frozen=True)
class DelayOptions:
    """What a run file can say of injected delays. None is what was not given."""

    delays: Annotated[
        str | None,
        option(
            "--delays",
            panel=_PANEL_delays,
            metavar="MODEL",
            text="Injected after computing: 'exponential(mean=0.5, seed=0)' (the default for the paper's data), "
            "'none()' (for yours), 'pareto(0.1, 2.0)', ..., sums of such, or \"recorded('runs/x/arrivals.jsonl')\".",
        ),
    ] = None
    late: Annotated[
        str | None,
        option(
            "--late",
            panel=_PANEL_delays,
            metavar="KIND",
            text="What a late worker does when a newer step is out: preempt (drop its work, as the papers assume) or "
            "carry (finish it).",
        ),
    ] = None


_PANEL_model = "Model and optimizer"


@dataclass(frozen=True)
class ModelOptions:
    """What a run file can say of the loss and the optimizer. None is what was not given."""

    loss: Annotated[
        str | None,
        option(
            "--loss",
            panel=_PANEL_model,
            metavar="NAME",
            text="logistic, least_squares or softmax; by default what the labels ask for.",
        ),
    ] = None
    l2: Annotated[
        float | None,
        option(
            "--l2",
            panel=_PANEL_model,
            metavar="FACTOR",
            text="Of the penalty, (1 / number of training rows): the mean loss plus FACTOR * ||x||^2 is minimised, "
            "without the intercept in x (the paper's data sets: with it). In scikit-learn that is "
            "C = 1 / (2 * rows * FACTOR), or Ridge's alpha = rows * FACTOR.",
        ),
    ] = None
    optimizer: Annotated[
        str | None,
        option(
            "--optimizer",
            panel=_PANEL_model,
            metavar="NAME",
            text="nesterov (the default), gradient_descent or heavy_ball.",
        ),
    ] = None
    rate: Annotated[
        str | None,
        option(
            "--rate",
            panel=_PANEL_model,
            metavar="RATE",
            text="Step size: 10, 'geometric(0.1, 0.99)' or 'inverse_time(1.0, half_life=10)'. By default the published "
            "one; for your own data one that is safe, and small: one over the largest curvature.",
        ),
    ] = None
    momentum: Annotated[
        float | None,
        option(
            "--momentum",
            panel=_PANEL_model,
            metavar="NUMBER",
            text="Of the heavy ball (0.9).",
        ),
    ] = None


_PANEL_survival = "Death, hanging and lies"


@dataclass(frozen=True)
class FaultPolicyOptions:
    """What a run file can say of death, hanging and lies. None is what was not given."""

    on_death: Annotated[
        str | None,
        option(
            "--on-death",
            panel=_PANEL_survival,
            metavar="WHAT",
            text="replace dead workers (the default), spread their tasks over the living, or leave them out.",
        ),
    ] = None
    replacements: Annotated[
        int | None,
        option("--replacements", panel=_PANEL_survival, metavar="N", text="How often one worker is replaced (3)."),
    ] = None
    on_loss: Annotated[
        str | None,
        option(
            "--on-loss",
            panel=_PANEL_survival,
            metavar="WHAT",
            text="stop when the wait rule cannot be met any more (the default), or go_on with what can still come.",
        ),
    ] = None
    grow: Annotated[
        bool | None,
        option("--grow", panel=_PANEL_survival, text="Take more workers when the cluster has room for them."),
    ] = None
    on_suspicion: Annotated[
        str | None,
        option(
            "--on-suspicion",
            panel=_PANEL_survival,
            metavar="WHAT",
            text="report workers that seem to hang (the default), or replace them.",
        ),
    ] = None
    suspect_after: Annotated[
        float | None,
        option(
            "--suspect-after",
            panel=_PANEL_survival,
            metavar="SECONDS",
            text="Silence after which a worker seems to hang; by default derived from the arrivals.",
        ),
    ] = None
    verify: Annotated[
        bool | None,
        option("--verify", panel=_PANEL_survival, text="Compare messages before they are used, and put liars aside."),
    ] = None


_PANEL_workers = "Workers and steps"


@dataclass(frozen=True)
class WorkerOptions:
    """What a run file can say of the engine, its workers and the steps that they take. None is what was not given."""

    engine: Annotated[
        str | None,
        option(
            "--engine",
            panel=_PANEL_workers,
            metavar="NAME",
            text="processes (of this machine; the default), virtual (a clock on which waiting takes no time), mpi "
            "(under mpiexec or srun) or ray.",
        ),
    ] = None
    address: Annotated[
        str | None,
        option(
            "--address",
            panel=_PANEL_workers,
            metavar="HOST:PORT",
            text="Of a Ray cluster, or auto; else one of our own.",
        ),
    ] = None
    workers: Annotated[
        int | None, option("--workers", "-w", panel=_PANEL_workers, metavar="N", text="How many (30).")
    ] = None
    steps: Annotated[int | None, option("--steps", "-n", panel=_PANEL_workers, metavar="N", text="How many (100).")] = (
        None
    )
    evaluate_every: Annotated[
        int | None,
        option(
            "--evaluate-every",
            panel=_PANEL_workers,
            metavar="STEPS",
            text="Measure the model on the test rows (1); 0 for never.",
        ),
    ] = None
    initial: Annotated[
        str | None,
        option(
            "--initial",
            panel=_PANEL_workers,
            metavar="MODEL",
            text="The first model: zeros (the default), randn, or the folder of a run, to begin with its final model: "
            "columns are matched by name.",
        ),
    ] = None
    seed: Annotated[
        int | None,
        option(
            "--seed",
            panel=_PANEL_workers,
            metavar="N",
            text="Of a random first model.",
        ),
    ] = None


_PANEL_output = "Output"


@dataclass(frozen=True)
class RecordOptions:
    """What a run file can say of records and checkpoints. None is what was not given."""

    out: Annotated[
        str | None,
        option(
            "--out",
            "-o",
            panel=_PANEL_output,
            metavar="FOLDER",
            text="For the records; by default a new folder in runs.",
        ),
    ] = None
    overwrite: Annotated[
        bool | None,
        option(
            "--overwrite",
            panel=_PANEL_output,
            text="Remove an earlier run from that folder first.",
        ),
    ] = None
    records: Annotated[
        str | None,
        option(
            "--records",
            panel=_PANEL_output,
            metavar="WHEN",
            text="required (the default: training ends where they cannot be written any more) or optional.",
        ),
    ] = None
    access: Annotated[
        str | None,
        option(
            "--access",
            panel=_PANEL_output,
            metavar="WHO",
            text="Who may read a new folder: private (the default: only you), group or all.",
        ),
    ] = None
    checkpoint_every: Annotated[
        int | None,
        option("--checkpoint-every", panel=_PANEL_output, metavar="STEPS", text="Make checkpoints by steps, too."),
    ] = None
    checkpoint_seconds: Annotated[
        float | None,
        option(
            "--checkpoint-seconds", panel=_PANEL_output, metavar="SECONDS", text="Between checkpoints (60); 0 for none."
        ),
    ] = None
    keep_checkpoints: Annotated[
        bool | None,
        option(
            "--keep-checkpoints/--no-keep-checkpoints",
            panel=_PANEL_output,
            text="Whether a last one is left when training is finished (the default), to continue with more steps.",
        ),
    ] = None


@dataclass(frozen=True)
class OutputOptions:
    """How a command speaks."""

    as_json: Annotated[
        bool,
        typer.Option(
            "--json",
            help="Print JSON on stdout, and nothing else there.",
            rich_help_panel=_PANEL_output,
        ),
    ] = False
    quiet: Annotated[
        bool,
        typer.Option(
            "--quiet",
            "-q",
            help="No progress, no explanations; warnings and results only.",
            rich_help_panel=_PANEL_output,
        ),
    ] = False


@dataclass(frozen=True)  # whose fields are those of the last base first: the order in which help lists them
class RunOptions(FaultPolicyOptions, RecordOptions, WorkerOptions, DelayOptions, ModelOptions, DataOptions):
    """What a run file can say, as options; None is what was not given."""

    def tables(self) -> dict[str, Any]:
        """Return what was given, as a run file would have it."""
        tables: dict[str, Any] = {}
        for name, key in KEYS.items():
            value = getattr(self, name)
            if value is not None:
                section, _, entry = key.partition(".")
                tables.setdefault(section, {})[entry] = value_of(name, value)
        return tables

    def config(self, run_file: str | None, **more: Any) -> Config:
        """Return the configuration: the options, before the run file, before the defaults.

        Arguments:
            run_file: path of a TOML file, if any.
            **more: top-level keys that were given as options.
        """
        from erasurehead.runs.config import build_config, merged, overridden, read_tables

        given = merged(self.tables(), {key: value for key, value in more.items() if value is not None})
        tables = {} if run_file is None else read_tables(run_file)
        stand_by(given, tables)
        return build_config(overridden(tables, given), self.spelled())

    def spelled(self) -> Mapping[str, str]:
        """Return key -> option, for those that were given."""
        return {
            KEYS[field.name]: f"--{field.name.replace('_', '-')}"
            for field in fields(self)
            if getattr(self, field.name) is not None
        }
