"""The delays of all peers, drawn in blocks of steps, so that they do not depend on the order of the requests."""

from __future__ import annotations

from functools import lru_cache
from typing import final

from erasurehead._internal.arrays import Array
from erasurehead.delays import Delays
from erasurehead.delays._base import check_rows

_BLOCK = 32  # rows that are drawn at once
_MAX_BLOCKS = 64  # cached, as slow peers are many rows behind


@final
class DrawnDelays:
    """Delays of all peers, drawn in cached blocks of rows.

    Arguments:
        delays: the model that they are drawn from.
        n_peers: number of peers.
        rows_every: seconds of the clock after which the next row applies; None for one row per step.
    """

    def __init__(self, delays: Delays, n_peers: int, rows_every: float | None) -> None:
        self._delays, self._n_peers, self._rows_every = delays, n_peers, rows_every
        self._block = lru_cache(_MAX_BLOCKS)(self._draw)

    def seconds(self, peer: int, step: int, now: float) -> float:
        """Return the delay of a peer's step in seconds; inf if it never ends.

        Arguments:
            peer: number of the peer.
            step: number of the step.
            now: when the step begins, in seconds since training began.
        """
        row = step if self._rows_every is None else int(min(now // self._rows_every, 2.0**53))
        number, offset = divmod(row, _BLOCK)
        return float(self._block(number)[offset, peer])

    def _draw(self, number: int) -> Array:
        first = number * _BLOCK
        rows = self._delays.rows(first, _BLOCK, self._n_peers)
        return check_rows(self._delays, rows, first, _BLOCK, self._n_peers)
