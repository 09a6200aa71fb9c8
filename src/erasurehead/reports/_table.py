"""The comparison table: one row per run, with speed-ups over a baseline."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import cast

from erasurehead.errors import invalid, real
from erasurehead.reports import _measures as measures
from erasurehead.training import Run, StepRow
from erasurehead.training._result import Evaluation

_ROUNDING = 1e-12  # tasks: a residual of at most that is 0


@dataclass(frozen=True)
class Basis:
    """What the numbers of a comparison refer to; the same for all of its rows.

    Attributes:
        baseline: name of the run over which speed-ups are computed.
        target: metric and value to reach; None for none.
        by_target: whether speed-ups compare times to the target, as every run has reached it, or times per step.
        metric: the metric of the final values; None if the runs were not evaluated.
    """

    baseline: str
    target: tuple[str, float] | None
    by_target: bool
    metric: str | None

    @property
    def compared(self) -> str:
        """What speed-ups compare, as text."""
        return measures.compared(self.target, self.by_target)


@dataclass(frozen=True)
class ComparisonRow:
    """One row of the table.

    Attributes:
        scheme: name of the scheme; numbered if several runs have the same.
        seconds_per_step: mean wall time of a step, including all waiting; NaN if there were no steps.
        seconds_to_target: seconds of training until the target was reached; None if it was not, or there is none.
        steps_to_target: steps until the evaluation at which the target was reached; None as above.
        speed_up: factor by which it was faster than the baseline, by `basis`; NaN if it is unknown.
        residual: mean residual of the decoding over the steps, in tasks.
        left_out: mean share of the gradient that was not counted, `1 - coverage`, in [0, 1]. With optimal decoding, it
            is the residual divided by the number of tasks.
        arrivals: mean number of workers whose messages had arrived when the waiting stopped.
        n_workers: number of workers.
        received: mean bytes per step of the messages that had arrived when the waiting stopped.
        final: `basis.metric` of the last model; None if it was not evaluated.
        died: number of workers that died.
        incidents: number of other failures: exceptions and refused messages, but not suspicions.
        stopped: why training ended early; empty if it did not.
        basis: what the numbers refer to.
    """

    scheme: str
    seconds_per_step: float
    seconds_to_target: float | None
    steps_to_target: int | None
    speed_up: float
    residual: float
    left_out: float
    arrivals: float
    n_workers: int
    received: float
    final: float | None
    died: int
    incidents: int
    stopped: str
    basis: Basis


def comparison_table(runs: Sequence[Run], target: tuple[str, float] | None = None) -> list[ComparisonRow]:
    """Return the comparison table, one row per run.

    Speed-ups are over the first run whose scheme is `uncoded`, or else over the first run. They compare the times to
    the target if every run has reached it, or else the mean times per step.

    Arguments:
        runs: at least one, trained under the same delays from the same model.
        target: metric and value, such as `("auc", 0.84)`; None for none.

    Raises:
        InvalidArgument: if there is no run, the target is no metric with a value, or its metric was not measured.
    """
    measures.check_runs(runs)
    given = cast("Sequence[object] | None", target)
    if given is not None and not (
        isinstance(given, tuple | list) and len(given) == 2 and math.isfinite(real(given[1]))
    ):
        raise invalid("target", "must be (metric, value)", given, "such as ('auc', 0.84)")
    for run in runs:
        names = sorted({name for evaluation in run.evaluations for name in evaluation.metrics})
        if target is not None and target[0] not in names:
            hint = f"the metrics are {', '.join(names)}" if names else "the run has no evaluations"
            raise invalid("target", f"must name a metric of the run of {run.scheme}", target[0], hint)
    reached = [None if target is None else run.first_at(*target) for run in runs]
    names = measures.numbered_names([run.scheme for run in runs])
    first = next((index for index, run in enumerate(runs) if run.scheme == "uncoded"), 0)
    measured = [run.evaluations[-1].metrics if run.evaluations else () for run in runs]
    metric = measures.common_metric(measured) if target is None else target[0]
    basis = Basis(names[first], target, all(item is not None and item.time > 0 for item in reached), metric)
    return [_row(run, name, item, runs[first], basis) for run, name, item in zip(runs, names, reached, strict=True)]


def _row(run: Run, name: str, reached: Evaluation | None, baseline: Run, basis: Basis) -> ComparisonRow:
    ours, theirs = run.seconds_per_step, baseline.seconds_per_step
    if basis.by_target and basis.target is not None and reached is not None:
        ours, theirs = reached.time, baseline.time_to(*basis.target) or float("nan")

    def mean(value: Callable[[StepRow], float]) -> float:
        return fmean(map(value, run.steps)) if run.steps else float("nan")

    return ComparisonRow(
        scheme=name,
        seconds_per_step=run.seconds_per_step,
        seconds_to_target=None if reached is None else reached.time,
        steps_to_target=None if reached is None else reached.step,
        speed_up=theirs / ours if ours > 0 else float("nan"),
        residual=mean(lambda row: row.residual if row.residual > _ROUNDING else 0.0),
        left_out=mean(lambda row: max(0.0, 1.0 - row.coverage)),
        arrivals=mean(lambda row: row.arrived),
        n_workers=measures.n_workers(run),
        received=mean(lambda row: row.received),
        final=None if basis.metric is None else measures.final_value(run, basis.metric),
        died=len(measures.dead_workers(run)),
        incidents=sum(row.failures for row in run.steps),
        stopped=run.stopped,
        basis=basis,
    )
