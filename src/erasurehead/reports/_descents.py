"""How fast the objective of each run converges to the minimum, in a table and a figure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead.errors import invalid
from erasurehead.reports import _canvas as canvas, _measures as measures
from erasurehead.reports._canvas import Axes, scheme_styles
from erasurehead.reports._rendering import Column, as_markdown, as_table
from erasurehead.reports._units import time_unit

if TYPE_CHECKING:
    from rich.table import Table

GAPS = (1e-1, 1e-2, 1e-3, 1e-6)
"""The gaps in tables: from one that any method reaches to one that takes full gradients."""

_TITLE, _GAP = "Time to each gap of the objective", "(f(x) - f*) / (f(x0) - f*)"
_ROUNDING = 1e-12  # smaller gaps are rounding errors


@dataclass(frozen=True, eq=False)
class Descent:
    """The gap of each model of a run, (f(x) - f*) / (f(x0) - f*): 1 at the first model, 0 at the minimum.

    Arguments:
        scheme: name of the scheme.
        times: seconds of training until each model, ascending, shape (n_models,).
        gaps: gaps of the models, shape (n_models,); NaN for models that have diverged.
        virtual: whether the times are those of a virtual clock.
    """

    scheme: str
    times: Array
    gaps: Array
    virtual: bool

    def seconds_to(self, gap: float) -> float | None:
        """Return when the gap was first at most `gap`, in seconds; None if it never was."""
        indices = np.flatnonzero(self.gaps <= gap)
        return float(self.times[indices[0]]) if len(indices) else None


def descent_table(descents: Sequence[Descent]) -> Table:
    """Return a table for a terminal: the time of each scheme to each gap.

    Arguments:
        descents: at least descent.
    """
    return as_table(_columns(descents), [f"The gap is {_GAP}."], _TITLE)


def descent_markdown(descents: Sequence[Descent]) -> str:
    """Return the same table as Markdown, ending in a newline.

    Arguments:
        descents: at least descent.
    """
    return f"{_TITLE}, {_GAP}:\n\n{as_markdown(_columns(descents))}"


def _columns(descents: Sequence[Descent]) -> list[Column]:
    if not descents:
        raise invalid("descents", "must have at least one", list(descents))
    times = {gap: [descent.seconds_to(gap) for descent in descents] for gap in GAPS}
    unit = time_unit([seconds for column in times.values() for seconds in column])
    return [
        Column(("Scheme",), [descent.scheme for descent in descents]),
        *(
            Column((f"Gap {gap:g}", f"({unit.name})"), [unit.write(seconds) for seconds in column])
            for gap, column in times.items()
        ),
        Column(("Least", "gap"), [f"{_smallest_gap(descent):.1e}" for descent in descents]),
    ]


def _smallest_gap(descent: Descent) -> float:
    return float(np.nanmin(descent.gaps))


def draw_descents(axes: Axes, descents: Sequence[Descent]) -> None:
    """Draw the gap of the objective over time, on a logarithmic axis down to the floor of each run.

    Arguments:
        axes: the axes to draw into.
        descents: at least descent.
    """
    lasts = [float(descent.times[-1]) for descent in descents]
    unit = time_unit(lasts)
    firsts = [float(descent.times[1]) for descent in descents if len(descent.times) > 1 and descent.times[1] > 0.0]
    left = 0.7 * min(firsts) if firsts and measures.needs_log_axis([min(firsts), max(lasts)]) else None
    names = [descent.scheme for descent in descents]
    curves = [
        (descent.times, np.where(descent.gaps < measures.MAX_DRAWN, np.maximum(descent.gaps, _ROUNDING), np.nan))
        for descent in descents
    ]
    clock = measures.clock_of([descent.virtual for descent in descents])
    measures.draw_over_time(axes, names, curves, scheme_styles(names), clock, unit, left)
    if left is None:
        axes.set_xlim(0.0, 1.02 * max(lasts) / unit.size or 1.0)
    low = max(_ROUNDING, min(_smallest_gap(descent) for descent in descents))
    axes.set_ylim(low / 3.0, 3.0)
    axes.set_yscale("log")
    canvas.plain_ticks(axes.yaxis)
    axes.set_ylabel("gap of the objective, (f(x) - f*) / (f(x0) - f*)")
