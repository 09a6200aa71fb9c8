"""Bernoulli codes and stochastic block codes: a coin for every worker and task."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from erasurehead._internal.arrays import Array, IntArray
from erasurehead._internal.resources import check_memory
from erasurehead.codes._assemble import blocks, even_sizes, from_rows, generator_of, workers_and_tasks
from erasurehead.codes._base import GradientCode, one_message_code
from erasurehead.codes._structure import Structure
from erasurehead.errors import check_count, invalid, real

if TYPE_CHECKING:
    from erasurehead._internal.arrays import SparseMatrix


_DENSE = 0.25  # above this probability, one random number per cell is as cheap as drawing distinct cells


def check_probability(argument: str, value: float, positive: bool = False) -> float:
    """Return a probability as a float, or raise if it is not one."""
    if not (0 <= real(value) <= 1) or (positive and value == 0):
        raise invalid(argument, f"must be a probability in {'(0, 1]' if positive else '[0, 1]'}", value)
    return float(value)


def bernoulli_cells(n_cells: int, probability: float, random: np.random.Generator) -> IntArray:
    """Return the cells of 0..n_cells-1 that an independent coin of the given probability chooses, ascending."""
    needed = 8.0 * n_cells * (1.0 if probability > _DENSE else probability)
    check_memory(f"Choosing among {n_cells:,} pairs of a worker and a task", needed, "name fewer workers or tasks")
    if probability > _DENSE:
        return np.flatnonzero(random.random(n_cells) < probability)
    return distinct(n_cells, int(random.binomial(n_cells, probability)), random)


def distinct(n_cells: int, count: int, random: np.random.Generator) -> IntArray:
    """Return `count` distinct cells of 0..n_cells-1, every subset equally likely, ascending."""
    if count > n_cells / 2:
        chosen = np.ones(n_cells, dtype=bool)
        chosen[distinct(n_cells, n_cells - count, random)] = False
        return np.flatnonzero(chosen)
    cells = np.zeros(0, dtype=np.int64)
    while len(cells) < count:  # missing cells are drawn again, so that no draw is dropped because of its value
        cells = _union(cells, random.integers(0, n_cells, count - len(cells)))
    return cells


def fill_empty(cells: IntArray, n_rows: int, n_columns: int, random: np.random.Generator) -> IntArray:
    """Return the cells, plus one random cell in every empty row, then in every empty column; sorted."""
    idle = np.flatnonzero(np.bincount(cells // n_columns, minlength=n_rows) == 0)
    cells = _union(cells, idle * n_columns + random.integers(0, n_columns, len(idle)))
    lost = np.flatnonzero(np.bincount(cells % n_columns, minlength=n_columns) == 0)
    return _union(cells, random.integers(0, n_rows, len(lost)) * n_columns + lost)


def matrix_of(cells: IntArray, n_rows: int, n_columns: int, values: Array | None = None) -> SparseMatrix:
    """Return the matrix with values, or ones, in the given cells (row * n_columns + column, ascending)."""
    sizes = np.bincount(cells // n_columns, minlength=n_rows).astype(np.int64)
    return from_rows(cells % n_columns, sizes, n_columns, values)


def _union(one: IntArray, other: IntArray) -> IntArray:
    # numpy's union1d hashes, which takes ten times as long as sorting here.
    cells = np.sort(np.concatenate([one, other]))
    kept = np.ones(len(cells), dtype=bool)
    kept[1:] = cells[1:] != cells[:-1]
    return cells[kept]


_SOURCE = "Charles, Papailiopoulos, Ellenberg (arXiv:1711.06771)"


def bernoulli(
    n_workers: int, load: float, n_tasks: int | None = None, *, seed: int = 0, nobody_idle: bool = True
) -> GradientCode:
    """BGC: each worker holds each task with probability load / n_tasks, independently.

    Arguments:
        n_workers: number of workers.
        load: expected tasks per worker (the paper's s), greater than 0, at most `n_tasks`; need not be an integer.
        n_tasks: number of tasks; `n_workers` if not given.
        seed: seed of the assignment.
        nobody_idle: whether to give each worker without a task, and each task without a worker, one at random.
            Otherwise about n exp(-load) workers answer first with nothing, and as many tasks can never be decoded.

    Structure:
        decoder: `"least_squares"`; mean_load.

    Guarantees: none for any one draw. With r random workers, one-step decoding leaves a residual of
        n_tasks (n_tasks - load) / (r load) on average (exactly so without `nobody_idle`).
    Choose it: as the baseline of randomly assigned work, or where workers choose their tasks without being told.
        Loads are unequal, so the fastest workers are the lightest, not a random set.
    Raises:
        InvalidArgument: if load is not in (0, n_tasks].

    >>> code = bernoulli(60, load=5)
    >>> code.replication.min() >= 1 and code.loads.min() >= 1
    np.True_
    """
    n_workers, n_tasks, load = _sizes(n_workers, load, n_tasks)
    random = generator_of(seed)
    cells = bernoulli_cells(n_workers * n_tasks, load / n_tasks, random)
    if nobody_idle:
        cells = fill_empty(cells, n_workers, n_tasks, random)
    parameters = {"n_workers": n_workers, "load": load, "n_tasks": n_tasks, "seed": seed, "nobody_idle": nobody_idle}
    return _code(
        "bernoulli", parameters, matrix_of(cells, n_workers, n_tasks), load, f"{_SOURCE}, Bernoulli gradient codes"
    )


def regularised_bernoulli(
    n_workers: int, load: float, n_tasks: int | None = None, *, seed: int = 0, nobody_idle: bool = True
) -> GradientCode:
    """rBGC: a Bernoulli code in which every worker with more than twice the load keeps `load` of its tasks.

    Arguments:
        n_workers: number of workers.
        load: expected tasks per worker before thinning (the paper's s), at least 1, at most `n_tasks`.
        n_tasks: number of tasks; `n_workers` if not given.
        seed: seed of the assignment.
        nobody_idle: as for `bernoulli`.

    Structure:
        decoder: `"least_squares"`; mean_load.

    Guarantees: no worker holds more than 2 load tasks (and one more for each task that nobody else took).
    Choose it: instead of `bernoulli` for small loads, about the logarithm of the tasks or less.
    Raises:
        InvalidArgument: if load is not in [1, n_tasks].

    >>> int(regularised_bernoulli(200, load=2).loads.max()) <= 5
    True
    """
    n_workers, n_tasks, load = _sizes(n_workers, load, n_tasks)
    if load < 1:
        raise invalid("load", "must be at least 1, so that a thinned worker keeps a task", load)
    random = generator_of(seed)
    cells = bernoulli_cells(n_workers * n_tasks, load / n_tasks, random)
    counts = np.bincount(cells // n_tasks, minlength=n_workers)
    ends = np.cumsum(counts)
    kept = np.ones(len(cells), dtype=bool)
    for worker in np.flatnonzero(counts > 2 * load):
        dropped = distinct(int(counts[worker]), int(counts[worker]) - int(load), random)
        kept[ends[worker] - counts[worker] + dropped] = False
    cells = cells[kept]
    if nobody_idle:
        cells = fill_empty(cells, n_workers, n_tasks, random)
    parameters = {"n_workers": n_workers, "load": load, "n_tasks": n_tasks, "seed": seed, "nobody_idle": nobody_idle}
    return _code(
        "regularised_bernoulli",
        parameters,
        matrix_of(cells, n_workers, n_tasks),
        load,
        f"{_SOURCE}, regularised Bernoulli gradient codes",
    )


def stochastic_block(
    n_workers: int,
    block: int,
    within: float,
    between: float,
    n_tasks: int | None = None,
    *,
    seed: int = 0,
    nobody_idle: bool = True,
) -> GradientCode:
    """SBC: workers and tasks in hidden blocks; a coin of one probability within a block, of another between blocks.

    Arguments:
        n_workers: number of workers.
        block: tasks of each block (the paper's b). There are round(n_tasks / block) blocks, at most one per worker; if
            that is not exact, blocks differ from `block`, and from each other by one.
        within: probability that a worker holds a task of its own block (p).
        between: probability that it holds a task of another block (q).
        n_tasks: number of tasks; `n_workers` if not given.
        seed: of the assignment; workers and tasks are permuted with it, so that an adversary that does not know it
            would have to find the blocks.
        nobody_idle: as for `bernoulli`.

    Structure:
        decoder: `"least_squares"`; mean_load: within * b + between * (n_tasks - b) for blocks of b tasks, on average
            over the workers; rounded: how the blocks differ from the requested ones, as a sentence.

    Guarantees: none for any one draw. within=1, between=0 is fractional repetition, within=between a Bernoulli code.
    Choose it: against an adversary who cannot recover the blocks, at nearly the residual of repetition under random
        stragglers.
    Raises:
        InvalidArgument: if a probability is outside [0, 1], both are zero, or a block is larger than the number of
            tasks.

    >>> stochastic_block(60, block=10, within=0.5, between=0.02).structure.mean_load
    6.0
    """
    n_workers, n_tasks = workers_and_tasks(n_workers, n_tasks)
    block = check_count("block", block, at_most=n_tasks)
    within, between = check_probability("within", within), check_probability("between", between)
    if within * block + between * (n_tasks - block) == 0:
        raise invalid("within", "and between must not both be zero", within)
    random = generator_of(seed)
    n_blocks = min(max(1, round(n_tasks / block)), n_workers)
    cells = _block_cells(n_workers, n_tasks, n_blocks, within, between, random)
    sizes, members = even_sizes(n_tasks, n_blocks), even_sizes(n_workers, n_blocks)
    load = float((members * (within * sizes + between * (n_tasks - sizes))).sum()) / n_workers
    smallest, largest = int(sizes.min()), int(sizes.max())
    each = f"{largest}" if smallest == largest else f"{smallest} or {largest}"
    rounded = "" if smallest == largest == block else f"{n_blocks} blocks of {each} tasks, not of {block}."
    if nobody_idle:
        cells = fill_empty(cells, n_workers, n_tasks, random)
    parameters = {
        "n_workers": n_workers,
        "block": block,
        "within": within,
        "between": between,
        "n_tasks": n_tasks,
        "seed": seed,
        "nobody_idle": nobody_idle,
    }
    source = "Charles and Papailiopoulos (arXiv:1805.10378), stochastic block codes"
    encoding = matrix_of(cells, n_workers, n_tasks)
    return _code("stochastic_block", parameters, encoding, load, source).with_structure(rounded=rounded)


def _block_cells(
    n_workers: int, n_tasks: int, n_blocks: int, within: float, between: float, random: np.random.Generator
) -> IntArray:
    workers, tasks = random.permutation(n_workers), random.permutation(n_tasks)
    worker_block, task_block = blocks(n_workers, n_blocks), blocks(n_tasks, n_blocks)
    outside = bernoulli_cells(n_workers * n_tasks, between, random)
    row, column = np.divmod(outside, n_tasks)
    other = worker_block[row] != task_block[column]
    heights = np.bincount(worker_block, minlength=n_blocks)
    widths = np.bincount(task_block, minlength=n_blocks)
    ends = np.cumsum(heights * widths)  # the cells within blocks, numbered block after block
    inside = bernoulli_cells(int(ends[-1]), within, random)
    index = np.searchsorted(ends, inside, side="right")
    low, within_block = np.divmod(inside - (ends - heights * widths)[index], widths[index])
    inner_row = np.searchsorted(worker_block, np.arange(n_blocks))[index] + low
    inner_column = np.searchsorted(task_block, np.arange(n_blocks))[index] + within_block
    rows = workers[np.concatenate([row[other], inner_row])]
    columns = tasks[np.concatenate([column[other], inner_column])]
    return np.sort(rows * n_tasks + columns)


def _sizes(n_workers: int, load: float, n_tasks: int | None) -> tuple[int, int, float]:
    n_workers, n_tasks = workers_and_tasks(n_workers, n_tasks)
    if not 0 < real(load) <= n_tasks:
        raise invalid("load", f"must be positive and at most the number of tasks, {n_tasks}", load)
    return n_workers, n_tasks, load


def _code(
    name: str, parameters: Mapping[str, object], encoding: SparseMatrix, load: float, source: str
) -> GradientCode:
    structure = Structure(decoder="least_squares", mean_load=float(load))
    return one_message_code(
        name=name, parameters=parameters, encoding=encoding, tolerance=None, source=source, structure=structure
    )
