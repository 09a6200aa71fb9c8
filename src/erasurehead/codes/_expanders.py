"""Codes from random regular and expander graphs: approximate, and robust against adversaries."""

from __future__ import annotations

import math

import numpy as np

from erasurehead._internal.arrays import IntArray
from erasurehead.codes._assemble import equal_shares, from_rows, generator_of
from erasurehead.codes._base import GradientCode, one_message_code
from erasurehead.codes._exactness import MOST_CHECKED
from erasurehead.codes._random_graphs import biregular_columns, is_connected, neighbours, random_regular_edges
from erasurehead.codes._structure import Structure
from erasurehead.errors import InvalidArgument, check_count, check_positive, check_size, invalid

_DRAWS = 20


def regular(n_workers: int, load: int, n_tasks: int | None = None, *, seed: int = 0) -> GradientCode:
    """Every worker holds equally many tasks, and every task is on equally many workers, at random.

    Arguments:
        n_workers: number of workers.
        load: tasks per worker (the paper's s), at least 2.
        n_tasks: number of tasks, a divisor of n_workers * load; `n_workers` if not given.
        seed: seed of the assignment. Disconnected draws are redrawn, at most 20 times.

    Structure:
        decoder: `"least_squares"`; mean_load.

    Guarantees: exact when all workers answer. With s stragglers, whichever they are, the residual is at most
        n_tasks * x * s / (n_workers - s + x * s), where x = `code.spectrum.ratio`. For large random draws
        that is close to (sqrt(load - 1) + sqrt(d - 1))^2 / (load d), where d = n_workers * load / n_tasks is the
        replication: 4 (load - 1) / load^2 for as many tasks as workers.
    Choose it: when stragglers may be correlated or chosen by an adversary, and an approximate gradient will do.
    Raises:
        InvalidArgument: if no such assignment exists, or every draw was disconnected.

    >>> code = regular(60, load=5)
    >>> set(code.loads.tolist()), set(code.replication.tolist())
    ({5}, {5})
    """
    n_workers = check_size("n_workers", n_workers, at_least=2)
    n_tasks = n_workers if n_tasks is None else check_size("n_tasks", n_tasks, at_least=2)
    load = check_count("load", load, at_least=2, at_most=n_tasks)
    replication = equal_shares(n_workers, load, n_tasks)
    if replication < 2:
        raise invalid("load", "must put every task on at least 2 workers", load, f"use load={2 * load} or uncoded")
    columns = _connected_columns(n_workers, load, n_tasks, replication, seed)
    return one_message_code(
        name="regular",
        parameters={"n_workers": n_workers, "load": load, "n_tasks": n_tasks, "seed": seed},
        encoding=from_rows(columns, np.full(n_workers, load), n_tasks),
        tolerance=0,
        source="Charles, Papailiopoulos, Ellenberg (arXiv:1711.06771), s-regular codes",
        structure=Structure(decoder="least_squares", mean_load=float(load)),
    )


def expander(n_workers: int, load: int, *, seed: int = 0, slack: float = 1.1) -> GradientCode:
    """Worker i holds its neighbours' tasks in a random regular graph whose spectral gap is checked.

    Arguments:
        n_workers: number of workers and of tasks, the vertices: at most 100,000.
        load: tasks per worker: the degree d, at least 3; n_workers * load must be even.
        seed: seed of the graph.
        slack: the second eigenvalue must be at most `slack * 2 * sqrt(d - 1)` (1 is a Ramanujan graph); a draw that
            misses it, or is bipartite or disconnected, is redrawn, at most 20 times.

    Structure:
        decoder: `"least_squares"`; mean_load, second_eigenvalue.

    Guarantees: exact when all workers answer. With s stragglers, whichever they are, one-step decoding leaves at most
        (second_eigenvalue / load)^2 * n * s / (n - s), and optimal decoding at most n x s / (n - s + x s) with
        x = (second_eigenvalue / load)^2.
    Choose it: like `regular`, when the bound must be known and guaranteed.
    Raises:
        InvalidArgument: if no such graph exists, or no draw met the slack.

    The source divides the adjacency matrix by d; here its entries stay one, so that the one-step weight is
    n / ((n - s) d). Its diagonal is zero: worker i does not hold task i.

    >>> code = expander(50, load=3)
    >>> code.structure.second_eigenvalue <= 1.1 * 2 * 2**0.5
    True
    """
    n_workers = check_count("n_workers", n_workers, 4, MOST_CHECKED)
    load = check_count("load", load, at_least=3, at_most=n_workers - 1)
    if n_workers * load % 2:
        near = load + 1 if load + 1 < n_workers else load - 1
        rule = f"times {n_workers} workers must be even, as every edge has two ends"
        raise invalid("load", rule, load, f"use load={near} or n_workers={n_workers + 1}")
    check_positive("slack", slack)
    random, bound, best = generator_of(seed), slack * 2 * math.sqrt(load - 1), math.inf
    for _ in range(_DRAWS):
        columns = neighbours(n_workers, random_regular_edges(n_workers, load, random))
        code = _adjacency_code(
            "expander",
            {"n_workers": n_workers, "load": load, "seed": seed, "slack": slack},
            columns,
            "Raviv, Tamo, Tandon, Dimakis (arXiv:1707.03858), codes from expander graphs",
        )
        second = code.structure.second_eigenvalue or 0.0
        if second <= bound:
            return code
        best = min(best, second)
    raise InvalidArgument(
        "slack",
        f"must be reached by one of {_DRAWS} random {load}-regular graphs of {n_workers} vertices",
        slack,
        f"the smallest second eigenvalue was {best:.6g}, and at most {bound:.6g} is asked for; "
        f"use slack={best / (2 * math.sqrt(load - 1)) + 0.001:.3f} or another seed",
    )


def margulis(side: int) -> GradientCode:
    """The expander of Margulis, Gabber and Galil on a square grid: 8 edges per vertex, no randomness.

    Arguments:
        side: side of the grid, from 2 to 1,000; there are side^2 workers and tasks.

    Structure:
        decoder: `"least_squares"`; mean_load (8, the sum of a row), second_eigenvalue (at most 5 sqrt(2) = 7.07).

    Guarantees: as for `expander`, with 8 in place of the load. Vertices that are neighbours several times count as
        often (a coefficient of 2, on sides 3 to 5 up to 4), so that on small grids workers hold fewer tasks: 3, 5 and 6
        at most for sides 2, 3 and 4.
    Choose it: when an expander must be the same everywhere without a seed. Random ones have a larger gap.

    >>> code = margulis(5)
    >>> code.n_workers, code.structure.second_eigenvalue < 7.08
    (25, True)
    """
    side = check_count("side", side, 2, 1_000)  # with a million workers
    x, y = np.divmod(np.arange(side**2), side)
    along_x = [(x + sign * (2 * y + odd)) % side * side + y for sign in (1, -1) for odd in (0, 1)]
    along_y = [x * side + (y + sign * (2 * x + odd)) % side for sign in (1, -1) for odd in (0, 1)]
    source = "Margulis 1973, Gabber and Galil 1981; used in Raviv et al. (arXiv:1707.03858)"
    return _adjacency_code("margulis", {"side": side}, np.stack(along_x + along_y, axis=1), source)


def _adjacency_code(name: str, parameters: dict[str, object], columns: IntArray, source: str) -> GradientCode:
    n_workers, degree = len(columns), len(columns[0])
    code = one_message_code(
        name=name,
        parameters=parameters,
        encoding=from_rows(columns.ravel(), np.full(n_workers, degree), n_workers),
        tolerance=0,
        source=source,
        structure=Structure(mean_load=float(degree)),
    )
    return code.with_structure(second_eigenvalue=code.spectrum.second)


def _connected_columns(n_workers: int, load: int, n_tasks: int, replication: int, seed: int) -> IntArray:
    random = generator_of(seed)
    if load == replication == 2:
        return _circle(n_workers, random)
    rows = np.repeat(np.arange(n_workers, dtype=np.int64), load)
    for _ in range(_DRAWS):
        columns = biregular_columns(np.full(n_workers, load), np.full(n_tasks, replication), random)
        if is_connected(n_workers + n_tasks, np.stack([rows, columns + n_workers], axis=1)):
            return columns
    raise InvalidArgument(
        "seed",
        "must give a connected assignment",
        seed,
        "try another seed or a larger load",
        sentence=f"No connected assignment of {n_tasks} tasks to {n_workers} workers with load {load} came in {_DRAWS}"
        " draws; try another seed or a larger load.",
    )


def _circle(n_workers: int, random: np.random.Generator) -> IntArray:
    # Two tasks per worker and two workers per task: the only connected assignment is a circle, in random order.
    workers, tasks = random.permutation(n_workers), random.permutation(n_workers)
    columns = np.empty((n_workers, 2), dtype=np.int64)
    columns[workers] = np.stack([tasks, np.roll(tasks, -1)], axis=1)
    return columns.ravel()
