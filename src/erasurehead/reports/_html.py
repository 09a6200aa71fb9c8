"""What notebooks show in place of a `repr`: tables and small drawings as HTML that needs nothing else.

There are no scripts, nothing is fetched, texts are escaped, and colours are the notebook's own, light or dark, but for
the two of coefficients. Sizes are bounded, however large what is shown: a curve has 200 points at most, a matrix
60 x 60 cells, and a text 400 characters.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead._internal.plain_text import visible
from erasurehead.reports._measures import MAX_DRAWN, needs_log_axis

POSITIVE, NEGATIVE = "#D55E00", "#0072B2"  # of Okabe and Ito
_POINTS = 200
_LONGEST = 400  # characters
_WIDTH, _HEIGHT = 240, 40  # pixels of a curve
_LEVELS = 4  # of coefficients, by size


def table(title: str, rows: Iterable[Sequence[str]], headers: Sequence[str] = (), below: str = "") -> str:
    """Return a table: names and values, or, with headers, names and numbers.

    Arguments:
        title: above the table.
        rows: the texts of each row.
        headers: of the columns.
        below: HTML, such as `curve` or `matrix` returns it.
    """
    side = "right" if headers else "left"

    def line(cells: Sequence[str], kind: str = "td") -> str:
        others = "".join(f'<{kind} style="text-align:{side}">{_text(cell)}</{kind}>' for cell in cells[1:])
        return f'<tr><th style="text-align:left">{_text(cells[0])}</th>{others}</tr>'

    caption = f'<caption style="text-align:left;font-weight:bold">{_text(title)}</caption>' if title else ""
    head = f"<thead>{line(headers, 'th')}</thead>" if headers else ""
    return f"<div><table>{caption}{head}<tbody>{''.join(map(line, rows))}</tbody></table>{below}</div>"


def note(text: str) -> str:
    """Return a line below a table or a drawing."""
    return f"<div><small>{_text(text)}</small></div>"


def sampled(count: int) -> list[int]:
    """Return the places of at most 200 of so many rows, evenly apart, the first and the last among them."""
    return np.unique(np.linspace(0, max(count - 1, 0), min(count, _POINTS)).round().astype(int)).tolist()


def curve(heights: Sequence[float], label: str) -> str:
    """Return a curve without axes; empty if there are no two numbers to draw.

    Arguments:
        heights: evenly apart; what is no number is left out. If all are positive and far apart, the curve is that of
            their logarithms.
        label: what it is.
    """
    values = np.array(heights, dtype=np.float64)
    places = np.flatnonzero(np.abs(values) < MAX_DRAWN)
    known = values[places]
    if len(known) < 2:
        return ""
    if needs_log_axis(known.tolist()):
        known = np.log(known)
    across = 2 + (_WIDTH - 4) * places / places[-1]
    down = _HEIGHT - 2 - (_HEIGHT - 4) * (known - known.min()) / (np.ptp(known) or 1.0)
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in zip(across, down, strict=True))
    drawing = f'<polyline points="{points}" fill="none" stroke="currentColor" stroke-width="1.5"/>'
    return _svg(drawing, (_WIDTH, _HEIGHT), 1, label)


def matrix(cells: Array, label: str) -> str:
    """Return a matrix as a picture: positive cells orange, negative ones blue, the stronger the larger.

    Arguments:
        cells: shape (rows, columns), at most 60 of each; 0 is left empty.
        label: what it is.
    """
    rows, columns = cells.shape
    levels = np.sign(cells) * np.ceil(_LEVELS * np.abs(cells) / (np.abs(cells).max(initial=0.0) or 1.0))
    paths = f'<path d="M0 0h{columns}v{rows}h-{columns}z" fill="none" stroke="currentColor" stroke-width="0.1"/>'
    for level in np.unique(levels[levels != 0.0]):
        squares = "".join(f"M{x} {y}.5h1" for y, x in np.argwhere(levels == level))
        colour = POSITIVE if level > 0.0 else NEGATIVE
        paths += f'<path d="{squares}" stroke="{colour}" stroke-opacity="{abs(level) / _LEVELS:g}"/>'
    return _svg(paths, (columns, rows), max(2, min(12, _WIDTH // max(rows, columns))), label)


def _svg(drawing: str, box: tuple[int, int], scale: int, label: str) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{_text(label)}" width="{scale * box[0]}" '
        f'height="{scale * box[1]}" viewBox="0 0 {box[0]} {box[1]}">{drawing}</svg>{note(label)}'
    )


def _text(text: str) -> str:
    text = visible(text)
    return html.escape(text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…")
