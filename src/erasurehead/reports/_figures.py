"""The figures of a comparison of runs, as files: one with all panels, and one for each panel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from erasurehead._internal.storage.access import Access
from erasurehead._internal.user_files import StrPath
from erasurehead.errors import counted
from erasurehead.reports import _canvas as canvas, _measures as measures
from erasurehead.reports._canvas import Axes, Figure
from erasurehead.reports._descents import Descent, draw_descents
from erasurehead.reports._panels import ComparedRuns, draw_progress, draw_speed_ups, draw_step_times, legend_columns
from erasurehead.reports._rendering import workers_text
from erasurehead.reports._timeline import add_timeline_legend, draw_timeline, visible_seconds, work_intervals
from erasurehead.training import Run

_WIDTH = 10.0  # inches; at a README's 850 pixels letters are then 13 pixels high
_BAR, _LINE, _TIMELINE = 0.42, 0.23, 1.35  # inches per run


def draw_comparison(
    comparison: ComparedRuns,
    folder: StrPath,
    formats: Sequence[str],
    title: str,
    access: Access,
    descents: Sequence[Descent],
) -> list[Path]:
    """Draw a comparison of runs into files: what `ComparedRuns.draw` does."""
    formats = canvas.check_formats(formats)
    heading = _heading(comparison, title)
    paths: list[Path] = []
    with canvas.drawing():
        path = canvas.prepare_folder(folder, access)
        for name, figure in _figures(comparison, heading, descents):
            paths += canvas.save(figure, path, name, formats, access)
    return paths


def _figures(comparison: ComparedRuns, heading: str, descents: Sequence[Descent]) -> list[tuple[str, Figure]]:
    bars = 1.4 + _BAR * len(comparison.runs)
    curves = 4.2 + _LINE * len(comparison.runs) / legend_columns(comparison.names)
    single: list[tuple[str, Callable[[Axes, ComparedRuns], None], float]] = [
        ("progress", draw_progress, curves),
        ("step_times", draw_step_times, bars),
        ("speed_up", draw_speed_ups, bars),
    ]
    figures = [("comparison", _all_panels(comparison, heading))]
    for name, draw, height in single:
        figure = canvas.new_figure(0.75 * _WIDTH, height, heading)
        draw(figure.subplots(), comparison)
        figures.append((name, figure))
    figure = canvas.new_figure(_WIDTH, 1.8 + _timelines_height(comparison), heading)
    _draw_timelines(figure.subfigures(), comparison)  # else the legend would cover the title of the figure
    figures.append(("timeline", figure))
    if descents:
        figure = canvas.new_figure(0.75 * _WIDTH, curves + 0.6, heading)
        axes = figure.subplots()
        draw_descents(axes, descents)
        canvas.legend_above(axes, legend_columns([descent.scheme for descent in descents], 6.0), "Scheme")
        figures.append(("gap", figure))
    return figures


def _all_panels(comparison: ComparedRuns, heading: str) -> Figure:
    above = max(4.2, 2 * (1.1 + _BAR * len(comparison.runs)))
    below = 1.4 + _timelines_height(comparison)
    figure = canvas.new_figure(_WIDTH, above + below + 0.4, heading)
    top, bottom = figure.subfigures(2, 1, height_ratios=(above, below), hspace=0.03)
    left, right = top.subfigures(1, 2, width_ratios=(1.25, 1.0))
    draw_progress(left.subplots(), comparison)
    times, speed_ups = right.subplots(2, 1)
    draw_step_times(times, comparison)
    draw_speed_ups(speed_ups, comparison)
    _draw_timelines(bottom, comparison)
    return figure


def _draw_timelines(figure: Figure, comparison: ComparedRuns) -> None:
    groups, until = _timelines(comparison), visible_seconds(comparison.runs)
    panels: list[Axes] = list(figure.subplots(len(groups), 1, sharex=True, squeeze=False)[:, 0])
    for axes, group in zip(panels, groups, strict=True):
        run, name = comparison.runs[group[0]], comparison.together(group)
        draw_timeline(axes, run, until, f"{name}: {_progress(run, until)}")
    panels[-1].set_xlabel(f"{measures.clock(comparison.runs)} since training began (s)")
    add_timeline_legend(figure)


def _timelines(comparison: ComparedRuns) -> list[list[int]]:
    """Return the places of runs, those together of which a timeline shows the same."""
    until = visible_seconds(comparison.runs)
    ends = [tuple(row.end for row in run.steps if row.end <= until) for run in comparison.runs]
    return measures.alike([(*work_intervals(run, until), *own) for run, own in zip(comparison.runs, ends, strict=True)])


def _timelines_height(comparison: ComparedRuns) -> float:
    panels = len(_timelines(comparison))
    return max(_TIMELINE * min(panels, 4), 1.0 * panels)


def _progress(run: Run, until: float) -> str:
    steps = sum(item.end <= until for item in run.steps)
    return (
        f"all {counted('step', steps)} in {run.seconds:.3g} s"
        if steps == len(run.steps)
        else f"{counted('step', steps)} in {until:.3g} s"
    )


def _heading(comparison: ComparedRuns, title: str) -> str:
    engines = " or ".join(sorted({run.engine for run in comparison.runs}))
    setting = f"{workers_text(comparison.rows)}, engine: {engines}"
    return f"{title}\n{setting}" if title else setting
