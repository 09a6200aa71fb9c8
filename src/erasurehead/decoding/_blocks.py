"""Codes that consist of blocks without common tasks: each block is decoded by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import final

import numpy as np

from erasurehead._internal.arrays import Array, IntArray, inverses
from erasurehead._internal.factors import least_squares
from erasurehead.codes import GradientCode
from erasurehead.codes._assemble import ranges
from erasurehead.codes._exactness import EXACT
from erasurehead.decoding._base import Decoder, Decoding, Session, first_times
from erasurehead.decoding._least_squares import DEPENDENT
from erasurehead.decoding._subcodes import members, part_of

_SMALL = 62  # messages of a block whose arrivals fit into the bits of an integer
_DIRECT = 12  # messages of a block whose patterns are looked up in an array rather than a dictionary
_REMEMBERED = 100_000  # number of patterns of arrivals that are kept per kind of block


@final
class _Kind:
    """Small blocks with the same coefficients. Each pattern of arrivals is solved once, and then looked up.

    Attributes:
        blocks: their numbers, shape (k,).
        places: their messages, shape (k, messages of a block).
        residuals: residuals of the patterns solved so far, unordered, with spare capacity.
        weights: weights of the same patterns, shape (capacity, n_pieces, messages of a block); zero where not arrived.
    """

    def __init__(self, code: GradientCode, blocks: IntArray, places: IntArray) -> None:
        self.blocks = blocks
        self.places = places
        # Tasks with equal coefficients in every message are one unknown: a group of d workers that hold d tasks, with m
        # messages needed, becomes a problem of m unknowns.
        table = np.concatenate([code.encoding.toarray(), code.target])
        merged, counts = np.unique(table, axis=1, return_counts=True)
        roots = np.sqrt(counts)
        self._rows: Array = merged[: code.n_messages] * roots
        self._target: Array = merged[code.n_messages :] * roots
        lengths = np.sqrt(np.einsum("mt,mt->m", self._rows, self._rows))
        self._scale: Array = inverses(lengths)
        self._row_of: dict[int, int] = {}
        self._direct: IntArray | None = np.full(1 << code.n_messages, -1) if code.n_messages <= _DIRECT else None
        self.residuals: Array = np.empty(4)
        self.weights: Array = np.empty((4, code.n_pieces, code.n_messages))

    def rows_of(self, patterns: IntArray) -> IntArray:
        """Return the rows of `residuals` and `weights` for patterns (bit i: message i has arrived)."""
        if self._direct is None:
            return np.array([self.row_of(pattern) for pattern in patterns.tolist()], dtype=np.int64)
        rows = self._direct[patterns]
        if rows.min(initial=0) < 0:  # a kind of block of which nothing has arrived has no patterns at all
            for pattern in set(patterns[rows < 0].tolist()):
                self._direct[pattern] = self.row_of(pattern)
            rows = self._direct[patterns]
        return rows

    def row_of(self, pattern: int) -> int:
        """Return the row of one pattern."""
        row = self._row_of.get(pattern)
        if row is not None:
            return row
        if len(self._row_of) >= _REMEMBERED:
            self._row_of.clear()
        row = len(self._row_of)
        if row == len(self.residuals):
            self.residuals = np.concatenate([self.residuals, np.empty_like(self.residuals)])
            self.weights = np.concatenate([self.weights, np.empty_like(self.weights)])
        self._row_of[pattern] = row
        self.residuals[row], self.weights[row] = self._solve(pattern)
        return row

    def _solve(self, pattern: int) -> tuple[float, Array]:
        n_messages, n_pieces = len(self._rows), len(self._target)
        weights = np.zeros((n_pieces, n_messages))
        arrived = np.flatnonzero((pattern >> np.arange(n_messages, dtype=np.int64)) & 1)
        if len(arrived):
            scaled = self._rows[arrived] * self._scale[arrived, None]
            solution = least_squares(scaled.T, self._target.T, DEPENDENT).solution
            weights[:, arrived] = solution.T * self._scale[arrived]
        error = weights @ self._rows - self._target
        return float(np.einsum("pt,pt->", error, error)) / n_pieces, weights


@final
class Blocks(Decoder):
    """Optimal decoding, block by block, of a code whose messages fall into blocks that share no task.

    Small blocks with the same coefficients share a table: every pattern of arrivals is solved once (in
    communication-efficient group codes with as many unknowns as a message has pieces) and then looked up, so that an
    arrival costs O(1). Large blocks have decoders of their own.

    Arguments:
        code: any code.
        labels: the block of each message, numbered from 0 without gaps, shape (n_messages,).
        choose: makes the decoder of a large block.

    Source: Kadhe, Koyluoglu, Ramchandran, arXiv 2005.07184 (one linear code per group); Tandon et al., ICML 2017
    (partial stragglers: uncoded first messages are blocks of one).
    """

    def __init__(self, code: GradientCode, labels: IntArray, choose: Callable[[GradientCode], Decoder]) -> None:
        self.code = code
        self.labels = labels
        self.members = members(labels)
        self.position: IntArray = np.empty(code.n_messages, dtype=np.int64)
        self.position[np.concatenate(self.members)] = np.concatenate([np.arange(len(m)) for m in self.members])
        alike, self.tasks = _sort_out(code, self.members)
        self.kinds: list[_Kind] = []
        self.kind_of: IntArray = np.full(len(self.members), -1, dtype=np.int64)
        self.decoders: dict[int, Decoder] = {}
        for blocks in alike:
            first = self.members[int(blocks[0])]
            part = part_of(code, first)
            if len(first) <= _SMALL:
                self.kind_of[blocks] = len(self.kinds)
                places = np.array([self.members[block] for block in blocks.tolist()], dtype=np.int64)
                self.kinds.append(_Kind(part, blocks, places))
            else:
                self.decoders.update(dict.fromkeys(blocks.tolist(), choose(part)))
        self.slack = max((decoder.slack for decoder in self.decoders.values()), default=0.0)

    def __repr__(self) -> str:
        return f"make_decoder({self.code!r})"

    def begin(self) -> Session:
        return _BlockSession(self)

    def _residuals(self, sequence: IntArray) -> Array:
        if self.decoders or not len(sequence):
            return super()._residuals(sequence)
        new = first_times(sequence, self.code.n_messages)
        order = np.argsort(self.labels[sequence], kind="stable")  # by block, and in order of arrival within each
        blocks = self.labels[sequence[order]]
        bits = np.where(new[order], np.int64(1) << self.position[sequence[order]], 0)
        begins = np.flatnonzero(np.diff(blocks, prepend=-1))
        sums = np.cumsum(bits)
        patterns = sums - np.repeat((sums - bits)[begins], np.diff(begins, append=len(blocks)))
        after = np.empty(len(sequence))
        for number, kind in enumerate(self.kinds):
            mine = self.kind_of[blocks] == number
            rows = kind.rows_of(patterns[mine])
            after[mine] = kind.residuals[rows]
        before = np.concatenate([[0.0], after[:-1]])
        before[begins] = self.tasks[blocks[begins]]
        gained = np.empty(len(sequence))
        gained[order] = before - after
        return np.maximum(0.0, np.minimum.accumulate(self.code.n_tasks - np.cumsum(gained)))


def _sort_out(code: GradientCode, blocks: list[IntArray]) -> tuple[list[IntArray], IntArray]:
    """Return the blocks that have the same coefficients, kind by kind, and the number of tasks of each block."""
    starts, columns, values = code.encoding.indptr, code.encoding.indices, code.encoding.data
    kinds: dict[tuple[bytes, bytes, bytes], list[int]] = {}
    counts: IntArray = np.zeros(len(blocks), dtype=np.int64)
    for number, block in enumerate(blocks):
        sizes = (starts[block + 1] - starts[block]).astype(np.int64)
        entries = ranges(starts[block].astype(np.int64), sizes)
        tasks, local = np.unique(columns[entries] // code.n_pieces, return_inverse=True)
        places = local * code.n_pieces + columns[entries] % code.n_pieces
        signature = (sizes.tobytes(), places.tobytes(), values[entries].tobytes())
        kinds.setdefault(signature, []).append(number)
        counts[number] = len(tasks)
    return [np.array(same, dtype=np.int64) for same in kinds.values()], counts


@final
class _BlockSession(Session):
    def __init__(self, decoder: Blocks) -> None:
        self.code = decoder.code
        self._decoder = decoder
        n_blocks = len(decoder.members)
        small = decoder.kind_of >= 0
        self._patterns: IntArray = np.zeros(n_blocks, dtype=np.int64)
        self._residuals: Array = np.where(small, decoder.tasks, 0).astype(np.float64)
        self._uncovered = self.code.n_tasks - int(decoder.tasks.sum())
        self._small = float(self._residuals.sum())
        self._last = float(self.code.n_tasks)
        self._sessions = {block: large.begin() for block, large in decoder.decoders.items()}
        self._changed: set[int] = set()
        self._all_changed = False

    def _add(self, message: int) -> None:
        decoder = self._decoder
        block, position = int(decoder.labels[message]), int(decoder.position[message])
        if decoder.kind_of[block] >= 0:
            self._patterns[block] |= 1 << position
            self._changed.add(block)
        else:
            self._sessions[block].add(position)

    def _extend(self, added: IntArray) -> None:
        decoder = self._decoder
        blocks, positions = decoder.labels[added], decoder.position[added]
        if self._sessions:
            for block, session in self._sessions.items():
                session.extend(positions[blocks == block])
            small = decoder.kind_of[blocks] >= 0
            blocks, positions = blocks[small], positions[small]
        np.bitwise_or.at(self._patterns, blocks, np.int64(1) << positions)
        self._all_changed = True

    def residual(self) -> float:
        large = sum(session.residual() for session in self._sessions.values())
        self._last = min(self._last, self._uncovered + self._up_to_date() + large)
        return self._last

    def exact(self) -> bool:
        limit = EXACT * self.code.n_tasks
        return self._uncovered + self._up_to_date() <= limit and all(s.exact() for s in self._sessions.values())

    def _up_to_date(self) -> float:
        """Return the total residual of the small blocks."""
        decoder = self._decoder
        if self._all_changed:
            self._look_up()
        for block in self._changed:
            kind = decoder.kinds[int(decoder.kind_of[block])]
            row = kind.row_of(int(self._patterns[block]))  # may replace the arrays
            now = float(kind.residuals[row])
            self._small += now - float(self._residuals[block])
            self._residuals[block] = now
        if self._changed and self._small < 1e-3:
            self._small = float(self._residuals.sum())  # avoids accumulating the rounding errors of many differences
        self._changed.clear()
        return self._small

    def _look_up(self) -> Array:
        """Bring the residuals of small blocks up to date; return their weights, shape (n_pieces, n_messages)."""
        weights = np.zeros((self.code.n_pieces, self.code.n_messages))
        for kind in self._decoder.kinds:
            rows = kind.rows_of(self._patterns[kind.blocks])
            weights[:, kind.places] = kind.weights[rows].transpose(1, 0, 2)
            self._residuals[kind.blocks] = kind.residuals[rows]
        self._small = float(self._residuals.sum())
        self._changed.clear()
        self._all_changed = False
        return weights

    def decoding(self) -> Decoding:
        weights = self._look_up()
        residual = self._uncovered + self._small
        for block, session in self._sessions.items():
            inner = session.decoding()
            weights[:, self._decoder.members[block][inner.messages]] = inner.weights
            residual += inner.residual
        messages = np.flatnonzero(weights.any(axis=0))
        return Decoding(self.code, messages, weights[:, messages], residual)
