"""The decisions of an optimizer over time: accepted and rejected points, arrivals that it waited for, scaling."""

from __future__ import annotations

import numpy as np

from erasurehead.reports import _canvas as canvas, _measures as measures
from erasurehead.reports._canvas import FAINT, INK, Axes, Figure, RunStyle, scheme_style
from erasurehead.reports._units import Unit, time_unit
from erasurehead.training import Run, StepRow

_REJECTED = "#D55E00"
_BY_TASK = "by task"


def has_decisions(run: Run) -> bool:
    """Return whether the optimizer of a run has recorded decisions."""
    return any(row.decision for row in run.steps)


def draw_decisions(figure: Figure, run: Run, title: str) -> None:
    """Draw objective, arrivals, decisions and scaling of one run over time.

    Arguments:
        figure: the figure to draw into; it gets three or four panels, one below the other.
        run: a run whose rows have decisions.
        title: title of the figure.
    """
    rows = [row for row in run.steps if row.decision]
    scaled = [row for row in rows if isinstance(row.decision.get("scaling"), int | float)]
    heights = [2.2, 1.0, 0.28 * len(_decision_kinds(rows)) + 0.3, *([0.8] if scaled else [])]
    panels: list[Axes] = list(figure.subplots(len(heights), 1, sharex=True, height_ratios=heights))
    unit, style = time_unit([row.end for row in run.steps]), scheme_style(run.scheme)
    _objectives(panels[0], run, unit, style)
    _arrivals(panels[1], run, unit, style)
    _decisions(panels[2], rows, unit, style)
    if scaled:
        axes = panels[3]
        axes.plot(
            _times(scaled, unit),
            [row.decision["scaling"] for row in scaled],
            ".-",
            color=style.colour,
            linewidth=1.0,
            drawstyle="steps-post",
        )
        axes.set_ylim(-0.1, 1.15)
        axes.set_ylabel("power of the\ncurvature", rotation=0, ha="right", va="center")
    for axes in panels:
        axes.grid(color=FAINT, linewidth=0.5)
    if any(row.rough for row in run.steps):  # early steps are much shorter than later ones
        panels[-1].set_xscale("log")
        canvas.plain_ticks(panels[-1].xaxis)
    panels[0].set_title(title)
    panels[-1].set_xlabel(f"{measures.clock([run])} since training began ({unit.name})")
    figure.align_ylabels(panels)


def _decision_kinds(rows: list[StepRow]) -> list[str]:
    """Return the kinds of decisions in the order of their first occurrence."""
    return list(dict.fromkeys(kind for row in rows for kind in _kinds(row)))


def _kinds(row: StepRow) -> list[str]:
    """Return what was decided at a step: what the optimizer did, and whether a message per task was asked for."""
    by_task = [_BY_TASK] if row.decision.get("by_task", False) else []
    return [str(row.decision.get("act", "")), *by_task]


def _times(rows: list[StepRow], unit: Unit) -> list[float]:
    return [row.end / unit.size for row in rows]


def _objectives(axes: Axes, run: Run, unit: Unit, style: RunStyle) -> None:
    points = [(row, row.loss) for row in run.steps if row.loss is not None and abs(row.loss) < measures.MAX_DRAWN]
    rough = [(row, loss) for row, loss in points if row.rough]  # few arrivals give a rough estimate only
    precise = [(row, loss) for row, loss in points if not row.rough]
    if not precise:
        rough, precise = [], points
    low = min((loss for _, loss in precise), default=0.0)
    first = (points[0][1] if points else 1.0) - low or 1.0
    for label, colour, marker, shown in (
        ("estimated from few arrivals", INK, ".", rough),
        ("taken", style.colour, "o", [(row, loss) for row, loss in precise if not row.rejected]),
        ("tried, and rejected", _REJECTED, "x", [(row, loss) for row, loss in points if row.rejected]),
    ):
        if shown:
            line = "-" if label == "taken" else "none"
            axes.plot(
                _times([row for row, _ in shown], unit),
                [max((loss - low) / first, 1e-16) for _, loss in shown],
                linestyle=line,
                marker=marker,
                markersize=4,
                linewidth=1.0,
                color=colour,
                label=label,
            )
    axes.set_yscale("log")
    heights = np.array([(loss - low) / first for _, loss in points if loss > low])
    axes.set_ylim(0.3 * float(heights.min(initial=0.1)), 3.0 * float(np.minimum(heights, 10.0).max(initial=1.0)))
    canvas.plain_ticks(axes.yaxis)
    axes.set_ylabel(
        "gap: objective above\nthe run's minimum,\nrelative to the start", rotation=0, ha="right", va="center"
    )
    axes.legend(loc="lower left" if rough else "upper right", title="Models", alignment="left")


def _arrivals(axes: Axes, run: Run, unit: Unit, style: RunStyle) -> None:
    axes.plot(_times(list(run.steps), unit), [row.arrived for row in run.steps], ".", color=style.colour)
    workers = measures.n_workers(run)
    axes.axhline(workers, color=INK, linewidth=0.8, linestyle=(0, (1, 2)))
    axes.set_ylim(0, 1.1 * workers)
    axes.set_ylabel(f"waited for,\nof {workers}", rotation=0, ha="right", va="center")


def _decisions(axes: Axes, rows: list[StepRow], unit: Unit, style: RunStyle) -> None:
    kinds = _decision_kinds(rows)
    for index, kind in enumerate(kinds):
        own = [row for row in rows if kind in _kinds(row)]
        colour = _REJECTED if kind != _BY_TASK and any(row.rejected for row in own) else style.colour
        axes.plot(_times(own, unit), [index] * len(own), "|", color=colour, markersize=9, markeredgewidth=1.4)
    axes.set_yticks(range(len(kinds)), kinds)
    axes.set_ylim(len(kinds) - 0.5, -0.5)
    axes.set_ylabel("decided", rotation=0, ha="right", va="center")
