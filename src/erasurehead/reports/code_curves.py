"""The curves of the papers on gradient codes: residual against stragglers, for any codes side by side."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead.decoding import Analysis
from erasurehead.reports import canvas, measures
from erasurehead.reports.canvas import FAINT, INK, Axes, Figure, Look, look
from erasurehead.reports.code_tables import check_analyses

_WIDTH = 10.0  # inches; at a README's 850 pixels letters are then 13 pixels high
_COLUMNS = 3  # panels of single codes in a row
_NAME = 62  # letters of a name above all panels
_HALF = 44  # where two stand side by side
_PANEL = 34  # and above its own

_LOSS = "gradient lost: residual / tasks (%)"
_SHARE = "stragglers (% of workers)"
_RANDOM, _ONE_STEP, _WORST, _BOUND = look(1), look(5), look(2), look(0)


def draw_codes(
    analyses: Mapping[str, Analysis], folder: Path | str, formats: Sequence[str] = ("png", "svg")
) -> list[Path]:
    """Draw several codes against each other.

    The files are `residual` (all codes, random stragglers beside an adversary), `one_step` (one-step against optimal
    decoding, a panel for each code) and `adversary` (random stragglers, the worst, and the spectral bound, a panel
    for each code). Equal analyses give equal files.

    Arguments:
        analyses: by the name to show, at least one.
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
    paths: list[Path] = []
    with canvas.drawing():
        place = canvas.made_folder(folder)
        for name, figure in (
            ("residual", _side_by_side(analyses)),
            (
                "one_step",
                _one_by_one(analyses, draw_one_step, "One-step against optimal decoding: mean over random stragglers"),
            ),
            (
                "adversary",
                _one_by_one(analyses, draw_adversary, "Random against the worst stragglers, decoded optimally"),
            ),
        ):
            paths += canvas.save(figure, place, name, formats)
    return paths


def draw_residuals(axes: Axes, analyses: Mapping[str, Analysis], worst: bool) -> None:
    """Draw the residual of optimal decoding, one curve per code.

    Arguments:
        axes: the axes to draw into.
        analyses: by the name to show.
        worst: whether an adversary picks the stragglers; otherwise they are random, and a band shows two standard
            errors.
    """
    for index, (name, found) in enumerate(analyses.items()):
        style = look(index)
        values = found.curves.worst if worst else found.curves.mean
        _line(axes, found, values, style, measures.cut(name, _NAME), markevery=(0.04 + 0.02 * index, 0.15))
        if not worst:
            _band(axes, found, style, label="")
    axes.set_title("The worst stragglers that were found" if worst else "Random stragglers: mean, 2 standard errors")


def draw_one_step(axes: Axes, found: Analysis) -> None:
    """Draw one-step against optimal decoding of one code, over random stragglers."""
    if np.isfinite(found.curves.one_step).any():
        _line(axes, found, found.curves.one_step, _ONE_STEP, "one-step: one weight for all")
        if np.nanmin(found.curves.one_step) >= found.code.n_tasks:
            _remark(axes, "one-step loses more than 100 %")
    else:
        _remark(axes, "no one-step decoding")
    _line(axes, found, found.curves.mean, _RANDOM, "optimal: the best weights")
    _band(axes, found, _RANDOM)


def draw_adversary(axes: Axes, found: Analysis) -> None:
    """Draw random against worst stragglers of one code, and the spectral bound where it has one.

    Between the worst that a search found and the bound, where they differ, the truth is somewhere in the shade.
    """
    share, curves, tasks = _share(found), found.curves, found.code.n_tasks
    if np.isfinite(curves.bound).any():
        _line(axes, found, curves.bound, _BOUND, "spectral bound", line=":", marker="")
        if not curves.worst_proven.all():
            axes.fill_between(
                share, 100 * curves.worst / tasks, 100 * curves.bound / tasks, where=~curves.worst_proven, color=FAINT,
                alpha=0.5, linewidth=0, label="includes the worst",
            )  # fmt: skip
        if np.allclose(curves.mean, curves.bound, atol=1e-6 * tasks):
            _remark(axes, "all sets of stragglers are alike: one line")
    else:
        _remark(axes, "no spectral bound for this code")
    _line(axes, found, curves.worst, _WORST, "the worst found")
    _line(axes, found, curves.mean, _RANDOM, "random (mean)")
    _band(axes, found, _RANDOM)


def _side_by_side(analyses: Mapping[str, Analysis]) -> Figure:
    names = [measures.cut(name, _NAME) for name in analyses]
    columns = 2 if max(map(len, names)) <= _HALF else 1
    figure = canvas.new_figure(
        _WIDTH, 4.6 + 0.24 * -(-len(names) // columns), "Gradient lost to stragglers, code by code"
    )
    part = figure.subfigures()  # a part of its own: the legend would cover the figure's title
    panels: list[Axes] = list(part.subplots(1, 2, sharey=True))
    for axes, worst in zip(panels, (False, True), strict=True):
        draw_residuals(axes, analyses, worst)
        axes.set_xlabel(_SHARE)
    panels[0].set_ylabel(_LOSS)
    _frame(panels, analyses)
    part.legend(*panels[0].get_legend_handles_labels(), loc="outside upper left", ncols=columns)
    return figure


def _one_by_one(analyses: Mapping[str, Analysis], draw: Callable[[Axes, Analysis], None], title: str) -> Figure:
    columns = min(_COLUMNS, len(analyses))
    rows = -(-len(analyses) // columns)
    figure = canvas.new_figure(_WIDTH, 1.2 + 2.9 * rows, title)
    part = figure.subfigures()
    panels: list[Axes] = list(part.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).ravel())
    used, spare = panels[: len(analyses)], panels[len(analyses) :]
    keys: dict[str, object] = {}
    for place, (axes, (name, found)) in enumerate(zip(used, analyses.items(), strict=True)):
        draw(axes, found)
        axes.set_title(measures.cut(name, _PANEL * _COLUMNS // columns, lines=2), fontsize=10.5)
        if place % columns == 0:
            axes.set_ylabel(_LOSS)
        if place + columns >= len(used):  # nothing below
            axes.set_xlabel(_SHARE)
            axes.tick_params(labelbottom=True)
        keys |= {label: handle for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    for axes in spare:
        axes.set_axis_off()
    _frame(used, analyses)
    part.legend(
        list(keys.values()), list(keys), loc="outside upper left", ncols=len(keys), columnspacing=1.2, handlelength=1.8
    )
    return figure


def _line(
    axes: Axes,
    found: Analysis,
    values: Array,
    style: Look,
    label: str,
    *,
    line: str | None = None,
    marker: str | None = None,
    markevery: object = (0.05, 0.15),
) -> None:
    axes.plot(
        _share(found), 100 * values / found.code.n_tasks, style.line if line is None else line, label=label,
        color=style.colour, linewidth=2.0, marker=style.marker if marker is None else marker, markersize=6,
        markevery=markevery if len(values) > 8 else None,
    )  # fmt: skip


def _band(axes: Axes, found: Analysis, style: Look, label: str = "2 standard errors") -> None:
    """Show two standard errors around the mean, where it is not a closed form."""
    if not found.samples:
        return
    curves, tasks = found.curves, found.code.n_tasks
    low, high = (100 * (curves.mean + side * curves.mean_error) / tasks for side in (-2, 2))
    axes.fill_between(
        _share(found), np.maximum(low, 0.0), high, color=style.colour, alpha=0.2, linewidth=0, label=label
    )


def _share(found: Analysis) -> Array:
    return 100 * found.curves.stragglers / found.code.n_workers


def _remark(axes: Axes, text: str) -> None:
    axes.text(0.03, 0.96, text, transform=axes.transAxes, va="top", color=INK, fontsize=10)


def _frame(panels: Sequence[Axes], analyses: Mapping[str, Analysis]) -> None:
    """Let all panels of a figure have one frame: as high as their curves, but no higher than everything."""
    heights = np.concatenate([line.get_ydata() for axes in panels for line in axes.get_lines()])
    top = min(float(np.nanmax(heights)), 100.0) or 1.0
    end = max(float(_share(found).max()) for found in analyses.values()) or 100.0
    for axes in panels:
        axes.set_ylim(-0.02 * top, 1.05 * top)  # a line at zero must be seen, and marks at the ends whole
        axes.set_xlim(-0.015 * end, 1.015 * end)
        axes.grid(color=FAINT, linewidth=0.5)
