"""Figures 2 (a)-(c) and 4 (a)-(c): a metric of the model against time."""

from __future__ import annotations

from functools import partial

import numpy as np

from erasurehead.papers.erasurehead.bench import Bench
from erasurehead.papers.erasurehead.conditions import conditions
from erasurehead.papers.erasurehead.looks import look_of
from erasurehead.papers.erasurehead.published import CURVES, Method
from erasurehead.papers.exhibit import Exhibit
from erasurehead.papers.numbers import FigureTable
from erasurehead.reports import measures
from erasurehead.reports.canvas import FAINT, INK, Axes
from erasurehead.reports.units import time_unit
from erasurehead.runs.comparison import common_target

Target = tuple[str, float] | None


def convergence(bench: Bench, id: str, delayed: bool) -> Exhibit:
    """Return one panel: a metric on the test rows against time, waiting included."""
    runs = {method: bench.run(method, delayed) for method in CURVES}
    metric = bench.metric
    target = common_target(list(runs.values()), metric)
    names = ("method", "family", "load", "wait_for", "step", "seconds", metric)
    rows = [
        (method.label, method.family, method.load, method.wait_for, point.step, point.time, point.metrics.get(metric))
        for method, run in runs.items()
        for point in run.evaluations
    ]
    numbers, name = FigureTable.of(names, rows), measures.metric_name(metric)
    return Exhibit(
        id,
        f"figure-{id}",
        f"Figure {id[0]}({id[1]}), {bench.title}: test {name} against time",
        conditions(bench, delayed),
        numbers,
        _summary(bench, delayed, target),
        partial(_draw, numbers=numbers, metric=metric, target=target, clock=measures.clock(list(runs.values()))),
        f"({id[1]}) {bench.title}",
    )


def _summary(bench: Bench, delayed: bool, target: Target) -> FigureTable:
    metric = bench.metric
    to = "seconds to target" if target is None else f"seconds to {measures.target_name(target)}"
    baseline = None if target is None else bench.run(CURVES[0], delayed).time_to(*target)
    rows: list[tuple[str, float | None, float, float | None, float | None]] = []
    for method in CURVES:
        run = bench.run(method, delayed)
        reached = None if target is None else run.time_to(*target)
        gain = baseline / reached if baseline and reached else None
        rows.append((method.label, measures.final_value(run, metric), run.seconds, reached, gain))
    last = f"{measures.metric_name(metric)} after {bench.settings.steps} steps"
    return FigureTable.of(("method", last, "seconds for all steps", to, "times as fast as uncoded"), rows)


def _draw(axes: Axes, numbers: FigureTable, metric: str, target: Target, clock: str) -> None:
    columns = {name: np.array(cells) for name, cells in numbers.columns.items()}
    seconds, values = columns["seconds"].astype(float), columns[metric].astype(float)
    until = _until(columns["method"], seconds, values, metric, target)
    unit = time_unit([until])
    for method in CURVES:
        own = columns["method"] == method.label
        style = look_of(method)
        axes.plot(
            seconds[own] / unit.size,
            values[own],
            style.line,
            color=style.colour,
            linewidth=2.0,
            marker=style.marker,
            markersize=5,
            markevery=_marked(method, int(own.sum())),
            label=method.label,
        )
        if seconds[own][-1] < until:  # the run is over; its last model is as good as it was
            axes.plot(seconds[own][-1] / unit.size, values[own][-1], "|", color=style.colour, markersize=14, mew=2.5)
    axes.set_xlim(0, until / unit.size)
    learnt = values[np.isfinite(values) & (columns["step"].astype(int) > 0)]  # the first model has learnt nothing
    if len(learnt):
        learnt = np.append(learnt, [] if target is None else target[1])
        room = 0.06 * float(np.ptp(learnt)) or 0.01
        axes.set_ylim(float(learnt.min()) - room, float(learnt.max()) + room)
    _mark_target(axes, target)
    axes.set_xlabel(f"{clock} ({unit.name}), all waiting included")
    better = "lower is better" if measures.lower_is_better(metric) else "higher is better"
    axes.set_ylabel(f"test {measures.metric_name(metric)} ({better})")
    axes.grid(color=FAINT, linewidth=0.5)
    corner = "upper right" if measures.lower_is_better(metric) else "lower right"
    axes.legend(
        loc=corner,
        fontsize=9,
        title="| end of run",
        title_fontsize=8,
        handlelength=3.0,
        frameon=True,
        framealpha=0.85,
        edgecolor="none",
    )


def _marked(method: Method, points: int) -> tuple[int, int]:
    every = max(1, points // 10)
    return min(method.load, every), every


def _until(labels: np.ndarray, seconds: np.ndarray, values: np.ndarray, metric: str, target: Target) -> float:
    """Return how much of the time to show: until the slowest has reached the target, and half as long again."""
    whole = float(seconds.max()) or 1.0
    if target is None:
        return whole
    good = values <= target[1] if measures.lower_is_better(metric) else values >= target[1]
    reached = [float(seconds[good & (labels == method.label)].min()) for method in CURVES]
    return min(whole, 1.5 * max(reached)) or whole


def _mark_target(axes: Axes, target: Target) -> None:
    if target is not None:  # named in the legend: beside the line there are curves
        axes.axhline(
            target[1],
            color=INK,
            linewidth=1.0,
            linestyle=(0, (1, 2)),
            zorder=1,
            label=f"target: {measures.target_name(target)}",
        )
