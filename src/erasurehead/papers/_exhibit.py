"""A figure or table of a paper, reproduced: numbers, picture, and notes on how both were made."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any

from erasurehead._internal.documents import PlainData
from erasurehead.papers._numbers import FigureTable
from erasurehead.reports import _canvas as canvas
from erasurehead.reports._canvas import FAINT, Axes

_WIDTH = 8.2  # inches of a single panel
_HEIGHT = 5.0
_LETTERS = 118  # in a line of notes below a single panel


@dataclass(frozen=True, eq=False)
class Exhibit:
    """One panel of a figure, or one table.

    Arguments:
        id: the name that selects it, such as `"2a"`.
        name: name of its files, without suffix.
        title: what it shows, on which data, and whether the data are real.
        notes: how it was made, one sentence each.
        numbers: everything that the picture shows.
        summary: a short table of the main results.
        draw: function that draws the panel; None for a table.
        panel: title of the panel in a figure of several panels.
    """

    id: str
    name: str
    title: str
    notes: Sequence[str]
    numbers: FigureTable
    summary: FigureTable
    draw: Callable[[Axes], None] | None = None
    panel: str = ""

    def as_dict(self, files: Sequence[Path]) -> PlainData:
        """Return the exhibit as plain data, without the long table."""
        return {
            "figure": self.id,
            "title": self.title,
            "notes": list(self.notes),
            "summary": self.summary.rows(),
            "files": [str(path) for path in files],
        }

    def write(self, folder: Path) -> list[Path]:
        """Write the numbers as CSV and, unless it is a table, the picture as PNG and SVG.

        Raises:
            MissingExtra: if matplotlib is not installed.
        """
        paths: list[Path] = []
        if self.draw is not None:
            with canvas.drawing():
                figure = canvas.new_figure(_WIDTH, _HEIGHT + 0.16 * len(self.notes), self.title)
                self.draw(figure.subplots())
                write_notes(figure, self.notes, _LETTERS)
                paths += canvas.save(figure, folder, self.name, ("png", "svg"))
        numbers = folder / f"{self.name}.csv"
        self.numbers.write_csv(numbers)
        return [*paths, numbers]


def dress(axes: Axes, x: str, y: str = "", lines: str = "both", **legend: Any) -> None:
    """Name the axes of a panel, draw faint lines behind it, and add a legend if something is said of one.

    Arguments:
        axes: the panel.
        x, y: the names; an axis without one has names at its ticks.
        lines: `"both"`, or the axis across which lines are drawn, behind bars: `"x"` or `"y"`.
        legend: arguments of the legend.
    """
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.grid(axis=lines, color=FAINT, linewidth=0.5)
    if lines != "both":
        axes.set_axisbelow(True)
    if legend:
        axes.legend(**legend)


@dataclass(frozen=True, eq=False)
class Plate:
    """Panels of one figure side by side, as they are printed.

    Arguments:
        name: name of its files, without suffix.
        title: above all panels.
        columns: panels in a row.
        exhibits: the panels, in order.
    """

    name: str
    title: str
    columns: int
    exhibits: Sequence[Exhibit] = field(default_factory=tuple[Exhibit, ...])

    def write(self, folder: Path) -> list[Path]:
        """Write the picture as PNG and SVG; notes that several panels share are printed once, below it."""
        drawn = [exhibit for exhibit in self.exhibits if exhibit.draw is not None]
        rows = -(-len(drawn) // self.columns)
        notes = _together(exhibit.notes for exhibit in drawn)
        with canvas.drawing():
            width = 5.4 * self.columns
            figure = canvas.new_figure(width, 4.1 * rows + 0.5 + 0.19 * len(notes), self.title)
            panels = figure.subplots(rows, self.columns, squeeze=False).ravel()
            for exhibit, axes in zip(drawn, panels, strict=False):
                assert exhibit.draw is not None
                exhibit.draw(axes)
                axes.set_title(exhibit.panel)
            for axes in panels[len(drawn) :]:
                axes.set_axis_off()
            write_notes(figure, notes, int(_LETTERS * width / _WIDTH))
            return canvas.save(figure, folder, self.name, ("png", "svg"))


def _together(notes: Iterable[Sequence[str]]) -> list[str]:
    """Return the notes of several panels without repetitions: all first notes, then all second ones, and so on."""
    return list(dict.fromkeys(note for place in zip_longest(*notes) for note in place if note is not None))


def write_notes(figure: canvas.Figure, notes: Sequence[str], letters: int) -> None:
    """Write notes below a figure, each beginning on a line of its own."""
    import textwrap

    lines = [line for note in notes for line in textwrap.wrap(note, letters, subsequent_indent="   ")]
    if lines:
        figure.supxlabel("\n".join(lines), x=0.01, ha="left", fontsize=8.5, color="#555555", linespacing=1.35)
