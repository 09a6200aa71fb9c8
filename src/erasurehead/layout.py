"""Where the elements of a message belong in the parameter vector."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from itertools import pairwise
from types import ModuleType

import numpy as np

from erasurehead.arrays import Array, IntArray
from erasurehead.decoding.base import Decoding

_WORTH_THREADS = 500_000  # elements to be added from which handing them out to threads pays


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
        self.positions = [None if place is None else np.ascontiguousarray(place, np.int64) for place in positions]
        if any(place is not None for place in positions):
            _kernels()  # loaded before any clock starts, and only where they are needed

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
        if all(self.positions[message] is None for message in messages):
            _add_dense(total, decoding.weights[0].tolist(), vectors)
            return total
        for column, message in enumerate(messages):
            positions = self.positions[message]
            if positions is None:
                _add_dense(total, [float(decoding.weights[0, column])], [vectors[column]])
                continue
            for piece in range(len(positions)):
                weight = float(decoding.weights[piece, column])
                if weight != 0.0:
                    values = np.ascontiguousarray(vectors[column], dtype=np.float64)
                    _kernels().add_in_place(total, positions[piece], weight, values)
        return total


@cache
def _kernels() -> ModuleType:
    from erasurehead.problems import kernels

    return kernels


def _add_dense(total: Array, weights: Sequence[float], vectors: Sequence[Array]) -> None:
    """Add weighted vectors, each thread its own range of coordinates; the workers' cores are idle meanwhile."""
    count = _threads() if len(total) * len(vectors) > _WORTH_THREADS else 1
    edges = [len(total) * number // count for number in range(count + 1)]
    spans = [slice(low, high) for low, high in pairwise(edges)]
    if count == 1:
        _add_span(total, weights, vectors, spans[0])
    else:
        list(_pool().map(partial(_add_span, total, weights, vectors), spans))


def _add_span(total: Array, weights: Sequence[float], vectors: Sequence[Array], span: slice) -> None:
    # No temporaries: they would cost more than the sum itself.
    part, scratch = total[span], np.empty(0)
    for weight, vector in zip(weights, vectors, strict=True):
        if weight == 1.0:
            part += vector[span]
        elif weight != 0.0:
            scratch = scratch if len(scratch) else np.empty(len(part))
            np.multiply(vector[span], weight, out=scratch)
            part += scratch


@cache
def _threads() -> int:
    return min(4, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_threads(), thread_name_prefix="sum")
