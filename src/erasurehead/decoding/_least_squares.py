"""Decoding by dense least squares: the reference for every code, and the decoder of choice for small ones."""

from __future__ import annotations

from collections.abc import Iterable
from typing import final

import numpy as np

from erasurehead._internal.arrays import Array, IntArray, inverses
from erasurehead._internal.factors import least_squares
from erasurehead.codes import GradientCode
from erasurehead.codes._exactness import EXACT
from erasurehead.decoding._base import Decoder, Decoding, Session

DEPENDENT = 1e-11
"""A row whose part outside the span of the others is at most this fraction of its norm counts as dependent.

Rounding leaves 1e-16; weights of 1 / DEPENDENT would drown any gradient in noise.
"""

_UNCERTAIN = 1e-7
"""A row whose part outside the span of the others is smaller than this, but not dependent, may be beyond what float64
can use: the residual is then computed from actual weights, and not from what the row would contribute in theory."""

_EPSILON = float(np.finfo(np.float64).eps)


@final
class LeastSquaresDecoder(Decoder):
    """Optimal decoding of any code: the weights of least norm among those that minimise the residual.

    The rows are scaled to norm one before they are decomposed, as codes whose messages differ by orders of magnitude
    would otherwise lose the small ones to the rank decision; normal equations are never formed, as they square the
    condition number. Weights come from a singular value decomposition of the arrived rows, in O(messages^2 * columns);
    the residual is updated by orthogonalising each newcomer against the arrived rows, in O(messages * columns) per
    arrival, when it is needed. Where a newcomer nearly depends on the others, the residual is that of weights computed
    at each arrival, so that it is never better than what decoding attains.

    Arguments:
        code: any code; its encoding is held as a dense matrix.

    Source: Charles et al., arXiv 1711.06771, section 2 (optimal decoding).
    """

    def __init__(self, code: GradientCode) -> None:
        self.code = code
        self._rows: Array = code.encoding.toarray()
        lengths = np.sqrt(np.einsum("mt,mt->m", self._rows, self._rows))
        self._scale: Array = inverses(lengths)
        self._rows *= self._scale[:, None]

    def begin(self) -> Session:
        return _LeastSquaresSession(self.code, self._rows, self._scale)

    def residual(self, messages: Iterable[int]) -> float:
        return self.decode(messages).residual  # one decomposition is quicker than adding rows one by one


@final
class _LeastSquaresSession(Session):
    def __init__(self, code: GradientCode, rows: Array, scale: Array) -> None:
        self.code = code
        self._rows = rows
        self._scale = scale
        self._arrived = np.zeros(code.n_messages, dtype=bool)
        self._pending: list[int] = []
        self._basis: Array = np.empty((0, rows.shape[1]))
        self._rank = 0
        self._error: Array = code.target.copy()
        self._residual = float(code.n_tasks)
        self._last = float(code.n_tasks)
        self._uncertain = False
        self._count = 0
        self._latest: tuple[int, Decoding] | None = None

    def _add(self, message: int) -> None:
        if not self._arrived[message]:
            self._arrived[message] = True
            self._count += 1
            self._pending.append(message)

    def residual(self) -> float:
        self._follow()
        self._last = min(self._last, self.decoding().residual if self._uncertain else self._residual)
        return self._last

    def exact(self) -> bool:
        self._follow()
        on_paper = self._residual <= EXACT * self.code.n_tasks
        return on_paper and (not self._uncertain or self.decoding().exact)

    def decoding(self) -> Decoding:
        if self._latest is None or self._latest[0] != self._count:
            self._latest = self._count, self._decode()
        return self._latest[1]

    def _follow(self) -> None:
        for message in self._pending:
            if self._rank < self._rows.shape[1]:  # otherwise everything is known
                self._orthogonalise(self._rows[message])
        self._pending.clear()

    def _decode(self) -> Decoding:
        messages = np.flatnonzero(self._arrived)
        weights, residual, uncertain = self._solve(messages, DEPENDENT)
        if uncertain and residual > EXACT * self.code.n_tasks:
            # An ill-conditioned code may need all that float64 can give.
            bold, bold_residual, _ = self._solve(messages, _EPSILON)
            if bold_residual < residual:
                weights, residual = bold, bold_residual
        return Decoding(self.code, messages, weights, residual)

    def _solve(self, messages: IntArray, cutoff: float) -> tuple[Array, float, bool]:
        """Return weights, residual, and whether a discarded singular value may be more than rounding."""
        if not len(messages):
            return np.zeros((self.code.n_pieces, 0)), float(self.code.n_tasks), False
        rows, target = self._rows[messages], self.code.target
        solution, rank, values = least_squares(rows.T, target.T, cutoff)
        error = solution.T @ rows - target
        uncertain = bool((values[rank:] > _EPSILON * max(rows.shape) * values[0]).any())
        residual = float(np.einsum("pt,pt->", error, error)) / self.code.n_pieces
        return np.asarray(solution.T * self._scale[messages]), residual, uncertain

    def _orthogonalise(self, row: Array) -> None:
        basis = self._basis[: self._rank]
        direction = row - basis.T @ (basis @ row)
        direction -= basis.T @ (basis @ direction)  # doing it once leaves rounding errors in the span, twice does not
        length = float(np.sqrt(direction @ direction))
        if length <= DEPENDENT:
            return
        self._uncertain |= length < _UNCERTAIN
        direction /= length
        if self._rank == len(self._basis):
            room = min(max(16, 2 * self._rank), max(self._rows.shape))
            self._basis = np.concatenate([self._basis, np.empty((room, len(row)))])
        self._basis[self._rank] = direction
        self._rank += 1
        self._error -= np.outer(self._error @ direction, direction)
        now = float(np.einsum("pt,pt->", self._error, self._error)) / self.code.n_pieces
        self._residual = min(self._residual, now)
