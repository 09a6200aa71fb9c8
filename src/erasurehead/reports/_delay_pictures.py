"""Figures of fitted delay models: a P-P plot, and the tail probabilities, which it does not show well."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from erasurehead._internal.user_files import StrPath
from erasurehead.delays import Trace
from erasurehead.delays._families import FAMILIES
from erasurehead.delays._fitting import Fit
from erasurehead.delays._kaplan_meier import kaplan_meier
from erasurehead.errors import counted, invalid
from erasurehead.reports import _canvas as canvas
from erasurehead.reports._canvas import FAINT, INK, Axes, run_style

_MAX_FAMILIES = 4  # further families fit worse, and would cover these
_KS_95 = 1.36  # divided by sqrt(n): the 95% bound of the Kolmogorov-Smirnov test


def draw_fits(
    trace: Trace,
    fits: Sequence[Fit],
    folder: StrPath,
    scale_with_load: bool = False,
) -> list[Path]:
    """Draw the best fits to a trace; the file is `fits`, a P-P plot beside the tail probabilities.

    Arguments:
        trace: the trace that was fitted.
        fits: result of `fit_trace`, the best first; the first four are drawn.
        folder: folder for the files; created if it does not exist.
        scale_with_load: as in the fit.

    Returns:
        The files written.

    Raises:
        InvalidArgument: if there is no fit, or the folder cannot be created.
        MissingExtra: if matplotlib is not installed.
    """
    if not fits:
        raise invalid("fits", "must have at least one fit", list(fits))
    with canvas.drawing():
        path = canvas.prepare_folder(folder)
        hidden = f", {fits[0].n_censored:,} of them censored" if fits[0].n_censored else ""
        title = (
            f"{Path(trace.source).name}: {counted('delay', fits[0].n)} of {counted('worker', trace.n_workers)}{hidden}"
        )
        figure = canvas.new_figure(10.0, 5.4, title)
        left, right = figure.subplots(1, 2)
        draw_pp(left, fits)
        draw_tails(right, trace, fits, scale_with_load)
        keys = left.get_legend_handles_labels()
        figure.legend(*keys, loc="outside lower center", ncols=2, title="Fitted law, and its gap from the samples")
        return canvas.save(figure, path, "fits", ("png", "svg"))


def draw_pp(axes: Axes, fits: Sequence[Fit]) -> None:
    """Draw a P-P plot, on which a family that fits is on the diagonal."""
    n = fits[0].n - fits[0].n_censored
    band = _KS_95 / math.sqrt(n)
    ends = np.array([0.0, 1.0])
    axes.fill_between(
        ends,
        ends - band,
        ends + band,
        color=FAINT,
        alpha=0.5,
        linewidth=0,
        label="where 95% of fits of the true law lie",
    )
    axes.plot(ends, ends, color=INK, linewidth=0.8)
    for index, item in enumerate(fits[:_MAX_FAMILIES]):
        style = run_style(index + 1)
        label = f"{item.family.replace('_', ' ')} (gap {item.gap:.3f})"
        axes.plot(item.empirical, item.fitted, style.line, color=style.colour, linewidth=1.8, label=label)
    axes.set_xlim(0.0, 1.0)
    axes.set_ylim(0.0, 1.0)
    axes.set_aspect("equal")
    axes.set_xlabel("share of the samples")
    axes.set_ylabel("share of the fitted distribution")
    axes.set_title("P-P plot")


def draw_tails(axes: Axes, trace: Trace, fits: Sequence[Fit], scale_with_load: bool = False) -> None:
    """Draw the tail probabilities of samples and fits, on logarithmic axes; stragglers are on the right."""
    seconds = trace.seconds / trace.load if scale_with_load else trace.seconds
    longer, points = kaplan_meier(seconds, trace.censored)
    shown = (longer > 1e-12) & (points > 0.0)
    axes.step(points[shown], longer[shown], where="post", color=INK, linewidth=1.2)
    positive = points[points > 0.0]
    grid = np.exp(np.linspace(math.log(float(positive[0])), math.log(float(positive[-1])), 400))
    lowest = 0.5 / len(seconds)
    for index, item in enumerate(fits[:_MAX_FAMILIES]):
        family = FAMILIES[item.family]
        theta = np.array([item.parameters[name] for name in family.parameters])
        location = item.parameters[family.location] if family.location else 0.0
        tail = np.exp(family.log_survival(grid, theta, location))
        style = run_style(index + 1)
        axes.plot(grid, np.where(tail >= lowest, tail, np.nan), style.line, color=style.colour, linewidth=1.8)
    axes.set_xscale("log")
    axes.set_yscale("log")
    canvas.plain_ticks(axes.xaxis)
    canvas.plain_ticks(axes.yaxis)
    axes.set_ylim(lowest, 1.3)
    axes.grid(color=FAINT, linewidth=0.5)
    axes.set_xlabel("seconds per task" if scale_with_load else "seconds")
    axes.set_ylabel("share that is slower")
    axes.set_title("Tail: samples (thin) and fits")
