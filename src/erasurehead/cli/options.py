"""The options that commands share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any

import typer

from erasurehead.cli.ranks import stand_by
from erasurehead.cli.run_keys import KEYS, value_of

if TYPE_CHECKING:
    from erasurehead.config import Config

_DATA, _MODEL, _DELAYS, _RUN, _OUTPUT = "Data", "Model and optimizer", "Delays", "Workers and steps", "Output"
_SURVIVE = "Death, hanging and lies"


def option(*names: str, text: str, panel: str, metavar: str | None = None) -> Any:
    """Return a typer option without a default of its own: what is not given is left to the run file."""
    return typer.Option(*names, help=text, rich_help_panel=panel, metavar=metavar, show_default=False)


@dataclass(frozen=True)
class RunOptions:
    """What a run file can say, as options; None is what was not given."""

    data: Annotated[
        str | None,
        option(
            "--data",
            panel=_DATA,
            metavar="NAME|FILE|FOLDER",
            text="amazon (the default), kc_housing, covertype; your own CSV, Parquet, LIBSVM, .npz or .npy file; or a "
            "folder of shards (erasurehead shard).",
        ),
    ] = None
    path: Annotated[
        str | None,
        option(
            "--path",
            panel=_DATA,
            metavar="PLACE",
            text="The public file, or a folder that holds it (else ERASUREHEAD_DATA, a cache and the network).",
        ),
    ] = None
    data_at: Annotated[
        str | None,
        option(
            "--data-at",
            panel=_DATA,
            metavar="FOLDER",
            text="Where the workers see a folder of shards, if elsewhere; {host} stands for the worker's host.",
        ),
    ] = None
    twin: Annotated[
        str | None,
        option(
            "--twin",
            panel=_DATA,
            metavar="WHEN",
            text="never, fallback or always: whether a synthetic twin of the same shape stands in for the public file.",
        ),
    ] = None
    rows: Annotated[
        int | None, option("--rows", panel=_DATA, metavar="N", text="Of a twin; by default as many as the original.")
    ] = None
    label: Annotated[
        str | None,
        option(
            "--label",
            panel=_DATA,
            metavar="COLUMN",
            text="Column to predict (by default the last one).",
        ),
    ] = None
    one_hot: Annotated[
        str | None,
        option(
            "--one-hot",
            panel=_DATA,
            metavar="A,B,...",
            text="Columns whose distinct values become columns, or all.",
        ),
    ] = None
    categorical: Annotated[
        bool | None,
        option(
            "--categorical/--no-categorical",
            panel=_DATA,
            text="One-hot encode every column of texts.",
        ),
    ] = None
    test_fraction: Annotated[
        float | None,
        option(
            "--test-fraction",
            panel=_DATA,
            metavar="SHARE",
            text="Share of the rows set aside for testing (0.2).",
        ),
    ] = None
    loss: Annotated[
        str | None,
        option(
            "--loss",
            panel=_MODEL,
            metavar="NAME",
            text="logistic, least_squares or softmax; by default what the labels ask for.",
        ),
    ] = None
    l2: Annotated[
        float | None,
        option(
            "--l2",
            panel=_MODEL,
            metavar="FACTOR",
            text="Of the penalty (1 / number of training rows).",
        ),
    ] = None
    optimizer: Annotated[
        str | None,
        option(
            "--optimizer",
            panel=_MODEL,
            metavar="NAME",
            text="nesterov (the default), gradient_descent or heavy_ball.",
        ),
    ] = None
    rate: Annotated[
        str | None,
        option(
            "--rate",
            panel=_MODEL,
            metavar="RATE",
            text="Step size: 10, 'geometric(0.1, 0.99)' or 'inverse_time(1.0, half_life=10)'. By default the published "
            "one; for your own data one that is safe, and small.",
        ),
    ] = None
    momentum: Annotated[
        float | None,
        option(
            "--momentum",
            panel=_MODEL,
            metavar="NUMBER",
            text="Of the heavy ball (0.9).",
        ),
    ] = None
    delays: Annotated[
        str | None,
        option(
            "--delays",
            panel=_DELAYS,
            metavar="MODEL",
            text="Injected after computing: 'exponential(mean=0.5, seed=0)' (the default for the paper's data), "
            "'none()' (for yours), 'pareto(0.1, 2.0)', ..., sums of such, or \"recorded('runs/x/arrivals.jsonl')\".",
        ),
    ] = None
    late: Annotated[
        str | None,
        option(
            "--late",
            panel=_DELAYS,
            metavar="KIND",
            text="What a late worker does when a newer step is out: preempt (drop its work, as the papers assume) or "
            "carry (finish it).",
        ),
    ] = None
    engine: Annotated[
        str | None,
        option(
            "--engine",
            panel=_RUN,
            metavar="NAME",
            text="processes (of this machine; the default), virtual (a clock on which waiting takes no time), mpi "
            "(under mpiexec or srun) or ray.",
        ),
    ] = None
    address: Annotated[
        str | None,
        option("--address", panel=_RUN, metavar="HOST:PORT", text="Of a Ray cluster, or auto; else one of our own."),
    ] = None
    workers: Annotated[int | None, option("--workers", "-w", panel=_RUN, metavar="N", text="How many (30).")] = None
    steps: Annotated[int | None, option("--steps", "-n", panel=_RUN, metavar="N", text="How many (100).")] = None
    evaluate_every: Annotated[
        int | None,
        option(
            "--evaluate-every",
            panel=_RUN,
            metavar="STEPS",
            text="Measure the model on the test rows (1); 0 for never.",
        ),
    ] = None
    initial: Annotated[
        str | None,
        option(
            "--initial",
            panel=_RUN,
            metavar="KIND",
            text="The first model: zeros (the default) or randn.",
        ),
    ] = None
    seed: Annotated[
        int | None,
        option(
            "--seed",
            panel=_RUN,
            metavar="N",
            text="Of a random first model.",
        ),
    ] = None
    out: Annotated[
        str | None,
        option(
            "--out",
            "-o",
            panel=_OUTPUT,
            metavar="FOLDER",
            text="For the records; by default a new folder in runs.",
        ),
    ] = None
    overwrite: Annotated[
        bool | None,
        option(
            "--overwrite",
            panel=_OUTPUT,
            text="Remove an earlier run from that folder first.",
        ),
    ] = None
    records: Annotated[
        str | None,
        option(
            "--records",
            panel=_OUTPUT,
            metavar="WHEN",
            text="required (the default: training ends where they cannot be written any more) or optional.",
        ),
    ] = None
    checkpoint_every: Annotated[
        int | None,
        option("--checkpoint-every", panel=_OUTPUT, metavar="STEPS", text="Make checkpoints by steps, too."),
    ] = None
    checkpoint_seconds: Annotated[
        float | None,
        option("--checkpoint-seconds", panel=_OUTPUT, metavar="SECONDS", text="Between checkpoints (60); 0 for none."),
    ] = None
    keep_checkpoints: Annotated[
        bool | None,
        option("--keep-checkpoints", panel=_OUTPUT, text="Keep them when training is finished."),
    ] = None
    on_death: Annotated[
        str | None,
        option(
            "--on-death",
            panel=_SURVIVE,
            metavar="WHAT",
            text="replace dead workers (the default), spread their tasks over the living, or leave them out.",
        ),
    ] = None
    replacements: Annotated[
        int | None, option("--replacements", panel=_SURVIVE, metavar="N", text="How often one worker is replaced (3).")
    ] = None
    on_loss: Annotated[
        str | None,
        option(
            "--on-loss",
            panel=_SURVIVE,
            metavar="WHAT",
            text="stop when the wait rule cannot be met any more (the default), or go_on with what can still come.",
        ),
    ] = None
    grow: Annotated[
        bool | None, option("--grow", panel=_SURVIVE, text="Take more workers when the cluster has room for them.")
    ] = None
    on_suspicion: Annotated[
        str | None,
        option(
            "--on-suspicion",
            panel=_SURVIVE,
            metavar="WHAT",
            text="report workers that seem to hang (the default), or replace them.",
        ),
    ] = None
    suspect_after: Annotated[
        float | None,
        option(
            "--suspect-after",
            panel=_SURVIVE,
            metavar="SECONDS",
            text="Silence after which a worker seems to hang; by default derived from the arrivals.",
        ),
    ] = None
    verify: Annotated[
        bool | None,
        option("--verify", panel=_SURVIVE, text="Compare messages before they are used, and put liars aside."),
    ] = None

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
        from erasurehead.config import build_config, merged, read_tables

        given = merged(self.tables(), {key: value for key, value in more.items() if value is not None})
        tables = {} if run_file is None else read_tables(run_file)
        stand_by(given, tables)
        return build_config(merged(tables, given), self.spelled())

    def spelled(self) -> Mapping[str, str]:
        """Return key -> option, for those that were given."""
        return {
            KEYS[field.name]: f"--{field.name.replace('_', '-')}"
            for field in fields(self)
            if getattr(self, field.name) is not None
        }


@dataclass(frozen=True)
class OutputOptions:
    """How a command speaks."""

    as_json: Annotated[
        bool,
        typer.Option(
            "--json",
            help="Print JSON on stdout, and nothing else there.",
            rich_help_panel=_OUTPUT,
        ),
    ] = False
    quiet: Annotated[
        bool,
        typer.Option(
            "--quiet",
            "-q",
            help="No progress, no explanations; warnings and results only.",
            rich_help_panel=_OUTPUT,
        ),
    ] = False
