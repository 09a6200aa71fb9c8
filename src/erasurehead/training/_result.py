"""What training returns: the model, what happened on the way, and how good the model was at each time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead._internal.shown import shown
from erasurehead.errors import counted
from erasurehead.training._evaluator import Measured
from erasurehead.training._optimum import Optimum
from erasurehead.training._rows import ArrivalRow, Notice, StepRow
from erasurehead.training._stopping import Ending
from erasurehead.training._task_counts import Neglected

Status: TypeAlias = Literal["running", "finished", "interrupted", "unreachable", "diverged", "records", "failed"]
"""How a run stands: `running` (or cut off by something that left no time to record it), `finished`, `interrupted` by
Ctrl-C or a signal, ended by the exception `Unreachable`, `Diverged` or `RecordsError`, or `failed` by another error."""

_SMOOTHED = 50
"""The largest number of steps over which a loss is smoothed."""

_ROUNDING = 1e-9
"""Share of a loss by which it may rise through rounding alone."""

_ENOUGH = 5
"""Number of loss estimates from parts of the data that are needed for a meaningful mean."""


@dataclass(frozen=True)
class Evaluation:
    """How good the model was after a number of steps.

    Attributes:
        step: number of steps done; 0 is the initial model.
        time: seconds of training until that step was done.
        metrics: values by name, such as `{"auc": 0.84}`.
    """

    step: int
    time: float
    metrics: Mapping[str, float]


_LITTLE = 1e-4  # of the objective


@dataclass(frozen=True)
class FinalModel:
    """How good the final model is: computed from the data after the clock has stopped, not estimated.

    Attributes:
        objective: the mean loss over the training samples in reach, plus the penalty.
        first_objective: the same for the first model, over the same samples.
        share: the fraction of the training data that these samples are: 1 for all of it; less where tasks were lost, or
            shards are out of the coordinator's reach.
        gradient_norm: Euclidean norm of the objective's gradient at the final model; NaN for functions of JAX and
            modules of PyTorch, where it would take another pass back over all data.
        first_gradient_norm: the same at the first model.
        column_scales: the smallest and the largest root mean square among columns that are not 0 throughout; None where
            the problem does not know its columns.
        without_minimum: whether the objective is known to have no minimum: without a penalty, that of classes which the
            data tell apart falls for ever as the model grows, and the run has ended somewhere on this way. Where False,
            there may be none all the same.
        unseen_gain: by how much the objective would fall at least along directions that columns which are nearly
            collinear hide from the optimizer; None if there are none, or it does not know.
        before_rise: where the loss estimates rise from a minimum, but come from different parts of the data: the number
            of steps of a model at that minimum, and its objective over the samples above. None where they do not rise,
            or no model from there was kept.
    """

    objective: float
    first_objective: float
    share: float
    gradient_norm: float
    first_gradient_norm: float
    column_scales: tuple[float, float] | None = None
    without_minimum: bool = False
    before_rise: tuple[int, float] | None = None
    unseen_gain: float | None = None

    @property
    def collinear(self) -> bool:
        """Whether more than a ten-thousandth of the objective is left to gain, as columns are nearly collinear."""
        return self.unseen_gain is not None and self.unseen_gain > _LITTLE * abs(self.objective)

    @property
    def gradient_left(self) -> float:
        """Norm of the gradient, relative to that at the first model; 0 where that was 0."""
        return self.gradient_norm / self.first_gradient_norm if self.first_gradient_norm else 0.0

    @property
    def worse(self) -> bool:
        """Whether training has made the model worse: its objective is a tenth above the first's, or not finite."""
        return far_above(self.objective, self.first_objective)


def far_above(objective: float, first: float) -> bool:
    """Return whether an objective is a tenth above that of the first model, or not finite."""
    return not objective <= first + 0.1 * abs(first) + 1e-9


@dataclass(frozen=True)
class Rise:
    """The training loss has risen from its minimum.

    Attributes:
        best: the smallest mean of the loss estimates over some steps.
        step: the last of those steps.
        last: the mean over the last steps.
        exact: whether the last of these losses were computed from all data, not estimated.
    """

    best: float
    step: int
    last: float
    exact: bool


@dataclass(eq=False)
class Run:
    """A training run.

    Attributes:
        scheme: name of the scheme.
        engine: name of the engine.
        x: the final model, shape (n_parameters,).
        steps: one row per step. Those of a run with a folder are read from it when they are asked for.
        arrivals: one row per message; likewise.
        start_seconds: from nothing to all workers ready; not part of any other time.
        evaluations: metrics of the model along the way; empty if there is nothing to evaluate on.
        status: how it ended, one of `Status`.
        stopped: why training ended before its last step, in words; empty if it did not.
        summary: the contents of `summary.json` (or what they would be, if it could have been written), with `model`:
            the folder in which the model was saved, None if there is none; empty if no records were to be kept.
        final: the exact objective of the final model, and more; None where it is not known, such as after a run that
            was told to end at once, or that diverged.
        ended: what ended it, if nothing went wrong: `"steps"`, all are taken; `"until"`, the target is reached;
            `"patience"`, nothing got better; `"max_seconds"`, its time was up; or `"converged"`, the gradient has
            vanished or the optimizer has converged. None if the run was stopped.
        measured: values of the metric of `until` or `patience`, along the way; the last one of a run from a folder.
        optimum: the minimum of the objective, if gaps were asked for.
        neglected: tasks that over the last 50 steps were counted less than a fifth as often as the average task, or
            never in the whole run.
        last: notices since the last step that was finished, of trackers that failed to close, for one.
    """

    scheme: str
    engine: str
    x: Array
    steps: Sequence[StepRow] = ()
    arrivals: Sequence[ArrivalRow] = ()
    start_seconds: float = 0.0
    evaluations: list[Evaluation] = field(default_factory=list[Evaluation])
    status: Status = "finished"
    stopped: str = ""
    summary: dict[str, Any] = field(default_factory=dict[str, Any])
    final: FinalModel | None = None
    neglected: Sequence[Neglected] = ()
    ended: Ending | None = None
    measured: Sequence[Measured] = ()
    optimum: Optimum | None = None
    last: Sequence[Notice] = ()

    def __repr__(self) -> str:
        return f"Run({self.scheme}, {self.status}: {counted('step', self.steps_taken)} in {self.seconds:.4g} s)"

    def _repr_html_(self) -> str:
        return shown("reports._run_pages", "run_page")(self)

    def plot(self, ax: Any = None, kind: str = "progress") -> Any:
        """Draw the run with matplotlib (the extra `report`), and return the axes.

        Arguments:
            ax: where to draw; by default in a new figure.
            kind: `"progress"`, the quality of the model over time; `"step_times"`, how long steps took; or
                `"timeline"`, what each worker did in the first steps.

        Raises:
            InvalidArgument: if there is no such picture, or `ax` is something else.
            MissingExtra: if matplotlib is not installed.
        """
        return shown("reports._run_pages", "plot_run")(self, ax, kind)

    @property
    def notices(self) -> list[Notice]:
        """All notices of its steps, in order, and `last`."""
        return [*(notice for row in self.steps for notice in row.notices), *self.last]

    @property
    def steps_taken(self) -> int:
        """Number of steps, including those whose rows were lost."""
        return self.steps[-1].step + 1 if self.steps else 0

    @property
    def objective(self) -> float | None:
        """The exact objective of the final model; None where it is not known. See `final`."""
        return None if self.final is None else self.final.objective

    @property
    def rise(self) -> Rise | None:
        """How far the training loss has risen from its best, smoothed over a tenth of the steps; None if it has not.

        Only losses over the same data are compared: those of the steps, where the smallest and the last ones are from
        all data, or from the same messages; otherwise the objectives of two models (`FinalModel.before_rise`). A rise
        by less than a tenth of the fall does not count, nor does one that noise or rounding may account for. Points
        that an optimizer tried and rejected do not count.
        """
        suspected = self.suspected_rise
        if suspected is None or suspected[1]:
            return None if suspected is None else suspected[0]
        final = self.final
        if final is None or final.before_rise is None:
            return None
        step, best = final.before_rise
        if final.objective - best <= 0.1 * (final.first_objective - best) + _ROUNDING * abs(best):
            return None
        return Rise(best, step, final.objective, exact=True)

    @cached_property
    def suspected_rise(self) -> tuple[Rise, bool] | None:
        """How far the loss estimates of the steps have risen, and whether they are comparable; None if not."""
        losses = np.array(
            [np.nan if row.loss is None or row.rejected else row.loss for row in self.steps], dtype=np.float64
        )
        numbers = ~np.isnan(losses)
        taken: list[int] = np.flatnonzero(numbers).tolist()
        losses = losses[numbers]
        width = max(1, min(_SMOOTHED, len(losses) // 10))
        if len(losses) < 2:
            return None
        ending = [self.steps[place] for place in taken[-width:]]
        exact = _all_counted(ending)
        if width < _ENOUGH and not exact:  # too few estimates
            return None
        finite = np.isfinite(losses)
        if not finite.all():  # it has diverged
            if not finite.any():
                return None
            place = int(np.where(finite, losses, np.inf).argmin())
            return Rise(float(losses[place]), self.steps[taken[place]].step, float("inf"), exact), True
        sums = np.concatenate([[0.0], np.cumsum(losses)])
        means = (sums[width:] - sums[:-width]) / width
        place = int(means.argmin())
        best, last = float(means[place]), float(losses[-width:].mean())
        noise = 2.0 * float(losses[-width:].std()) / width**0.5 if width > 1 else 0.0
        if last - best <= 0.1 * (float(losses[0]) - best) + noise + _ROUNDING * abs(best):
            return None
        lowest = [self.steps[place] for place in taken[place : place + width]]
        return Rise(best, lowest[-1].step, last, exact), _of_the_same_data([*lowest, *ending])

    @property
    def seconds(self) -> float:
        """Wall time of all steps, in seconds, with all waiting, without start and evaluation."""
        return self.steps[-1].end if self.steps else 0.0

    @property
    def seconds_per_step(self) -> float:
        """Mean wall time of a step, in seconds; NaN if there are no steps."""
        return self.seconds / self.steps_taken if self.steps else float("nan")

    @property
    def losses(self) -> Array:
        """Estimates of the training objective at the beginning of each step, shape (n_steps,); NaN where unknown."""
        return np.array([np.nan if row.loss is None else row.loss for row in self.steps])

    @property
    def times(self) -> Array:
        """Seconds of training at the end of each step, shape (n_steps,)."""
        return np.array([row.end for row in self.steps])

    def time_to(self, metric: str, target: float) -> float | None:
        """Return the seconds of training after which a metric first reached a target, or None if it never did.

        Losses and errors (`LOWER_IS_BETTER`) must fall to the target, all others must rise to it.
        """
        first = self.first_at(metric, target)
        return None if first is None else first.time

    def first_at(self, metric: str, target: float) -> Evaluation | None:
        """Return the first evaluation at which a metric had reached a target, as for `time_to`; None if none had."""
        falling = metric in LOWER_IS_BETTER
        for evaluation in self.evaluations:
            value = evaluation.metrics[metric]
            if value <= target if falling else value >= target:
                return evaluation
        return None


@dataclass(frozen=True, eq=False)
class Resumption:
    """The state of an earlier run from which to continue.

    Attributes:
        state: the state that `Callback.on_state` was given.
        steps: the rows of all steps until then.
        arrivals: the rows of all messages until then.
    """

    state: Mapping[str, Any]
    steps: Sequence[StepRow]
    arrivals: Sequence[ArrivalRow]


LOWER_IS_BETTER = frozenset({"loss", "mse", "rmse", "mae", "deviance", "pinball", "log_loss", "objective"})
"""Metrics for which smaller values are better."""


def _of_the_same_data(rows: Sequence[StepRow]) -> bool:
    """Whether all of these losses were computed from all data, or from the same messages."""
    return _all_counted(rows) or all((row.used, row.coverage) == (rows[0].used, rows[0].coverage) for row in rows)


def _all_counted(rows: Sequence[StepRow]) -> bool:
    return all(abs(row.coverage - 1.0) < 1e-9 for row in rows)
