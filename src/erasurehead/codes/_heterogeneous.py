"""Codes for workers that straggle with different, known probabilities: unbiased fixed weights with the least variance.

Song and Choi (arXiv:2510.22539) state the problem, the least residual error under unbiasedness, and solve it for equal
(aligned) partial gradients; `heterogeneous_exclusive` is their allocation. The staircase, and the optimum for
orthogonal partial gradients with given holders, which `heterogeneous_held` and `heterogeneous_balanced` use, are
derived here, by the same Lagrangian argument task by task.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence

import numpy as np

from erasurehead._internal.arrays import Array, IntArray, real_numbers, whole_numbers
from erasurehead.codes._assemble import from_rows
from erasurehead.codes._base import GradientCode
from erasurehead.codes._structure import Structure
from erasurehead.errors import InvalidArgument, check_count, check_size, invalid

_SOURCE = "Song and Choi (arXiv:2510.22539)"
_NEVER = 1e-12  # a smaller probability counts as zero
_SURE = 1e-6  # workers that never straggle balance loads as if they did once in a million steps


def heterogeneous_staircase(probabilities: Sequence[float] | Array, n_tasks: int | None = None) -> GradientCode:
    """Optimal for aligned gradients, with nonnegative coefficients: tasks are dealt out in proportion to (1 - p) / p.

    The workers' shares of the tasks are laid end to end and cut where tasks end; neighbours share the task at a cut.

    Arguments:
        probabilities: each worker's probability of straggling, in [0, 1]; workers that always straggle get nothing, and
            if some never do, the others get nothing.
        n_tasks: number of tasks (k); by default the number of workers.

    Structure:
        decoder: `"fixed_weights"`; weights (all one), straggling, expected_residual, aligned_residual.

    Guarantees: the plain sum of what arrives is unbiased, and its variance, if all partial gradients are equal, is the
        least possible, k^2 / sum((1 - p) / p) times theirs. Total load at most n + k - 1. Exact by least squares when
        all workers answer.
    Choose it: when the straggling probabilities are known and differ, and a low load matters.
    Raises:
        InvalidArgument: if a probability is outside [0, 1], or all are one.

    >>> code = heterogeneous_staircase([0.1, 0.2, 0.5])
    >>> code.loads.tolist(), round(code.structure.aligned_residual, 4)
    ([2, 2, 1], 0.6429)
    """
    p, n_tasks = _checked(probabilities, n_tasks)
    ends = np.cumsum(_shares(p, n_tasks))
    ends[-1] = n_tasks
    whole = np.round(ends)
    ends = np.where(np.abs(ends - whole) < 1e-9 * n_tasks, whole, ends)  # avoid slivers due to rounding
    cuts = np.unique(np.concatenate([ends, np.arange(n_tasks + 1)]))
    middles = (cuts[1:] + cuts[:-1]) / 2
    workers = np.searchsorted(ends, middles)
    return _code(
        "heterogeneous_staircase",
        {"probabilities": p.tolist(), "n_tasks": n_tasks},
        p,
        workers,
        middles.astype(np.int64),
        np.diff(cuts),
        n_tasks,
        f"the problem: {_SOURCE}; staircase allocation: derived here",
    )


def heterogeneous_exclusive(probabilities: Sequence[float] | Array, n_tasks: int | None = None) -> GradientCode:
    """The authors' allocation: whole exclusive tasks, and one task on all workers that compensates for rounding.

    Arguments:
        probabilities: as for `heterogeneous_staircase`.
        n_tasks: number of tasks (k); by default the number of workers.

    Structure:
        decoder: `"fixed_weights"`; weights (all one), straggling, expected_residual, aligned_residual.

    Guarantees: unbiased, with the same least variance for equal partial gradients as `heterogeneous_staircase`. The
        common task may have large and negative coefficients, and all other tasks have a single holder, so that for
        partial gradients that differ its variance is many times larger.
    Choose it: to reproduce the paper; otherwise prefer `heterogeneous_staircase`.
    Raises:
        InvalidArgument: if a probability is outside [0, 1], or all are one.

    >>> heterogeneous_exclusive([0.1, 0.2, 0.5]).replication.tolist()
    [3, 1, 1]
    """
    p, n_tasks = _checked(probabilities, n_tasks)
    shares = _shares(p, n_tasks)
    exclusive = np.floor(shares).astype(np.int64)
    order = np.argsort(exclusive - shares, kind="stable")  # largest remainder first
    missing = n_tasks - 1 - int(exclusive.sum())
    if missing >= 0:
        exclusive[order[:missing]] += 1
    else:
        exclusive[np.argmax(shares)] -= 1
    tasks = np.arange(1, n_tasks)
    rest = shares - exclusive
    common = np.flatnonzero(np.abs(rest) > 1e-12 * n_tasks)
    return _code(
        "heterogeneous_exclusive",
        {"probabilities": p.tolist(), "n_tasks": n_tasks},
        p,
        np.concatenate([np.repeat(np.arange(len(p)), exclusive), common]),
        np.concatenate([tasks, np.zeros(len(common), dtype=np.int64)]),
        np.concatenate([np.ones(n_tasks - 1), rest[common]]),
        n_tasks,
        f"{_SOURCE}, the authors' allocation",
    )


def heterogeneous_held(probabilities: Sequence[float] | Array, holders: Sequence[Sequence[int]]) -> GradientCode:
    """Optimal for orthogonal gradients, for given holders of each task: weights in proportion to (1 - p) / p.

    Arguments:
        probabilities: as for `heterogeneous_staircase`.
        holders: for each task the workers that hold it.

    Structure:
        decoder: `"fixed_weights"`; weights (all one), straggling, expected_residual, aligned_residual.

    Guarantees: the plain sum of what arrives is unbiased, and its expected residual is the least possible for these
        holders: the sum over tasks of 1 / sum over holders of (1 - p) / p.
    Choose it: when the holders are given and the partial gradients differ a lot.
    Raises:
        InvalidArgument: if a probability is outside [0, 1], or all holders of a task always straggle.

    >>> code = heterogeneous_held([0.1, 0.2, 0.5], [[0, 1, 2]])
    >>> code.encoding.toarray().ravel().round(7).tolist()
    [0.7142857, 0.3571429, 0.1428571]
    """
    try:
        held = [whole_numbers(f"holders[{task}]", workers) for task, workers in enumerate(holders)]
    except TypeError:  # it is no list
        hint = "such as [[0, 1], [1]]"
        raise invalid("holders", "must be a list of the workers that hold each task", holders, hint) from None
    p, n_tasks = _checked(probabilities, len(held))
    tasks = np.repeat(np.arange(n_tasks), [len(workers) for workers in held])
    workers = np.concatenate(held)
    if len(workers) and (workers.min() < 0 or workers.max() >= len(p)):
        raise invalid("holders", f"must name workers 0..{len(p) - 1}", int(np.abs(workers).max()))
    if len(np.unique(tasks * len(p) + workers)) < len(workers):
        raise invalid("holders", "must name no worker twice for one task", "a task with a repeated holder")
    parameters = {
        "probabilities": p.tolist(),
        "holders": [workers_of.tolist() for workers_of in held],
    }
    return _orthogonal(
        "heterogeneous_held",
        parameters,
        p,
        workers,
        tasks,
        n_tasks,
        f"the problem: {_SOURCE}; the optimum for given holders: derived here",
    )


def heterogeneous_balanced(
    probabilities: Sequence[float] | Array, load: int, n_tasks: int | None = None
) -> GradientCode:
    """Holders are chosen greedily under a load cap; weights are then optimal for orthogonal gradients.

    Workers, the most reliable first, take the `load` tasks whose holders have the smallest sum of (1 - p) / p so far.

    Arguments:
        probabilities: as for `heterogeneous_staircase`.
        load: tasks per worker.
        n_tasks: number of tasks (k); by default the number of workers.

    Structure:
        decoder: `"fixed_weights"`; weights (all one), straggling, expected_residual, aligned_residual.

    Guarantees: unbiased; the expected residual is the least possible for the holders chosen.
    Choose it: when the straggling probabilities are known, partial gradients differ, and no worker can hold more.
    Raises:
        InvalidArgument: if a probability is outside [0, 1], or the load is too small to cover all tasks.

    >>> code = heterogeneous_balanced([0.1, 0.1, 0.5, 0.5], load=2)
    >>> code.loads.tolist(), code.replication.tolist()
    ([2, 2, 2, 2], [2, 2, 2, 2])
    """
    p, n_tasks = _checked(probabilities, n_tasks)
    load = check_count("load", load, at_most=n_tasks)
    useful = np.flatnonzero(p < 1)
    if len(useful) * load < n_tasks:
        least = -(-n_tasks // len(useful))
        rule = f"times {len(useful)} workers that ever answer must cover {n_tasks} tasks"
        raise invalid("load", rule, load, f"use load={least}")
    reliability = (1 - p) / np.maximum(p, _SURE)
    sums = [(0.0, task) for task in range(n_tasks)]
    workers = useful[np.argsort(-reliability[useful], kind="stable")]
    taken: list[int] = []
    for worker in workers:
        least_held = [heapq.heappop(sums) for _ in range(load)]
        for total, task in least_held:
            heapq.heappush(sums, (total + float(reliability[worker]), task))
            taken.append(task)
    return _orthogonal(
        "heterogeneous_balanced",
        {"probabilities": p.tolist(), "load": load, "n_tasks": n_tasks},
        p,
        np.repeat(workers, load),
        np.array(taken, dtype=np.int64),
        n_tasks,
        f"the problem: {_SOURCE}; the optimum and the greedy allocation: derived here",
    )


def _checked(probabilities: Sequence[float] | Array, n_tasks: int | None) -> tuple[Array, int]:
    p = real_numbers("probabilities", probabilities).copy()
    if p.ndim != 1 or not len(p):
        raise invalid("probabilities", "must be one number a worker", f"an array of shape {p.shape}")
    if not ((p >= 0) & (p <= 1)).all():
        raise invalid("probabilities", "must lie in [0, 1]", float(p[~((p >= 0) & (p <= 1))][0]))
    if (p == 1).all():
        raise invalid("probabilities", "must be below 1 for at least one worker", 1.0)
    p[p < _NEVER] = 0.0
    return p, len(p) if n_tasks is None else check_size("n_tasks", n_tasks)


def _shares(p: Array, n_tasks: int) -> Array:
    """Return Y: the number of tasks that each worker contributes on average, for the least aligned variance."""
    if (p == 0).any():
        return n_tasks * (p == 0) / (p == 0).sum()
    delta = (1 - p) / p
    return n_tasks * delta / delta.sum()


def _orthogonal(
    name: str,
    parameters: Mapping[str, object],
    p: Array,
    workers: IntArray,
    tasks: IntArray,
    n_tasks: int,
    source: str,
) -> GradientCode:
    # alpha in proportion to (1 - p) / p among a task's holders; only those that never straggle, if there are any.
    sure = p[workers] == 0
    covered = np.bincount(tasks[sure], minlength=n_tasks)[tasks] > 0
    weight = np.where(covered, sure.astype(np.float64), (1 - p[workers]) / np.where(sure, 1.0, p[workers]))
    total = np.bincount(tasks, weights=weight, minlength=n_tasks)
    if not total.all():
        task = int(np.flatnonzero(total == 0)[0])
        sentence = f"Every task must have a holder that can answer, but task {task} has none; add one."
        raise InvalidArgument("holders", f"must name one for task {task} that can answer", sentence=sentence)
    return _code(name, parameters, p, workers, tasks, weight / total[tasks], n_tasks, source)


def _code(
    name: str,
    parameters: Mapping[str, object],
    p: Array,
    workers: IntArray,
    tasks: IntArray,
    alpha: Array,
    n_tasks: int,
    source: str,
) -> GradientCode:
    # alpha: the average contribution of each worker to each task; it sends alpha / (1 - p).
    kept = alpha != 0
    workers, tasks, alpha = workers[kept], tasks[kept], alpha[kept]
    order = np.lexsort((tasks, workers))
    workers, tasks, sent = workers[order], tasks[order], (alpha / (1 - p[workers]))[order]
    owner, sizes = np.unique(workers, return_counts=True)
    row_sums = np.bincount(workers, weights=sent, minlength=len(p))
    return GradientCode(
        name=name,
        parameters=parameters,
        encoding=from_rows(tasks, sizes, n_tasks, sent),
        owner=owner,
        n_workers=len(p),
        n_tasks=n_tasks,
        tolerance=0,
        source=source,
        structure=Structure(
            decoder="fixed_weights",
            weights=np.ones(len(owner)),
            straggling=p,
            expected_residual=float((p[workers] * (1 - p[workers]) * sent**2).sum()),
            aligned_residual=float((p * (1 - p) * row_sums**2).sum()),
        ),
    )
