"""First-per-group decoding: one arrival represents its whole group; the rest of the group is ignored."""

from __future__ import annotations

from typing import final

import numpy as np

from erasurehead._internal.arrays import Array, IntArray
from erasurehead.codes import GradientCode
from erasurehead.decoding._base import Decoder, Decoding, Session, first_times
from erasurehead.decoding._matrix_products import row_sums
from erasurehead.errors import invalid


@final
class FirstPerGroup(Decoder):
    """Optimal decoding of a code whose groups are replicas, O(1) per arrival, as the ErasureHead paper's master does.

    Of the replicas that have arrived, the one with the smallest index is used, not the earliest: the decoding then
    depends only on the set of arrivals, and equal sets give equal bits. Their vectors are the same anyway. Its
    weight is 1 where the group's messages are plain sums, and `<row, 1> / <row, row>` for other coefficients.

    Arguments:
        code: a code with `replicas`.

    Attributes:
        groups: the group of each message, shape (n_messages,).
        gains: by how much the arrival of each group lowers the residual, shape (n_groups,).

    Raises:
        InvalidArgument: if the messages of a group differ, or the code has no groups.

    Source: Tandon et al., ICML 2017 (fractional repetition); ErasureHead, arXiv 1901.09671, Algorithm 1 (the master's
    protocol; Algorithm 2 is the worker's).
    """

    def __init__(self, code: GradientCode) -> None:
        if not code.replicas or code.groups is None:
            raise invalid("code", "must have groups of equal messages", code, "decode it with make_decoder(code)")
        self.code = code
        n_groups = int(code.groups.max(initial=-1)) + 1
        self.groups = code.groups
        self._weights: Array = np.zeros(n_groups)
        self.gains: Array = np.zeros(n_groups)
        total, square = row_sums(code), row_sums(code, power=2)
        filled = square > 0
        self._weights[code.groups[filled]] = total[filled] / square[filled]
        self.gains[code.groups[filled]] = total[filled] ** 2 / square[filled]

    def begin(self) -> Session:
        return _GroupSession(self.code, self.groups, self._weights, self.gains)

    def _residuals(self, sequence: IntArray) -> Array:
        groups = self.groups[sequence]
        gained = np.where(first_times(groups, len(self.gains)), self.gains[groups], 0.0)
        return np.maximum(0.0, self.code.n_tasks - np.cumsum(gained))


@final
class _GroupSession(Session):
    """For plain sums all gains are integers, so that the residual is exact: it does not miss zero by rounding."""

    def __init__(self, code: GradientCode, groups: IntArray, weights: Array, gains: Array) -> None:
        self.code = code
        self._weights = weights
        self._gain_of = gains
        self._group_of = groups
        self._first: IntArray = np.full(len(gains), code.n_messages, dtype=np.int64)
        # Views that hand out Python numbers: three times as fast as indexing the arrays one by one.
        self._first_view = self._first.data
        self._group_view = groups.data
        self._gain_view = gains.data
        self._nobody = code.n_messages  # stands for a group's first message, as long as none has arrived
        self._residual = float(code.n_tasks)

    def _add(self, message: int) -> None:
        group = self._group_view[message]
        first = self._first_view[group]
        if message < first:
            if first == self._nobody:
                self._residual = max(0.0, self._residual - self._gain_view[group])
            self._first_view[group] = message

    def _extend(self, added: IntArray) -> None:
        missing = self._first == self.code.n_messages
        np.minimum.at(self._first, self._group_of[added], added)
        new = missing & (self._first < self.code.n_messages)
        self._residual = max(0.0, self._residual - float(self._gain_of[new].sum()))

    def residual(self) -> float:
        return self._residual

    def decoding(self) -> Decoding:
        used = np.sort(self._first[self._first < self.code.n_messages])
        weights = self._weights[self._group_of[used]]
        return Decoding(self.code, used, weights[None, :], self._residual)
