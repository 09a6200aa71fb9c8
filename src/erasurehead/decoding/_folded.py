"""Codes with repetitions: equal messages count once, and tasks with equal coefficients are one task."""

from __future__ import annotations

from collections.abc import Callable
from typing import final

import numpy as np
from scipy import sparse

from erasurehead._internal.arrays import BoolArray, IntArray
from erasurehead.codes import GradientCode
from erasurehead.codes._equal_rows import first_equal_row
from erasurehead.decoding._base import Decoder, Decoding, Session
from erasurehead.decoding._subcodes import same_matrix

_WORTHWHILE = 1.5


@final
class Folded(Decoder):
    """Optimal decoding of a code through the smaller one that remains when repetitions are removed.

    Kronecker products with a row of ones, and codes over refined tasks, are larger copies of a small code: its decoder
    is used, at its cost. Of equal messages, the one with the smallest index is used.

    Arguments:
        code: a code with one piece.
        messages: the message of the small code that each message equals, shape (n_messages,).
        decoder: decoder of the small code, each of whose tasks stands for equally many tasks of `code`.
    """

    def __init__(self, code: GradientCode, messages: IntArray, decoder: Decoder) -> None:
        self.code = code
        self.messages = messages
        self.decoder = decoder
        self.copies = code.n_tasks // decoder.code.n_tasks
        self.slack = decoder.slack

    def __repr__(self) -> str:
        return f"make_decoder({self.code!r})"

    def begin(self) -> Session:
        return _FoldedSession(self)


def fold(code: GradientCode, choose: Callable[[GradientCode], Decoder]) -> Folded | None:
    """Return the decoder of a code through a much smaller one, or None if it would not be much smaller.

    Arguments:
        code: any code.
        choose: makes the decoder of the smaller code.
    """
    if code.n_pieces != 1:
        return None
    rows, messages = np.unique(code.content, return_inverse=True)
    columns = _one_in_each(first_equal_row(sparse.csr_array(code.encoding.T)))
    if len(columns) == code.n_tasks and len(rows) * _WORTHWHILE > code.n_messages:
        return None
    often = int(np.bincount(messages).max())
    small = GradientCode(
        name=f"folded {code.name}",
        parameters={},
        encoding=sparse.csr_array(code.encoding[rows][:, columns]),
        owner=np.arange(len(rows)),
        n_workers=len(rows),
        n_tasks=len(columns),
        tolerance=None if code.tolerance is None else code.tolerance // often,
        source=code.source,
    )
    # The unrefined code has more structure than its matrix shows, which may give it a better decoder.
    unrefined = next((inner for inner in code.inner if same_matrix(inner.encoding, small.encoding)), small)
    return Folded(code, messages.astype(np.int64), choose(unrefined))


def _one_in_each(alike: IntArray) -> IntArray:
    """Return one task in c, ascending: c divides how often any task occurs, and is the largest number to do so."""
    _, kind, counts = np.unique(alike, return_inverse=True, return_counts=True)
    copies = int(np.gcd.reduce(counts))
    order = np.argsort(kind, kind="stable")
    rank = np.arange(len(kind)) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.sort(order[rank % copies == 0])


@final
class _FoldedSession(Session):
    def __init__(self, decoder: Folded) -> None:
        self.code = decoder.code
        self._decoder = decoder
        self._arrived: BoolArray = np.zeros(self.code.n_messages, dtype=bool)
        self._inner = decoder.decoder.begin()

    def _add(self, message: int) -> None:
        self._arrived[message] = True
        self._inner.add(int(self._decoder.messages[message]))

    def _extend(self, added: IntArray) -> None:
        self._arrived[added] = True
        self._inner.extend(np.unique(self._decoder.messages[added]))

    def residual(self) -> float:
        return self._decoder.copies * self._inner.residual()

    def exact(self) -> bool:
        return self._inner.exact()

    def decoding(self) -> Decoding:
        inner = self._inner.decoding()
        arrived = np.flatnonzero(self._arrived)
        first = np.full(self._decoder.decoder.code.n_messages, self.code.n_messages, dtype=np.int64)
        np.minimum.at(first, self._decoder.messages[arrived], arrived)
        messages = first[inner.messages]
        order = np.argsort(messages)
        return Decoding(self.code, messages[order], inner.weights[:, order], self._decoder.copies * inner.residual)
