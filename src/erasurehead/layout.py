"""Where the elements of a message belong in the parameter vector."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from erasurehead.arrays import Array, IntArray
from erasurehead.decoding.base import Decoding


class Layout:
    """Which coordinate each element of each message, in each piece, stands for.

    A group code cuts every group's own support into pieces; other codes must cut all workers at the same places,
    or the decoded vector is garbage at a residual of zero.

    Arguments:
        n_coordinates: length of the decoded vector.
        positions: for each message an integer array of shape (n_pieces, length) with the coordinate of each
            element, -1 for padding; or None if the message holds all coordinates in order (one piece only).
    """

    def __init__(self, n_coordinates: int, positions: Sequence[IntArray | None]) -> None:
        self.n_coordinates = n_coordinates
        self.positions = positions
        self._padded = [place is not None and bool(place.min(initial=0) < 0) for place in positions]

    def length(self, message: int) -> int:
        """Number of elements of a message."""
        positions = self.positions[message]
        return self.n_coordinates if positions is None else positions.shape[1]

    def decode(self, decoding: Decoding, vectors: Sequence[Array]) -> Array:
        """Return the weighted sum of messages, put in place, shape (n_coordinates,).

        The sum runs in the order of the messages, not of their arrival, so that the same arrivals give the same bits.

        Arguments:
            decoding: messages and weights.
            vectors: the messages' vectors, in the order of `decoding.messages`.
        """
        total = np.zeros(self.n_coordinates)
        messages: list[int] = decoding.messages.tolist()
        scratch = np.empty(self.n_coordinates if any(self.positions[m] is None for m in messages) else 0)
        for column, message in enumerate(messages):
            positions = self.positions[message]
            if positions is None:
                _add(total, float(decoding.weights[0, column]), vectors[column], scratch)
                continue
            for piece in range(len(positions)):
                place: IntArray = positions[piece]
                weight = decoding.weights[piece, column]
                if weight == 0.0:
                    continue
                values = vectors[column] if weight == 1.0 else weight * vectors[column]
                if self._padded[message]:
                    values, place = values[place >= 0], place[place >= 0]
                np.add.at(total, place, values)  # half the time of total[place] += values
        return total


def _add(total: Array, weight: float, vector: Array, scratch: Array) -> None:
    # No temporaries: they would cost more than the sum itself. Nor BLAS, whose threads wait for each other here.
    if weight == 1.0:
        total += vector
    elif weight != 0.0:
        np.multiply(vector, weight, out=scratch)
        total += scratch
