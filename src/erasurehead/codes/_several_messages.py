"""Codes with several messages per worker and step, in order: partial stragglers, and uncoded work task by task."""

from __future__ import annotations

import math

import numpy as np
from scipy import sparse

from erasurehead.codes._assemble import from_rows, workers_and_tasks
from erasurehead.codes._base import GradientCode
from erasurehead.codes._product import described
from erasurehead.codes._structure import Structure
from erasurehead.errors import check_count, check_type, invalid, real


def partial_stragglers(code: GradientCode, slowness: float) -> GradientCode:
    """For stragglers that are slow but not dead: first an uncoded message, then a coded one.

    Each worker first sends the sum of its own exclusive tasks, then its message of the inner code. The exclusive part
    is so large that a straggler, `slowness` times slower than the others, has sent it when they have sent both.

    Arguments:
        code: an exact inner code with one message per worker and equal loads d: `fractional_repetition` or a cyclic
            one.
        slowness: how many times slower a straggler is (the paper's alpha), more than 1; d / (slowness - 1), the number
            of exclusive tasks, must be an integer.

    Structure:
        decoder: `"parts"`; parts, inner (the inner code), weights none.

    Guarantees: exact when all first messages have arrived and all but `code.tolerance` of the second ones: full
        stragglers are not tolerated (tolerance 0). Load per worker, as a fraction of all tasks, below the inner code's
        alone.
    Choose it: when the slowest worker still does a known fraction of the others' work.
    Raises:
        InvalidArgument: if the inner code does not fit, or the number of exclusive tasks is not an integer.

    >>> from erasurehead.codes import fractional_repetition
    >>> code = partial_stragglers(fractional_repetition(12, load=3), slowness=2)
    >>> code.n_tasks, code.load, code.messages_of(1).tolist()
    (48, 6, [2, 3])
    """
    check_type("code", code, GradientCode, "must be a code", "such as codes.fractional_repetition(12, load=3)")
    if code.n_pieces != 1 or not code.one_message_each or code.loads.min() != code.load:
        raise invalid("code", "must have one message a worker, one piece and equal loads", code)
    if not code.tolerance:
        raise invalid("code", "must bear at least one straggler", code, "use fractional_repetition(n, load=2)")
    if not 1.0 < real(slowness) < math.inf:
        raise invalid("slowness", "must be more than 1", slowness)
    load, exclusive = code.load, round(code.load / (slowness - 1))
    if exclusive < 1 or abs(exclusive * (slowness - 1) - load) > 1e-9 * load:
        near = max(1, exclusive)
        raise invalid(
            "slowness",
            f"must make load / (slowness - 1) = {load} / (slowness - 1) a whole number",
            slowness,
            f"use slowness={1 + load / near:.10g} ({near} exclusive tasks)",
        )
    n_workers = code.n_workers
    first = from_rows(np.arange(n_workers * exclusive), np.full(n_workers, exclusive), n_workers * exclusive)
    stacked = sparse.block_diag([first, code.encoding[np.argsort(code.owner)]], format="csr")
    order = np.arange(2 * n_workers).reshape(2, n_workers).T.ravel()  # each worker's two messages side by side
    return GradientCode(
        name="partial_stragglers",
        parameters={"code": described(code), "slowness": slowness},
        encoding=sparse.csr_array(stacked[order]),
        owner=np.repeat(np.arange(n_workers), 2),
        n_workers=n_workers,
        n_tasks=n_workers * exclusive + code.n_tasks,
        tolerance=0,
        source="Tandon et al. (ICML 2017), partial stragglers",
        inner=(code,),
        structure=Structure(decoder="parts", parts=np.tile([0, 1], n_workers)),
    )


def multi_message(n_workers: int, load: int, n_tasks: int | None = None, pieces: int = 1) -> GradientCode:
    """Uncoded work: each task is sent as soon as it is finished; tasks are repeated around the circle.

    Worker i starts where it alone starts and goes around the circle of tasks, so that a task's copies are finished at
    different times, and partial work of a straggler counts.

    Arguments:
        n_workers: number of workers.
        load: tasks per worker.
        n_tasks: number of tasks; `n_workers` if not given.
        pieces: into how many tasks the share of a worker is cut, each of which is that part of a unit of work. With
            more than one, a worker takes the tasks of those who come after it from their last one on, so that somebody
            who is late, and who does its work meanwhile, meet half-way.

    Structure:
        decoder: `"groups"`: all messages of one task are equal.

    Guarantees: exact as soon as every task has arrived once; so for any set of at most (rarest task's copies - 1)
        stragglers, `load - 1` when there are as many tasks as workers.
    Choose it: when bytes are cheap and partial work is worth having: no coded scheme of the
        same assignment decodes earlier, but this one sends `load` times the messages.
    Raises:
        InvalidArgument: if the load exceeds n_tasks, or is too small to cover them.

    >>> code = multi_message(5, load=2)
    >>> code.n_messages, code.tasks_of_message(9).tolist(), code.tolerance
    (10, [0], 1)
    >>> multi_message(3, load=6, n_tasks=9, pieces=3).groups.reshape(3, 6).tolist()
    [[0, 1, 2, 5, 4, 3], [3, 4, 5, 8, 7, 6], [6, 7, 8, 2, 1, 0]]
    """
    n_workers, n_tasks = workers_and_tasks(n_workers, n_tasks)
    load = check_count("load", load, at_most=n_tasks)
    if n_workers * load < n_tasks:
        least = -(-n_tasks // n_workers)
        raise invalid("load", f"times {n_workers} workers must cover {n_tasks} tasks", load, f"use load={least}")
    starts = np.arange(n_workers) * n_tasks // n_workers
    tasks = (starts[:, None] + np.arange(load)) % n_tasks
    if check_count("pieces", pieces) > 1:
        distance = (np.searchsorted(starts, tasks, side="right") - 1 - np.arange(n_workers)[:, None]) % n_workers
        within = np.where(distance == 0, 1, -1) * np.arange(load)
        tasks = np.take_along_axis(tasks, np.lexsort((within, distance)), axis=1)
    tasks = tasks.ravel()
    return GradientCode(
        name="multi_message",
        parameters={"n_workers": n_workers, "load": load, "n_tasks": n_tasks}
        | ({} if pieces == 1 else {"pieces": pieces}),
        encoding=from_rows(tasks, np.ones(len(tasks), dtype=np.int64), n_tasks),
        owner=np.repeat(np.arange(n_workers), load),
        n_workers=n_workers,
        n_tasks=n_tasks,
        groups=tasks,
        tolerance=int(np.bincount(tasks, minlength=n_tasks).min()) - 1,
        task_work=1.0 / pieces,
        source="Amiri and Gündüz (arXiv:1810.09992), Ozfatura, Ulukus, Gündüz (arXiv:2004.04948): cyclic schedule",
        structure=Structure(decoder="groups"),
    )
