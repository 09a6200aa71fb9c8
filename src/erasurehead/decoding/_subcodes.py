"""Parts of codes: some messages of a code, with the tasks that they contain."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from erasurehead._internal.arrays import IntArray
from erasurehead.codes import GradientCode

if TYPE_CHECKING:
    from erasurehead._internal.arrays import SparseMatrix


def components(code: GradientCode) -> IntArray:
    """Return the connected component of each message, shape (n_messages,): messages that share tasks, even indirectly.

    A message without tasks counts towards the first component; if none has any, all are one component.
    """
    rows = np.repeat(np.arange(code.n_messages), np.diff(code.encoding.indptr))
    tasks, labels, before = code.encoding.indices // code.n_pieces, np.arange(code.n_messages), None
    while before is None or not np.array_equal(labels, before):  # importing csgraph takes longer than all else here
        before, least = labels, np.full(code.n_tasks, code.n_messages)
        np.minimum.at(least, tasks, before[rows])  # the least label of a message of each task,
        labels = before.copy()
        np.minimum.at(labels, before[rows], least[tasks])  # is that of all whose label is shared by one of these
        while not np.array_equal(labels, labels[labels]):
            labels = labels[labels]
    some = np.diff(code.encoding.indptr) > 0
    labels[~some] = labels[some][0] if some.any() else 0  # a message without tasks is not a block: it may go with any
    return np.unique(labels, return_inverse=True)[1].astype(np.int64)


def members(labels: IntArray) -> list[IntArray]:
    """Return the messages of each label, ascending."""
    order = np.argsort(labels, kind="stable")
    return np.split(order, np.cumsum(np.bincount(labels))[:-1])


def part_of(code: GradientCode, messages: IntArray, tasks: IntArray | None = None) -> GradientCode:
    """Return the code of some messages only, each with its own worker.

    Arguments:
        code: the whole code.
        messages: the messages, ascending, shape (k,).
        tasks: the tasks to keep, ascending; None for all that the messages contain.
    """
    rows = code.encoding[messages]
    if tasks is None:
        tasks = np.unique(rows.indices // code.n_pieces).astype(np.int64)
    columns = (tasks[:, None] * code.n_pieces + np.arange(code.n_pieces)).ravel()
    encoding = sparse.csr_array(rows[:, columns])
    for candidate in code.inner:
        if same_matrix(candidate.encoding, encoding):
            return candidate  # it has more structure than its matrix shows
    return GradientCode(
        name=f"part of {code.name}",
        parameters={},
        encoding=encoding,
        owner=np.arange(len(messages)),
        n_workers=len(messages),
        n_tasks=len(tasks),
        n_pieces=code.n_pieces,
        tolerance=code.tolerance,
        source=code.source,
    )


def same_matrix(first: SparseMatrix, second: SparseMatrix) -> bool:
    """Whether two settled matrices are equal, bit for bit."""
    return (
        first.shape == second.shape
        and np.array_equal(first.indptr, second.indptr)
        and np.array_equal(first.indices, second.indices)
        and np.array_equal(first.data, second.data)
    )
