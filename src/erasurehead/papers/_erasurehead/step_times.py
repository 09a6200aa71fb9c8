"""Figures 2 (d)-(f) and 4 (d)-(f): how long a step takes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from erasurehead.papers._erasurehead.bench import Bench
from erasurehead.papers._erasurehead.published import CURVES, DELAYS_MEAN, N_WORKERS, Method, colour_of
from erasurehead.papers._exhibit import Exhibit, dress
from erasurehead.papers._numbers import Cell, FigureTable
from erasurehead.planning import _step_times as step_times
from erasurehead.reports import _measures as measures
from erasurehead.reports._canvas import INK, Axes
from erasurehead.reports._units import time_unit

_MEAN, _ERROR, _EXPECTED = "mean seconds per step", "standard error", "expected by theory"


def step_times_of(bench: Bench, id: str, delayed: bool) -> Exhibit:
    """Return one panel: the mean time of a step for each method."""
    seconds = {method: measures.step_seconds(bench.run(method, delayed)) for method in CURVES}
    rows = [
        (method.label, method.family, method.load, method.wait_for, step, value)
        for method, values in seconds.items()
        for step, value in enumerate(values)
    ]
    numbers = FigureTable.of(("method", "family", "load", "wait_for", "step", "seconds"), rows)
    summary = _summary(bench, seconds, delayed)
    title = f"Figure {id[0]}({id[1]}), {bench.title}: time per step"
    notes = [*bench.conditions(delayed), "Bars are means over the steps, thin lines a standard error to each side."]
    if delayed:
        notes.append(
            "Diamonds are what theory expects of this law: computing, and means of order statistics (Lemmas 6 and 7)."
        )
    panel = f"({id[1]}) {bench.title}"
    return Exhibit(id, f"figure-{id}", title, notes, numbers, summary, partial(_draw, summary=summary), panel)


def _summary(bench: Bench, seconds: Mapping[Method, list[float]], delayed: bool) -> FigureTable:
    means = [float(np.mean(values)) for values in seconds.values()]
    columns: dict[str, Sequence[Cell]] = {
        "method": [method.label for method in seconds],
        _MEAN: means,
        _ERROR: [_error(values) for values in seconds.values()],
    }
    if delayed:
        columns[_EXPECTED] = [expected(bench, method) for method in seconds]
    columns["times as fast as uncoded"] = [means[0] / mean if mean > 0 else None for mean in means]
    return FigureTable(columns)


def expected(bench: Bench, method: Method) -> float:
    """Return the mean time of a step under the published delays, in closed form: computing, and Lemmas 6 and 7.

    The law is additive: the delay does not grow with the load, as in the experiments and unlike the paper's section 4.
    """
    law = step_times.additive(method.load, bench.seconds_per_task(True), 1.0 / DELAYS_MEAN)
    if method.family == "uncoded":
        return step_times.first_arrivals(law, N_WORKERS, N_WORKERS)
    if method.family == "exact":
        return step_times.all_groups(law, N_WORKERS, method.load)
    return step_times.first_or_all_groups(law, N_WORKERS, method.load, method.wait_for)


def _error(seconds: list[float]) -> float | None:
    return float(np.std(seconds, ddof=1)) / math.sqrt(len(seconds)) if len(seconds) > 1 else None


def _draw(axes: Axes, summary: FigureTable) -> None:
    unit = time_unit(summary.column(_MEAN).tolist())
    places, colours = range(len(CURVES)), [colour_of(method.family) for method in CURVES]
    mean, error = (np.nan_to_num(summary.column(name)) / unit.size for name in (_MEAN, _ERROR))
    right = mean + error
    axes.barh(places, mean, height=0.62, color=colours, alpha=0.9)
    axes.hlines(places, mean - error, right, color=INK, linewidth=1.4)
    if _EXPECTED in summary.columns:
        theory = summary.column(_EXPECTED) / unit.size
        axes.plot(theory, places, "D", color="white", markeredgecolor=INK, markersize=6)
        right = np.maximum(right, theory)
    for place, own, end in zip(places, mean, right, strict=True):
        text = f"{unit.write(own * unit.size)} {unit.name}"
        axes.annotate(text, (end, place), (7, 0), textcoords="offset points", va="center")
    axes.set_yticks(places, [method.short for method in CURVES])
    axes.invert_yaxis()
    axes.tick_params(axis="y", length=0)
    axes.set_xlim(0, 1.22 * right.max() or 1.0)
    dress(axes, f"time per step ({unit.name}), all waiting included", lines="x")
