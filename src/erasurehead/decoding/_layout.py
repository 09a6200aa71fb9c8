"""Layouts: where messages, and the pieces of a gradient, belong among the parameters, and their weighted sum there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from itertools import pairwise
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from erasurehead._internal.arrays import MOST_PLACES, Array, Places
from erasurehead._internal.resources import usable_cores
from erasurehead.errors import invalid

if TYPE_CHECKING:
    from erasurehead.decoding._base import Decoding

_WORTH_THREADS = 500_000  # number of elements to add from which threads pay off
_SPAN = 1 << 16  # coordinates that are summed over all messages before the next ones: they stay in cache


class Layout:
    """The coordinate of each element of each message, in each piece.

    A group code cuts every group's own support into pieces; other codes must cut all workers at the same places,
    or the decoded vector is garbage at a residual of zero.

    Arguments:
        n_coordinates: length of the decoded vector.
        positions: for each message an integer array of shape (n_pieces, length) with the coordinate of each
            element, -1 for padding; or None if the message holds all coordinates in order (one piece only).
        dtype: in which messages are summed, float64 or theirs: float32 messages need no float64, as weights amplify
            what was rounded in them before by as much as what is rounded in the sum.

    Raises:
        InvalidArgument: if there are positions, and more coordinates than 32 bits can number.
    """

    def __init__(
        self, n_coordinates: int, positions: Sequence[NDArray[np.integer] | None], dtype: str = "float64"
    ) -> None:
        self.n_coordinates, self.dtype = n_coordinates, dtype
        if any(place is not None for place in positions):
            if n_coordinates > MOST_PLACES:
                raise invalid(
                    "n_coordinates", f"must be at most {MOST_PLACES} where there are positions", n_coordinates
                )
            _kernels().load(n_coordinates)  # before any clock starts, and only if they are needed
        self.positions = [None if place is None else np.ascontiguousarray(place, np.int32) for place in positions]
        supports = {id(place): place for place in self.positions if place is not None}  # equal messages share theirs
        ascending = all(_ascends(row) for place in supports.values() for row in place)
        self._edges = [*range(0, n_coordinates, _SPAN), n_coordinates] if ascending else [0, n_coordinates]
        cuts = {key: [_cut(row, self._edges) for row in place] for key, place in supports.items()}
        self._cuts = [None if place is None else cuts[id(place)] for place in self.positions]

    def length(self, message: int) -> int:
        """Number of elements of a message."""
        positions = self.positions[message]
        return self.n_coordinates if positions is None else positions.shape[1]

    def decode(self, decoding: Decoding, vectors: Sequence[Array]) -> Array:
        """Return the weighted sum of messages at their coordinates, shape (n_coordinates,).

        The sum runs in the order of the messages, not of their arrival, so that the same arrivals give the same bits.

        Arguments:
            decoding: messages and weights.
            vectors: the messages' vectors, in the order of `decoding.messages`.
        """
        messages: list[int] = decoding.messages.tolist()
        if all(self.positions[message] is None for message in messages):
            total = np.zeros(self.n_coordinates, self.dtype)
            _add_dense(total, decoding.weights[0].tolist(), vectors)
            return total
        total, terms = np.empty(self.n_coordinates), list(self._terms(messages, decoding.weights, vectors))
        add_in_place = _kernels().add_in_place
        for number, (low, high) in enumerate(pairwise(self._edges)):
            total[low:high] = 0.0
            for weight, values, place, cuts in terms:
                if place is None:
                    _add_span(total, [weight], [values], slice(low, high))
                else:
                    within = slice(cuts[number], cuts[number + 1])
                    numbers = np.ascontiguousarray(values[within], dtype=np.float64)
                    add_in_place(total, place[within], weight, numbers)
        return total.astype(self.dtype, copy=False)  # the kernel of supports adds in float64

    def _terms(
        self, messages: Sequence[int], weights: Array, vectors: Sequence[Array]
    ) -> Iterator[tuple[float, Array, Places | None, Sequence[int]]]:
        """Yield the terms of the sum: weight, elements, their coordinates, and where each span of these begins."""
        for message, vector, column in zip(messages, vectors, weights.T.tolist(), strict=True):
            pieces, cuts = self.positions[message], self._cuts[message]
            several = [(None, ())] if pieces is None or cuts is None else zip(pieces, cuts, strict=True)
            for weight, (place, cut) in zip(column, several, strict=False):
                if weight != 0.0:
                    yield weight, vector, place, cut


def _ascends(row: Places) -> bool:
    """Return whether coordinates ascend, except for padding at the end."""
    coordinates = row[: np.count_nonzero(row >= 0)]
    return not len(coordinates) or bool(coordinates[0] >= 0 and (np.diff(coordinates) > 0).all())


def _cut(row: Places, edges: Sequence[int]) -> list[int]:
    """Return where in a row of coordinates each span begins, and where the last one ends."""
    if len(edges) == 2:
        return [0, len(row)]
    return np.searchsorted(row[: np.count_nonzero(row >= 0)], edges).tolist()


@cache
def _kernels() -> ModuleType:
    from erasurehead.problems import _kernels as kernels

    return kernels


def _add_dense(total: Array, weights: Sequence[float], vectors: Sequence[Array]) -> None:
    """Add weighted vectors, with a range of coordinates per thread; the workers' cores are idle meanwhile."""
    count = _threads() if len(total) * len(vectors) > _WORTH_THREADS else 1
    edges = [len(total) * number // count for number in range(count + 1)]
    spans = [slice(low, high) for low, high in pairwise(edges)]
    if count == 1:
        _add_span(total, weights, vectors, spans[0])
    else:
        list(_pool().map(partial(_add_span, total, weights, vectors), spans))


def _add_span(total: Array, weights: Sequence[float], vectors: Sequence[Array], span: slice) -> None:
    # No temporaries: they would cost more than the sum itself.
    part, scratch = total[span], np.empty(0, total.dtype)
    for weight, vector in zip(weights, vectors, strict=True):
        if weight == 1.0:
            part += vector[span]
        elif weight != 0.0:
            scratch = scratch if len(scratch) else np.empty(len(part), total.dtype)
            np.multiply(vector[span], weight, out=scratch, dtype=total.dtype)  # whatever the messages are
            part += scratch


@cache
def _threads() -> int:
    return min(4, usable_cores())


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_threads(), thread_name_prefix="sum")
