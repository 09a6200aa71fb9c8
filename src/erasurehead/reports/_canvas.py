"""Matplotlib, imported on first use, with one style that does not depend on the user's settings.

This is the only module that imports matplotlib. Files are drawn without `pyplot`, and so without global state and
without a display; `plot` makes its figures with it, as notebooks show those, and scripts expect them.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import math
import os
import textwrap
import zlib
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from erasurehead._internal.arrays import Array
from erasurehead._internal.documents import PlainData
from erasurehead._internal.plain_text import visible
from erasurehead._internal.storage.access import Access
from erasurehead._internal.storage.folders import Folder
from erasurehead._internal.user_files import StrPath
from erasurehead.errors import MissingExtra, invalid

Axes: TypeAlias = Any
"""A matplotlib axes. Matplotlib's own types leave every keyword unknown, which strict type checking rejects."""

Figure: TypeAlias = Any
"""A matplotlib figure or part of one."""

FORMATS = ("png", "svg", "pdf")
_METADATA: dict[str, PlainData] = {  # removed, as it would make the files of equal figures differ
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}

INK = "#222222"
FAINT = "#c8c8c8"
_RC_PARAMS = {
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
class RunStyle:
    """The style of a run in all panels: colour, line style and marker, so that it is recognised without colour, too."""

    colour: str
    line: str
    marker: str


_STYLES = tuple(
    # The palette of Okabe and Ito, which is distinguishable with any kind of colour vision.
    RunStyle(colour, line, marker)
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


_SCHEME_STYLES = {"uncoded": 0, "exact": 1, "erasurehead": 2, "adaptive": 3, "ignore_stragglers": 4}
"""The style of each named scheme; other schemes get one of the remaining styles, by a hash of their name."""
_OTHER_STYLES = tuple(index for index in range(len(_STYLES)) if index not in _SCHEME_STYLES.values())
_LINES, _MARKERS = ("-", "--", "-.", ":"), ("o", "s", "^", "D", "v", "P", "X", "*")
_SHADES = (0.0, -0.45, 0.45, -0.7, 0.25)
"""How far the colours of one family in one figure go towards white, or black where negative."""


def scheme_style(name: str) -> RunStyle:
    """Return the style of a scheme, which depends on its name only, and not on the other schemes in the figure.

    >>> {scheme_style(f"adaptive{rest}").colour for rest in ("", "(load=2)", ", waiting for all")}
    {'#CC79A7'}
    """
    family = name.partition("(")[0].partition(",")[0].strip()
    index = _SCHEME_STYLES.get(family)
    return _STYLES[_OTHER_STYLES[_digest(family) % len(_OTHER_STYLES)] if index is None else index]


def scheme_styles(names: Sequence[str]) -> list[RunStyle]:
    """Return the styles of schemes in one figure: those of one family differ in lightness, line style and marker."""
    seen, styles = Counter[str](), dict[str, RunStyle]()
    # Names without arguments come first, so that they get the default style.
    for name in sorted(names, key=lambda name: ("(" in name, name)):
        own = scheme_style(name)
        place = seen[own.colour]
        seen[own.colour] += 1
        line, marker = (
            kinds[(kinds.index(kind) + place) % len(kinds)]
            for kinds, kind in ((_LINES, own.line), (_MARKERS, own.marker))
        )
        styles[name] = RunStyle(_shaded(own.colour, _SHADES[place % len(_SHADES)]), line, marker)
    return [styles[name] for name in names]


def _shaded(colour: str, towards: float) -> str:
    """Return a colour part of the way to white, or to black.

    >>> _shaded("#808080", 0.5), _shaded("#808080", -0.5)
    ('#C0C0C0', '#404040')
    """
    end = 255 if towards > 0.0 else 0
    parts = (int(colour[place : place + 2], 16) for place in (1, 3, 5))
    return "#" + "".join(f"{round(part + abs(towards) * (end - part)):02X}" for part in parts)


def _digest(text: str) -> int:
    return zlib.crc32(text.encode())


def run_style(index: int) -> RunStyle:
    """Return the style of a run by its number in the figure; styles repeat after eight."""
    return _STYLES[index % len(_STYLES)]


@contextmanager
def drawing() -> Generator[None]:
    """Use the style of this library; the user's matplotlib settings remain unchanged.

    Raises:
        MissingExtra: if matplotlib is not installed.
    """
    matplotlib = _matplotlib()
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_RC_PARAMS)
        yield


def new_figure(width: float, height: float, title: str = "") -> Figure:
    """Return an empty figure; must be called within `drawing`.

    Arguments:
        width, height: size in inches.
        title: title above all panels; wrapped if it is too long.
    """
    figure = importlib.import_module("matplotlib.figure").Figure(figsize=(width, height), layout="constrained")
    size = min(1.45 * width, 13.0)
    lines = [wrapped for line in title.splitlines() for wrapped in textwrap.wrap(line, width=int(100 * width / size))]
    if lines:
        figure.suptitle("\n".join(lines), x=0.01, ha="left", fontsize=size, fontweight="bold")
    return figure


def plot(
    ax: Axes | None,
    kind: str,
    drawings: Mapping[str, Callable[[Axes], object]],
    size: tuple[float, float] = (7.5, 4.4),
) -> Axes:
    """Draw one of several pictures into axes, and return these. The user's settings remain, and hold for their axes.

    Arguments:
        ax: where to draw; None for the axes of a new figure of `pyplot`.
        kind: which picture.
        drawings: what draws each, by kind.
        size: width and height of a new figure, in inches.

    Raises:
        InvalidArgument: if there is no such picture, or `ax` is something else.
        MissingExtra: if matplotlib is not installed.
    """
    if kind not in drawings:
        raise invalid("kind", f"must be {' or '.join(drawings)}", kind)
    matplotlib, figure = _matplotlib(), None
    if ax is None:  # not within `drawing`, which would undo what a notebook sets up for its first figure
        pyplot = importlib.import_module("matplotlib.pyplot")
        figure = pyplot.figure(figsize=size, layout="constrained", facecolor="white")
    elif not isinstance(ax, importlib.import_module("matplotlib.axes").Axes):
        raise invalid("ax", "must be axes of matplotlib", ax, "_, ax = pyplot.subplots() makes some")
    with matplotlib.rc_context({"text.parse_math": False}) if figure is None else drawing():
        ax = ax if figure is None else figure.subplots()
        drawings[kind](ax)
    _settle(ax)
    return ax


def _settle(drawn: Any) -> None:
    """Make names from data plain text: neither controls, which an SVG file must not have, nor formulas."""
    for text in drawn.findobj(importlib.import_module("matplotlib.text").Text):
        text.set_parse_math(False)
        if (shown := visible(text.get_text())) != text.get_text():
            text.set_text(shown)


def fit(figure: Figure) -> None:
    """Lay out a figure, and shrink texts that do not fit into its width.

    Tick labels have no common factor above the axis, which would collide with other text.
    """
    texts = importlib.import_module("matplotlib.text")
    _settle(figure)
    ticker = importlib.import_module("matplotlib.ticker")
    for axes in figure.axes:  # including those of subfigures
        for axis in (axes.xaxis, axes.yaxis):
            if isinstance(axis.get_major_formatter(), ticker.ScalarFormatter) and axis.get_scale() == "linear":
                axis.set_major_formatter(ticker.FuncFormatter(_tick_text))
    agg = importlib.import_module("matplotlib.backends.backend_agg")
    renderer = agg.FigureCanvasAgg(figure).get_renderer()
    for _ in range(3):
        figure.draw_without_rendering()
        wide = figure.bbox.width
        fits = True
        undrawn = _undrawn_labels(figure)
        for text in figure.findobj(texts.Text):
            if not text.get_visible() or not text.get_text() or id(text) in undrawn:
                continue
            box = text.get_window_extent(renderer)
            excess = max(box.x1 - wide, -box.x0, 0.0)
            if excess > 1.0 and box.width > 0.0:
                # Centred text must become shorter by the excess on both sides.
                loss = excess * (2.0 if text.get_horizontalalignment() == "center" else 1.0) + 4.0
                text.set_fontsize(max(5.0, text.get_fontsize() * (1.0 - loss / box.width)))
                fits = False
        if fits:
            return


def _undrawn_labels(figure: Figure) -> set[int]:
    """Return the `id` of each tick label beyond the ends of its axis, which matplotlib keeps but does not draw."""
    hidden: set[int] = set()
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            margin = 1e-9 * (high - low)
            for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks()):
                if not low - margin <= tick.get_loc() <= high + margin:
                    hidden |= {id(tick.label1), id(tick.label2)}
    return hidden


def _tick_text(value: float, _position: object = None) -> str:
    """Return the text of a tick label, without rounding errors."""
    text = f"{value:.10g}"
    return text if len(text) <= 9 else f"{value:.4g}"


def patch_key(colour: str, label: str, edge: str = "none") -> Any:
    """Return a legend handle of an area."""
    return importlib.import_module("matplotlib.patches").Patch(facecolor=colour, edgecolor=edge, label=label)


def line_key(colour: str, label: str) -> Any:
    """Return a legend handle of a thin line."""
    return importlib.import_module("matplotlib.lines").Line2D([], [], color=colour, linewidth=0.8, label=label)


def curve(axes: Axes, times: Array, values: Array, style: RunStyle, label: str, index: int) -> None:
    """Draw the curve of one run over time. Marker positions depend on the run, so that coinciding curves are seen.

    Arguments:
        axes: the axes to draw into.
        times: seconds, ascending, shape (n_points,).
        values: shape (n_points,); NaN is left out.
        style: style of the run.
        label: name of the run in the legend.
        index: number of the run in the figure.
    """
    axes.plot(
        times,
        values,
        style.line,
        label=label,
        color=style.colour,
        linewidth=2.0,
        marker=style.marker,
        markersize=6,
        markevery=(0.04 + 0.02 * index, 0.12),
    )


def legend_above(axes: Axes, columns: int, title: str) -> None:
    """Put the legend above a panel, where it covers no curve; its title says what the lines are."""
    axes.legend(
        loc="lower left",
        bbox_to_anchor=(-0.02, 1.0),
        ncols=columns,
        borderaxespad=0.2,
        columnspacing=1.2,
        title=title,
        alignment="left",
    )


def plain_ticks(axis: Any) -> None:
    """Write the tick labels of a logarithmic axis as plain numbers, as powers of ten need math text, which is off.

    Arguments:
        axis: `axes.xaxis` or `axes.yaxis`.
    """
    ticker = importlib.import_module("matplotlib.ticker")
    low, high = axis.get_view_interval()
    decades = math.log10(high / low) if 0.0 < low < high else math.inf
    subs, max_ticks = ((1.0,), 5) if decades > 3.0 else ((1.0, 3.0), 7) if decades > 1.2 else ((1.0, 2.0, 5.0), 10)
    narrow = decades < 0.5  # ticks at 1, 2 and 5 may then be one or none
    axis.set_major_locator(ticker.AutoLocator() if narrow else ticker.LogLocator(subs=subs, numticks=max_ticks))
    axis.set_major_formatter("{x:g}")
    axis.set_minor_formatter(ticker.NullFormatter())


def whole_ticks(*axes: Any) -> None:
    """Have ticks at whole numbers alone, where there are no others.

    Arguments:
        axes: `axes.xaxis` or `axes.yaxis`.
    """
    for axis in axes:
        axis.set_major_locator(importlib.import_module("matplotlib.ticker").MaxNLocator("auto", integer=True))


def named_bars(axes: Axes, names: Sequence[str], values: Sequence[float], colours: Sequence[str], unit: str) -> None:
    """Draw horizontal bars, each with its name above it, where long names have room, and its value beside it."""
    positions = range(len(values))
    axes.barh(list(positions), values, height=0.5, color=colours)
    for position, name, value in zip(positions, names, values, strict=True):
        axes.annotate(name, (0.0, position - 0.27), (2, 1), textcoords="offset points", va="bottom")
        axes.annotate(f"{value:.3g} {unit}", (value, float(position)), (4, 0), textcoords="offset points", va="center")
    axes.set_yticks([])
    axes.set_ylim(len(values) - 0.5, -0.75)
    axes.set_xlim(0.0, 1.35 * max(values) or 1.0)


def save(
    figure: Figure, folder: Path | Folder, name: str, formats: Sequence[str], access: Access = "private"
) -> list[Path]:
    """Write a figure in each of the formats, and return the paths. Equal figures give equal files.

    Arguments:
        figure: the figure.
        folder: folder for the files, or an open one; existing links of their names are replaced, and not followed.
        name: name of the files, without suffix.
        formats: as `check_formats` returned them.
        access: who may read the files. An open folder has its own.
    """
    fit(figure)
    figure.set_layout_engine(None)  # otherwise each format would change the layout a little for the next
    paths: list[Path] = []
    with contextlib.nullcontext(folder) if isinstance(folder, Folder) else Folder.open(folder, access) as place:
        for format_ in formats:
            drawn = io.BytesIO()
            figure.savefig(drawn, format=format_, dpi=160, metadata=_METADATA[format_])
            paths.append(place.path / f"{name}.{format_}")
            place.write_whole(paths[-1].name, [drawn.getbuffer()])
    return paths


def prepare_folder(folder: StrPath, access: Access = "private") -> Path:
    """Create a folder for figures if it does not exist, and return its path.

    Arguments:
        folder: path of the folder.
        access: who may read it if it is created.

    Raises:
        InvalidArgument: if it cannot be created, or cannot be written to.
    """
    path, reason = Path(folder), ""
    try:
        Folder.made(path, access).close()
    except OSError as error:
        reason = error.strerror or ""
    if reason or not os.access(path, os.W_OK):
        raise invalid("folder", "must be a folder that can be written to", str(path), reason)
    return path


def check_formats(formats: Sequence[str]) -> tuple[str, ...]:
    """Check the formats, and return them.

    Raises:
        InvalidArgument: if one of them is unknown.
    """
    for format_ in formats:
        if format_ not in FORMATS:
            raise invalid("formats", f"must be among {', '.join(FORMATS)}", format_)
    return tuple(formats)


def _matplotlib() -> Any:
    try:
        return importlib.import_module("matplotlib")
    except ImportError as error:
        raise MissingExtra("pictures need matplotlib: pip install 'erasurehead[report]'.") from error
