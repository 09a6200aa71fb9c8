"""The picture of a code: its coefficients, workers times tasks, on a diverging scale that everybody can tell apart."""

from __future__ import annotations

import importlib

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead.reports import _canvas as canvas, _measures as measures
from erasurehead.reports._canvas import Axes
from erasurehead.reports._html import NEGATIVE, POSITIVE

_NOTHING = "#E4E4E4"


def plot_matrix(cells: Array, shape: tuple[int, int], title: str, ax: Axes | None) -> Axes:
    """Draw the coefficients of a code.

    Arguments:
        cells: coefficients, 0 where there is none, shape (rows, columns).
        shape: number of workers and tasks, of which several may share a cell.
        title: above the picture.
        ax: where to draw; None for a new figure.
    """
    top = float(np.abs(cells).max(initial=0.0)) or 1.0

    def draw(axes: Axes) -> None:
        colours = importlib.import_module("matplotlib.colors").LinearSegmentedColormap
        image = axes.imshow(
            np.ma.masked_equal(cells, 0.0),
            cmap=colours.from_list("coefficients", [NEGATIVE, "white", POSITIVE]),
            vmin=-top,
            vmax=top,
            extent=(-0.5, shape[1] - 0.5, shape[0] - 0.5, -0.5),
            aspect="auto",
            interpolation="nearest",
        )
        axes.set_facecolor(_NOTHING)
        axes.figure.colorbar(image, ax=axes, label="coefficient; grey: none", pad=0.02)
        axes.set(xlabel="task", ylabel="worker", title=measures.shorten(title, 52, 3))
        canvas.whole_ticks(axes.xaxis, axes.yaxis)

    return canvas.plot(ax, "matrix", {"matrix": draw}, (6.4, 5.4))
