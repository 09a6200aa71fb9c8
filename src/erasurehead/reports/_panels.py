"""The panels of a comparison: quality over time, time per step, speed-up; as in Figures 2 to 4 of the paper."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead._internal.shown import shown
from erasurehead._internal.storage.access import Access
from erasurehead._internal.user_files import StrPath
from erasurehead.reports import _canvas as canvas, _measures as measures
from erasurehead.reports._canvas import FAINT, INK, Axes, RunStyle, scheme_styles
from erasurehead.reports._descents import Descent
from erasurehead.reports._rendering import render_table, to_html
from erasurehead.reports._table import ComparisonRow, comparison_table
from erasurehead.reports._timeline import add_timeline_legend, draw_timeline, visible_seconds
from erasurehead.reports._units import Unit, seconds_text, time_unit
from erasurehead.training import Run

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True)
class ComparedRuns:
    """Runs beside each other: `ComparedRuns.of([one, other])`. Notebooks show their table, `plot` draws them.

    Arguments:
        runs: at least one run.
        rows: the row of each run.
    """

    runs: Sequence[Run]
    rows: Sequence[ComparisonRow]

    @classmethod
    def of(cls, runs: Sequence[Run], target: tuple[str, float] | None = None) -> ComparedRuns:
        """Return the comparison of runs, with a row for each.

        Speed-ups are over the first run whose scheme is `uncoded`, or else over the first run. They compare the times
        to the target if every run has reached it, or else the mean times per step.

        Arguments:
            runs: at least one, trained under the same delays from the same model.
            target: metric and value, such as `("auc", 0.84)`; None for none.

        Raises:
            InvalidArgument: if there is no run, the target is no metric with a value, or its metric was not measured.
        """
        return cls(runs, comparison_table(runs, target))

    def __repr__(self) -> str:
        return f"ComparedRuns({', '.join(self.names)})"

    def _repr_html_(self) -> str:
        return to_html(self.rows)

    def table(self, title: str | None = None) -> Table:
        """Return the rows as a table for `rich.print`, which fits into 80 characters.

        Arguments:
            title: title above the table.
        """
        return render_table(self.rows, title)

    def draw(
        self,
        folder: StrPath,
        formats: Sequence[str] = ("png", "svg"),
        title: str = "",
        access: Access = "private",
        descents: Sequence[Descent] = (),
    ) -> list[Path]:
        """Draw the runs into files, after Figures 2 to 4 of the ErasureHead paper, and return the files.

        The files are `comparison` (all panels), `progress` (quality over time), `step_times`, `speed_up` and `timeline`
        (late workers in the first steps); and, with descents, `gap` (the gap of the objective over time, on a
        logarithmic axis down to the floor of each run). Equal runs give equal files. The colour of a scheme does not
        depend on the others. Axes are logarithmic if a linear one would hide the fastest run. `virtual time` is the
        time of the virtual engine's clock.

        Arguments:
            folder: folder for the files; created if it does not exist.
            formats: among `"png"`, `"svg"` and `"pdf"`.
            title: what is compared: data, delays, and whether late work is dropped (`preempt`) or finished (`carry`).
                The number of workers and the engine are added.
            access: who may read the files.
            descents: the gaps of the runs, if their objectives are known.

        Raises:
            InvalidArgument: if a format is unknown, or the folder cannot be created.
            MissingExtra: if matplotlib is not installed.
        """
        return shown("reports._figures", "draw_comparison")(self, folder, formats, title, access, descents)

    def plot(self, ax: Axes | None = None, kind: str = "progress") -> Axes:
        """Draw the runs with matplotlib (the extra `report`), and return the axes.

        Arguments:
            ax: where to draw; by default in a new figure.
            kind: `"progress"`, the quality of the model over time; `"step_times"`, how long steps took; `"speed_up"`,
                over uncoded training; or of a single run `"timeline"`, what each worker did in the first steps.

        Raises:
            InvalidArgument: if there is no such picture, or `ax` is something else.
            MissingExtra: if matplotlib is not installed.
        """
        drawings = {"progress": draw_progress, "step_times": draw_step_times}
        drawings |= {"speed_up": draw_speed_ups} if len(self.runs) > 1 else {"timeline": _draw_timeline}
        bound = {name: partial(draw, comparison=self) for name, draw in drawings.items()}
        high = 1.2 + 0.5 * len(self.runs) if kind in ("step_times", "speed_up") else 4.4
        return canvas.plot(ax, kind, bound, (7.5, high))

    @property
    def names(self) -> list[str]:
        """The label of each run."""
        return [row.scheme for row in self.rows]

    @property
    def styles(self) -> list[RunStyle]:
        """The style of each run."""
        return scheme_styles(self.names)

    @property
    def same(self) -> list[list[int]]:
        """The places of runs that went the same way, group by group: one panel is enough for each."""
        return measures.alike([tuple((row.end, row.arrived, row.residual) for row in run.steps) for run in self.runs])

    def together(self, group: Sequence[int]) -> str:
        """Return a title for such runs."""
        return measures.together([self.names[place] for place in group], 60)

    @property
    def target(self) -> tuple[str, float] | None:
        """Metric and value to reach; None for none."""
        return self.rows[0].basis.target

    @property
    def metric(self) -> str | None:
        """The metric on the test samples; None if there is none, and the training loss is shown instead."""
        return self.rows[0].basis.metric


def draw_progress(axes: Axes, comparison: ComparedRuns) -> None:
    """Draw the quality of the model over time, as in Figure 2 (a)-(c) of the ErasureHead paper.

    Without evaluations, it is the training loss, as estimated from the messages.
    """
    metric = comparison.metric
    curves = [_curve(run, metric) for run in comparison.runs]
    unit = time_unit([float(times[-1]) for times, _ in curves if len(times)])
    left = measures.log_edge(curves)
    measures.draw_over_time(
        axes, comparison.names, curves, comparison.styles, measures.clock(comparison.runs), unit, left
    )
    axes.set_ylabel("training loss (estimate)" if metric is None else f"test {measures.metric_name(metric)}")
    if left is None:
        axes.set_xlim(0, _time_limit(comparison, [times for times, _ in curves]) / unit.size)
    falls = metric is None or measures.lower_is_better(metric)
    measures.limit_values(axes, [values for _, values in curves], comparison.target, falls)
    _mark_target(axes, comparison, unit)
    columns = legend_columns(
        [*comparison.names, *([] if comparison.target is None else [_target_label(comparison.target)])]
    )
    canvas.legend_above(axes, columns, "Scheme")


def legend_columns(names: Sequence[str], inches: float = 5.0) -> int:
    """Return the number of columns of a legend with these names above a panel, by default above the narrowest one."""
    # A character takes 1/12 inch, and a line with its margins 2/3 inch.
    longest = max(len(measures.shorten(name, measures.LEGEND_WIDTH)) for name in names)
    return max(1, min(len(names), int(inches / (longest / 12 + 0.67))))


def _curve(run: Run, metric: str | None) -> tuple[Array, Array]:
    if metric is None:
        rows = [row for row in run.steps if not row.rejected and (row.loss is not None or not row.stepped)]
        losses = np.array([np.nan if row.loss is None else row.loss for row in rows])
        return np.array([row.begin for row in rows]), np.where(np.abs(losses) < measures.MAX_DRAWN, losses, np.nan)
    points = [(item.time, item.metrics[metric]) for item in run.evaluations]
    times, values = np.array(points).reshape(-1, 2).T
    return times, values


def _time_limit(comparison: ComparedRuns, curves: Sequence[Array]) -> float:
    whole = max((float(times[-1]) for times in curves if len(times)), default=0.0) or 1.0
    reached = [row.seconds_to_target for row in comparison.rows if row.seconds_to_target is not None]
    return min(whole, 1.6 * max(reached)) if len(reached) == len(comparison.rows) and max(reached) > 0 else whole


def _mark_target(axes: Axes, comparison: ComparedRuns, unit: Unit) -> None:
    if comparison.target is None:
        return
    height = comparison.target[1]
    # It is named in the legend, as a text beside the line would cover curves.
    axes.axhline(
        height, color=INK, linewidth=1.0, linestyle=(0, (1, 2)), zorder=1, label=_target_label(comparison.target)
    )
    bottom = axes.get_ylim()[0]
    for style, row in zip(comparison.styles, comparison.rows, strict=True):
        if row.seconds_to_target is not None:
            axes.vlines(row.seconds_to_target / unit.size, bottom, height, color=style.colour, linewidth=1.2)


def _target_label(target: tuple[str, float]) -> str:
    return f"target: {measures.target_name(target)}"


def draw_step_times(axes: Axes, comparison: ComparedRuns) -> None:
    """Draw a box plot of the times of steps: median and quartiles, whiskers from 5 to 95 %.

    Figure 2 (d)-(f) of the ErasureHead paper has their means only.
    """
    seconds = [np.array(measures.step_seconds(run)) for run in comparison.runs]
    unit = time_unit([row.seconds_per_step for row in comparison.rows])
    styles = comparison.styles
    log_axis = measures.needs_log_axis(
        [float(np.median(values)) for values in seconds if len(values) and np.median(values) > 0]
    )
    lows: list[float] = []
    if log_axis:
        axes.set_xscale("log")
    for index, values in enumerate(seconds):
        if not len(values):
            continue
        low, first, median, third, high = np.percentile(values / unit.size, (5, 25, 50, 75, 95))
        style = styles[index]
        lows += [float(low)] if low > 0.0 else []
        axes.hlines(index, low, high, color=style.colour, linewidth=1.5)
        inside, edge = (style.colour, 0.35), style.colour
        axes.barh(index, third - first, left=first, height=0.5, color=inside, edgecolor=edge, linewidth=1.5)
        axes.vlines(median, index - 0.25, index + 0.25, color=style.colour, linewidth=3.0)
        own = time_unit([median * unit.size]) if log_axis else unit
        _annotate_bar(axes, high, index, f"{own.write(median * unit.size)} {own.name}")
    _name_rows(axes, comparison)
    if log_axis:
        axes.set_xlim(0.6 * min(lows, default=axes.get_xlim()[0]), axes.get_xlim()[1])
        _extend_for_texts(axes)
    else:
        axes.set_xlim(0, 1.25 * axes.get_xlim()[1])
    axes.set_xlabel(f"time ({unit.name}); box: half of the steps, line: 5–95 %")
    axes.set_title("Time per step")


def draw_speed_ups(axes: Axes, comparison: ComparedRuns) -> None:
    """Draw the speed-up of each run over the baseline, as in Figure 3 of the ErasureHead paper."""
    values = [row.speed_up if math.isfinite(row.speed_up) else 0.0 for row in comparison.rows]
    log_axis = measures.needs_log_axis([value for value in values if value > 0.0])
    if log_axis:
        axes.set_xscale("log")
    for index, (value, style) in enumerate(zip(values, comparison.styles, strict=True)):
        axes.barh(index, value, height=0.6, color=style.colour)
        finite = math.isfinite(comparison.rows[index].speed_up)
        _annotate_bar(axes, value if finite or not log_axis else 1.0, index, f"{value:.1f}×" if finite else "not known")
    _name_rows(axes, comparison)
    if log_axis:
        _extend_for_texts(axes)
    else:
        axes.set_xlim(0, 1.2 * max(values) or 1.0)
    axes.set_xlabel(f"times as fast as {measures.shorten(comparison.rows[0].basis.baseline, 24)}")
    axes.set_title(f"Speed-up, by {comparison.rows[0].basis.compared}")


def _draw_timeline(axes: Axes, comparison: ComparedRuns) -> None:
    until, run = visible_seconds(comparison.runs), comparison.runs[0]
    draw_timeline(axes, run, until, f"{measures.shorten(run.scheme, 50)}: the first {seconds_text(until)}")
    axes.set_xlabel(f"{measures.clock(comparison.runs)} since training began (s)")
    add_timeline_legend(axes, loc="upper left", bbox_to_anchor=(-0.02, -0.17), ncols=3)


def _extend_for_texts(axes: Axes) -> None:
    """Extend a logarithmic axis, so that there is room for the texts beside the bars."""
    low, high = axes.get_xlim()
    axes.set_xlim(low, high * (high / low) ** 0.3)
    canvas.plain_ticks(axes.xaxis)


def _annotate_bar(axes: Axes, x: float, y: float, text: str) -> None:
    axes.annotate(text, (x, y), (5, 0), textcoords="offset points", va="center")


def _name_rows(axes: Axes, comparison: ComparedRuns) -> None:
    names = [measures.shorten(name, width=20, lines=2) for name in comparison.names]
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color=FAINT, linewidth=0.5)
    axes.set_axisbelow(True)
