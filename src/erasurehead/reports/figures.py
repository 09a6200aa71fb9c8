"""The figures of a comparison, as files: all panels in one figure, and each of them alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from erasurehead._internal.storage import Access
from erasurehead.reports import canvas, measures
from erasurehead.reports.canvas import Axes, Figure
from erasurehead.reports.decisions import decides, draw_decisions
from erasurehead.reports.descents import Descent, draw_descents
from erasurehead.reports.panels import Comparison, draw_progress, draw_speed_ups, draw_step_times, legend_columns
from erasurehead.reports.timeline import draw_timeline, explain_timeline, window
from erasurehead.training.result import Run

_WIDTH = 10.0  # inches; at a README's 850 pixels letters are then 13 pixels high
_BAR, _LINE, _TIMELINE, _DECISIONS = 0.42, 0.23, 1.35, 6.0  # inches that a run takes


def draw_comparison(
    runs: Sequence[Run],
    folder: Path | str,
    formats: Sequence[str] = ("png", "svg"),
    target: tuple[str, float] | None = None,
    title: str = "",
    access: Access | None = None,
    descents: Sequence[Descent] = (),
) -> list[Path]:
    """Draw several runs against each other, after the ErasureHead paper's Figures 2 to 4.

    The files are `comparison` (all panels), `progress` (quality against time), `step_times`, `speed_up`
    and `timeline` (who was late in the first steps); with descents, `gap` (objective above the least, against time, on
    a logarithmic axis down to where each run stays), and `decisions` of optimizers that recorded some. Equal runs give
    equal files. Each scheme has its own colour, whatever it is compared with; axes are logarithmic where a linear one
    would hide the fastest, and `virtual time` is that of the virtual engine's clock.

    Arguments:
        runs: at least one, trained under the same delays from the same model.
        folder: folder for the files; created if it does not exist.
        formats: among `"png"`, `"svg"` and `"pdf"`.
        target: metric and value of the target to show, such as `("auc", 0.84)`; None for none.
        title: what is compared: data, delays, and whether late work is dropped (`preempt`) or finished (`carry`).
            The number of workers and the engine are added.
        access: who may read the files; None for the system's default.
        descents: descents of the runs, if objectives are known.

    Returns:
        The files written.

    Raises:
        InvalidArgument: if there is no run, the target's metric was not measured, a format is unknown, or the
            folder cannot be created.
        MissingExtra: if matplotlib is not installed.
    """
    formats = canvas.check_formats(formats)
    comparison = Comparison.of(runs, target)
    heading = _heading(runs, title)
    paths: list[Path] = []
    with canvas.drawing():
        place = canvas.made_folder(folder, access)
        for name, figure in _figures(comparison, heading, descents):
            paths += canvas.save(figure, place, name, formats, access)
    return paths


def _figures(comparison: Comparison, heading: str, descents: Sequence[Descent]) -> list[tuple[str, Figure]]:
    bars = 1.4 + _BAR * len(comparison.runs)
    curves = 4.2 + _LINE * len(comparison.runs) / legend_columns(comparison.names)
    single: list[tuple[str, Callable[[Axes, Comparison], None], float]] = [
        ("progress", draw_progress, curves),
        ("step_times", draw_step_times, bars),
        ("speed_up", draw_speed_ups, bars),
    ]
    made = [("comparison", _whole(comparison, heading))]
    for name, draw, height in single:
        figure = canvas.new_figure(0.75 * _WIDTH, height, heading)
        draw(figure.subplots(), comparison)
        made.append((name, figure))
    figure = canvas.new_figure(_WIDTH, 1.5 + _TIMELINE * len(comparison.runs), heading)
    _draw_timelines(figure.subfigures(), comparison)  # a part of its own: the legend would cover the figure's title
    made.append(("timeline", figure))
    if descents:
        figure = canvas.new_figure(0.75 * _WIDTH, curves + 0.6, heading)
        axes = figure.subplots()
        draw_descents(axes, descents)
        canvas.legend_above(axes, legend_columns([one.scheme for one in descents]))
        made.append(("gap", figure))
    deciding = [(run, row) for run, row in zip(comparison.runs, comparison.rows, strict=True) if decides(run)]
    if deciding:
        figure = canvas.new_figure(_WIDTH, _DECISIONS * len(deciding), heading)
        parts = figure.subfigures(len(deciding), 1, squeeze=False)[:, 0]
        for part, (run, row) in zip(parts, deciding, strict=True):
            draw_decisions(part, run, f"{measures.cut(row.scheme, 60)}: decisions of the optimizer over time")
        made.append(("decisions", figure))
    return made


def _whole(comparison: Comparison, heading: str) -> Figure:
    above = max(4.2, 2 * (1.1 + _BAR * len(comparison.runs)))
    below = 1.1 + _TIMELINE * len(comparison.runs)
    figure = canvas.new_figure(_WIDTH, above + below + 0.4, heading)
    top, bottom = figure.subfigures(2, 1, height_ratios=(above, below), hspace=0.03)
    left, right = top.subfigures(1, 2, width_ratios=(1.25, 1.0))
    draw_progress(left.subplots(), comparison)
    times, speed_ups = right.subplots(2, 1)
    draw_step_times(times, comparison)
    draw_speed_ups(speed_ups, comparison)
    _draw_timelines(bottom, comparison)
    return figure


def _draw_timelines(figure: Figure, comparison: Comparison) -> None:
    panels: list[Axes] = list(figure.subplots(len(comparison.runs), 1, sharex=True, squeeze=False)[:, 0])
    until = window(comparison.runs)
    for axes, run, row in zip(panels, comparison.runs, comparison.rows, strict=True):
        draw_timeline(axes, run, until, f"{measures.cut(row.scheme, 60)}: {_progress(run, until)}")
    panels[-1].set_xlabel(f"{measures.clock(comparison.runs)} since training began (s)")
    explain_timeline(figure)


def _progress(run: Run, until: float) -> str:
    steps = sum(item.end <= until for item in run.steps)
    return f"all {steps} steps in {run.seconds:.3g} s" if steps == len(run.steps) else f"{steps} steps in {until:.3g} s"


def _heading(runs: Sequence[Run], title: str) -> str:
    workers = " or ".join(map(str, sorted({measures.n_workers(run) for run in measures.check_runs(runs)})))
    engines = " or ".join(sorted({run.engine for run in runs}))
    where = f"{workers} workers, engine: {engines}"
    return f"{title}\n{where}" if title else where
