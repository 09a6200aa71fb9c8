"""Figures of merit, texts and curves of runs, for reports."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from itertools import pairwise
from typing import TypeAlias

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead.errors import invalid
from erasurehead.reports import _canvas as canvas
from erasurehead.reports._canvas import Axes, RunStyle
from erasurehead.reports._units import Unit
from erasurehead.training import Run
from erasurehead.training._result import LOWER_IS_BETTER

Aim: TypeAlias = tuple[str, float]
"""A metric, and the value of it that is to be reached."""

PREFERRED = ("auc", "accuracy", "mse", "log_loss")
"""Metrics that figures show, in order of preference."""

_NAMES = {
    **{name: name.upper() for name in ("auc", "mse", "rmse", "mae")},
    "pr_auc": "PR-AUC",
    "log_loss": "log loss",
    "r2": "R²",
    "loss": "training loss",
}


def common_metric(measured: Sequence[Iterable[str]]) -> str | None:
    """Return the metric by which to compare runs: of those that all have, the preferred one, or the first by name.

    Arguments:
        measured: the metrics of each run.
    """
    common = set(measured[0]).intersection(*measured[1:])
    return next((name for name in (*PREFERRED, *sorted(common)) if name in common), None)


def check_runs(runs: Sequence[Run]) -> Sequence[Run]:
    """Check that there is at least one run, and return them.

    Raises:
        InvalidArgument: if there is none.
    """
    if not runs:
        raise invalid("runs", "must have at least one run", list(runs))
    return runs


def numbered_names(names: Sequence[str], form: str = "{} ({})") -> list[str]:
    """Return names, with a number appended to those that occur several times.

    Arguments:
        names: the names, in order.
        form: format of a name and its number.

    >>> numbered_names(["exact", "uncoded", "exact"])
    ['exact (1)', 'uncoded', 'exact (2)']
    """
    total, seen = Counter(names), Counter[str]()
    numbered: list[str] = []
    for name in names:
        seen[name] += 1
        numbered.append(name if total[name] == 1 else form.format(name, seen[name]))
    return numbered


def compared(target: tuple[str, float] | None, by_target: bool) -> str:
    """Return what speed-ups compare, as text.

    Arguments:
        target: metric and value; None for none.
        by_target: whether they compare times to the target, and not times per step.
    """
    return f"time to {target_name(target)}" if target is not None and by_target else "time per step"


def target_notes(names: Sequence[str], times: Sequence[float | None], target: tuple[str, float] | None) -> list[str]:
    """Return a sentence for each run that has not reached the target.

    Arguments:
        names: names of the runs.
        times: seconds to the target of each run; None if it was not reached.
        target: metric and value; None for none.
    """
    if target is None:
        return []
    late = [name for name, time in zip(names, times, strict=True) if time is None]
    return [f"{name} did not reach {target_name(target)}." for name in late]


def early_end_notes(names: Sequence[str], stopped: Sequence[str]) -> list[str]:
    """Return a sentence for each run that has ended early.

    Arguments:
        names: names of the runs.
        stopped: why each run ended early; empty if it did not.
    """
    return [f"{name} ended early: {reason.rstrip('.')}." for name, reason in zip(names, stopped, strict=True) if reason]


def shorten(name: str, width: int, lines: int = 1) -> str:
    """Return a name wrapped to `lines` lines of `width` characters, with an ellipsis if it does not fit."""
    return "\n".join(textwrap.wrap(name, width, max_lines=lines, placeholder="…"))


def together(names: Sequence[str], width: int) -> str:
    """Return one label for runs that went the same way.

    >>> together(["exact", "cyclic"], 20), together(["exact(load=2)", "exact(load=3)", "exact"], 24)
    ('exact = cyclic', 'exact(load=2) and 2 more')
    """
    text, more = " = ".join(names), f" and {len(names) - 1} more"
    return (
        text
        if len(text) <= width
        else shorten(names[0], width - len(more)) + more
        if names[1:]
        else shorten(text, width)
    )


def alike(keys: Sequence[Hashable]) -> list[list[int]]:
    """Return the places of equal keys, group by group.

    >>> alike(["a", "b", "a"])
    [[0, 2], [1]]
    """
    groups: dict[Hashable, list[int]] = {}
    for place, key in enumerate(keys):
        groups.setdefault(key, []).append(place)
    return list(groups.values())


def final_value(run: Run, metric: str) -> float | None:
    """Return a metric of the last evaluated model; None if it was not measured."""
    return run.evaluations[-1].metrics.get(metric) if run.evaluations else None


def n_workers(run: Run) -> int:
    """Return the number of workers, including those that were always late, or died."""
    return len({row.worker for row in run.arrivals} | dead_workers(run))


def dead_workers(run: Run) -> set[int]:
    """Return the workers that have died, including those that were replaced."""
    return {worker for row in run.steps for worker in (*row.dead, *row.workers_noticed("died"))}


def step_seconds(run: Run) -> list[float]:
    """Return the wall time of each step, from the end of the one before, so that they add up to `run.seconds`."""
    ends = [0.0, *(row.end for row in run.steps)]
    return [end - begin for begin, end in pairwise(ends)]


def metric_name(metric: str) -> str:
    """Return the display name of a metric."""
    return _NAMES.get(metric, metric.replace("_", " "))


def target_name(target: tuple[str, float]) -> str:
    """Return the text of a target, such as `"AUC 0.84"`."""
    return f"{metric_name(target[0])} {target[1]:g}"


def clock(runs: Sequence[Run]) -> str:
    """Return the kind of time of runs, as text: that of the virtual engine is not wall-clock time."""
    return clock_of([run.engine == "virtual" for run in runs])


def clock_of(virtual: Sequence[bool]) -> str:
    """Return the kind of time of runs, as text, given whether each is virtual."""
    return "virtual time" if all(virtual) else "wall-clock time" if not any(virtual) else "time"


LEGEND_WIDTH = 48
"""Characters of a name in a legend."""

MAX_DRAWN = 1e100
"""Larger losses, of runs that have diverged, are not drawn, as matplotlib would overflow."""

_LOG_RATIO = 20.0
"""Ratio of the largest to the smallest value from which on an axis is logarithmic."""


def needs_log_axis(values: Sequence[float]) -> bool:
    """Return whether positive numbers differ so much that only a logarithmic axis shows all of them."""
    return len(values) > 1 and min(values) > 0.0 and max(values) > _LOG_RATIO * min(values)


def log_edge(curves: Sequence[tuple[Array, Array]]) -> float | None:
    """Return the left edge of a logarithmic axis of time; None if a linear one does not hide the fastest run."""
    ends = [float(times[-1]) for times, _ in curves if len(times) and times[-1] > 0.0]
    firsts = [float(times[times > 0.0][0]) for times, _ in curves if (times > 0.0).any()]
    return 0.5 * min(firsts) if needs_log_axis(ends) else None


def draw_over_time(
    axes: Axes,
    names: Sequence[str],
    curves: Sequence[tuple[Array, Array]],
    styles: Sequence[RunStyle],
    clock: str,
    unit: Unit,
    left: float | None,
) -> None:
    """Draw values of runs over the time of training.

    Runs that went the same way are one curve, which has all of their names. A logarithmic axis has no 0: the first
    model, of that time, is drawn from the left edge until the next one was measured. A line from one to the other would
    be one that nobody has measured, and most of it would be as high as the next one.

    Arguments:
        axes: the axes to draw into.
        names: names of the runs.
        curves: seconds, ascending, and values of each run.
        styles: style of each run.
        clock: the kind of time.
        unit: unit of the axis of time.
        left: left edge of a logarithmic axis, in seconds; None for a linear one.
    """
    for group in alike([(times.tobytes(), values.tobytes()) for times, values in curves]):
        index = group[0]
        (times, values), name = curves[index], together([names[place] for place in group], LEGEND_WIDTH)
        if left is not None and len(times) > 1 and times[0] <= left:
            times, values = np.r_[left, times[1], times[1:]], np.r_[values[0], values[0], values[1:]]
        canvas.curve(axes, times / unit.size, values, styles[index], name, index)
    if left is not None:
        axes.set_xscale("log")
        axes.set_xlim(left / unit.size, 1.1 * max(float(times[-1]) for times, _ in curves if len(times)) / unit.size)
        canvas.plain_ticks(axes.xaxis)
    axes.set_xlabel(f"{clock} ({unit.name}), all waiting included")
    axes.grid(color=canvas.FAINT, linewidth=0.5)


def limit_values(axes: Axes, curves: Sequence[Array], target: Aim | None, falls: bool) -> None:
    """Choose the axis of values: without the first model, next to which all differences would be invisible.

    Arguments:
        axes: the axes with the curves.
        curves: the values of each.
        target: what is to be reached, and seen.
        falls: whether smaller values are better: then the axis is logarithmic where the last ones would be near zero.
    """
    heights = np.concatenate([*(values[1:] for values in curves), [] if target is None else target[1:]])
    heights = heights[np.abs(heights) < MAX_DRAWN]
    low, high = (float(heights.min()), float(heights.max())) if len(heights) else (0.0, 1.0)
    if falls and needs_log_axis([low, high]):
        # Limits before the scale: automatic margins overflow for runs that have diverged.
        axes.set_ylim(low / 1.2, high * 1.2)
        axes.set_yscale("log")
        canvas.plain_ticks(axes.yaxis)
        return
    margin = 0.08 * (high - low) or 0.01
    axes.set_ylim(low - margin, high + margin)


def lower_is_better(metric: str) -> bool:
    """Return whether smaller values of a metric are better."""
    return metric in LOWER_IS_BETTER


_TARGET_FRACTION = 0.95
"""The default target is at this fraction of the way from the first value to the best one that all runs reach."""


def reached_by_all(values: Sequence[Sequence[float]], metric: str) -> float | None:
    """Return a value that every run reached: 95% of the way from the first model to the worst run's best one.

    Arguments:
        values: the values of the metric in each run, at least one, beginning with the same model.
        metric: name of the metric.

    Returns:
        The value, to four digits; None if a run has not improved.
    """
    start, falling = values[0][0], lower_is_better(metric)
    bests = [min(seen) if falling else max(seen) for seen in values]
    worst = max(bests) if falling else min(bests)
    if not (worst < start if falling else worst > start):
        return None
    return float(f"{start + _TARGET_FRACTION * (worst - start):.4g}")
