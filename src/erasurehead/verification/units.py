"""Which messages of a code say something about each other, and what can be compared of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from erasurehead.arrays import Array, IntArray
from erasurehead.codes.base import GradientCode
from erasurehead.layout import Layout
from erasurehead.streams import stream

_NUMBERS = 8  # in a fingerprint


@dataclass(frozen=True, eq=False)
class Unit:
    """Messages over tasks that no other messages touch.

    Attributes:
        messages: ascending.
        equal: whether all of them should be equal: they are voted on. Otherwise they have to satisfy equations.
    """

    messages: tuple[int, ...]
    equal: bool


@lru_cache(maxsize=8)
def units_of(code: GradientCode) -> tuple[Unit, ...]:
    """Return the units of a code that hold at least two messages."""
    tasks = sparse.csr_array(
        (np.ones(code.encoding.nnz), code.encoding.indices // code.n_pieces, code.encoding.indptr),
        shape=(code.n_messages, code.n_tasks),
    )
    both = sparse.block_array([[None, tasks], [tasks.T, None]], format="csr")
    labels = np.asarray(csgraph.connected_components(both, directed=False)[1])[: code.n_messages]
    order = np.argsort(labels, kind="stable")
    parts = np.split(order, np.flatnonzero(np.diff(labels[order])) + 1)
    return tuple(
        Unit(tuple(part.tolist()), equal=len(np.unique(code.content[part])) == 1) for part in parts if len(part) > 1
    )


class Prints:
    """A few random projections of messages: linear, so that the code's equations hold on them as on the vectors.

    As `decoding.Fingerprints`, but laid out so that two of the eight can be taken alone: they tell whether anything is
    wrong at all, at a quarter of the cost.

    Arguments:
        code, layout: what the messages are; a layout of None means that each holds all coordinates in order.
        seed: of the projections. Who knows it can make lies that they do not see.
    """

    def __init__(self, code: GradientCode, layout: Layout | None, seed: int) -> None:
        self.code, self.layout, self.seed = code, layout, seed
        self._made: dict[int, Array] = {}

    def comparable(self, vectors: Mapping[int, Array]) -> bool:
        """Return whether the vectors can be added up: pieces only if they are cut at the same places."""
        return self.code.n_pieces == 1 or len({vector.shape for vector in vectors.values()}) == 1

    def of(self, messages: Sequence[int], vectors: Mapping[int, Array], numbers: int = _NUMBERS) -> Array:
        """Return the projections of messages, shape (len(messages), numbers).

        They are not finite where a huge element makes them overflow.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            return np.array([self._one(message, vectors[message], numbers) for message in messages])

    def _one(self, message: int, vector: Array, numbers: int) -> Array:
        positions = None if self.layout is None else self.layout.positions[message]
        if self.code.n_pieces > 1 or positions is None:
            return self._for(len(vector))[:numbers] @ vector
        assert self.layout is not None
        places: IntArray = positions[0]
        if places.min(initial=0) < 0:
            vector, places = vector[places >= 0], places[places >= 0]
        everything = self._for(self.layout.n_coordinates)
        return np.array([everything[number][places] @ vector for number in range(numbers)])

    def _for(self, length: int) -> Array:
        if length not in self._made:
            self._made[length] = stream("verification", self.seed).standard_normal((_NUMBERS, length))
        return self._made[length]
