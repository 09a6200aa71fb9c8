"""Which messages of a code say something about each other, and what can be compared of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from erasurehead.arrays import Array, IntArray
from erasurehead.codes.base import GradientCode
from erasurehead.decoding.corruption import Fingerprints
from erasurehead.layout import Layout


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
    """Fingerprints of messages, on which the code's equations hold as on the vectors.

    Arguments:
        code, layout: what the messages are; a layout of None means that each holds all coordinates in order.
        seed: of the projections. Who knows it can make lies that they do not see.
    """

    def __init__(self, code: GradientCode, layout: Layout | None, seed: int) -> None:
        self.code, self.layout, self.seed = code, layout, seed
        self._made: dict[int, Fingerprints] = {}

    def comparable(self, vectors: Mapping[int, Array]) -> bool:
        """Return whether the vectors can be added up: pieces only if they are cut at the same places."""
        return self.code.n_pieces == 1 or len({vector.shape for vector in vectors.values()}) == 1

    def of(self, message: int, vector: Array) -> Array:
        """Return the fingerprint of a message, shape (8,); not finite where a huge element makes it overflow."""
        positions = None if self.layout is None else self.layout.positions[message]
        with np.errstate(over="ignore", invalid="ignore"):
            if self.code.n_pieces > 1 or positions is None:
                return self._for(len(vector)).of(vector)
            assert self.layout is not None
            places: IntArray = positions[0]
            held = places >= 0
            everything = self._for(self.layout.n_coordinates)
            return everything.of(vector, places) if held.all() else everything.of(vector[held], places[held])

    def _for(self, length: int) -> Fingerprints:
        if length not in self._made:
            self._made[length] = Fingerprints(length, self.seed)
        return self._made[length]
