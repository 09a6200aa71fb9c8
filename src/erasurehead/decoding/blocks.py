"""Codes that fall into blocks without a common task: each block is decoded by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple, final

import numpy as np

from erasurehead.arrays import Array, IntArray
from erasurehead.codes.assemble import ranges
from erasurehead.codes.base import GradientCode
from erasurehead.decoding.base import EXACT, Decoder, Decoding, Session, as_messages, residual_of
from erasurehead.decoding.least_squares import DEPENDENT
from erasurehead.decoding.parts import members, part_of

_SMALL = 62  # messages of a block whose arrivals fit into the bits of an integer
_REMEMBERED = 200_000  # patterns of arrivals, over all kinds of blocks


class Solved(NamedTuple):
    """The optimal decoding of one pattern of arrivals in one kind of block."""

    residual: float
    weights: Array
    """Shape (n_pieces, messages of the block); zero where not arrived."""


@final
class _Kind:
    """Small blocks with the same coefficients. Each pattern of arrivals is solved once, and remembered."""

    def __init__(self, code: GradientCode, blocks: IntArray, places: IntArray) -> None:
        self.blocks = blocks
        self.places = places  # messages of each of these blocks, shape (blocks, messages of a block)
        # Tasks that every message counts alike are one unknown: a group of d workers that hold d tasks, with m
        # messages enough, becomes a problem of m unknowns.
        table = np.concatenate([code.encoding.toarray(), code.target])
        merged, counts = np.unique(table, axis=1, return_counts=True)
        roots = np.sqrt(counts)
        self._rows: Array = merged[: code.n_messages] * roots
        self._target: Array = merged[code.n_messages :] * roots
        lengths = np.sqrt(np.einsum("mt,mt->m", self._rows, self._rows))
        self._scale: Array = np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0)
        self._solved: dict[int, Solved] = {}

    def solve(self, pattern: int) -> Solved:
        """Return the decoding when the messages whose bits are set have arrived."""
        found = self._solved.get(pattern)
        if found is None:
            if len(self._solved) >= _REMEMBERED:
                self._solved.clear()
            found = self._solved[pattern] = self._decompose(pattern)
        return found

    def _decompose(self, pattern: int) -> Solved:
        n_messages, n_pieces = len(self._rows), len(self._target)
        weights = np.zeros((n_pieces, n_messages))
        arrived = np.flatnonzero((pattern >> np.arange(n_messages, dtype=np.int64)) & 1)
        if len(arrived):
            scaled = self._rows[arrived] * self._scale[arrived, None]
            solution = np.linalg.lstsq(scaled.T, self._target.T, rcond=DEPENDENT)[0]
            weights[:, arrived] = solution.T * self._scale[arrived]
        error = weights @ self._rows - self._target
        return Solved(float(np.einsum("pt,pt->", error, error)) / n_pieces, weights)


@final
class Blocks(Decoder):
    """Optimal decoding of a code whose messages fall into blocks that share no task, one block at a time.

    Small blocks with the same coefficients share a table: every pattern of arrivals is solved once, a problem of as
    many unknowns as a message has pieces in communication-efficient group codes, and looked up from then on, so that
    an arrival costs O(1). Large blocks have decoders of their own.

    Arguments:
        code: any code.
        labels: the block of each message, numbered from 0 without gaps, shape (n_messages,).
        choose: makes the decoder of a large block.

    Source: Kadhe, Koyluoglu, Ramchandran, arXiv 2005.07184 (one linear code a group); Tandon et al., ICML 2017,
    section 6 (partial stragglers: uncoded first messages are blocks of one).
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

    def begin(self) -> Session:
        return _BlockSession(self)


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
        self._dirty: set[int] = set()

    def add(self, message: int) -> None:
        decoder = self._decoder
        block, position = int(decoder.labels[message]), int(decoder.position[message])
        if decoder.kind_of[block] >= 0:
            self._patterns[block] |= 1 << position
            self._dirty.add(block)
        else:
            self._sessions[block].add(position)

    def extend(self, messages: Iterable[int]) -> None:
        decoder = self._decoder
        added = as_messages(messages)
        blocks, positions = decoder.labels[added], decoder.position[added]
        small = decoder.kind_of[blocks] >= 0
        np.bitwise_or.at(self._patterns, blocks[small], np.int64(1) << positions[small])
        self._dirty.update(np.unique(blocks[small]).tolist())
        for block, session in self._sessions.items():
            session.extend(positions[blocks == block])

    def residual(self) -> float:
        large = sum(session.residual() for session in self._sessions.values())
        self._last = min(self._last, self._uncovered + self._up_to_date() + large)
        return self._last

    def exact(self) -> bool:
        limit = EXACT * self.code.n_tasks
        return self._uncovered + self._up_to_date() <= limit and all(s.exact() for s in self._sessions.values())

    def _up_to_date(self) -> float:
        """Return the residual of the small blocks together."""
        decoder = self._decoder
        for block in self._dirty:
            now = decoder.kinds[int(decoder.kind_of[block])].solve(int(self._patterns[block])).residual
            self._small += now - float(self._residuals[block])
            self._residuals[block] = now
        if self._dirty and self._small < 1e-3:
            self._small = float(self._residuals.sum())  # without the rounding errors of the many differences
        self._dirty.clear()
        return self._small

    def decoding(self) -> Decoding:
        decoder = self._decoder
        weights = np.zeros((self.code.n_pieces, self.code.n_messages))
        for kind in decoder.kinds:
            patterns, which = np.unique(self._patterns[kind.blocks], return_inverse=True)
            for number, pattern in enumerate(patterns.tolist()):
                places = kind.places[which == number]
                weights[:, places] = kind.solve(pattern).weights[:, None, :]
        for block, session in self._sessions.items():
            inner = session.decoding()
            weights[:, decoder.members[block][inner.messages]] = inner.weights
        messages = np.flatnonzero(weights.any(axis=0))
        used = weights[:, messages]
        return Decoding(self.code, messages, used, residual_of(self.code, messages, used))
