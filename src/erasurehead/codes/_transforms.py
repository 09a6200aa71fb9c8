"""Codes derived from a code: for another number of workers, without tasks that are lost, or task by task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import cast

import numpy as np
from scipy import sparse

from erasurehead._internal.arrays import IntArray
from erasurehead.codes._assemble import from_rows
from erasurehead.codes._base import GradientCode
from erasurehead.codes._cyclic import exact_cyclic
from erasurehead.codes._product import refine
from erasurehead.codes._registry import build
from erasurehead.codes._repetition import fractional_repetition, uncoded
from erasurehead.codes._structure import Structure
from erasurehead.errors import InvalidArgument, check_size, counted, invalid


def shortened(code: GradientCode, lost: Sequence[int] | IntArray) -> GradientCode:
    """Return the code over the remaining tasks. Messages that contain a lost task are erased.

    Workers and messages keep their numbers. Decoding it gives the sum over the remaining tasks.

    Arguments:
        code: any code.
        lost: the lost tasks; at least one task must be left.

    >>> from erasurehead.codes import uncoded
    >>> shortened(uncoded(4), [1]).replication.tolist()
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
        name="shortened",
        parameters={"code": repr(code), "lost": np.flatnonzero(gone).tolist()},
        encoding=kept,
        owner=code.owner,
        n_workers=code.n_workers,
        n_tasks=int((~gone).sum()),
        n_pieces=code.n_pieces,
        source=code.source,
    )


def by_task(code: GradientCode) -> GradientCode:
    """Return the code in which workers send the gradient of each of their tasks as soon as it is finished.

    Workers hold the tasks that they held. Those with equal tasks share them out: each begins with its own share, and
    then takes those of the others, from their last task on, as with `multi_message` in pieces. So the copies of a task
    are finished at different times, and partial work of a straggler counts.

    Arguments:
        code: a code with one message a worker: its tasks are what counts. Where nobody holds some task, as random codes
            may have it, nothing brings it back: the code states no tolerance.

    Raises:
        InvalidArgument: if no worker holds anything.

    >>> from erasurehead.codes import fractional_repetition
    >>> tasks = by_task(fractional_repetition(6, load=3))
    >>> [tasks.tasks_of_message(message).tolist() for message in tasks.messages_of(1).tolist()]
    [[1], [2], [0]]
    """
    alike: dict[tuple[int, ...], list[int]] = {}
    for worker in range(code.n_workers):
        alike.setdefault(tuple(code.tasks_of(worker).tolist()), []).append(worker)
    rows: list[list[int]] = [[] for _ in range(code.n_workers)]
    for tasks, workers in alike.items():
        edges = [number * len(tasks) // len(workers) for number in range(len(workers) + 1)]
        shares = [tasks[begin:end] for begin, end in pairwise(edges)]
        for place, worker in enumerate(workers):
            own, *others = [*shares[place:], *shares[:place]]
            rows[worker] = [*own, *(task for share in others for task in share[::-1])]
    sent = np.array([task for tasks in rows for task in tasks], dtype=np.int64)
    if not len(sent):
        raise invalid("code", "must have a worker that holds a task", code)
    copies = int(np.bincount(sent, minlength=code.n_tasks).min())
    return GradientCode(
        name="by_task",
        parameters={"code": repr(code)},
        encoding=from_rows(sent, np.ones(len(sent), dtype=np.int64), code.n_tasks),
        owner=np.repeat(np.arange(code.n_workers), [len(tasks) for tasks in rows]),
        n_workers=code.n_workers,
        n_tasks=code.n_tasks,
        groups=np.unique(sent, return_inverse=True)[1],
        tolerance=copies - 1 if copies else None,
        task_work=code.task_work,
        source="as codes.multi_message, over the tasks of another code",
        structure=Structure(decoder="groups"),
    )


def resized(code: GradientCode, n_workers: int, held: Sequence[int] | None = None) -> GradientCode:
    """Return a code of the same family for another number of workers, over the same tasks.

    Repetition keeps its groups of tasks and spreads the workers over them, so that few tasks move; uncoded work is
    dealt out anew. Codes whose tasks are tied to their workers, such as cyclic ones, are rebuilt for the new number and
    then refined to the old tasks: nearly all tasks move.

    Arguments:
        code: any code of the catalogue that is built from a number of workers.
        n_workers: the new number, at least 1.
        held: how many of the remaining workers hold each task, shape (n_tasks,): repetition enlarges the groups
            that have more of them, so that fewer workers move.

    Raises:
        InvalidArgument: if the family has no code with that many workers, or more workers would hold each task than
            the code had in all.

    >>> from erasurehead.codes._cyclic import cyclic_mds
    >>> resized(fractional_repetition(12, load=3), 10).replication.tolist()
    [3, 3, 3, 3, 3, 3, 2, 2, 2, 2, 2, 2]
    >>> resized(cyclic_mds(7, stragglers=2), 5)
    refine(code=cyclic_mds(n_workers=5, stragglers=2), n_tasks=7)
    """
    n_workers = check_size("n_workers", n_workers)
    if n_workers == code.n_workers:
        return code
    most = code.n_workers * code.n_tasks // code.load
    if n_workers > max(most, code.n_workers):
        each = f"{n_workers * code.load // code.n_tasks:,} workers would hold each of its {code.n_tasks} tasks"
        raise _not_resized(code, n_workers, f"{each}; at most {most:,} workers are of use")
    parameters = dict(code.parameters)
    parameters.pop("speeds", None)  # of other workers
    if code.name == "fractional_repetition":
        least = -(-code.n_tasks // n_workers)  # with fewer workers than groups, the groups must be larger
        load = max(int(cast("int", parameters["load"])), least)
        plain = fractional_repetition(n_workers, load, code.n_tasks)
        return plain if held is None else fractional_repetition(n_workers, load, code.n_tasks, _sizes(plain, held))
    if code.name == "uncoded":
        return uncoded(n_workers, code.n_tasks, pieces=cast("int", parameters.get("pieces", 1)))
    if code.name == "refine":
        parameters = dict(cast("Mapping[str, object]", parameters["code"]))
        name = str(parameters.pop("name"))
    else:
        name = code.name
    if "n_workers" not in parameters:
        raise _not_resized(code, n_workers, "it is not built from a number of workers; repetition and cyclic codes are")
    if "stragglers" in parameters:  # at most all but one worker
        parameters["stragglers"] = min(int(cast("int", parameters["stragglers"])), n_workers - 1)
    try:
        if name == "cyclic_mds":  # real only where n_workers - stragglers is odd; otherwise Tandon's replaces it
            inner = exact_cyclic(n_workers, int(cast("int", parameters["stragglers"])))
        else:
            inner = build(name, **{**parameters, "n_workers": n_workers})
    except InvalidArgument as error:  # of parameters that the caller has not given
        raise _not_resized(code, n_workers, f"{error}".rstrip(".")) from None
    if inner.n_tasks > code.n_tasks:
        why = f"{name} ties a task to every worker, and there are {code.n_tasks} tasks"
        raise _not_resized(code, n_workers, f"{why}; fractional_repetition bears any number of workers")
    return inner if inner.n_tasks == code.n_tasks else refine(inner, code.n_tasks)


def _sizes(code: GradientCode, held: Sequence[int]) -> list[int] | None:
    """Return the sizes of a repetition code's groups, such that groups with more holders get more workers."""
    assert code.groups is not None
    sizes = np.bincount(code.groups)
    first = np.unique(code.groups, return_index=True)[1]
    holders = np.array([int(np.asarray(held)[code.tasks_of(worker)].min()) for worker in first.tolist()])
    dealt = np.empty_like(sizes)
    dealt[np.argsort(-holders, kind="stable")] = sizes  # which are sorted, larger ones first
    return None if (dealt == sizes).all() else dealt.tolist()


def _not_resized(code: GradientCode, n_workers: int, why: str) -> InvalidArgument:
    sentence = f"{code!r} cannot be resized to {counted('worker', n_workers)}: {why}."
    return InvalidArgument("n_workers", f"must be a number that {code!r} can have", n_workers, sentence=sentence)
