"""Figures 2 (a)-(c) and 4 (a)-(c): a metric of the model against time."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead.papers._erasurehead.bench import Bench
from erasurehead.papers._erasurehead.published import CURVES
from erasurehead.papers._exhibit import Exhibit, dress
from erasurehead.papers._numbers import FigureTable
from erasurehead.reports import _measures as measures
from erasurehead.reports._canvas import INK, Axes
from erasurehead.reports._units import time_unit
from erasurehead.runs._targets import common_target

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
        bench.conditions(delayed),
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
    curves = {
        method: (numbers.column("seconds", method=method.label), numbers.column(metric, method=method.label))
        for method in CURVES
    }
    lower = measures.lower_is_better(metric)
    until = _until(list(curves.values()), lower, target)
    unit = time_unit([until])
    for method, (seconds, values) in curves.items():
        style, every = method.look, max(1, len(seconds) // 10)
        axes.plot(
            seconds / unit.size,
            values,
            style.line,
            color=style.colour,
            linewidth=2.0,
            marker=style.marker,
            markersize=5,
            markevery=(min(method.load, every), every),
            label=method.label,
        )
        if seconds[-1] < until:  # the run is over; its last model is as good as it was
            axes.plot(seconds[-1] / unit.size, values[-1], "|", color=style.colour, markersize=14, mew=2.5)
    axes.set_xlim(0, until / unit.size)
    learnt = numbers.column(metric)[numbers.column("step") > 0]  # the first model has learnt nothing
    learnt = learnt[np.isfinite(learnt)]
    if len(learnt):
        learnt = np.append(learnt, [] if target is None else target[1])
        room = 0.06 * float(np.ptp(learnt)) or 0.01
        axes.set_ylim(float(learnt.min()) - room, float(learnt.max()) + room)
    if target is not None:  # named in the legend: beside the line there are curves
        label = f"target: {measures.target_name(target)}"
        axes.axhline(target[1], color=INK, linewidth=1.0, linestyle=(0, (1, 2)), zorder=1, label=label)
    dress(
        axes,
        f"{clock} ({unit.name}), all waiting included",
        f"test {measures.metric_name(metric)} ({'lower' if lower else 'higher'} is better)",
        loc="upper right" if lower else "lower right",
        fontsize=9,
        title="| end of run",
        title_fontsize=8,
        handlelength=3.0,
        frameon=True,
        framealpha=0.85,
        edgecolor="none",
    )


def _until(curves: Sequence[tuple[Array, Array]], lower: bool, target: Target) -> float:
    """Return how much of the time to show: until the slowest has reached the target, and half as long again."""
    whole = max(float(seconds.max()) for seconds, _ in curves) or 1.0
    if target is None:
        return whole
    reached = [
        float(seconds[values <= target[1] if lower else values >= target[1]].min()) for seconds, values in curves
    ]
    return min(whole, 1.5 * max(reached)) or whole
