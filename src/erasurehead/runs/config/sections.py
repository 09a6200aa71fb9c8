"""What a run file may say: its sections and keys, their types, and the values of those that are left out."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, Strict

from erasurehead._internal.storage import Access

Texts = Annotated[tuple[str, ...], Strict(False)]
"""Several texts; TOML brings them as a list."""


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class DataSection(_Section):
    """`[data]`: what is learned from.

    Attributes:
        source: a data set of the paper (`amazon`, `kc_housing`, `covertype`), a file of the user's own, or a folder
            that `erasurehead shard` made of one.
        path: for the paper's: the public file, or a folder that holds it.
        synthetic: for the paper's: whether synthetic data of the same shape stand in. By default never when training,
            and where the data are not available when schemes are compared.
        rows: of a synthetic stand-in, before a fifth is set aside for testing; by default as many as the original has.
        target: for files: the column of the labels, or the file that holds them.
        drop: for files: columns that are left out.
        delimiter: for CSV files: one character, or `comma`, `semicolon`, `tab`, `bar` or `blanks`; by default it is
            found out.
        one_hot: for files: columns whose distinct values become columns, or `"all"`.
        categorical: for files: one-hot encode every column of texts.
        interactions: for files: combinations of columns that are one-hot encoded together.
        standardize: for files: shift and scale columns of numbers.
        constant: for files: add a column of ones.
        test_fraction: for files: share of the rows set aside for testing.
        seed: of the split of a file, or of the synthetic stand-in.
        worker_path: for a folder of shards: its path on the workers, if it is another one there; `{host}` in it stands
            for the name of the worker's host.
    """

    source: str = "amazon"
    path: str | None = None
    synthetic: Literal["never", "fallback", "always"] | None = None
    rows: int | None = Field(default=None, ge=1)
    target: str | None = None
    drop: Texts = ()
    delimiter: str | None = None
    one_hot: Texts | Literal["all"] = ()
    categorical: bool = False
    interactions: Annotated[tuple[Texts, ...], Strict(False)] = ()
    standardize: bool = True
    constant: bool = True
    test_fraction: float = Field(default=0.2, ge=0, lt=1)
    seed: int = Field(default=0, ge=0)
    worker_path: str | None = None


class ProblemSection(_Section):
    """`[problem]`: what is minimised.

    Attributes:
        loss: by default what the data ask for.
        l2: factor of the penalty `l2 * ||x||^2`; by default 1 / number of training rows, as published. In terms of
            scikit-learn, C = 1 / (2 * rows * l2) for classes, and Ridge's alpha = rows * l2.
        penalize_intercept: whether the penalty holds for the column of ones, too; by default for the paper's data
            sets, as published, and not for other data.
    """

    loss: Literal["logistic", "least_squares", "softmax"] | None = None
    l2: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    penalize_intercept: bool | None = None


class OptimizerSection(_Section):
    """`[optimizer]`: how the model moves.

    Attributes:
        name: `nesterov` is accelerated gradient descent as the published experiments have it.
        rate: a step size, or a schedule such as `"geometric(0.1, 0.99)"`; by default the published one, and for
            other data one that cannot diverge.
        momentum: of the heavy ball.
        restart: of `nesterov`: whether its momentum starts anew where it leads uphill, and its step size falls with
            noise; by default not for the paper's data sets, as published, but for other data.
    """

    name: Literal["nesterov", "gradient_descent", "heavy_ball"] = "nesterov"
    rate: float | str | None = None
    momentum: float | None = Field(default=None, ge=0, lt=1)
    restart: bool | None = None


class DelaysSection(_Section):
    """`[delays]`: what is injected after each worker's computing.

    Attributes:
        model: such as `"exponential(mean=0.5, seed=0)"`, which is the default for the paper's data sets; `"none()"`
            is that of other data.
        late: what a worker does when a newer order is out while its delay still runs: drop the old work, or sit the
            delay out.
    """

    model: str | None = None
    late: Literal["preempt", "carry"] = "preempt"


class RunSection(_Section):
    """`[run]`: where and how long.

    Attributes:
        engine: real processes of this machine, a virtual clock, the ranks of an MPI job, or actors of a Ray cluster.
        workers: how many.
        steps: of the optimizer, at most.
        until: a target that ends the run, such as `"gap < 1e-3"` or `"auc > 0.84"`.
        patience: steps without an improvement of the target's metric, or of the objective, that end the run.
        max_seconds: of training that end the run.
        tolerance: length of an exact gradient over the first that ends the run; by default 1e-8, and never for the
            paper's data sets, which keep their number of steps. 0 for never.
        evaluate_every: steps between two evaluations on the test rows; 0 for none.
        initial: the first model: `zeros`, normal numbers (`randn`), or the folder of a run, whose final model it is:
            columns are matched by name, and those that the other model lacks start at zero.
        seed: of those, and of the order of messages that arrive at the same moment on the virtual clock.
        seconds_per_task: what a task's gradient takes on the virtual clock.
        start_patience: for MPI: seconds after the last rank of a machine came up for which others of it may be missing.
        start_limit: for MPI: seconds that its start may take in all.
        address: of a Ray cluster, as `host:port` or `"auto"`; by default one of our own on this machine.
        out: the run folder, which must not be used yet; by default a new one in `runs`.
        overwrite: whether `out` may hold an earlier run, which is then removed.
        records: whether training ends where its records and checkpoints cannot be written any more (`required`), or
            goes on without them (`optional`).
        access: who may read a new run folder and what is in it: only you (`private`), your `group`, or `all`. A folder
            that is there already keeps its mode.
    """

    engine: Literal["processes", "virtual", "mpi", "ray"] = "processes"
    workers: int = Field(default=30, ge=1)
    steps: int = Field(default=100, ge=1)
    until: str | None = None
    patience: int | None = Field(default=None, ge=1)
    max_seconds: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    tolerance: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    evaluate_every: int = Field(default=1, ge=0)
    initial: str = "zeros"
    seed: int = Field(default=0, ge=0)
    seconds_per_task: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    start_patience: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    start_limit: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    address: str | None = None
    out: str | None = None
    overwrite: bool = False
    records: Literal["required", "optional"] = "required"
    access: Access = "private"


class CheckpointsSection(_Section):
    """`[checkpoints]`: what a run goes on from. One is made, too, when training ends, be it early or as planned.

    Attributes:
        every_steps: steps from one to the next; 0 for none by steps.
        every_seconds: seconds from one to the next; 0 for none by time.
        keep: how many of the newest are kept.
        behind: training waits for the disk rather than be more steps than this ahead of a checkpoint that is due.
        keep_finished: whether a last one, without the models that were evaluated, is left when training is finished,
            so that the run can be continued with more steps.
    """

    every_steps: int = Field(default=0, ge=0)
    every_seconds: float = Field(default=60.0, ge=0, allow_inf_nan=False)
    keep: int = Field(default=2, ge=1)
    behind: int = Field(default=10, ge=0)
    keep_finished: bool = True


class FaultsSection(_Section):
    """`[faults]`: what to do when workers die, hang or lie. See `erasurehead.faults.policy.FaultPolicy`.

    Attributes:
        death: `replace` the dead by new workers (and spread their tasks where there is no room for any), `spread` their
            tasks over the living, or `leave` them out.
        replacements: how often one worker is replaced.
        lost: when the wait rule cannot be met any more: `stop`, or `go_on` with what can still come.
        grow: whether to take room for more workers that the engine offers.
        suspected: whether workers that seem to hang are named only (`report`), replaced, or nobody looks (`ignore`).
        suspect_after: seconds of silence after which a worker is suspected; by default derived from the arrivals.
        verify: whether messages are compared before they are used, and liars put aside.
    """

    death: Literal["replace", "spread", "leave"] = "replace"
    replacements: int = Field(default=3, ge=0)
    lost: Literal["stop", "go_on"] = "stop"
    grow: bool = False
    suspected: Literal["report", "replace", "ignore"] = "report"
    suspect_after: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    verify: bool = False


class Config(_Section):
    """All that a run file may say.

    Attributes:
        scheme: such as `"erasurehead(load=3, wait_for=11)"`, the default for 30 workers. For data other than the
            paper's, without delays, it is `"uncoded()"`: where nobody is late, nothing needs to be left out.
        data: `[data]`.
        problem: `[problem]`.
        optimizer: `[optimizer]`.
        delays: `[delays]`.
        run: `[run]`.
        checkpoints: `[checkpoints]`.
        faults: `[faults]`.
    """

    scheme: str | None = None
    data: DataSection = DataSection()
    problem: ProblemSection = ProblemSection()
    optimizer: OptimizerSection = OptimizerSection()
    delays: DelaysSection = DelaysSection()
    run: RunSection = RunSection()
    checkpoints: CheckpointsSection = CheckpointsSection()
    faults: FaultsSection = FaultsSection()
