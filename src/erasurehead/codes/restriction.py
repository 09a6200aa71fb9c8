"""A code without the tasks that nobody can bring any more."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import sparse

from erasurehead.arrays import IntArray
from erasurehead.codes.base import GradientCode
from erasurehead.errors import invalid


def restricted(code: GradientCode, lost: Sequence[int] | IntArray) -> GradientCode:
    """Return the code over the tasks that are left. Messages that say something of a lost task are erased from it.

    Workers and messages keep their numbers. Decoding it gives the sum over the tasks that are left.

    Arguments:
        code: any code.
        lost: tasks, at least one of them not lost.

    >>> from erasurehead.codes import uncoded
    >>> restricted(uncoded(4), [1]).replication.tolist()
    [1, 1, 1]
    """
    gone = np.zeros(code.n_tasks, dtype=bool)
    gone[np.asarray(lost, dtype=np.int64)] = True
    if gone.all():
        raise invalid("lost", f"must leave one of {code.n_tasks} tasks", list(lost))
    columns = np.repeat(gone, code.n_pieces)
    touching = np.asarray((abs(code.encoding) @ columns.astype(float)) > 0).ravel()
    rows = sparse.diags_array((~touching).astype(float))
    kept = sparse.csr_array(rows @ code.encoding)[:, np.flatnonzero(~columns)]
    kept.eliminate_zeros()
    return GradientCode(
        name="restricted",
        parameters={"code": repr(code), "lost": np.flatnonzero(gone).tolist()},
        encoding=kept,
        owner=code.owner,
        n_workers=code.n_workers,
        n_tasks=int((~gone).sum()),
        n_pieces=code.n_pieces,
        source=code.source,
    )
