"""A code as notebooks show it, and as a picture: workers times tasks, with the coefficients as colours."""

from __future__ import annotations

from typing import Any

import numpy as np

from erasurehead._internal.arrays import Array, IntArray
from erasurehead._internal.shown import shown
from erasurehead.codes._base import GradientCode
from erasurehead.errors import counted

_SMALL, _MOST = 60, 250
"""The most cells across and down, of what notebooks show beside the facts, and of the picture."""


def code_page(code: GradientCode) -> str:
    """Return a code as HTML: what it costs, what it tolerates, and its coefficients."""
    facts = (
        ("Workers", f"{code.n_workers:,}"),
        ("Tasks", f"{code.n_tasks:,}" + (f", in {code.n_pieces} pieces each" if code.n_pieces > 1 else "")),
        ("Tasks per worker", _range(code.loads)),
        ("Workers per task", _range(code.replication)),
        ("Messages per worker", _range(code.messages_per_worker)),
        ("Tolerates any", "nothing is promised" if code.tolerance is None else counted("straggler", code.tolerance)),
        ("Source", code.source),
    )
    cells, label = _cells(code, _SMALL)
    drawing = shown("reports._html", "matrix")(cells, f"workers (down) and tasks{label}")
    return shown("reports._html", "table")(repr(code), facts, below=drawing)


def plot_code(code: GradientCode, ax: Any) -> Any:
    """Draw a code: see `GradientCode.plot`."""
    cells, label = _cells(code, _MOST)
    shape = code.n_workers, code.n_tasks
    return shown("reports._code_pictures", "plot_matrix")(cells, shape, f"{code!r}{label}", ax)


def _cells(code: GradientCode, most: int) -> tuple[Array, str]:
    """Return the coefficients of workers (rows) for tasks (columns), 0 where there is none, and what a cell is.

    If a worker sends several messages, or there are more than `most` workers or tasks, so that neighbours share a cell,
    it has the coefficient that is the largest in size.
    """
    down, across = (-(-count // most) for count in (code.n_workers, code.n_tasks))
    rows = code.owner[np.repeat(np.arange(code.n_messages), np.diff(code.encoding.indptr))] // down
    order = np.argsort(np.abs(code.encoding.data))  # of those that share a cell, the last one stays
    cells = np.zeros((-(-code.n_workers // down), -(-code.n_tasks // across)))
    cells[rows[order], code.encoding.indices[order] // code.n_pieces // across] = code.encoding.data[order]
    return cells, f"; the largest of {down} x {across}" if down * across > 1 else ""


def _range(counts: IntArray) -> str:
    low, high = int(counts.min()), int(counts.max())
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"
