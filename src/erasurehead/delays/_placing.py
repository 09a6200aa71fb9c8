"""Machine code that copies a tile of draws to its place in one pass; numpy takes two, the second row by row."""

from __future__ import annotations

from erasurehead._internal.arrays import Array
from erasurehead._internal.jit import compiled_when_called


@compiled_when_called
def place(tile: Array, factor: float, out: Array) -> None:
    """Write draws, multiplied by a factor, into a part of a table.

    Arguments:
        tile: shape (steps, width).
        factor: a factor for every draw.
        out: output, shape (steps, at most width); its rows need not be contiguous.
    """
    for step in range(out.shape[0]):
        for worker in range(out.shape[1]):
            out[step, worker] = tile[step, worker] * factor
