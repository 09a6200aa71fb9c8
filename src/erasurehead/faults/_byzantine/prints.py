"""The fingerprints of a code's messages, laid out as the messages are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from erasurehead._internal.arrays import Array, IntArray
from erasurehead.codes import GradientCode
from erasurehead.codes._smallest_lie import NUMBERS
from erasurehead.decoding._inspection import Fingerprints
from erasurehead.decoding._layout import Layout


class Prints:
    """Fingerprints of messages, which hold some or all coordinates.

    Arguments:
        code, layout: of the messages; a layout of None means that each holds all coordinates in order.
        seed: seed of the projections.
    """

    def __init__(self, code: GradientCode, layout: Layout | None, seed: int) -> None:
        self.code, self.layout, self.seed = code, layout, seed
        self._made: dict[int, Fingerprints] = {}

    def comparable(self, vectors: Mapping[int, Array]) -> bool:
        """Return whether the vectors can be added up: pieces only if they are cut at the same places."""
        return self.code.n_pieces == 1 or len({vector.shape for vector in vectors.values()}) == 1

    def of(self, messages: Sequence[int], vectors: Mapping[int, Array], numbers: int = NUMBERS) -> Array:
        """Return the fingerprints of messages, shape (len(messages), numbers)."""
        return np.array([self._one(message, vectors[message], numbers) for message in messages])

    def _one(self, message: int, vector: Array, numbers: int) -> Array:
        positions = None if self.layout is None else self.layout.positions[message]
        if self.code.n_pieces > 1 or positions is None:
            return self._for(len(vector)).of(vector, numbers=numbers)
        assert self.layout is not None
        places: IntArray = positions[0]
        if places.min(initial=0) < 0:
            vector, places = vector[places >= 0], places[places >= 0]
        return self._for(self.layout.n_coordinates).of(vector, places, numbers)

    def _for(self, length: int) -> Fingerprints:
        if length not in self._made:
            self._made[length] = Fingerprints(length, self.seed)
        return self._made[length]
