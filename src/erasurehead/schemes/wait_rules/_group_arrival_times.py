"""When each group of equal messages arrives, in tables of many rounds at once, and what it is worth."""

from __future__ import annotations

from functools import lru_cache, reduce
from typing import Any

import numpy as np
from scipy import sparse

from erasurehead._internal.arrays import Array, IntArray
from erasurehead.codes import GradientCode

_FEW = 64  # columns up to which machine code is quicker than numpy
_MANY = 1024  # rounds of few columns from which it is worth loading, as it then is to select from them
_UNROLLED = 5  # replicas up to which it compares several groups with one instruction
_CACHED = 1 << 16  # arrival times
_DENSE = 1 << 16  # weights up to which a dense product is quicker than a sparse one


class ReplicaGroups:
    """The groups of a code of replicas (`code.replicas`), prepared for tables of arrival times.

    Attributes:
        n_groups: number of groups, G.
        gains: by how much the residual falls when a group's first message arrives, in tasks, shape (G,).
        least: the smallest of them.
        rest: the residual that remains when all groups have arrived, in tasks.
        of_message: number of each message's group, shape (n_messages,).
        weights: how much each task counts in what is decoded of each group alone, shape (G, n_tasks); in CSR form if
            it is large, as nearly all are 0 then.
    """

    def __init__(self, code: GradientCode) -> None:
        assert code.groups is not None
        names, first, groups = np.unique(code.groups, return_index=True, return_inverse=True)
        rows = code.encoding[first]
        squares = np.asarray(rows.multiply(rows).sum(axis=1)).ravel()
        sums = np.asarray(rows.sum(axis=1)).ravel()
        self.n_groups = len(names)
        self.gains: Array = np.divide(sums**2, squares, out=np.zeros(len(first)), where=squares > 0)
        self.least = float(self.gains.min())
        self.rest = max(0.0, code.n_tasks - float(self.gains.sum()))
        self.of_message: IntArray = groups
        scaled = np.divide(sums, squares, out=np.zeros(len(first)), where=squares > 0)
        weights = sparse.csr_array(rows.multiply(scaled[:, None]))
        self.weights: Any = weights.toarray() if np.prod(weights.shape) <= _DENSE else weights
        self._replicas, spare = divmod(len(groups), self.n_groups)
        self._in_order = not spare and np.array_equal(groups, np.arange(len(groups)) // self._replicas)
        self._order = np.argsort(groups, kind="stable")
        self._starts = np.searchsorted(groups[self._order], np.arange(self.n_groups))

    def earliest(self, times: Array) -> Array:
        """Return when the first message of each group arrives.

        Arguments:
            times: when each message arrives, shape (rounds, n_messages).

        Returns:
            Shape (rounds, G), in seconds.
        """
        if not self._in_order:
            return np.minimum.reduceat(times[:, self._order], self._starts, axis=1)
        replicas = self._replicas
        if replicas == 1:
            return times
        if replicas <= _UNROLLED and _machine_code(times):
            from erasurehead.schemes.wait_rules._short_rows import least_of_neighbours

            least = np.empty((len(times), self.n_groups))
            least_of_neighbours(np.ascontiguousarray(times).reshape(-1), replicas, least.reshape(-1))
            return least
        # One long row of groups, replica by replica, no longer than stays in cache: a few sweeps without a
        # loop over rounds, several times quicker than reduceat.
        flat, earliest = times.reshape(-1), np.empty(len(times) * self.n_groups)
        span = max(1, _CACHED // replicas)
        for low in range(0, len(earliest), span):
            piece, out = flat[low * replicas : (low + span) * replicas], earliest[low : low + span]
            np.minimum(piece[::replicas], piece[1::replicas], out=out)
            for replica in range(2, replicas):
                np.minimum(out, piece[replica::replicas], out=out)
        return earliest.reshape(len(times), self.n_groups)

    def complete(self, earliest: Array) -> Array:
        """Return when the last group arrives, given `earliest`, shape (rounds,)."""
        if _machine_code(earliest):
            from erasurehead.schemes.wait_rules._short_rows import greatest

            last = np.empty(len(earliest))
            greatest(np.ascontiguousarray(earliest), last)
            return last
        # Neighbours first, then column by column: numpy's reduction of short rows costs most of a microsecond a row.
        while 1 < earliest.shape[1] <= _FEW and earliest.shape[1] % 2 == 0:
            flat = earliest.reshape(-1)
            earliest = np.maximum(flat[::2], flat[1::2]).reshape(len(earliest), earliest.shape[1] // 2)
        if earliest.shape[1] > _FEW:
            return earliest.max(axis=1)
        return reduce(np.maximum, earliest.T[1:], earliest[:, 0].copy())


def _machine_code(rows: Array) -> bool:
    return rows.shape[1] <= _FEW and len(rows) >= _MANY


@lru_cache(maxsize=8)
def replica_groups(code: GradientCode) -> ReplicaGroups:
    """Return the groups of a code, prepared once per code."""
    return ReplicaGroups(code)
