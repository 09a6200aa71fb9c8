"""The contents of run files: keys, their types, ranges, defaults and meanings.

This is their single description: options of the command line and their help, the JSON schema for editors, and the
table in the documentation are made from it.
"""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, cast, get_type_hints

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, Strict, create_model, field_validator
from pydantic_core import PydanticCustomError

from erasurehead._internal.late_work import DROP, check_late
from erasurehead._internal.storage.access import Access
from erasurehead.errors import InvalidArgument
from erasurehead.faults import FaultPolicy


class Section(BaseModel):
    """A table of a run file: it has only the described keys, and is immutable."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


def key(default: Any, text: str, *, option: str = "", metavar: str = "", panel: str = "", **rules: Any) -> Any:
    """Return the field of a key.

    Arguments:
        default: its default; None for a value that depends on other keys.
        text: its meaning, in a sentence or two, for help and documentation.
        option: its option on the command line, such as `"--workers, -w"`; empty if it has no option.
        metavar: placeholder for its value in the help.
        panel: panel in the help, if not that of its section.
        **rules: rules of pydantic, such as `ge`, and `examples`.
    """
    extra = {"x-option": option, "x-metavar": metavar, "x-panel": panel}
    shown: Any = {name: value for name, value in extra.items() if value}
    return Field(default=default, description=text, json_schema_extra=shown, **rules)


Texts = Annotated[tuple[str, ...], Strict(False)]
"""Several texts; in TOML they are a list."""


def _drop(text: str) -> str:
    try:
        return check_late(text)
    except InvalidArgument:
        raise PydanticCustomError("late_work", "must be 'drop(R)' with a number of rounds") from None


def _tracker(text: str) -> str:
    from erasurehead.trackers._texts import complete

    try:
        return complete(text)
    except InvalidArgument as error:
        raise PydanticCustomError("tracker", "{rule}", {"rule": error.rule}) from None


Trackers = Annotated[tuple[Annotated[str, AfterValidator(_tracker)], ...], Strict(False)]
"""Several trackers, as texts."""

TRACK = (
    "Show the run in tensorboard, mlflow or wandb, perhaps with where: tensorboard=FOLDER, mlflow=FOLDER or "
    "mlflow=ADDRESS, wandb=PROJECT (kept here; wandb sync sends it). Repeat it for several. Without one that is not "
    "installed or fails, the run goes on."
)


def _loss(text: str) -> str:
    from erasurehead.problems._families import read_loss  # which takes a while to import

    try:
        return read_loss(text).name
    except InvalidArgument as error:
        of = f"must be a loss whose {error.argument} {error.rule.replace('must be', 'is')}"
        rule = error.rule if error.argument == "loss" else of
        raise PydanticCustomError("loss", "{rule}", {"rule": rule}) from None


EngineName: TypeAlias = Literal["processes", "in_process", "virtual", "mpi", "ray"]

if TYPE_CHECKING:  # whoever reads them reads them when they are settled
    _Engine: TypeAlias = EngineName
    _Count: TypeAlias = int
    _Factor: TypeAlias = float | None
else:  # None until then: see `erasurehead.runs._config.resolving.settled`; "tuned", until data have been read
    _Engine, _Count = EngineName | None, int | None
    _Factor = Annotated[float, *Field(ge=0, allow_inf_nan=False).metadata] | Literal["tuned"] | None

_Late = Literal["preempt", "carry"] | Annotated[str, AfterValidator(_drop), Field(json_schema_extra={"pattern": DROP})]


class DataSection(Section):
    """The data set."""

    source: str = key(
        "amazon",
        "A data set of the paper (amazon, the default, kc_housing, covertype); your own CSV, Parquet, LIBSVM, .npz or "
        ".npy file; or a folder of shards (erasurehead shard).",
        option="--data",
        metavar="NAME|FILE|FOLDER",
        examples=["amazon", "houses.csv"],
    )
    path: str | None = key(
        None,
        "For a data set of the paper: the public file, or its folder (by default ERASUREHEAD_DATA, a cache, or a "
        "download).",
        option="--path",
        metavar="PLACE",
    )
    synthetic: Literal["never", "fallback", "always"] | None = key(
        None,
        "Whether to replace a data set of the paper by synthetic data of the same shape: never (the default of "
        "train), fallback (if the public file is not available; the default of compare), or always.",
        option="--synthetic",
        metavar="WHEN",
    )
    rows: int | None = key(
        None,
        "Rows of a synthetic stand-in, before a fifth is set aside for testing; by default as many as the original.",
        option="--rows",
        metavar="N",
        ge=1,
    )
    target: str | None = key(
        None,
        "For a file: the column to predict (by default the last one), or the file that holds the labels.",
        option="--label",
        metavar="COLUMN",
    )
    drop: Texts = key(
        (), "For a file: columns to leave out.", option="--drop", metavar="A,B,...", examples=[["id", "address"]]
    )
    delimiter: str | None = key(
        None,
        "For a CSV file: one character, or its name: comma, semicolon, tab, bar, blanks; detected by default.",
        option="--delimiter",
        metavar="CHARACTER",
    )
    header: bool | Literal["yes", "no"] | None = key(
        None,
        "For a CSV file: yes if the first line has the columns' names, no if it is data; detected by default.",
        option="--header",
        metavar="yes|no",
    )
    names: Texts = key(
        (), "For a CSV file: names for all columns, replacing those in the file.", option="--names", metavar="A,B,..."
    )
    decimal: Literal[".", ","] | None = key(
        None,
        "For a CSV file: the decimal mark; detected by default, and reported if it is a comma.",
        option="--decimal",
        metavar=".|,",
    )
    quotes: Literal["doubled", "backslash", "none"] | None = key(
        None,
        "For a CSV file: how a quote inside a quoted field is written: doubled, or after a backslash (detected by "
        "default); none: quotes mean nothing.",
        option="--quotes",
        metavar="HOW",
    )
    missing: Texts = key(
        (),
        "For a CSV file: texts or numbers that mean a missing value, in addition to an empty field, NA, None, ? and "
        "the like; if the first is empty, instead of these ('': only an empty field).",
        option="--missing",
        metavar="A,B,...",
        examples=[["-999", "unknown"]],
    )
    one_hot: Texts | Literal["all"] = key(
        (), "For a file: columns to one-hot encode, or all.", option="--one-hot", metavar="A,B,..."
    )
    categorical: bool = key(
        False, "For a file: one-hot encode every column of text.", option="--categorical/--no-categorical"
    )
    ordinal: Texts = key(
        (),
        "For a file: columns of texts with an order, which become 0, 1, 2, ...",
        option="--ordinal",
        metavar="A=LOW<MIDDLE<HIGH",
        examples=[["size=small<medium<large"]],
    )
    count: Texts = key(
        (),
        "For a file: columns with many values, each of which becomes how often it occurs in training.",
        option="--count",
        metavar="A,B,...",
    )
    text: Texts = key(
        (),
        "For a file: columns of long texts, whose words become 4,096 columns (TF-IDF, hashed).",
        option="--text",
        metavar="A,B,...",
    )
    dates: Literal["day-first", "month-first"] | None = key(
        None,
        "For a file: how 03/04/2024 is written, day-first or month-first; needed only where no date of a column tells.",
        option="--dates",
        metavar="ORDER",
    )
    interactions: Annotated[tuple[Texts, ...], Strict(False)] = key(
        (),
        "For a file: columns whose distinct combinations become columns; repeat the option for others.",
        option="--interaction",
        metavar="A,B,...",
        examples=[[["city", "year"]]],
    )
    standardize: bool = key(
        True,
        "For a file: shift and scale columns of numbers to mean 0 and variance 1 (the default).",
        option="--standardize/--no-standardize",
    )
    constant: bool = key(
        True,
        "For a file: add a column of ones, for an intercept (the default).",
        option="--constant/--no-constant",
    )
    test_fraction: float = key(
        0.2,
        "For a file: share of the rows set aside for testing.",
        option="--test-fraction",
        metavar="SHARE",
        ge=0,
        lt=1,
    )
    seed: int = key(0, "Seed of the split of a file, or of a synthetic stand-in.", ge=0, le=4_000_000_000)
    worker_path: str | None = key(
        None,
        "Where the workers find the folder of shards, if it differs from --data; {host} stands for the worker's host.",
        option="--data-at",
        metavar="FOLDER",
    )


OF_FILES = (
    *("target", "drop", "delimiter", "header", "names", "decimal", "quotes", "missing"),
    *("one_hot", "categorical", "ordinal", "count", "text", "dates", "interactions", "standardize", "constant"),
)
"""Keys of `[data]` that say how a file is read, of which all commands that read one have an option."""


class ProblemSection(Section):
    """What is minimised."""

    loss: Annotated[str, AfterValidator(_loss)] | None = key(
        None,
        "For classes logistic or softmax; for numbers least_squares, poisson (counts), gamma (amounts above 0), "
        "log_least_squares, 'huber(1.5)' (errors above 1.5 count less) or 'quantile(0.9)'; by default chosen by the "
        "labels.",
        option="--loss",
        metavar="NAME",
        examples=["poisson", "quantile(0.9)"],
    )
    l2: _Factor = key(
        None,
        "Factor of the penalty: the mean loss plus FACTOR * ||x||^2 is minimised, without the intercept in x (the "
        "paper's data sets: with it); by default 1 / number of training rows, as published; tuned: the one that "
        "5-fold cross-validation on the training rows finds best. In scikit-learn it is C = 1 / (2 * rows * FACTOR), "
        "or Ridge's alpha = rows * FACTOR.",
        option="--l2",
        metavar="FACTOR|tuned",
        examples=[0.001, "tuned"],
    )
    l1: float = key(
        0.0,
        "Factor of an l1 penalty, FACTOR * sum |x_i|, in addition to --l2; it sets coefficients that contribute "
        "little to zero.",
        option="--l1",
        metavar="FACTOR",
        ge=0,
        allow_inf_nan=False,
    )
    class_weight: Literal["balanced"] | None = key(
        None,
        "balanced: weight samples so that all classes have the same total weight; by default all samples weigh the "
        "same. Not for folders of shards.",
        option="--class-weight",
        metavar="balanced",
    )
    penalize_intercept: bool | None = key(
        None,
        "Whether to penalise the intercept, too; by default only for the paper's data sets, as published.",
    )


class OptimizerSection(Section):
    """How the model moves."""

    name: Literal["quasi_newton", "nesterov", "gradient_descent", "heavy_ball"] | None = key(
        None,
        "quasi_newton (the default with the schemes adaptive, compute_once and nested: it chooses its step sizes "
        "itself), gradient_descent (the default with asynchronous, ringmaster, ringleader and piag, as momentum adds "
        "up the error of old gradients), nesterov (the default with other schemes: accelerated gradient descent as the "
        "published experiments have it) or heavy_ball.",
        option="--optimizer",
        metavar="NAME",
    )
    rate: float | str | None = key(
        None,
        "Step size: 10, 'geometric(0.1, 0.99)' or 'inverse_time(1.0, half_life=10)'. By default quasi_newton chooses "
        "its own; other optimizers use the published one, and for your own data a small and safe one: one over the "
        "largest curvature, and less for gradients that are some steps old (ringleader, ringmaster, "
        "asynchronous(rescaled=True)).",
        option="--rate",
        metavar="NUMBER|SCHEDULE",
        examples=[10.0, "geometric(0.1, 0.99)"],
    )
    momentum: float | None = key(
        None, "For heavy_ball: its momentum; by default 0.9.", option="--momentum", metavar="NUMBER", ge=0, lt=1
    )
    restart: bool | None = key(
        None,
        "For nesterov: whether momentum restarts when it leads uphill, and the step size decreases with noise; true "
        "by default, except for the paper's data sets, as published.",
    )


class DelaysSection(Section):
    """Delays that are injected after each worker's computing."""

    model: str | None = key(
        None,
        "Delays injected after computing: 'exponential(mean=0.5, seed=0)' (the default for the paper's data), "
        "'none()' (for yours), 'pareto(0.1, 2.0)', ..., sums of such, or \"recorded('runs/x/arrivals.jsonl')\".",
        option="--delays",
        metavar="MODEL",
        examples=["exponential(mean=0.5, seed=0)"],
    )
    late: _Late = key(
        "preempt",
        "What a late worker does when a newer step is out: preempt (the default: drop its work, as the papers assume), "
        "carry (finish it) or, for example, 'drop(3)' (finish it unless it is more than three rounds old).",
        option="--late",
        metavar="KIND",
        examples=["carry", "drop(3)"],
    )


class RecordsSection(Section):
    """Where the records of a run go; part of `[run]` of every kind of run file."""

    out: str | None = key(
        None,
        "Folder for the records, new or empty; by default a new one in runs.",
        option="--out, -o",
        metavar="FOLDER",
        panel="Output",
    )
    overwrite: bool = key(False, "Remove an earlier run from that folder first.", option="--overwrite", panel="Output")
    access: Access = key(
        "private",
        "Who may read a new folder and its files: private (the default: only you), group or all.",
        option="--access",
        metavar="WHO",
        panel="Output",
    )
    track: Trackers = key((), TRACK, option="--track", metavar="TRACKER", panel="Output")


class _TrainingSection(Section):
    """Where the workers are, and how long the run is."""

    engine: _Engine = key(
        None,
        "processes (on this machine), in_process (one worker, in the command's own process), virtual (a clock on "
        "which waiting takes no time), mpi (under mpiexec or srun) or ray; by default processes, or in_process if "
        "nobody can be late and starting processes would take longer than training.",
        option="--engine",
        metavar="NAME",
    )
    workers: _Count = key(
        None,
        "Number of workers: by default one for each usable core, for each rank of an MPI job except the "
        "coordinator's, or for each CPU of a Ray cluster; more if the scheme needs more, and fewer if there are fewer "
        "rows. It is 30, as published, with --preset paper, for the paper's data with delays, and on a virtual clock "
        "with delays (4 without).",
        option="--workers, -w",
        metavar="N",
        ge=1,
    )
    steps: _Count = key(
        None,
        "Maximum number of steps: by default 5000 for quasi_newton, which ends when it has converged, and 100 for "
        "others.",
        option="--steps, -n",
        metavar="N",
        ge=1,
    )
    speeds: str | None = key(
        None,
        "How fast each worker is, in any unit, as 1,2,4,4, so that tasks are dealt out in proportion; or measured: the "
        "run finds it out, and deals them out anew when a change has lasted. For the schemes uncoded, which is the "
        "default then, and exact.",
        option="--speeds",
        metavar="LIST",
    )
    until: str | None = key(
        None,
        "Target that ends the run: a metric, one of < <= > >=, and a number. Metrics are gap (the distance of the "
        "objective from its minimum, relative to the start), objective, and those measured on the test rows.",
        option="--until",
        metavar="TARGET",
        examples=["gap < 1e-3", "auc > 0.84"],
    )
    patience: int | None = key(
        None,
        "End after this many steps without improvement of the target's metric, or of the objective.",
        option="--patience",
        metavar="STEPS",
        ge=1,
    )
    max_seconds: float | None = key(
        None,
        "End after this many seconds of training, even in the middle of a step; seconds before a run was resumed "
        "count.",
        option="--max-seconds",
        metavar="SECONDS",
        gt=0,
        allow_inf_nan=False,
    )
    tolerance: float | None = key(
        None,
        "End when the gradient is exact and its norm is at most this share of the first one: by default 1e-12, and 0 "
        "(never) for the paper's data sets with optimizers other than quasi_newton, which keep their number of steps.",
        ge=0,
        allow_inf_nan=False,
    )
    evaluate_every: int = key(
        1,
        "Measure the model on the test rows every this many steps; 0 for never.",
        option="--evaluate-every",
        metavar="STEPS",
        ge=0,
    )
    preset: Literal["paper"] | None = key(
        None,
        "paper: the scheme, the optimizer and the step size of the ErasureHead paper, unless they are set.",
        option="--preset",
        metavar="NAME",
    )
    initial: str = key(
        "zeros",
        "The first model: zeros (the default), randn (normal numbers), or the folder of a run, to begin with its "
        "final model: columns are matched by name, and new ones start at zero.",
        option="--initial",
        metavar="MODEL",
    )
    seed: int = key(
        0,
        "Seed of a random first model, and of the order of messages that arrive at the same moment on the "
        "virtual clock.",
        option="--seed",
        metavar="N",
        ge=0,
    )
    seconds_per_task: float = key(
        0.0, "Seconds that a task's gradient takes on the virtual clock.", ge=0, allow_inf_nan=False
    )
    wire: str | None = key(
        None,
        "How messages are encoded: not at all, in float64 (none, the default), or in fewer bytes: cast('float32'), "
        "cast('bfloat16'), dithered(127).",
        option="--wire",
        metavar="WIRE",
        examples=["cast('float32')", "dithered(127, seed=0)"],
    )
    start_limit: float | None = key(
        None, "For MPI: seconds that the start of all ranks may take.", gt=0, allow_inf_nan=False
    )
    address: str | None = key(
        None,
        "Address of a Ray cluster, as HOST:PORT, or auto; by default one is started on this machine.",
        option="--address",
        metavar="HOST:PORT",
        examples=["auto", "10.0.0.1:6379"],
    )
    records: Literal["required", "optional"] = key(
        "required",
        "required (the default: training stops if records and checkpoints cannot be written) or optional (it "
        "continues without them).",
        option="--records",
        metavar="WHEN",
        panel="Output",
    )

    @field_validator("speeds", mode="before")
    @classmethod
    def _listed(cls, speeds: Any) -> Any:
        """Return the text of speeds that are given as a list, as run files and programs write them."""
        return ",".join(map(str, cast("list[object]", speeds))) if isinstance(speeds, list) else speeds

    def says(self, key: str) -> bool:
        """Whether a key has a value; engine, workers and steps have none until they are given or settled."""
        return getattr(self, key) is not None


class RunSection(RecordsSection, _TrainingSection):
    """Where the workers are, how long the run is, and where its records go."""


class CheckpointsSection(Section):
    """Checkpoints, from which a run is resumed. One is also made when training ends, early or as planned."""

    every_steps: int = key(
        0,
        "Also make a checkpoint every this many steps; 0 for never.",
        option="--checkpoint-every",
        metavar="STEPS",
        ge=0,
    )
    every_seconds: float = key(
        60.0,
        "Make a checkpoint every this many seconds; 0 for never.",
        option="--checkpoint-seconds",
        metavar="SECONDS",
        ge=0,
        allow_inf_nan=False,
    )
    keep: int = key(2, "Number of checkpoints to keep, the newest ones.", ge=1)
    behind: int = key(
        10,
        "How many steps training may be ahead of a checkpoint that is being written, before it waits for the disk.",
        ge=0,
    )
    keep_finished: bool = key(
        True,
        "Whether to keep a last checkpoint when training is finished (the default), so that the run can be extended.",
        option="--keep-checkpoints/--no-keep-checkpoints",
    )


class _Policy(Section):
    """What to do when workers die, hang or lie."""

    def policy(self) -> FaultPolicy:
        """Return the fault policy."""
        return FaultPolicy(**self.model_dump())


if TYPE_CHECKING:
    FaultsSection = _Policy
else:  # its keys are the fields of the policy, which describes them
    _HINTS = get_type_hints(FaultPolicy)
    FaultsSection = create_model(
        "FaultsSection",
        __base__=_Policy,
        __doc__=_Policy.__doc__,
        __module__=__name__,
        **{field.name: (_HINTS[field.name], key(field.default, **field.metadata)) for field in fields(FaultPolicy)},
    )


class Config(Section):
    """A run file for training with a coordinator."""

    scheme: str | None = key(
        None,
        "Who computes what, and how long to wait: by default adaptive(), which reaches the optimum with nothing to "
        "set; adaptive(load=1) for data other than the paper's on one machine without delays, where redundancy "
        "costs time and gains nothing. Where a step size or an optimizer other than quasi_newton is given, it is "
        "erasurehead(load=3, wait_for=11) for 30 workers, and uncoded() for data other than the paper's without "
        "delays.",
        examples=["erasurehead(load=3, wait_for=11)", "exact(load=3)"],
    )
    data: DataSection = DataSection()
    problem: ProblemSection = ProblemSection()
    optimizer: OptimizerSection = OptimizerSection()
    delays: DelaysSection = DelaysSection()
    run: RunSection = RunSection()
    checkpoints: CheckpointsSection = CheckpointsSection()
    faults: FaultsSection = FaultsSection()
