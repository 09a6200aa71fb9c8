"""Measures of runs for reports: counts and means of their rows, in convenient units."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from statistics import fmean

from erasurehead.errors import invalid
from erasurehead.training.result import LOWER_IS_BETTER, Run
from erasurehead.training.rows import StepRow

PREFERRED = ("auc", "accuracy", "mse", "log_loss")
"""Metrics that figures show, in order of preference."""

_NAMES = {"auc": "AUC", "mse": "MSE", "log_loss": "log loss", "r2": "R²", "loss": "training loss"}


def check_runs(runs: Sequence[Run]) -> Sequence[Run]:
    """Return the runs, or raise where there are none."""
    if not runs:
        raise invalid("runs", "must have at least one run", list(runs))
    return runs


def scheme_names(runs: Sequence[Run]) -> list[str]:
    """Return the label of each run: its scheme, with a number where several have the same."""
    return told_apart([run.scheme for run in runs])


def told_apart(names: Sequence[str], form: str = "{} ({})") -> list[str]:
    """Return names, each with a number behind it where several are the same.

    Arguments:
        names: in order.
        form: of a name and its number.

    >>> told_apart(["exact", "uncoded", "exact"])
    ['exact (1)', 'uncoded', 'exact (2)']
    """
    total, seen = Counter(names), Counter[str]()
    told: list[str] = []
    for name in names:
        seen[name] += 1
        told.append(name if total[name] == 1 else form.format(name, seen[name]))
    return told


def compared(target: tuple[str, float] | None, by_target: bool) -> str:
    """Return what speed-ups compare, in words.

    Arguments:
        target: metric and value, or None.
        by_target: whether times to it are compared, rather than times per step.
    """
    return f"time to {target_name(target)}" if target is not None and by_target else "time per step"


def missed(names: Sequence[str], times: Sequence[float | None], target: tuple[str, float] | None) -> list[str]:
    """Return which runs did not reach the target, each in a sentence.

    Arguments:
        names: of the runs.
        times: seconds to the target of each; None where it was not reached.
        target: metric and value; None for none.
    """
    if target is None:
        return []
    late = [name for name, time in zip(names, times, strict=True) if time is None]
    return [f"{name} did not reach {target_name(target)}." for name in late]


def ended_early(names: Sequence[str], stopped: Sequence[str]) -> list[str]:
    """Return which runs ended early and why, each in a sentence.

    Arguments:
        names: of the runs.
        stopped: why each ended early; empty where it did not.
    """
    return [f"{name} ended early: {why.rstrip('.')}." for name, why in zip(names, stopped, strict=True) if why]


def cut(name: str, width: int, lines: int = 1) -> str:
    """Return a name wrapped to `lines` lines of `width` characters, with an ellipsis if it does not fit."""
    return "\n".join(textwrap.wrap(name, width, max_lines=lines, placeholder="…"))


def baseline_of(runs: Sequence[Run]) -> int:
    """Return the index of the baseline: the first `uncoded` run, or otherwise the first run."""
    return next((index for index, run in enumerate(runs) if run.scheme == "uncoded"), 0)


def metric_of(runs: Sequence[Run]) -> str | None:
    """Return the metric by which to compare runs: the first of `PREFERRED`, or otherwise alphabetically, that all have.

    None where they were not evaluated.
    """
    measured = [set(run.evaluations[-1].metrics) if run.evaluations else set[str]() for run in runs]
    common = measured[0].intersection(*measured[1:])
    return next((name for name in (*PREFERRED, *sorted(common)) if name in common), None)


def final_value(run: Run, metric: str) -> float | None:
    """Return a metric of the last model that was evaluated; None where it was not."""
    return run.evaluations[-1].metrics.get(metric) if run.evaluations else None


def n_workers(run: Run) -> int:
    """Return the number of workers: those that sent, were late, or died."""
    return len({row.worker for row in run.arrivals} | died(run))


def died(run: Run) -> set[int]:
    """Return the workers that died, including those that came back."""
    return {worker for row in run.steps for worker in (*row.dead, *row.workers_noticed("died"))}


def mean_over_steps(run: Run, value: Callable[[StepRow], float]) -> float:
    """Return the mean of something over the steps; NaN if there are none."""
    return fmean(map(value, run.steps)) if run.steps else float("nan")


def step_seconds(run: Run) -> list[float]:
    """Return the wall time of each step, from the end of the one before, so that they add up to `run.seconds`."""
    ends = [0.0, *(row.end for row in run.steps)]
    return [end - begin for begin, end in pairwise(ends)]


def metric_name(metric: str) -> str:
    """Return a metric as people write it."""
    return _NAMES.get(metric, metric.replace("_", " "))


def target_name(target: tuple[str, float]) -> str:
    """Return a target as people write it, such as `"AUC 0.84"`."""
    return f"{metric_name(target[0])} {target[1]:g}"


def clock(runs: Sequence[Run]) -> str:
    """Return what time was measured with: the time of a virtual engine is not wall-clock time."""
    return clock_of([run.engine == "virtual" for run in runs])


def clock_of(virtual: Sequence[bool]) -> str:
    """Return what time was measured with, of runs of which it is known whether their clock was a virtual one."""
    return "virtual time" if all(virtual) else "wall-clock time" if not any(virtual) else "time"


LEGEND = 48
"""Letters of a name in a legend."""

HIGHEST = 1e100
"""Losses beyond are not drawn: of a run that has diverged so far, what matplotlib computes of an axis overflows."""

WIDE = 20.0
"""Longest over shortest, from which on an axis is logarithmic: on a linear one the shortest could not be seen."""


def is_wide(values: Sequence[float]) -> bool:
    """Whether positive numbers are so far apart that only a logarithmic axis shows all of them."""
    return len(values) > 1 and min(values) > 0.0 and max(values) > WIDE * min(values)


def falls(metric: str) -> bool:
    """Whether less of a metric is better."""
    return metric in LOWER_IS_BETTER


_SHARE = 0.95
"""The share of the way to the best value that all runs reach, at which a target lies if the user names none."""


def reached_by_all(values: Sequence[Sequence[float]], metric: str) -> float | None:
    """Return a value that every run reached: 95% of the way from the first model to the worst run's best one.

    Arguments:
        values: of the metric, run by run, at least one each; from the same first model.
        metric: its name.

    Returns:
        The value, to four digits; None if some run never got better.
    """
    start, falling = values[0][0], falls(metric)
    bests = [min(seen) if falling else max(seen) for seen in values]
    worst = max(bests) if falling else min(bests)
    if not (worst < start if falling else worst > start):
        return None
    return float(f"{start + _SHARE * (worst - start):.4g}")


def check_target(target: tuple[str, float] | None, runs: Sequence[Run]) -> None:
    """Raise if a target's metric was not measured in every run."""
    if target is None:
        return
    for run in runs:
        known = sorted({name for evaluation in run.evaluations for name in evaluation.metrics})
        if target[0] not in known:
            instead = f"the metrics are {', '.join(known)}" if known else "the run has no evaluations"
            raise invalid("target", f"must name a metric of the run of {run.scheme}", target[0], instead)
