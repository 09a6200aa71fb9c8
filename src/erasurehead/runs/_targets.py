"""Targets of comparisons: a metric and a value of it, as texts and as what all runs reach."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from erasurehead.errors import invalid
from erasurehead.reports._measures import Aim, reached_by_all
from erasurehead.runs._experiment import Experiment
from erasurehead.training import Run

_RANGES: Mapping[str, tuple[float, float]] = {
    **dict.fromkeys(("auc", "pr_auc", "accuracy"), (0.0, 1.0)),
    "r2": (-math.inf, 1.0),
    **dict.fromkeys(("mse", "rmse", "mae", "deviance", "pinball", "log_loss", "error"), (0.0, math.inf)),
}
"""The range of each metric."""


def parse_target(text: str) -> Aim:
    """Return the metric and the value of a target.

    >>> parse_target("auc=0.84")
    ('auc', 0.84)
    """
    metric, equals, value = (part.strip() for part in text.partition("="))
    try:
        number = float(value)
    except ValueError:
        number = float("nan")
    if not equals or not metric or number != number:
        raise invalid(
            "target", "must be a metric and a value", text, "write auc=0.84; the column of the labels is --label"
        )
    low, high = _RANGES.get(metric, (-math.inf, math.inf))
    if not low <= number <= high or math.isinf(number):
        bounds = f"from {low:g} to {high:g}" if math.isfinite(low + high) else _one_sided(low, high)
        raise invalid("target", f"must be a value that {metric} can have, {bounds}", text)
    return metric, number


def _one_sided(low: float, high: float) -> str:
    if math.isinf(low) and math.isinf(high):
        return "which is finite"
    return f"of at most {high:g}" if math.isinf(low) else f"of at least {low:g}"


def common_target(runs: Sequence[Run], metric: str | None = None) -> Aim | None:
    """Return a target that every run reached: 95% of the way from the first model to the worst run's best one.

    Arguments:
        runs: from the same first model.
        metric: by default the first one that was measured.

    Returns:
        Metric and value, to four digits; None if there are no evaluations, or some run never got better.
    """
    if not all(run.evaluations for run in runs):
        return None
    start = runs[0].evaluations[0].metrics
    chosen = metric if metric is not None and metric in start else next(iter(start))
    values = [[evaluation.metrics.get(chosen, float("nan")) for evaluation in run.evaluations] for run in runs]
    value = reached_by_all(values, chosen)
    return None if value is None else (chosen, value)


def check_metric(target: Aim, experiment: Experiment) -> None:
    """Raise if the target's metric is never measured.

    Raises:
        InvalidArgument: if so; the error names the metrics that are.
    """
    metrics = experiment.problem.metrics(experiment.first_model()) if experiment.config.run.evaluate_every else {}
    if target[0] not in metrics:
        hint = f"the metrics are {', '.join(metrics)}" if metrics else "there are no test rows, or no evaluations"
        raise invalid("target", "must name a metric that is measured", target[0], hint)
