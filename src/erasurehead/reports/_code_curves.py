"""Figures of gradient codes: the residual over the number of stragglers, of several codes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple
from functools import partial
from pathlib import Path

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead._internal.user_files import StrPath
from erasurehead.decoding._analysis import Analysis
from erasurehead.reports import _canvas as canvas, _measures as measures
from erasurehead.reports._canvas import FAINT, INK, Axes, Figure, RunStyle, run_style
from erasurehead.reports._code_tables import check_analyses

_WIDTH = 10.0  # inches; at a README's 850 pixels letters are then 13 pixels high
_MAX_COLUMNS = 3  # panels per row of figures with one panel per code
_FULL_WIDTH = 62  # characters of a name in the legend, one per row
_HALF_WIDTH = 44  # and two per row
_PANEL_WIDTH = 34  # and in the title of a panel

_LOSS = "gradient lost: residual / tasks (%)"
_SHARE = "stragglers (% of workers)"
_RANDOM, _ONE_STEP, _WORST, _BOUND = run_style(1), run_style(5), run_style(2), run_style(0)


def draw_codes(
    analyses: Mapping[str, Analysis], folder: StrPath, formats: Sequence[str] = ("png", "svg")
) -> list[Path]:
    """Draw a comparison of codes.

    The files are `residual` (all codes, with random and with adversarial stragglers), `one_step` (one-step and optimal
    decoding, one panel per code) and `adversary` (random and worst stragglers, and the spectral bound, one panel per
    code). Equal analyses give equal files.

    Arguments:
        analyses: the analysis of each code, by the name to show; at least one.
        folder: folder for the files; created if it does not exist.
        formats: among `"png"`, `"svg"` and `"pdf"`.

    Returns:
        The files written.

    Raises:
        InvalidArgument: if there is no code, a format is unknown, or the folder cannot be created.
        MissingExtra: if matplotlib is not installed.
    """
    formats = canvas.check_formats(formats)
    check_analyses(analyses)
    analyses = _once(analyses)
    paths: list[Path] = []
    with canvas.drawing():
        path = canvas.prepare_folder(folder)
        for name, figure in (
            ("residual", _side_by_side(analyses)),
            (
                "one_step",
                _panel_per_code(
                    analyses, draw_one_step, "One-step against optimal decoding: mean over random stragglers"
                ),
            ),
            (
                "adversary",
                _panel_per_code(analyses, draw_adversary, "Random against the worst stragglers, decoded optimally"),
            ),
        ):
            paths += canvas.save(figure, path, name, formats)
    return paths


def _once(analyses: Mapping[str, Analysis]) -> Mapping[str, Analysis]:
    """Return codes whose curves are all the same as one, with all of their names."""
    names, found = list(analyses), list(analyses.values())
    keys = [tuple(np.asarray(own).tobytes() for own in astuple(one.curves)) for one in found]
    return {
        measures.together([names[place] for place in group], _FULL_WIDTH): found[group[0]]
        for group in measures.alike([(one.code.n_workers, key) for one, key in zip(found, keys, strict=True)])
    }


def draw_residuals(axes: Axes, analyses: Mapping[str, Analysis], worst: bool) -> None:
    """Draw the residual of optimal decoding, one curve per code.

    Arguments:
        axes: the axes to draw into.
        analyses: the analysis of each code, by the name to show.
        worst: whether an adversary chooses the stragglers; otherwise they are random, and a band shows two standard
            errors.
    """
    for index, (name, analysis) in enumerate(analyses.items()):
        style = run_style(index)
        values = analysis.curves.worst if worst else analysis.curves.mean
        _line(axes, analysis, values, style, measures.shorten(name, _FULL_WIDTH), markevery=(0.04 + 0.02 * index, 0.15))
        if not worst:
            _band(axes, analysis, style, label="")
    axes.set_title("The worst stragglers that were found" if worst else "Random stragglers: mean ± 2 standard errors")


def draw_one_step(axes: Axes, analysis: Analysis) -> None:
    """Draw the residual of one-step and of optimal decoding of one code, with random stragglers."""
    if np.isfinite(analysis.curves.one_step).any():
        _line(axes, analysis, analysis.curves.one_step, _ONE_STEP, "one-step: one weight for all")
        if np.nanmin(analysis.curves.one_step) >= analysis.code.n_tasks:
            _annotate(axes, "one-step loses more than 100%")
    else:
        _annotate(axes, "no one-step decoding")
    _line(axes, analysis, analysis.curves.mean, _RANDOM, "optimal: the best weights")
    _band(axes, analysis, _RANDOM)


def draw_adversary(axes: Axes, analysis: Analysis) -> None:
    """Draw the residual of one code with random and with the worst stragglers, and its spectral bound if it has one.

    The area between the worst that a search has found and the bound, which has the true worst case, is shaded.
    """
    share, curves, tasks = _share(analysis), analysis.curves, analysis.code.n_tasks
    if np.isfinite(curves.bound).any():
        _line(axes, analysis, curves.bound, _BOUND, "spectral bound", line=":", marker="")
        if not curves.worst_proven.all():
            axes.fill_between(
                share,
                100 * curves.worst / tasks,
                100 * curves.bound / tasks,
                where=~curves.worst_proven,
                color=FAINT,
                alpha=0.5,
                linewidth=0,
                label="the true worst case lies here",
            )
        if np.allclose(curves.mean, curves.bound, atol=1e-6 * tasks):
            _annotate(axes, "all sets of stragglers are alike: one line")
    else:
        _annotate(axes, "no spectral bound for this code")
    _line(axes, analysis, curves.worst, _WORST, "the worst found")
    _line(axes, analysis, curves.mean, _RANDOM, "random (mean)")
    _band(axes, analysis, _RANDOM)


def plot_analysis(analysis: Analysis, ax: Axes | None, kind: str) -> Axes:
    """Draw one code: see `Analysis.plot`."""

    def alone(draw: Callable[[Axes, Analysis], None], axes: Axes) -> None:
        draw(axes, analysis)
        _set_common_limits([axes], {"": analysis})
        axes.set(xlabel=_SHARE, ylabel=_LOSS, title=measures.shorten(repr(analysis.code), _FULL_WIDTH))
        axes.legend(loc="upper left", bbox_to_anchor=(0.0, 0.92))

    drawings = {"adversary": draw_adversary, "one_step": draw_one_step}
    return canvas.plot(ax, kind, {name: partial(alone, draw) for name, draw in drawings.items()})


def _side_by_side(analyses: Mapping[str, Analysis]) -> Figure:
    names = [measures.shorten(name, _FULL_WIDTH) for name in analyses]
    columns = 2 if max(map(len, names)) <= _HALF_WIDTH else 1
    figure = canvas.new_figure(
        _WIDTH, 4.6 + 0.24 * -(-len(names) // columns), "Gradient lost to stragglers, code by code"
    )
    subfigure = figure.subfigures()  # else the legend would cover the title of the figure
    panels: list[Axes] = list(subfigure.subplots(1, 2, sharey=True))
    for axes, worst in zip(panels, (False, True), strict=True):
        draw_residuals(axes, analyses, worst)
        axes.set_xlabel(_SHARE)
    panels[0].set_ylabel(_LOSS)
    _set_common_limits(panels, analyses)
    keys = panels[0].get_legend_handles_labels()
    subfigure.legend(*keys, loc="outside upper left", ncols=columns, title="Code", alignment="left")
    return figure


def _panel_per_code(analyses: Mapping[str, Analysis], draw: Callable[[Axes, Analysis], None], title: str) -> Figure:
    columns = min(_MAX_COLUMNS, len(analyses))
    rows = -(-len(analyses) // columns)
    figure = canvas.new_figure(_WIDTH, 1.2 + 2.9 * rows, title)
    subfigure = figure.subfigures()
    panels: list[Axes] = list(subfigure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).ravel())
    used, spare = panels[: len(analyses)], panels[len(analyses) :]
    handles: dict[str, object] = {}
    for index, (axes, (name, analysis)) in enumerate(zip(used, analyses.items(), strict=True)):
        draw(axes, analysis)
        axes.set_title(measures.shorten(name, _PANEL_WIDTH * _MAX_COLUMNS // columns, lines=2), fontsize=10.5)
        if index % columns == 0:
            axes.set_ylabel(_LOSS)
        if index + columns >= len(used):  # no panel below
            axes.set_xlabel(_SHARE)
            axes.tick_params(labelbottom=True)
        handles |= {label: handle for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    for axes in spare:
        axes.set_axis_off()
    _set_common_limits(used, analyses)
    subfigure.legend(
        list(handles.values()),
        list(handles),
        loc="outside upper left",
        ncols=len(handles),
        columnspacing=1.2,
        handlelength=1.8,
        title="Stragglers" if draw is draw_adversary else "Decoding",
        alignment="left",
    )
    return figure


def _line(
    axes: Axes,
    analysis: Analysis,
    values: Array,
    style: RunStyle,
    label: str,
    *,
    line: str | None = None,
    marker: str | None = None,
    markevery: object = (0.05, 0.15),
) -> None:
    axes.plot(
        _share(analysis),
        100 * values / analysis.code.n_tasks,
        style.line if line is None else line,
        label=label,
        color=style.colour,
        linewidth=2.0,
        marker=style.marker if marker is None else marker,
        markersize=6,
        markevery=markevery if len(values) > 8 else None,
    )


def _band(axes: Axes, analysis: Analysis, style: RunStyle, label: str = "mean ± 2 standard errors") -> None:
    """Draw two standard errors around the mean, if it is sampled and not a closed form."""
    if not analysis.samples:
        return
    curves, tasks = analysis.curves, analysis.code.n_tasks
    low, high = (100 * (curves.mean + side * curves.mean_error) / tasks for side in (-2, 2))
    axes.fill_between(
        _share(analysis), np.maximum(low, 0.0), high, color=style.colour, alpha=0.2, linewidth=0, label=label
    )


def _share(analysis: Analysis) -> Array:
    return 100 * analysis.curves.stragglers / analysis.code.n_workers


def _annotate(axes: Axes, text: str) -> None:
    axes.text(0.03, 0.96, text, transform=axes.transAxes, va="top", color=INK, fontsize=10)


def _set_common_limits(panels: Sequence[Axes], analyses: Mapping[str, Analysis]) -> None:
    """Set equal limits in all panels of a figure: as high as the curves, but at most 100%."""
    heights = np.concatenate([line.get_ydata() for axes in panels for line in axes.get_lines()])
    top = min(float(np.nanmax(heights)), 100.0) or 1.0
    end = max(float(_share(analysis).max()) for analysis in analyses.values()) or 100.0
    for axes in panels:
        axes.set_ylim(-0.02 * top, 1.05 * top)  # margins, so that lines at zero and markers at the ends are seen
        axes.set_xlim(-0.015 * end, 1.015 * end)
        axes.grid(color=FAINT, linewidth=0.5)
