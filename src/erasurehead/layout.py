"""Where the elements of a message belong in the parameter vector."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.linalg import blas

from erasurehead.arrays import Array, IntArray
from erasurehead.decoding.base import Decoding

_BLOCK = 16_384  # elements of the sum kept in cache while all messages are added to it


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
        if all(self.positions[message] is None for message in decoding.messages):
            _add_dense(total, decoding.weights[0], vectors)
            return total
        for column, message in enumerate(decoding.messages):
            positions = self.positions[message]
            if positions is None:
                total += decoding.weights[0, column] * vectors[column]
                continue
            for piece in range(len(positions)):
                place: IntArray = positions[piece]
                weight = decoding.weights[piece, column]
                if weight == 0.0:
                    continue
                values = vectors[column] if weight == 1.0 else weight * vectors[column]
                if place.min(initial=0) < 0:
                    values, place = values[place >= 0], place[place >= 0]
                total[place] += values
        return total


def _add_dense(total: Array, weights: Array, vectors: Sequence[Array]) -> None:
    # A block of the sum stays in cache while every message streams past it once.
    for low in range(0, len(total), _BLOCK):
        block = total[low : low + _BLOCK]
        for weight, vector in zip(weights, vectors, strict=True):
            if weight != 0.0:
                blas.daxpy(vector[low : low + _BLOCK], block, a=float(weight))
