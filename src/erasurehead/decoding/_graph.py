"""Graph codes: every message is the sum (or difference) of at most two tasks, an edge between them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, final

import numpy as np

from erasurehead._internal.arrays import Array, BoolArray, IntArray
from erasurehead.codes import GradientCode
from erasurehead.decoding._base import Decoder, Decoding, Session
from erasurehead.errors import invalid

if TYPE_CHECKING:
    from erasurehead.decoding._graph_kernels import Index

_STEPS = 2  # of steepest descent before the walk: they keep the weights small, and each costs as much as a product


def is_graph(code: GradientCode) -> bool:
    """Whether every message combines at most two tasks, with coefficients of equal magnitude."""
    encoding = code.encoding
    sizes = np.diff(encoding.indptr)
    if code.n_pieces != 1 or sizes.max(initial=0) > 2:
        return False
    begins = encoding.indptr[:-1][sizes == 2]
    magnitudes = np.abs(encoding.data)
    return bool((magnitudes[begins] == magnitudes[begins + 1]).all())


@dataclass(frozen=True, eq=False)
class _Ends:
    """The two ends of every message, by message and by task."""

    row_starts: Index
    columns: Index
    values: Array
    firsts: Index
    seconds: Index
    first_values: Array
    second_values: Array
    starts: Index
    messages: Index
    neighbours: Index
    mine: Array
    theirs: Array

    @classmethod
    def of(cls, code: GradientCode) -> _Ends:
        encoding = code.encoding
        begins, sizes = encoding.indptr[:-1], np.diff(encoding.indptr)
        firsts, seconds = np.zeros(code.n_messages, np.int32), np.zeros(code.n_messages, np.int32)
        first_values, second_values = np.zeros(code.n_messages), np.zeros(code.n_messages)
        some, two = sizes > 0, sizes == 2
        firsts[some], first_values[some] = encoding.indices[begins[some]], encoding.data[begins[some]]
        seconds[two], second_values[two] = encoding.indices[begins[two] + 1], encoding.data[begins[two] + 1]
        ends = encoding.T.tocsr()
        messages = ends.indices.astype(np.int32)
        task = np.repeat(np.arange(code.n_tasks, dtype=np.int32), np.diff(ends.indptr))
        at_first = firsts[messages] == task
        other = np.where(at_first, seconds[messages], firsts[messages])
        return cls(
            row_starts=encoding.indptr.astype(np.int32),
            columns=encoding.indices.astype(np.int32),
            values=encoding.data,
            firsts=firsts,
            seconds=seconds,
            first_values=first_values,
            second_values=second_values,
            starts=ends.indptr.astype(np.int32),
            messages=messages,
            neighbours=np.where(two[messages], other, -1).astype(np.int32),
            mine=ends.data,
            theirs=np.where(at_first, second_values[messages], first_values[messages]),
        )


@final
class GraphComponents(Decoder):
    """Optimal decoding of graph codes in time linear in the messages, component by component.

    A component that is bipartite, with parts of L and R tasks, has a residual of (L - R)^2 / (L + R); one
    with an odd cycle, or with a message of a single task, decodes exactly. The residual is maintained by union-find
    with parity at each arrival; weights come from a walk over a spanning forest, starting from nearly uniform weights
    so that
    they stay small: tree weights alone would grow with the subtrees, up to hundreds at 10,000 messages.

    Arguments:
        code: a code for which `is_graph` holds.

    Raises:
        InvalidArgument: if a message combines three tasks, or two with coefficients of different magnitude.

    Source: Glasgow and Wootters, arXiv 2006.09638, section 3 (optimal decoding); signed edges and messages of a single
    task are added here.
    """

    def __init__(self, code: GradientCode) -> None:
        if not is_graph(code):
            rule = "must have messages of one task, or of two with coefficients of equal magnitude"
            raise invalid("code", rule, code, "decode it with make_decoder(code)")
        self.code = code
        self._ends = _Ends.of(code)

    def begin(self) -> Session:
        return _GraphSession(self.code, self._ends)

    def _residuals(self, sequence: IntArray) -> Array:
        return _GraphSession(self.code, self._ends).join(sequence.astype(np.int32))


class _Forest(NamedTuple):
    """Union-find with parity over the tasks: the state of `graph_kernels.join`."""

    parents: Index
    signs: Array
    sizes: Array
    balances: Array
    residual: Array

    @classmethod
    def of(cls, n_tasks: int) -> _Forest:
        """Return the forest before any message: every task by itself."""
        alone = np.arange(n_tasks, dtype=np.int32)
        return cls(alone, np.ones(n_tasks), np.ones(n_tasks), np.ones(n_tasks), np.array([float(n_tasks)]))


@final
class _GraphSession(Session):
    def __init__(self, code: GradientCode, ends: _Ends) -> None:
        self.code = code
        self._ends = ends
        self._arrived: BoolArray = np.zeros(code.n_messages, dtype=bool)
        self._arrived_view = self._arrived.data
        self._pending: list[int] = []
        self._batches: list[IntArray] = []
        self._forest: _Forest | None = None

    def _add(self, message: int) -> None:
        self._arrived_view[message] = True
        self._pending.append(message)

    def _extend(self, added: IntArray) -> None:
        self._arrived[added] = True
        self._batches.append(added)

    def residual(self) -> float:
        if self._pending or self._batches:
            self.join(np.concatenate([*self._batches, self._pending]).astype(np.int32))
            self._pending.clear()
            self._batches.clear()
        return float(self.code.n_tasks) if self._forest is None else float(self._forest.residual[0])

    def join(self, newcomers: Index) -> Array:
        """Add messages and return the residual after each."""
        from erasurehead.decoding._graph_kernels import join

        ends, residuals = self._ends, np.empty(len(newcomers))
        if self._forest is None:
            self._forest = _Forest.of(self.code.n_tasks)
        join(newcomers, ends.row_starts, ends.columns, ends.values, *self._forest, residuals)
        return residuals

    def decoding(self) -> Decoding:
        from erasurehead.decoding._graph_kernels import smooth, weigh

        ends = self._ends
        messages = np.flatnonzero(self._arrived)
        weights, gap = np.empty(self.code.n_messages), np.empty(self.code.n_tasks)
        smooth(
            messages.astype(np.int32),
            ends.firsts,
            ends.seconds,
            ends.first_values,
            ends.second_values,
            weights,
            gap,
            _STEPS,
        )
        weigh(self._arrived, ends.starts, ends.messages, ends.neighbours, ends.mine, ends.theirs, weights, gap)
        return Decoding(self.code, messages, weights[None, messages], float(gap @ gap))
