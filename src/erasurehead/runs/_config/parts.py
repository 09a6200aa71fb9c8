"""Parts of a run, built as the sections of a configuration say: data, problem, optimizer, delays, engine."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from erasurehead import datasets, delays, optimizers, problems
from erasurehead._internal.arrays import Array
from erasurehead._internal.foreign_arrays import freeze
from erasurehead.datasets import Dataset
from erasurehead.datasets._encoded import Task
from erasurehead.datasets._published import public as _public
from erasurehead.datasets._readers.forms import is_parquet_folder
from erasurehead.datasets._sharded import ShardFolder, in_place, is_sharded
from erasurehead.delays import Delays
from erasurehead.engines import Engine, Wire
from erasurehead.engines._wires import parse_wire
from erasurehead.errors import DataError, InvalidArgument, NoFile, invalid
from erasurehead.optimizers import Optimizer
from erasurehead.problems import ShardedProblem
from erasurehead.problems._families import read_loss, task_of
from erasurehead.problems._linear import LinearProblem
from erasurehead.problems._losses import NumberLoss
from erasurehead.runs._config.sections import (
    OF_FILES,
    DataSection,
    DelaysSection,
    OptimizerSection,
    ProblemSection,
    RunSection,
)
from erasurehead.schemes._text import parse_rate

_FOR_FILES = (*OF_FILES, "test_fraction")
_FOR_NAMES = ("path", "synthetic", "rows")
_FOR_FOLDERS = ("worker_path",)
_PROBLEMS = {
    "logistic": problems.LogisticRegression,
    "softmax": problems.SoftmaxRegression,
    "least_squares": problems.LeastSquares,
}
_ROUNDS = 30  # of power iteration


def check_data_keys(section: DataSection) -> None:
    """Raise if keys are given that do not fit the source.

    Raises:
        InvalidArgument: if so; the error names the key.
    """
    named = section.source in _public.NAMES
    sharded = not named and is_sharded(section.source)
    unfit = dict.fromkeys(() if named else _FOR_NAMES, f"the data sets {', '.join(_public.NAMES)}")
    unfit |= dict.fromkeys((*_FOR_FILES, "seed") if sharded else _FOR_FILES if named else (), "files of your own")
    unfit |= dict.fromkeys(() if sharded else _FOR_FOLDERS, "folders of shards")
    for key, who in unfit.items():
        if getattr(section, key) != DataSection.model_fields[key].default:
            hint = "it was settled when the data were sharded" if sharded else "leave it out"
            raise invalid(f"data.{key}", f"is for {who}, not for {section.source!r}", getattr(section, key), hint)
    if section.rows is not None and section.synthetic != "always":
        raise invalid(
            "data.rows",
            "is for synthetic data only",
            section.rows,
            "take the synthetic stand-in (--synthetic always), or all rows",
        )


def load_data(section: DataSection, loss: str | None) -> Dataset | ShardFolder:
    """Load what `[data]` names.

    Arguments:
        section: checked by `check_data_keys`.
        loss: the loss in `[problem]`; it determines how labels of user's files are read.

    Raises:
        DataError: if the data are missing or cannot be used; the message says where in the file.
        InvalidArgument: if a key does not fit the file.
    """
    task = None if loss is None else cast("Task", task_of(loss))
    if section.source in _public.NAMES:
        if section.synthetic == "always":
            return datasets.synthetic(section.source, section.seed, section.rows)
        fallback = "synthetic" if section.synthetic == "fallback" else None
        return datasets.load(section.source, section.path, fallback=fallback, seed=section.seed)
    if is_sharded(section.source):
        sharded = ShardFolder.open(section.source)
        if task not in (None, sharded.task):
            raise invalid(
                "problem.loss",
                f"must be {sharded.task}, which {section.source} is sharded for",
                loss,
                "shard the file again with another --loss",
            )
        return sharded
    try:
        settings = {key: getattr(section, key) for key in (*_FOR_FILES, "seed")}
        if is_parquet_folder(section.source):
            return in_place(section.source, task=task, **settings)
        return datasets.read(section.source, task=task, **settings)
    except InvalidArgument as error:
        key = "problem.loss" if error.argument == "task" else f"data.{error.argument}"
        is_key = error.argument == "task" or error.argument in DataSection.model_fields
        raise error.about(key) if is_key else error from None
    except NoFile as error:
        raise NoFile(
            error.path, f"name one file, a folder of shards or of Parquet files, or one of {', '.join(_public.NAMES)}"
        ) from None


def settled_loss(section: ProblemSection, data: Dataset | ShardFolder) -> str:
    """Return the loss with all of its parameters: by default that of the kind of labels.

    Arguments:
        section: what is minimised.
        data: the data set. Parameters that depend on labels are found from those for training, or of the first shard.

    Raises:
        InvalidArgument: if there are labels that the loss does not allow.
        DataError: if the first shard is needed, and out of reach.
    """
    asked = section.loss or (data.manifest.loss if isinstance(data, ShardFolder) else "")
    loss = read_loss(asked or data.task)
    if asked and isinstance(loss, NumberLoss):
        memory = isinstance(data, Dataset)
        y, y_test = (data.y_train, data.y_test) if memory else (data.rows_of(0).y, None)
        for labels in (y, y_test):
            if labels is not None:
                loss.labels(labels.astype(np.float64), f"the label {data.encoding.target.name!r}")
        loss = loss.completed(y.astype(np.float64))
    return loss.name


def build_problem(
    data: Dataset | ShardFolder, section: ProblemSection, worker_path: str | None = None
) -> LinearProblem | ShardedProblem:
    """Return the problem of a data set.

    Arguments:
        data: the data set.
        section: what is minimised; loss and l2 must be given.
        worker_path: path of a folder of shards on the workers.

    Raises:
        InvalidArgument: if the labels are not those of the loss, a number is not finite, or a key does not fit.
    """
    assert section.loss is not None
    assert section.l2 is not None
    loss = section.loss
    penalized = penalizes_intercept(data, section.penalize_intercept)
    penalty: dict[str, Any] = {"l2": section.l2}
    if section.l1:
        penalty = {"penalty": problems.ElasticNet(section.l1, section.l2)}
    check_problem_keys(section, isinstance(data, ShardFolder), loss)
    if isinstance(data, ShardFolder):
        return ShardedProblem(data, loss=loss, at=worker_path, penalize_intercept=penalized, **penalty)
    for array in (data.X_train, data.X_test, data.y_train, data.y_test):
        parts: list[Any] = [] if array is None else [array]
        if array is not None and not isinstance(array, np.ndarray):
            parts = [array.data, array.indices, array.indptr]
        for part in parts:  # data that were read for one run need no copy
            freeze(part)
    settings: dict[str, Any] = {"intercept": None if penalized else -1, **penalty}
    if data.X_test is not None and data.y_test is not None:
        settings["test"] = data.X_test, data.y_test
    if task_of(loss) != "least_squares":
        settings["class_weight"] = section.class_weight
    if loss == "softmax":
        settings["n_classes"] = data.n_classes or None
    if loss not in _PROBLEMS:
        return problems.Regression(data.X_train, data.y_train, loss=loss, **settings)
    return _PROBLEMS[loss](data.X_train, data.y_train, **settings)


def check_problem_keys(section: ProblemSection, sharded: bool, loss: str | None) -> None:
    """Raise if `[problem]` asks for what cannot be had with the data: classes weighted alike, or the best penalty.

    Arguments:
        section: what is minimised.
        sharded: whether the data are a folder of shards.
        loss: the loss; None while it depends on the data.

    Raises:
        InvalidArgument: if so; the error names the key.
    """
    if section.class_weight is not None and (sharded or (loss and task_of(loss) == "least_squares")):
        what = "folders of shards" if sharded else "targets that are no classes"
        raise invalid("problem.class_weight", f"must be left out for {what}", section.class_weight)
    if sharded and isinstance(section.l2, str):
        hint = "find it on a part of the rows that fits into a file"
        raise invalid("problem.l2", "must be a number for folders, whose rows are read by the workers", "tuned", hint)


def penalizes_intercept(data: Dataset | ShardFolder, wanted: bool | None) -> bool:
    """Return whether the penalty applies to every column: always, if the data have no column of ones.

    Arguments:
        data: the default is True for the paper's data sets, as published, and False for others.
        wanted: the user's choice; None for the default.
    """
    if not data.encoding.constant:
        return True
    return data.published is not None if wanted is None else wanted


def default_rate(
    data: Dataset | ShardFolder, loss: str, l2: float, heaviest: float = 1.0, lag: float = 0.0
) -> float | str:
    """Return the published step size of a data set of the paper; for other data, one over the loss's curvature.

    The curvature is the largest one of the loss, times the largest eigenvalue of X^T X / n. Power iteration
    from a fixed vector comes to within a few percent of it from below; a tenth is added for safety. Whole steps along
    gradients that are `lag` steps old must be that much shorter.
    """
    published = data.published
    if published is not None:
        steady = published.rate_factor == 1.0
        return published.rate if steady else f"geometric({published.rate!r}, {published.rate_factor!r})"
    return safe_rate(data, loss, l2, heaviest, lag)


def safe_rate(data: Dataset | ShardFolder, loss: str, l2: float, heaviest: float = 1.0, lag: float = 0.0) -> float:
    """Return one over the curvature of the objective: the largest step size that is safe for full gradients.

    With gradients that are `lag` steps old, pi / (2 + 4 lag) of twice that is where steps begin to grow.

    Arguments:
        data: the data set.
        loss: what is minimised.
        l2: factor of the penalty.
        heaviest: the greatest weight of a sample, relative to the mean.
        lag: how many steps old gradients are.
    """
    try:
        largest = _largest_eigenvalue(data)
    except DataError as error:  # shards that the workers may have, but this machine does not
        raise DataError(f"{error} Or name a step size (--rate): the default is found from all data.") from None
    labels = data.y_train if isinstance(data, Dataset) else np.ones(1)
    curvature = 1.1 * float(np.max(read_loss(loss).bounds(labels))) * largest * heaviest + 2.0 * l2
    return float(f"{1.0 / (curvature * (1.0 + lag)):.3g}")


def _largest_eigenvalue(data: Dataset | ShardFolder) -> float:
    """Return the largest eigenvalue of X^T X / n; 1 if X is zero, as any step size will then do."""
    vector = np.random.default_rng(0).standard_normal(data.n_columns)
    size = float(np.linalg.norm(vector))
    for _ in range(_ROUNDS):
        vector = data.covariance(vector / size) / data.n_train
        size = float(np.linalg.norm(vector))
        if size == 0.0:
            return 1.0
    return size


def first_model(section: RunSection, n_parameters: int) -> Array:
    """Return a first model of zeros or random numbers, shape (n_parameters,); the published code uses randn."""
    if section.initial == "randn":
        return np.random.default_rng(section.seed).standard_normal(n_parameters)
    return np.zeros(n_parameters)


def build_optimizer(section: OptimizerSection, x: Array) -> Optimizer:
    """Return a new optimizer with a first model; its name must be given, and a rate if it takes one."""
    if section.name == "quasi_newton":
        return optimizers.QuasiNewton(x)
    assert section.rate is not None
    schedule = parse_rate(section.rate)
    if section.name == "heavy_ball":
        return optimizers.HeavyBall(x, schedule, *([] if section.momentum is None else [section.momentum]))
    if section.name == "nesterov":
        return optimizers.Nesterov(x, schedule, bool(section.restart))
    return optimizers.GradientDescent(x, schedule)


def build_delays(model: str) -> Delays:
    """Return the delay model that a text stands for.

    Raises:
        InvalidArgument: if the text is not a delay model; the error names the key.
    """
    try:
        return delays.parse(model)
    except InvalidArgument as error:
        raise error.inside("delays.model", model) from None
    except DataError as error:
        raise InvalidArgument("delays.model", "must name a trace that can be read", model, sentence=str(error)).but(
            within=(("delays.model", model),)
        ) from None


def build_wire(run: RunSection) -> Wire | None:
    """Return the wire of a run; None for none.

    Raises:
        InvalidArgument: if the text is not a wire.
    """
    try:
        return None if run.wire is None else parse_wire(run.wire)
    except InvalidArgument as error:
        raise error.about("run.wire") from None


def build_engine(run: RunSection, section: DelaysSection, model: Delays) -> Engine:
    """Return a new engine, without its wire, which `train` adds."""
    from erasurehead import engines

    if run.engine == "virtual":
        return engines.VirtualEngine(model, section.late, run.seconds_per_task, seed=run.seed)
    if run.engine == "in_process":
        return engines.InProcessEngine(model, section.late)
    if run.engine == "mpi":
        return engines.MPIEngine(model, section.late)
    if run.engine == "ray":
        return engines.RayEngine(model, section.late, run.address)
    return engines.ProcessEngine(model, section.late)
