"""Exact codes for data that stay where they are: any placement that has every task on enough workers."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import nsmallest

import numpy as np

from erasurehead._internal.arrays import Array, IntArray, whole_numbers
from erasurehead.codes._assemble import MOST_DRAWS, from_rows, generator_of
from erasurehead.codes._base import GradientCode, one_message_code
from erasurehead.codes._exact_weights import dense_weights
from erasurehead.codes._exactness import Unbearable
from erasurehead.codes._rounded_tolerance import certified
from erasurehead.codes._structure import Structure
from erasurehead.errors import InvalidArgument, check_count, counted, invalid, numbered

_DRAWS = 30
_TRIED = 5  # draws, those with the smallest coefficients, of which the one that amplifies rounding least is kept


def placed(
    held: Sequence[Sequence[int]],
    stragglers: int,
    *,
    hosts: Sequence[str] | None = None,
    seed: int = 0,
    draws: int = _DRAWS,
) -> GradientCode:
    """The data stay where they are: any placement with every task on more workers than may straggle.

    Each worker has one random column of `stragglers` + 1 numbers, and each task the coefficients of least norm with
    which the columns of its holders add up to ones. Any weights that vanish on the stragglers' columns and add up to
    one on the ones then decode. Of several draws the one that amplifies rounding least is kept.

    Arguments:
        held: for each worker the tasks that it holds, numbered from 0 on without gaps, as many or few as there are.
        stragglers: number of stragglers to tolerate; each task needs one holder more.
        hosts: the name of the machine where each worker runs, as the engine calls it, because its data are there; by
            default replicas are kept apart.
        seed: seed of the random columns.
        draws: how many of them to try, at most 10,000.

    Structure:
        decoder: `"least_squares"`; largest_coefficient, amplification, amplification_bound, hardest.

    Guarantees: exact for any set of at most `stragglers` stragglers. Each worker sends one message, and computes all
        tasks that it is said to hold.
    Choose it: where a distributed file system has put the data, or workers of different speeds hold as much as they can
        compute in equal time. Where the placement is free, `fractional_repetition` and `binary_repetition` do not
        amplify rounding at all.
    Raises:
        InvalidArgument: if a task has too few holders, or there are more stragglers than float64 allows.

    >>> code = placed([[0], [1, 2], [3, 4, 5], [6, 0, 1, 2], [3, 4, 5, 6]], stragglers=1)
    >>> code.loads.tolist(), code.tolerance, code.structure.amplification_bound < 10
    ([1, 2, 3, 4, 4], 1, True)
    """
    try:
        tasks_of = [_tasks(f"held[{worker}]", own) for worker, own in enumerate(held)]
    except TypeError:  # it is no list of lists
        tasks_of = list[IntArray]()
    n_workers = len(tasks_of)
    if not any(len(own) for own in tasks_of):
        raise invalid("held", "must name, for each worker, the tasks that it holds", held, "such as [[0, 1], [1, 0]]")
    s = check_count("stragglers", stragglers, 0, n_workers - 1)
    random = generator_of(check_count("seed", seed, at_least=0))
    draws = check_count("draws", draws, at_most=MOST_DRAWS)
    sizes = np.array([len(own) for own in tasks_of])
    tasks, workers = np.concatenate(tasks_of), np.repeat(np.arange(n_workers), sizes)
    _check_holders(tasks, workers, s)
    if hosts is not None and np.shape(hosts) != (n_workers,):
        raise invalid("hosts", f"must name one machine for each of the {counted('worker', n_workers)}", hosts)
    where = {} if hosts is None else {"hosts": [*hosts]}
    held = [own.tolist() for own in tasks_of]
    parameters = {"held": held, "stragglers": s, **where, "seed": seed, "draws": draws}
    if s == 0 and bool((np.bincount(tasks) == 1).all()):
        draws = 1  # all draws are alike
    drawn = (_coefficients(tasks, workers, random.standard_normal((s + 1, n_workers))) for _ in range(draws))
    kept: list[GradientCode] = []
    refused: list[Unbearable] = []
    for coefficients in nsmallest(_TRIED, drawn, key=lambda one: float(np.abs(one).max())):
        code = one_message_code(
            name="placed",
            parameters=parameters,
            encoding=from_rows(tasks, sizes, int(tasks.max()) + 1, coefficients),
            tolerance=s,
            source="arbitrary placement: arXiv:2103.01589; by speed: arXiv:1901.09339",
            structure=Structure(decoder="least_squares", largest_coefficient=float(np.abs(coefficients).max())),
        )
        try:
            kept.append(certified(code, dense_weights(code), "use another seed, or more draws"))
        except Unbearable as error:
            refused.append(error)
    if not kept:
        raise refused[0]
    return min(kept, key=lambda code: code.structure.amplification or 0.0)


def _tasks(name: str, own: Sequence[int]) -> IntArray:
    """Return the tasks of a worker, ascending."""
    tasks = np.sort(whole_numbers(name, own)) if len(own) else np.zeros(0, dtype=np.int64)
    twice = np.flatnonzero(np.diff(tasks) == 0)
    if len(twice):
        raise invalid(name, "must name no task twice", f"task {tasks[twice[0]]} twice")
    if len(tasks) and tasks[0] < 0:
        raise invalid(name, "must name tasks by numbers from 0 on", int(tasks[0]))
    return tasks


def _check_holders(tasks: IntArray, workers: IntArray, s: int) -> None:
    named, counts = np.unique(tasks, return_counts=True)
    few = named[counts <= s].tolist()
    gaps = int(named[-1]) + 1 - len(named)  # numbers of tasks that nobody holds, as many as somebody cared to leave
    if not (few or gaps):
        return
    unheld = [int(np.argmax(named != np.arange(len(named))))] if gaps else []
    first, others = min([*few, *unheld]), len(few) + gaps - 1
    holders: list[int] = workers[tasks == first].tolist()
    who = f"only {numbered('worker', holders)}" if holders else "no worker"
    more = f", and {counted('task', others)} more {'have' if others > 1 else 'has'} too few" if others else ""
    least = 0 if gaps else int(counts.min())
    hint = f"Put it on more workers, or use stragglers={least - 1}." if least else "Put it on some worker."
    sentence = f"held must have every task on {counted('worker', s + 1)} to tolerate {counted('straggler', s)}, but "
    raise InvalidArgument(
        "held",
        "must have every task on enough workers",
        sentence=f"{sentence}{who} {'hold' if len(holders) > 1 else 'holds'} task {first}{more}. {hint}",
    )


def _coefficients(tasks: IntArray, workers: IntArray, columns: Array) -> Array:
    """Return the coefficient of each worker for each of its tasks: those of least norm that give the sum of ones.

    Arguments:
        tasks, workers: which worker holds which task, pair by pair.
        columns: of the workers, shape (stragglers + 1, n_workers).
    """
    columns = columns / np.linalg.norm(columns, axis=0)
    order = np.argsort(tasks, kind="stable")
    counts = np.bincount(tasks)
    starts = np.cumsum(counts) - counts
    coefficients = np.empty(len(tasks))
    for count in np.unique(counts).tolist():  # tasks with equally many holders are solved together
        pairs = order[starts[counts == count][:, None] + np.arange(count)]
        systems = columns[:, workers[pairs]].transpose(1, 0, 2)  # (tasks, stragglers + 1, holders)
        coefficients[pairs] = np.linalg.pinv(systems).sum(axis=2)
    return coefficients
