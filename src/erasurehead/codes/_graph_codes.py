"""Graph codes: workers are edges, tasks are vertices, and connected components are decoded one by one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import count

import numpy as np

from erasurehead._internal.arrays import IntArray
from erasurehead.codes._assemble import from_rows, generator_of
from erasurehead.codes._base import GradientCode, one_message_code
from erasurehead.codes._random_graphs import is_connected, random_regular_edges, sides
from erasurehead.codes._structure import Structure
from erasurehead.errors import check_count, check_size, invalid

_SOURCE = "Glasgow and Wootters (arXiv:2006.09638), graph-based assignment"


def graph_code(n_workers: int, replication: int, *, seed: int = 0) -> GradientCode:
    """Each worker holds the two tasks at the ends of an edge of a random regular graph.

    Arguments:
        n_workers: number of workers: edges. There are 2 n_workers / replication tasks: vertices.
        replication: workers per task: the degree d, at least 3; a divisor of 2 n_workers.
        seed: seed of the graph and of the order of its vertices. Disconnected and bipartite draws are redrawn.

    Structure:
        decoder: `"graph"`; edges.

    Guarantees: exact when all workers answer, and as long as every task lies on a component of answering workers that
        has an odd cycle. If workers straggle independently with probability p, the residual per task is of the order
        p^replication, as for repetition. Any s stragglers leave at most n_tasks * x * s / (n_workers - s + x * s)
        where x = `code.spectrum.ratio` is (d + lambda_2) / (2 d), with the graph's second largest eigenvalue lambda_2:
        about 1/2 or more, and so far worse than for an expander whose vertices are workers.
    Choose it: for huge numbers of workers with load 2, when both random and adversarial stragglers occur: optimal
        decoding takes time proportional to the arrivals.
    Raises:
        InvalidArgument: if no such graph exists.

    >>> code = graph_code(30, replication=3)
    >>> code.n_tasks, code.load, set(code.replication.tolist())
    (20, 2, {3})
    """
    n_workers = check_size("n_workers", n_workers, at_least=6)
    replication = check_count("replication", replication, at_least=3, at_most=n_workers)
    n_tasks = 2 * n_workers // replication
    if 2 * n_workers % replication or replication >= n_tasks:
        raise invalid(
            "replication",
            f"must divide 2 n_workers = {2 * n_workers} and be less than the quotient",
            replication,
            f"use {_nearest(n_workers, replication)}",
        )
    random = generator_of(seed)
    for _ in range(100):
        edges = random.permutation(n_tasks)[random_regular_edges(n_tasks, replication, random)]
        if sides(n_tasks, edges) is None:
            return _code("graph_code", {"n_workers": n_workers, "replication": replication, "seed": seed}, edges)
    raise invalid("seed", "must bring one graph in 100 draws that is not bipartite", seed, "try another")


def edge_code(edges: Sequence[Sequence[int]] | IntArray) -> GradientCode:
    """The graph code of a graph of your own: one worker per edge.

    Arguments:
        edges: the two tasks of each worker, which must differ, numbered from 0 without gaps; shape (n_workers, 2).

    Structure:
        decoder: `"graph"`; edges.

    Guarantees: exact when all workers answer, if every connected part has an odd cycle or equally many tasks on both
        sides.
    Choose it: for a vertex-transitive graph (as the source's theorem requires), or where the network determines which
        workers are near each other.
    Raises:
        InvalidArgument: if edges are not pairs, one is a loop, numbers have a gap, or a part can never be decoded.

    >>> edge_code([[0, 1], [1, 2], [2, 0]]).tolerance
    0
    """
    try:
        pairs = np.array(edges)
    except ValueError:
        raise invalid("edges", "must be pairs of whole numbers, one a worker", edges) from None
    if pairs.ndim != 2 or pairs.shape[1:] != (2,) or not len(pairs) or not np.issubdtype(pairs.dtype, np.integer):
        raise invalid("edges", "must be pairs of whole numbers, one a worker", f"an array of shape {pairs.shape}")
    pairs = pairs.astype(np.int64)
    if (pairs[:, 0] == pairs[:, 1]).any():
        loop = int(np.flatnonzero(pairs[:, 0] == pairs[:, 1])[0])
        raise invalid("edges", "must join two different tasks", pairs[loop].tolist(), f"look at edge {loop}")
    if pairs.min() < 0 or not np.bincount(pairs.ravel()).all():
        raise invalid("edges", "must name the tasks 0, 1, 2, ... without gaps", np.unique(pairs)[:10].tolist())
    n_tasks = int(pairs.max()) + 1
    if not is_connected(n_tasks, pairs):
        raise invalid("edges", "must connect all tasks", f"a graph of {n_tasks} tasks in several parts")
    side = sides(n_tasks, pairs)
    if side is not None and 2 * int(side.sum()) != n_tasks:
        raise invalid(
            "edges",
            "must bring the sum of all tasks within reach",
            "a graph of two sides of different size without an odd cycle",
            "add an edge within one side",
        )
    return _code("edge_code", {"edges": pairs.tolist()}, pairs)


def _nearest(n_workers: int, replication: int) -> str:
    """Return a hint: which replication fits this number of workers, and which number of workers this replication."""

    def fits(workers: int, degree: int) -> bool:
        return 2 * workers % degree == 0 and 2 * workers > degree * degree

    degrees = [degree for degree in range(3, math.isqrt(2 * n_workers) + 1) if fits(n_workers, degree)]
    steps = (step for distance in count(1) for step in (-distance, distance))
    workers = next(n_workers + step for step in steps if n_workers + step > 0 and fits(n_workers + step, replication))
    if not degrees:
        return f"n_workers={workers}"
    return f"replication={min(degrees, key=lambda d: (abs(d - replication), d))} or n_workers={workers}"


def _code(name: str, parameters: dict[str, object], edges: IntArray) -> GradientCode:
    n_workers = len(edges)
    n_tasks = int(edges.max()) + 1
    return one_message_code(
        name=name,
        parameters=parameters,
        encoding=from_rows(edges.ravel(), np.full(n_workers, 2), n_tasks),
        tolerance=0,
        source=_SOURCE,
        structure=Structure(decoder="graph", edges=edges),
    )
