"""The panels of a comparison: quality against time, time per step, speed-up; as in the paper's Figures 2 to 4."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from erasurehead.arrays import Array
from erasurehead.reports import measures
from erasurehead.reports.canvas import FAINT, INK, Axes, look
from erasurehead.reports.table import ComparisonRow, comparison_table
from erasurehead.reports.units import Unit, time_unit
from erasurehead.run import Run

_LEGEND = 48  # letters of a name


@dataclass(frozen=True)
class Comparison:
    """Runs, and what the table says of them.

    Arguments:
        runs: at least one.
        rows: one a run.
    """

    runs: Sequence[Run]
    rows: Sequence[ComparisonRow]

    @classmethod
    def of(cls, runs: Sequence[Run], target: tuple[str, float] | None) -> Comparison:
        """Return the comparison of runs, with their table."""
        return cls(runs, comparison_table(runs, target))

    @property
    def names(self) -> list[str]:
        """What to call each run."""
        return [row.scheme for row in self.rows]

    @property
    def target(self) -> tuple[str, float] | None:
        """What was to be reached."""
        return self.rows[0].basis.target

    @property
    def metric(self) -> str | None:
        """What is measured on the test samples; None if nothing is, and the training loss must do."""
        return self.rows[0].basis.metric


def draw_progress(axes: Axes, comparison: Comparison) -> None:
    """Draw how good the model was when: figure 2 (a)-(c) of the ErasureHead paper.

    Without evaluations it is the training loss, as the gathered messages estimate it.
    """
    metric = comparison.metric
    curves = [_curve(run, metric) for run in comparison.runs]
    unit = time_unit([float(times[-1]) for times, _ in curves if len(times)])
    for index, (name, (times, values)) in enumerate(zip(comparison.names, curves, strict=True)):
        style = look(index)
        axes.plot(
            times / unit.size, values, style.line, label=measures.cut(name, _LEGEND), color=style.colour, linewidth=2.0,
            marker=style.marker, markersize=6, markevery=(0.04 + 0.02 * index, 0.12),
        )  # fmt: skip
    axes.set_xlabel(f"wall-clock time ({unit.name}), all waiting included")
    axes.set_ylabel("training loss (estimate)" if metric is None else f"test {measures.metric_name(metric)}")
    axes.set_ylim(
        _heights([values for _, values in curves], [] if comparison.target is None else comparison.target[1:])
    )
    axes.set_xlim(0, _length(comparison, [times for times, _ in curves]) / unit.size)
    _mark_target(axes, comparison, unit)
    axes.grid(color=FAINT, linewidth=0.5)
    columns = legend_columns(comparison.names)
    axes.legend(loc="lower left", bbox_to_anchor=(-0.02, 1.0), ncols=columns, borderaxespad=0.2, columnspacing=1.2)


def legend_columns(names: Sequence[str]) -> int:
    """Return how many names fit side by side above the narrowest panel."""
    # It is five inches wide; a letter takes a twelfth of one, and a line with its spaces two thirds.
    longest = max(len(measures.cut(name, _LEGEND)) for name in names)
    return max(1, min(len(names), int(5.0 / (longest / 12 + 0.67))))


def _curve(run: Run, metric: str | None) -> tuple[Array, Array]:
    if metric is None:
        return np.array([row.begin for row in run.steps]), run.losses
    points = [(item.time, item.metrics[metric]) for item in run.evaluations]
    times, values = np.array(points).reshape(-1, 2).T
    return times, values


def _heights(curves: Sequence[Array], others: Sequence[float]) -> tuple[float, float]:
    # The first point is a model that has learnt nothing; it would flatten all that is to be told apart.
    heights = np.concatenate([*(values[1:] for values in curves), others])
    heights = heights[np.isfinite(heights)]
    low, high = (float(heights.min()), float(heights.max())) if len(heights) else (0.0, 1.0)
    room = 0.08 * (high - low) or 0.01
    return low - room, high + room


def _length(comparison: Comparison, curves: Sequence[Array]) -> float:
    whole = max((float(times[-1]) for times in curves if len(times)), default=0.0) or 1.0
    reached = [row.seconds_to_target for row in comparison.rows if row.seconds_to_target is not None]
    return min(whole, 1.6 * max(reached)) if len(reached) == len(comparison.rows) and max(reached) > 0 else whole


def _mark_target(axes: Axes, comparison: Comparison, unit: Unit) -> None:
    if comparison.target is None:
        return
    height = comparison.target[1]
    axes.axhline(height, color=INK, linewidth=1.0, linestyle=(0, (1, 2)), zorder=1)
    axes.annotate(
        f"target: {measures.target_name(comparison.target)}",
        (1.0, height), (0, -4), xycoords=("axes fraction", "data"), textcoords="offset points", ha="right", va="top",
    )  # fmt: skip
    bottom = axes.get_ylim()[0]
    for index, row in enumerate(comparison.rows):
        if row.seconds_to_target is not None:
            axes.vlines(row.seconds_to_target / unit.size, bottom, height, color=look(index).colour, linewidth=1.2)


def draw_step_times(axes: Axes, comparison: Comparison) -> None:
    """Draw how long steps took: a box from the first to the third quartile, its line the median, whiskers 5 to 95 %.

    Figure 2 (d)-(f) of the ErasureHead paper, which has the means alone.
    """
    seconds = [np.array(measures.step_seconds(run)) for run in comparison.runs]
    unit = time_unit([row.seconds_per_step for row in comparison.rows])
    for index, values in enumerate(seconds):
        if not len(values):
            continue
        low, first, median, third, high = np.percentile(values / unit.size, (5, 25, 50, 75, 95))
        style = look(index)
        axes.hlines(index, low, high, color=style.colour, linewidth=1.5)
        axes.barh(index, third - first, left=first, height=0.5, color=style.colour, alpha=0.35)
        axes.barh(index, third - first, left=first, height=0.5, color="none", edgecolor=style.colour, linewidth=1.5)
        axes.vlines(median, index - 0.25, index + 0.25, color=style.colour, linewidth=3.0)
        _write_beside(axes, high, index, f"{unit.write(median * unit.size)} {unit.name}")
    _name_rows(axes, comparison)
    axes.set_xlim(0, 1.25 * axes.get_xlim()[1])
    axes.set_xlabel(f"time ({unit.name}): median, quartiles, 5–95 %")
    axes.set_title("Time per step")


def draw_speed_ups(axes: Axes, comparison: Comparison) -> None:
    """Draw how many times faster each run was than the baseline: figure 3 of the ErasureHead paper."""
    values = [row.speed_up if math.isfinite(row.speed_up) else 0.0 for row in comparison.rows]
    for index, value in enumerate(values):
        axes.barh(index, value, height=0.6, color=look(index).colour)
        _write_beside(axes, value, index, f"{value:.1f}×")
    _name_rows(axes, comparison)
    axes.set_xlim(0, 1.2 * max(values) or 1.0)
    axes.set_xlabel(f"times as fast as {comparison.rows[0].basis.baseline}")
    axes.set_title(f"Speed-up, by {comparison.rows[0].basis.compared}")


def _write_beside(axes: Axes, x: float, y: float, text: str) -> None:
    axes.annotate(text, (x, y), (5, 0), textcoords="offset points", va="center")


def _name_rows(axes: Axes, comparison: Comparison) -> None:
    names = [measures.cut(name, width=20, lines=2) for name in comparison.names]
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color=FAINT, linewidth=0.5)
    axes.set_axisbelow(True)
