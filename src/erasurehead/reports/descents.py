"""How near each run came to the least objective, and when, in a table and a figure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead.errors import invalid
from erasurehead.reports import canvas, measures
from erasurehead.reports.canvas import FAINT, Axes, scheme_looks
from erasurehead.reports.rendering import Column, as_markdown, as_table
from erasurehead.reports.units import time_unit

if TYPE_CHECKING:
    from rich.table import Table

GAPS = (1e-1, 1e-2, 1e-3, 1e-6)
"""The gaps in tables: from those that any method reaches to those that only whole gradients reach."""

_TITLE, _GAP = "Time to each gap of the objective", "(f(x) - f*) / (f(x0) - f*)"
_LEAST = 1e-12  # a gap below which rounding is all that could be drawn


@dataclass(frozen=True, eq=False)
class Descent:
    """The gap of each model along a run, (f(x) - f*) / (f(x0) - f*): 1 at the first model, 0 at the least objective.

    Arguments:
        scheme: its name.
        times: seconds of training until each model, ascending, shape (n_models,).
        gaps: gaps of the models, shape (n_models,); NaN where a model has diverged.
        virtual: whether the times are of a virtual clock.
    """

    scheme: str
    times: Array
    gaps: Array
    virtual: bool

    def seconds_to(self, gap: float) -> float | None:
        """Return when the gap was first no larger than `gap`, in seconds; None if it never was."""
        reached = np.flatnonzero(self.gaps <= gap)
        return float(self.times[reached[0]]) if len(reached) else None


def descent_table(descents: Sequence[Descent]) -> Table:
    """Return the table for a terminal: how long each scheme took to each gap.

    Arguments:
        descents: at least one.
    """
    return as_table(_columns(descents), [f"The gap is {_GAP}."], _TITLE)


def descent_markdown(descents: Sequence[Descent]) -> str:
    """Return the same table as Markdown, ending in a newline.

    Arguments:
        descents: at least one.
    """
    return f"{_TITLE}, {_GAP}:\n\n{as_markdown(_columns(descents))}"


def _columns(descents: Sequence[Descent]) -> list[Column]:
    if not descents:
        raise invalid("descents", "must have at least one", list(descents))
    times = {gap: [one.seconds_to(gap) for one in descents] for gap in GAPS}
    unit = time_unit([seconds for column in times.values() for seconds in column])
    return [
        Column(("Scheme",), [one.scheme for one in descents]),
        *(
            Column((f"Gap {gap:g}", f"({unit.name})"), [unit.write(seconds) for seconds in column])
            for gap, column in times.items()
        ),
        Column(("Least", "gap"), [f"{_least(one):.1e}" for one in descents]),
    ]


def _least(descent: Descent) -> float:
    return float(np.nanmin(descent.gaps))


def draw_descents(axes: Axes, descents: Sequence[Descent]) -> None:
    """Draw the gap of the objective against time, on a logarithmic axis down to where each run stays.

    Arguments:
        axes: the axes to draw into.
        descents: at least one.
    """
    lasts = [float(one.times[-1]) for one in descents]
    unit = time_unit(lasts)
    firsts = [float(one.times[1]) for one in descents if len(one.times) > 1 and one.times[1] > 0.0]
    logarithmic = bool(firsts) and measures.is_wide([min(firsts), max(lasts)])
    begin = 0.7 * min(firsts) if logarithmic else 0.0  # where a logarithmic axis begins, first models are drawn
    for index, (one, style) in enumerate(zip(descents, scheme_looks([one.scheme for one in descents]), strict=True)):
        drawn = np.where(one.gaps < measures.HIGHEST, np.maximum(one.gaps, _LEAST), np.nan)
        canvas.curve(
            axes,
            np.maximum(one.times, begin) / unit.size,
            drawn,
            style,
            measures.cut(one.scheme, measures.LEGEND),
            index,
        )
    low = max(_LEAST, min(_least(one) for one in descents))
    axes.set_ylim(low / 3.0, 3.0)
    axes.set_yscale("log")
    canvas.plain_ticks(axes.yaxis)
    if logarithmic:
        axes.set_xscale("log")
        axes.set_xlim(begin / unit.size, 1.1 * max(lasts) / unit.size)
        canvas.plain_ticks(axes.xaxis)
    else:
        axes.set_xlim(0.0, 1.02 * max(lasts) / unit.size or 1.0)
    axes.set_xlabel(f"{measures.clock_of([one.virtual for one in descents])} ({unit.name}), all waiting included")
    axes.set_ylabel("gap of the objective, (f(x) - f*) / (f(x0) - f*)")
    axes.grid(color=FAINT, linewidth=0.5)
