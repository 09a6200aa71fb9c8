"""Figures 2 (d)-(f) and 4 (d)-(f): how long a step takes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from erasurehead.papers.erasurehead.bench import Bench
from erasurehead.papers.erasurehead.conditions import conditions
from erasurehead.papers.erasurehead.looks import colour_of
from erasurehead.papers.erasurehead.published import CURVES, DELAYS_MEAN, N_WORKERS, Method
from erasurehead.papers.exhibit import Exhibit
from erasurehead.papers.numbers import Cell, FigureTable
from erasurehead.planning import step_times
from erasurehead.reports import measures
from erasurehead.reports.canvas import FAINT, INK, Axes
from erasurehead.reports.units import time_unit

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
    notes = [*conditions(bench, delayed), "Bars are means over the steps, thin lines a standard error to each side."]
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
    rows = summary.rows()
    unit = time_unit([_number(row[_MEAN]) for row in rows])
    widest = 0.0
    for place, (method, row) in enumerate(zip(CURVES, rows, strict=True)):
        mean, error = _number(row[_MEAN]) / unit.size, _number(row[_ERROR]) / unit.size
        axes.barh(place, mean, height=0.62, color=colour_of(method.family), alpha=0.9)
        axes.hlines(place, mean - error, mean + error, color=INK, linewidth=1.4)
        right = mean + error
        if _EXPECTED in row:
            theory = _number(row[_EXPECTED]) / unit.size
            axes.plot(theory, place, "D", color="white", markeredgecolor=INK, markersize=6)
            right = max(right, theory)
        widest = max(widest, right)
        said = f"{unit.write(mean * unit.size)} {unit.name}"
        axes.annotate(said, (right, place), (7, 0), textcoords="offset points", va="center")
    axes.set_yticks(range(len(rows)), [method.short for method in CURVES])
    axes.invert_yaxis()
    axes.tick_params(axis="y", length=0)
    axes.set_xlim(0, 1.22 * widest or 1.0)
    axes.set_xlabel(f"time per step ({unit.name}), all waiting included")
    axes.grid(axis="x", color=FAINT, linewidth=0.5)
    axes.set_axisbelow(True)


def _number(cell: object) -> float:
    return float(cell) if isinstance(cell, (int, float)) else 0.0
