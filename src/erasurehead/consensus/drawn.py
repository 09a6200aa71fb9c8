"""The delays of all peers, drawn in blocks, whichever peer needs them first."""

from __future__ import annotations

from typing import final

from erasurehead._internal.arrays import Array
from erasurehead.delays.base import Delays, check_rows

_DRAWN = 32  # steps whose delays are drawn at once
_KEPT = 64  # blocks of these that are kept: slow peers are behind


@final
class DrawnDelays:
    """Delays of all peers, row by row, drawn in blocks that do not depend on who asks.

    Arguments:
        delays: drawn from.
        n_peers: number of peers.
        rows_every: seconds of the clock after which the next row holds; None for a row a step.
    """

    def __init__(self, delays: Delays, n_peers: int, rows_every: float | None) -> None:
        self._delays, self._n_peers, self._every = delays, n_peers, rows_every
        self._blocks: dict[int, Array] = {}

    def seconds(self, peer: int, step: int, now: float) -> float:
        """Return the delay of a peer's step that begins now; inf for one that never ends."""
        row = step if self._every is None else int(now // self._every)
        number, place = divmod(row, _DRAWN)
        block = self._blocks.get(number)
        if block is None:
            block = self._draw(number)
        return float(block[place, peer])

    def _draw(self, number: int) -> Array:
        if len(self._blocks) >= _KEPT:
            del self._blocks[min(self._blocks)]
        rows = self._delays.rows(number * _DRAWN, _DRAWN, self._n_peers)
        self._blocks[number] = check_rows(self._delays, rows, number * _DRAWN, _DRAWN, self._n_peers)
        return self._blocks[number]
