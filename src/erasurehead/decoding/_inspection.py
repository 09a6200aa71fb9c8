"""Which messages can be compared with each other, and what is compared: fingerprints."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import final

import numpy as np

from erasurehead._internal.arrays import Array, IntArray
from erasurehead._internal.rng import stream
from erasurehead.codes import GradientCode
from erasurehead.codes._smallest_lie import NUMBERS as NUMBERS
from erasurehead.decoding._subcodes import components, members
from erasurehead.errors import check_count, invalid


@dataclass(frozen=True, eq=False)
class ComparableMessages:
    """Messages over tasks that no other messages contain.

    Attributes:
        messages: the messages, ascending.
        equal: whether all of them should be equal, so that a majority decides; otherwise they must satisfy checks.
    """

    messages: tuple[int, ...]
    equal: bool


@lru_cache(maxsize=8)
def units_of(code: GradientCode) -> tuple[ComparableMessages, ...]:
    """Return the units of a code that hold at least two messages."""
    some = np.diff(code.encoding.indptr) > 0
    parts = [part[some[part]] for part in members(components(code))]
    return tuple(
        ComparableMessages(tuple(part.tolist()), equal=len(np.unique(code.content[part])) == 1)
        for part in parts
        if len(part) > 1
    )


@final
class Fingerprints:
    """A few random projections of long vectors: linear, so that a code's checks hold for them as for the vectors.

    A difference of two vectors is smaller in a fingerprint than expected, by a factor of f, with a probability below
    f^8 (f^2 in its first two numbers), however it was made without knowing the seed. Messages that contain only some of
    the positions are projected in place, without being expanded.

    Arguments:
        length: length of the full vectors (of one piece).
        seed: seed of the projections. Whoever knows it can construct lies that they do not show.
    """

    def __init__(self, length: int, seed: int = 0) -> None:
        self.length = check_count("length", length)
        self._projections = stream("fingerprints", seed).standard_normal((NUMBERS, length))

    def of(self, vector: Array, positions: IntArray | None = None, numbers: int = NUMBERS) -> Array:
        """Return the fingerprint of a vector, shape (numbers,).

        It is not finite where a huge element makes it overflow.

        Arguments:
            vector: the vector, shape (length,) or (len(positions),).
            positions: where its entries belong in the full vector; None if it is the full vector.
            numbers: length of the fingerprint, at most 8.
        """
        length = self.length if positions is None else len(positions)
        if vector.shape != (length,):
            raise invalid("vector", f"must have {length} entries", vector.shape)
        with np.errstate(over="ignore", invalid="ignore"):
            if positions is None:
                return self._projections[:numbers] @ vector
            return np.array([self._projections[number][positions] @ vector for number in range(numbers)])
