"""Codes in which all pairs of messages overlap equally (block designs): the best weights are uniform."""

from __future__ import annotations

from typing import NamedTuple, final

import numpy as np

from erasurehead._internal.arrays import Array, BoolArray, IntArray
from erasurehead._internal.rng import stream
from erasurehead.codes import GradientCode
from erasurehead.codes._structure import BlockDesign
from erasurehead.decoding._base import Decoder, Decoding, Session, first_times
from erasurehead.decoding._matrix_products import backward, forward, row_sums
from erasurehead.errors import invalid


class Overlap(NamedTuple):
    """The overlap of messages, if it is the same for all pairs: `encoding @ encoding.T = own I + shared J`."""

    total: float
    """The sum of a message's coefficients: its load, if these are ones."""
    own: float
    shared: float


def overlap_of(code: GradientCode) -> Overlap | None:
    """Return the overlap of all pairs of messages, or None if pairs differ.

    A design states it (`Structure.design`). For others the product of the encoding with itself is not formed: it
    is applied to random vectors, a test that other matrices pass with probability zero (up to rounding, 1e-9).
    """
    if code.n_pieces != 1 or code.n_messages < 2:
        return None
    if code.structure.design is not None:
        return _stated(code, code.structure.design)
    n = code.n_messages
    totals, squares = row_sums(code), row_sums(code, power=2)
    if not squares.any():
        return None
    if not (np.allclose(totals, totals[0], rtol=1e-12) and np.allclose(squares, squares[0], rtol=1e-12)):
        return None
    together = backward(code, np.ones(n))
    square = float(squares[0])
    shared = (float(together @ together) - n * square) / (n * (n - 1))
    overlap = Overlap(float(totals[0]), square - shared, shared)
    random = stream("overlap", 0)
    for _ in range(2):
        probe = random.standard_normal(n)
        seen = forward(code, backward(code, probe))
        expected = overlap.own * probe + overlap.shared * probe.sum()
        if not np.allclose(seen, expected, rtol=0, atol=1e-9 * max(1.0, square) * np.sqrt(n)):
            return None
    return overlap


def _stated(code: GradientCode, design: BlockDesign) -> Overlap | None:
    """Return the overlap that a design states, if the matrix has matching ones and loads."""
    _, _, load, holders, common = design
    sizes, data = np.diff(code.encoding.indptr), code.encoding.data
    if sizes.min() != load or sizes.max() != load or data.min() != 1.0 or data.max() != 1.0:
        return None
    if (code.n_messages - 1) * common != load * (holders - 1):
        return None
    return Overlap(float(load), float(load - common), float(common))


@final
class UniformOverlap(Decoder):
    """Optimal decoding of balanced block designs: one weight for all, which depends only on how many have arrived.

    With m messages arrived, each of total r, the weight is `r / (own + shared m)` and the residual
    `n_tasks - r^2 m / (own + shared m)`, whichever they are: random and adversarial stragglers cost the same.
    In the notation of designs, `own = r - lambda` and `shared = lambda`.

    Arguments:
        code: a code in which all pairs of messages overlap equally, see `overlap_of`.

    Raises:
        InvalidArgument: if some pair of messages overlaps more than another.

    Source: Kadhe, Koyluoglu, Ramchandran, arXiv 1904.13373, theorem 1.
    """

    def __init__(self, code: GradientCode) -> None:
        overlap = overlap_of(code)
        if overlap is None:
            raise invalid("code", "must have the same overlap between all pairs of messages", code)
        self.code = code
        self.overlap = overlap

    def weight(self, n_arrived: int) -> float:
        """Return the weight of every message when `n_arrived` have arrived."""
        if not n_arrived:  # if all messages are equal, `own` is 0
            return 0.0
        return self.overlap.total / (self.overlap.own + self.overlap.shared * n_arrived)

    def residual_with(self, n_arrived: int) -> float:
        """Return the residual when `n_arrived` messages have arrived."""
        return max(0.0, self.code.n_tasks - self.overlap.total * n_arrived * self.weight(n_arrived))

    def begin(self) -> Session:
        return _UniformSession(self)

    def _residuals(self, sequence: IntArray) -> Array:
        arrived = np.cumsum(first_times(sequence, self.code.n_messages))
        weights = self.overlap.total / (self.overlap.own + self.overlap.shared * arrived)
        return np.maximum(0.0, self.code.n_tasks - self.overlap.total * arrived * weights)


@final
class _UniformSession(Session):
    def __init__(self, decoder: UniformOverlap) -> None:
        self.code = decoder.code
        self._decoder = decoder
        self._arrived: BoolArray = np.zeros(self.code.n_messages, dtype=bool)
        self._arrived_view = self._arrived.data
        self._count = 0

    def _add(self, message: int) -> None:
        self._count += not self._arrived_view[message]
        self._arrived_view[message] = True

    def _extend(self, added: IntArray) -> None:
        self._arrived[added] = True
        self._count = int(np.count_nonzero(self._arrived))

    def residual(self) -> float:
        return self._decoder.residual_with(self._count)

    def decoding(self) -> Decoding:
        weights = np.full((1, self._count), self._decoder.weight(self._count))
        return Decoding(self.code, np.flatnonzero(self._arrived), weights, self.residual())
