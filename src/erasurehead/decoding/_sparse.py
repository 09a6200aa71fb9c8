"""Decoding large sparse codes: conjugate gradients for the weights, local relaxation for the residual."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, final

import numpy as np

from erasurehead._internal.arrays import Array, BoolArray, IntArray
from erasurehead.codes import GradientCode
from erasurehead.codes._exactness import EXACT
from erasurehead.decoding._base import Decoder, Decoding, Session, first_times, residual_of
from erasurehead.decoding._least_squares import LeastSquaresDecoder
from erasurehead.decoding._matrix_products import row_sums
from erasurehead.errors import check_count, invalid

if TYPE_CHECKING:
    from erasurehead.decoding._sparse_kernels import Index

ACCURACY = 8e-7
"""The residual of a decoding exceeds the optimum by at most this much per task, and by at most a thousandth."""

_ENTRIES = 2e8  # largest number of entries visited in one solve: a quarter of a second
_FACTORED = 3_000  # messages up to which a dense factor of their Gram matrix takes no longer
_FEWEST = 30  # iterations that are tried before
_RIDGE = 1e-14  # relative to rows of norm one: enough for the factor of dependent ones
_POLISHED = 40  # most iterations with that factor
_POLISH = 1e-7  # gain of one of them, relative to the residual, that is not worth it
_TIGHTNESS = 1.5e-3
_FLOOR = 1e-9
_STEPS = 3  # least number of steps of conjugate gradients each time the bound is tightened
_MANY = 100  # largest number of steps near the worst condition
_DENSE = 1_000_000  # entries of the matrix, zeros included, up to which rows are orthogonalised near completeness
_LOOSE = 1e-3  # a bound that falls by more when tightened is tightened after every 1% of the messages


@dataclass(frozen=True, eq=False)
class _Rows:
    """The encoding as the kernels need it: 32-bit indices, and for each task the messages that touch it."""

    starts: Index
    columns: Index
    values: Array
    squares: Array
    holder_starts: Index
    holders: Index

    @classmethod
    def of(cls, code: GradientCode) -> _Rows:
        encoding = code.encoding
        transposed = encoding.T.tocsr()
        return cls(
            starts=encoding.indptr.astype(np.int32),
            columns=encoding.indices.astype(np.int32),
            values=encoding.data,
            squares=row_sums(code, power=2),
            holder_starts=transposed.indptr.astype(np.int32),
            holders=transposed.indices.astype(np.int32),
        )


class Solution(NamedTuple):
    """A decoding, and its cost."""

    decoding: Decoding
    products: int
    """How often all entries of the arrived rows were visited: products of the encoding with a vector."""


@final
class SparseLeastSquares(Decoder):
    """Optimal decoding of sparse codes with hundreds to a million messages; nothing dense is ever formed.

    *Weights* come from preconditioned conjugate gradients on the least-squares problem, always starting from the
    best uniform weights, so that they depend only on the set of arrivals. The residual exceeds the optimum by a
    thousandth of itself at most (2e-4 measured), and by `ACCURACY * n_tasks`. Up to 3,000 messages, ill-conditioned
    sets are finished with a dense factor of the arrived rows' products. Of more messages, nearly all of which have
    arrived, it is as small as a quarter of a second allows (up to 1e-4 a task above the optimum were measured with
    4,000 to 10,000), and the decoding states its actual residual.

    *The residual at every arrival* is an upper bound that never rises: the newcomer's weight is moved to where the
    residual is least, then those of its neighbours, as long as a step gains something. A newcomer may visit
    `budget` entries of the encoding. Now and then the bound is tightened by conjugate gradients: after every 1% of the
    messages where that gains much (codes of load above about 3, or nearly all arrived), else less often.

    `slack` says how good the bound is. Up to a million entries of the matrix (1,000 messages and tasks), newcomers are
    orthogonalised against the others once half as many messages as tasks have arrived, where the relaxation slows down:
    the residual is then the optimum, and before that within 1% of it. For larger codes nothing is guaranteed;
    docs/codes.md has what was measured.

    Arguments:
        code: a code with one piece.
        budget: number of entries that may be visited per arrival, at least 1.

    Raises:
        InvalidArgument: if the code cuts gradients into pieces.

    Source: Björck and Elfving, BIT 19 (1979), algorithm 4.2 (conjugate gradients with symmetric sweeps); the relaxation
    is Gauss and Southwell's, with a queue.
    """

    def __init__(self, code: GradientCode, budget: int = 1500) -> None:
        if code.n_pieces != 1:
            raise invalid(
                "code", "must have one piece", f"{code.n_pieces} pieces", "decode it with LeastSquaresDecoder"
            )
        self.code = code
        self.budget = check_count("budget", budget)
        self.rows = _Rows.of(code)
        self.small = code.encoding.shape[0] * code.encoding.shape[1] <= _DENSE
        self.slack = 0.01 if self.small else math.inf

    @cached_property
    def dense(self) -> LeastSquaresDecoder:
        """The dense decoder of the same code, for small ones."""
        return LeastSquaresDecoder(self.code)

    def begin(self) -> Session:
        return _SparseSession(self)

    def solve(self, messages: IntArray, limit: int | None = None) -> Solution:
        """Decode one set of messages, and count the cost.

        Arguments:
            messages: the messages that have arrived, ascending.
            limit: largest number of iterations; None for as many as take about a quarter of a second.
        """
        from erasurehead.decoding._sparse_kernels import conjugate, uniform

        rows, n_tasks = self.rows, self.code.n_tasks
        weights, gap = np.zeros(self.code.n_messages), np.ones(n_tasks)
        here = messages[rows.squares[messages] > 0].astype(np.int32)
        entries = int((rows.starts[here + 1] - rows.starts[here]).sum())
        most = _limit(entries) if limit is None else limit
        # A dense factor of the messages is quicker than thousands of iterations over many entries.
        dense = limit is None and len(here) <= _FACTORED and len(here) ** 3 < 80 * entries * most
        if dense:
            most = max(_FEWEST, len(here) ** 3 // (80 * entries))
        uniform(here, rows.starts, rows.columns, rows.values, weights, gap)
        _, products = conjugate(
            here,
            rows.starts,
            rows.columns,
            rows.values,
            rows.squares,
            weights,
            gap,
            absolute=ACCURACY * n_tasks,
            relative=1e-3,
            least=EXACT * n_tasks / 10,
            limit=most,
        )
        if dense and products >= 4 * most:
            self._factored(here, weights, gap)
        used = weights[None, messages]
        residual = residual_of(self.code, messages, used)
        return Solution(Decoding(self.code, messages, used, residual), products + 2)

    def _factored(self, here: Index, weights: Array, gap: Array) -> None:
        """Finish what conjugate gradients are slow at, with the factors of the Gram matrix in place of the sweeps.

        Arguments:
            here: arrived messages that are not empty, ascending.
            weights, gap: changed in place, as by the kernel.
        """
        from scipy.linalg import cho_factor, cho_solve

        encoding, scale = self.code.encoding[here], 1.0 / np.sqrt(self.rows.squares[here])
        gram = np.asarray((encoding @ encoding.T).toarray(), dtype=np.float64) * scale[:, None] * scale
        gram[np.diag_indices(len(here))] += _RIDGE
        factors = cho_factor(gram, overwrite_a=True, check_finite=False)
        direction, before = np.zeros(len(here)), 0.0
        for _ in range(_POLISHED):
            gradient = scale * np.asarray(encoding @ gap, dtype=np.float64)
            step = np.asarray(cho_solve(factors, gradient, check_finite=False), dtype=np.float64)
            square = float(gradient @ step)
            direction = step + (square / before if before > 0.0 else 0.0) * direction
            before, change = square, np.asarray(encoding.T @ (scale * direction), dtype=np.float64)
            bent = float(change @ change)
            if not bent > 0.0 or square <= _POLISH * float(gap @ gap):
                break
            weights[here] += square / bent * scale * direction
            gap -= square / bent * change

    def residual(self, messages: Iterable[int]) -> float:
        return self.decode(messages).residual

    def _residuals(self, sequence: IntArray) -> Array:
        return _SparseSession(self).follow(sequence)


@final
class _SparseSession(Session):
    def __init__(self, decoder: SparseLeastSquares) -> None:
        self.code = code = decoder.code
        self._decoder = decoder
        self._rows = decoder.rows
        self._budget = decoder.budget
        self._seen: BoolArray = np.zeros(code.n_messages, dtype=bool)
        self._seen_view = self._seen.data
        self._pending: list[int] = []
        self._batches: list[IntArray] = []
        self._chunk = max(1, code.n_messages // 100)
        self._interval = self._chunk
        self._since_refresh = 0
        self._state: _State | None = None
        self._dense: Session | None = None
        self._followed: BoolArray = np.zeros(code.n_messages, dtype=bool)
        self._last = float(code.n_tasks)

    def _add(self, message: int) -> None:
        if not self._seen_view[message]:
            self._seen_view[message] = True
            self._pending.append(message)

    def _extend(self, added: IntArray) -> None:
        new = np.zeros(self.code.n_messages, dtype=bool)
        new[added] = True
        new &= ~self._seen
        self._seen |= new
        self._batches.append(np.flatnonzero(new))

    def residual(self) -> float:
        if self._decoder.small and 2 * int(np.count_nonzero(self._seen)) >= self.code.n_tasks:
            self._last = min(self._last, self._orthogonalised())
        else:
            self._last = min(self._last, self._relaxed())
        return self._last

    def _orthogonalised(self) -> float:
        """Return the optimal residual, by orthogonalising the messages that arrived since the last call."""
        if self._dense is None:
            self._dense = self._decoder.dense.begin()
        self._dense.extend(np.flatnonzero(self._seen & ~self._followed))
        self._followed[:] = self._seen
        return self._dense.residual()

    def _relaxed(self) -> float:
        state = self._started()
        if self._pending or self._batches:
            newcomers = np.array(self._pending, dtype=np.int32)
            self._pending.clear()
            if self._batches:
                newcomers = np.concatenate([*self._batches, newcomers]).astype(np.int32)
                self._batches.clear()
            if len(newcomers) > self._chunk:
                # Many at once, as when a whole set is evaluated: one solve is cheaper than relaxing around each.
                state.arrived[newcomers] = True
                state.refresh(self._rows)
            elif len(newcomers):
                self._relax(state, newcomers)
        return float(state.scalars[0])

    def follow(self, sequence: IntArray) -> Array:
        """Add a sequence of messages and return the residual after each."""
        if self._decoder.small:
            return np.array([self._after(int(message)) for message in sequence])
        state = self._started()
        first = first_times(sequence, self.code.n_messages) & ~self._seen[sequence]
        self._seen[sequence] = True
        newcomers = sequence[first].astype(np.int32)
        begin = float(state.scalars[0])
        parts = [np.array([begin])]
        for at in range(0, len(newcomers), self._chunk):
            parts.append(self._relax(state, newcomers[at : at + self._chunk]))
        return np.concatenate(parts)[np.cumsum(first)]

    def _after(self, message: int) -> float:
        self.add(message)
        return self.residual()

    def decoding(self) -> Decoding:
        decoding = self._decoder.solve(np.flatnonzero(self._seen)).decoding
        nearly = decoding.residual <= ACCURACY * self.code.n_tasks
        if self._decoder.small and nearly and not decoding.exact and self.exact():
            return self._decoder.dense.decode(decoding.messages)  # where the iteration stalls
        return decoding

    def _started(self) -> _State:
        if self._state is None:
            self._state = _State(self.code)
        return self._state

    def _relax(self, state: _State, newcomers: Index) -> Array:
        residuals = state.relax(newcomers, self._rows, self._budget)
        self._since_refresh += len(newcomers)
        missing = self.code.n_messages - int(state.scalars[1])
        if missing == 0:
            state.refresh(self._rows)
        elif self._since_refresh >= self._interval:
            # The condition is worst when there are about as many messages as tasks; small codes can afford more steps.
            size, surplus = self.code.n_messages, abs(int(state.scalars[1]) - self.code.n_tasks)
            steps = max(_STEPS, min(_MANY, self.code.n_tasks // max(1, surplus)), 20_000 // size)
            gained = state.refresh(self._rows, steps)
            seldom = min(8, 1 + size // 600) * self._chunk
            self._interval = self._chunk if gained > _LOOSE else min(2 * self._interval, seldom)
            self._since_refresh = 0
        residuals[-1] = state.scalars[0]
        return residuals


@final
class _State:
    """Weights and gap of the relaxation, which only ever lowers the residual."""

    def __init__(self, code: GradientCode) -> None:
        n = code.n_messages
        self.arrived: BoolArray = np.zeros(n, dtype=bool)
        self.weights: Array = np.zeros(n)
        self.gap: Array = np.ones(code.n_tasks)
        self.scalars: Array = np.array([float(code.n_tasks), 0.0])  # residual, number arrived
        self._queue: Index = np.zeros(n + 1, dtype=np.int32)
        self._queued: BoolArray = np.zeros(n, dtype=bool)

    def relax(self, newcomers: Index, rows: _Rows, budget: int) -> Array:
        from erasurehead.decoding._sparse_kernels import relax

        residuals = np.empty(len(newcomers))
        relax(
            newcomers,
            rows.starts,
            rows.columns,
            rows.values,
            rows.squares,
            rows.holder_starts,
            rows.holders,
            self.arrived,
            self.weights,
            self.gap,
            self._queue,
            self._queued,
            self.scalars,
            _TIGHTNESS,
            _FLOOR,
            budget,
            residuals,
        )
        return residuals

    def refresh(self, rows: _Rows, steps: int | None = None) -> float:
        """Tighten the bound by conjugate gradients, starting from the relaxation's weights.

        Arguments:
            rows: the encoding.
            steps: largest number of iterations; None for as many as needed, from the best uniform weights if these are
                better (a regular code that is complete needs no more).

        Returns:
            The fraction by which the residual fell.
        """
        from erasurehead.decoding._sparse_kernels import conjugate, uniform

        here = np.flatnonzero(self.arrived & (rows.squares > 0)).astype(np.int32)
        n_tasks = len(self.gap)
        if steps is None:
            weights, gap = np.zeros_like(self.weights), np.empty_like(self.gap)
            if uniform(here, rows.starts, rows.columns, rows.values, weights, gap) < self.scalars[0]:
                self.weights, self.gap = weights, gap
        residual, _ = conjugate(
            here,
            rows.starts,
            rows.columns,
            rows.values,
            rows.squares,
            self.weights,
            self.gap,
            absolute=float(n_tasks),
            relative=2e-3,
            least=EXACT * n_tasks / 10,
            limit=_limit(int((rows.starts[here + 1] - rows.starts[here]).sum())) if steps is None else steps,
        )
        before = float(self.scalars[0])
        self.scalars[:] = min(before, residual), float(self.arrived.sum())
        return (before - residual) / before if before > 0 else 0.0


def _limit(entries: int) -> int:
    """Return the largest number of iterations over so many entries that take about a quarter of a second."""
    return int(min(5000, max(100, _ENTRIES // max(1, 4 * entries))))
