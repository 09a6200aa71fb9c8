"""Drawing with matplotlib, loaded on use, with one style that does not depend on the user's settings.

This is the only module that imports matplotlib. Figures are made without `pyplot`, and so without global state
or display.
"""

from __future__ import annotations

import importlib
import io
import math
import os
import textwrap
import zlib
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from erasurehead._internal.arrays import Array
from erasurehead._internal.storage import Access, Folder
from erasurehead.errors import MissingExtra, invalid

Axes: TypeAlias = Any
"""A matplotlib axes. Matplotlib's own types leave every keyword unknown, which strict type checking rejects."""

Figure: TypeAlias = Any
"""A matplotlib figure or part of one."""

FORMATS = ("png", "svg", "pdf")
_UNDATED: dict[str, dict[str, Any]] = {  # what would make files of equal pictures differ
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}

INK = "#222222"
FAINT = "#c8c8c8"
_LOOK = {
    "font.family": "DejaVu Sans",  # comes with matplotlib
    "font.size": 11.0,
    "axes.titlesize": 11.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#777777",
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "text.parse_math": False,  # a user's title may have a dollar sign
    "svg.hashsalt": "erasurehead",
}


@dataclass(frozen=True)
class Look:
    """How one run is drawn, in every panel: its colour, and what distinguishes it without colour."""

    colour: str
    line: str
    marker: str


_LOOKS = tuple(
    # Okabe and Ito's colours, which people of every kind of colour vision can tell apart.
    Look(colour, line, marker)
    for colour, line, marker in (
        ("#555555", "-", "o"),
        ("#0072B2", "--", "s"),
        ("#D55E00", "-", "^"),
        ("#CC79A7", "-.", "D"),
        ("#009E73", "--", "v"),
        ("#E69F00", ":", "P"),
        ("#56B4E9", "-.", "X"),
        ("#000000", ":", "*"),
    )
)


_SCHEMES = {"uncoded": 0, "exact": 1, "erasurehead": 2, "adaptive": 3, "ignore_stragglers": 4}
"""The look of each named scheme; other schemes get one of the remaining looks, by name."""
_OTHERS = tuple(index for index in range(len(_LOOKS)) if index not in _SCHEMES.values())
_LINES, _MARKERS = ("-", "--", "-.", ":"), ("o", "s", "^", "D", "v", "P", "X", "*")


def scheme_look(name: str) -> Look:
    """Return the look of a scheme by its name, whatever else is in the figure.

    >>> scheme_look("erasurehead(load=2)").colour == scheme_look("erasurehead").colour
    True
    """
    family = name.partition("(")[0].strip()
    place = _SCHEMES.get(family)
    return _LOOKS[_OTHERS[_digest(family) % len(_OTHERS)] if place is None else place]


def scheme_looks(names: Sequence[str]) -> list[Look]:
    """Return the looks of schemes in one figure: those with the same colour differ in line and marker."""
    taken: set[tuple[str, str, str]] = set()
    looks: dict[str, Look] = {}
    for name in sorted(names, key=lambda name: ("(" in name, name)):  # the plain name has the plain look
        own = scheme_look(name)
        kinds = [(line, marker) for marker in _MARKERS for line in _LINES]
        first = kinds.index((own.line, own.marker))
        ways = [kinds[(first + 5 * step) % len(kinds)] for step in range(len(kinds))]  # 5 changes both, and is coprime
        line, marker = next((way for way in ways if (own.colour, *way) not in taken), ways[0])
        taken.add((own.colour, line, marker))
        looks[name] = Look(own.colour, line, marker)
    return [looks[name] for name in names]


def _digest(text: str) -> int:
    return zlib.crc32(text.encode())


def look(index: int) -> Look:
    """Return the look of a run by its number; looks repeat after eight."""
    return _LOOKS[index % len(_LOOKS)]


@contextmanager
def drawing() -> Generator[None]:
    """Use one style, whatever the user's matplotlib settings, which remain unchanged.

    Raises:
        MissingExtra: if matplotlib is not installed.
    """
    matplotlib = _matplotlib()
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_LOOK)
        yield


def new_figure(width: float, height: float, title: str = "") -> Figure:
    """Return an empty figure with a size in inches; called within `drawing`."""
    figure = importlib.import_module("matplotlib.figure").Figure(figsize=(width, height), layout="constrained")
    size = min(1.45 * width, 13.0)
    lines = [wrapped for line in title.splitlines() for wrapped in textwrap.wrap(line, width=int(100 * width / size))]
    if lines:
        figure.suptitle("\n".join(lines), x=0.01, ha="left", fontsize=size, fontweight="bold")
    return figure


def fit(figure: Figure) -> None:
    """Lay out a figure so that no text leaves it: text that is too wide gets smaller.

    Numbers at the axes are written out: a common factor above an axis would collide with other text.
    """
    texts = importlib.import_module("matplotlib.text")
    ticker = importlib.import_module("matplotlib.ticker")
    for axes in figure.axes:  # those of its subfigures, too
        for axis in (axes.xaxis, axes.yaxis):
            if isinstance(axis.get_major_formatter(), ticker.ScalarFormatter) and axis.get_scale() == "linear":
                axis.set_major_formatter(ticker.FuncFormatter(_written))
    agg = importlib.import_module("matplotlib.backends.backend_agg")
    renderer = agg.FigureCanvasAgg(figure).get_renderer()
    for _ in range(3):
        figure.draw_without_rendering()
        wide = figure.bbox.width
        fits = True
        beyond = _beyond(figure)
        for text in figure.findobj(texts.Text):
            if not text.get_visible() or not text.get_text() or id(text) in beyond:
                continue
            box = text.get_window_extent(renderer)
            out = max(box.x1 - wide, -box.x0, 0.0)
            if out > 1.0 and box.width > 0.0:
                # Centred text loses on both sides what it loses in all.
                loss = out * (2.0 if text.get_horizontalalignment() == "center" else 1.0) + 4.0
                text.set_fontsize(max(5.0, text.get_fontsize() * (1.0 - loss / box.width)))
                fits = False
        if fits:
            return


def _beyond(figure: Figure) -> set[int]:
    """Return the `id` of each number beyond the end of its axis, which matplotlib keeps and never draws."""
    found: set[int] = set()
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            margin = 1e-9 * (high - low)
            for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks()):
                if not low - margin <= tick.get_loc() <= high + margin:
                    found |= {id(tick.label1), id(tick.label2)}
    return found


def _written(value: float, _place: object = None) -> str:
    """Return a number at an axis, without the rounding errors of its place."""
    text = f"{value:.10g}"
    return text if len(text) <= 9 else f"{value:.4g}"


def patch_key(colour: str, label: str, edge: str = "none") -> Any:
    """Return a legend's entry for an area."""
    return importlib.import_module("matplotlib.patches").Patch(facecolor=colour, edgecolor=edge, label=label)


def line_key(colour: str, label: str) -> Any:
    """Return a legend's entry for a thin line."""
    return importlib.import_module("matplotlib.lines").Line2D([], [], color=colour, linewidth=0.8, label=label)


def curve(axes: Axes, times: Array, values: Array, style: Look, label: str, index: int) -> None:
    """Draw one run's curve against time, with its own marker positions, so that coinciding runs can be distinguished.

    Arguments:
        axes: the axes to draw into.
        times: seconds, ascending, shape (n_points,).
        values: shape (n_points,); NaN is left out.
        style: look of the run.
        label: its name in the legend.
        index: number of the run among those drawn.
    """
    axes.plot(times, values, style.line, label=label, color=style.colour, linewidth=2.0, marker=style.marker,
              markersize=6, markevery=(0.04 + 0.02 * index, 0.12))  # fmt: skip


def legend_above(axes: Axes, columns: int) -> None:
    """Put the legend above a panel, where no curve is in the way."""
    axes.legend(loc="lower left", bbox_to_anchor=(-0.02, 1.0), ncols=columns, borderaxespad=0.2, columnspacing=1.2)


def plain_ticks(axis: Any) -> None:
    """Write out the numbers of a logarithmic axis, as powers of ten need math text, which is turned off.

    Arguments:
        axis: `axes.xaxis` or `axes.yaxis`.
    """
    ticker = importlib.import_module("matplotlib.ticker")
    low, high = axis.get_view_interval()
    decades = math.log10(high / low) if 0.0 < low < high else math.inf
    subs, most = ((1.0,), 5) if decades > 3.0 else ((1.0, 3.0), 7) if decades > 1.2 else ((1.0, 2.0, 5.0), 10)
    few = decades < 0.5  # 1, 2 and 5 may then be but one tick, or none
    axis.set_major_locator(ticker.AutoLocator() if few else ticker.LogLocator(subs=subs, numticks=most))
    axis.set_major_formatter("{x:g}")
    axis.set_minor_formatter(ticker.NullFormatter())


def named_bars(axes: Axes, names: Sequence[str], values: Sequence[float], colours: Sequence[str], unit: str) -> None:
    """Draw one bar a name, with the name above it, where the longest has room, and the value beside it."""
    places = range(len(values))
    axes.barh(list(places), values, height=0.5, color=colours)
    for place, name, value in zip(places, names, values, strict=True):
        axes.annotate(name, (0.0, place - 0.27), (2, 1), textcoords="offset points", va="bottom")
        axes.annotate(f"{value:.3g} {unit}", (value, float(place)), (4, 0), textcoords="offset points", va="center")
    axes.set_yticks([])
    axes.set_ylim(len(values) - 0.5, -0.75)
    axes.set_xlim(0.0, 1.35 * max(values) or 1.0)


def save(figure: Figure, folder: Path, name: str, formats: Sequence[str], access: Access | None = None) -> list[Path]:
    """Write a figure in each of the formats, and return the files. Equal figures give equal files.

    Arguments:
        figure: the figure.
        folder: where to put the files; links in their place are replaced, not followed.
        name: name of the files, without suffix.
        formats: as `check_formats` returned them.
        access: who may read the files; None for the system's default.
    """
    paths = [folder / f"{name}.{form}" for form in formats]
    fit(figure)
    figure.set_layout_engine(None)  # laid out once: otherwise each format would shift things a little for the next
    with Folder.open(folder, access) as place:
        for path, form in zip(paths, formats, strict=True):
            drawn = io.BytesIO()
            figure.savefig(drawn, format=form, dpi=160, metadata=_UNDATED[form])
            place.write_whole(path.name, [drawn.getbuffer()])
    return paths


def made_folder(folder: Path | str, access: Access | None = None) -> Path:
    """Return the folder for figures, created if it does not exist.

    Arguments:
        folder: its path.
        access: who may read it if it is created; None for the system's default.

    Raises:
        InvalidArgument: if it cannot be created, or cannot be written to.
    """
    place, why = Path(folder), ""
    try:
        Folder.made(place, access).close()
    except OSError as error:
        why = error.strerror or ""
    if why or not os.access(place, os.W_OK):
        raise invalid("folder", "must be a folder that can be written to", str(place), why)
    return place


def check_formats(formats: Sequence[str]) -> tuple[str, ...]:
    """Return the formats, or raise for one that cannot be written."""
    for form in formats:
        if form not in FORMATS:
            raise invalid("formats", f"must be among {', '.join(FORMATS)}", form)
    return tuple(formats)


def _matplotlib() -> Any:
    try:
        return importlib.import_module("matplotlib")
    except ImportError as error:
        raise MissingExtra("pictures need matplotlib: pip install 'erasurehead[report]'.") from error
