"""Stochastic gradient coding and batched coupons: random assignments with a known expectation."""

from __future__ import annotations

import numpy as np

from erasurehead._internal.arrays import IntArray
from erasurehead.codes._assemble import blocks, even_sizes, from_rows, generator_of, ranges, workers_and_tasks
from erasurehead.codes._base import GradientCode, one_message_code
from erasurehead.codes._bernoulli import check_probability
from erasurehead.codes._random_graphs import biregular_columns
from erasurehead.codes._structure import Structure
from erasurehead.errors import InvalidArgument, check_count, invalid

_DRAWS = 100


def stochastic_gradient(
    n_workers: int, replication: int, straggling: float, n_tasks: int | None = None, *, seed: int = 0
) -> GradientCode:
    """SGC: each task on `replication` random workers, coefficients 1/replication, fixed weights 1/(1 - straggling).

    Arguments:
        n_workers: number of workers.
        replication: workers per task (the paper's d).
        straggling: probability that a worker straggles, the same for all (p), in [0, 1).
        n_tasks: number of tasks; `n_workers` if not given. Loads differ by at most one.
        seed: seed of the assignment.

    Structure:
        decoder: `"fixed_weights"`; weights, straggling.

    Guarantees: the fixed-weight sum is unbiased when workers straggle independently with that probability, and its
        residual is n_tasks * straggling / (replication * (1 - straggling)) on average.
    Choose it: for stochastic gradient descent that must be unbiased without decoding.
    Raises:
        InvalidArgument: if replication exceeds n_workers, or there are too few copies for every worker to hold a task.

    The source requires that any two workers share about equally many tasks (pairwise balance). Here loads and
    replication are equal, loads up to one, and the overlaps of pairs are left to chance.

    >>> code = stochastic_gradient(20, replication=3, straggling=0.2)
    >>> set(code.loads.tolist()), float(code.structure.weights[0])
    ({3}, 1.25)
    """
    n_workers, n_tasks = workers_and_tasks(n_workers, n_tasks)
    replication = check_count("replication", replication, at_most=n_workers)
    if check_probability("straggling", straggling) == 1:
        raise invalid("straggling", "must be less than 1: somebody has to answer", straggling)
    copies = n_tasks * replication
    if copies < n_workers:
        raise invalid(
            "replication",
            f"times {n_tasks} tasks must be at least the {n_workers} workers, so that nobody is idle",
            replication,
            f"use replication={-(-n_workers // n_tasks)}",
        )
    loads = even_sizes(copies, n_workers)
    columns = biregular_columns(loads, np.full(n_tasks, replication), generator_of(seed))
    return one_message_code(
        name="stochastic_gradient",
        parameters={
            "n_workers": n_workers,
            "replication": replication,
            "straggling": straggling,
            "n_tasks": n_tasks,
            "seed": seed,
        },
        encoding=from_rows(columns, loads, n_tasks, np.full(copies, 1.0 / replication)),
        tolerance=0,
        source="Bitar, Wootters, El Rouayheb (arXiv:1905.05383), weights; random biregular assignment",
        structure=Structure(
            decoder="fixed_weights",
            weights=np.full(n_workers, 1.0 / (1.0 - straggling)),
            straggling=np.full(n_workers, float(straggling)),
        ),
    )


def batched_coupons(n_workers: int, load: int, n_tasks: int | None = None, *, seed: int = 0) -> GradientCode:
    """BCC: each worker picks one batch of tasks at random; done when every batch has been seen.

    Arguments:
        n_workers: number of workers.
        load: tasks per batch, at most (the paper's r); there are ceil(n_tasks / load) batches.
        n_tasks: number of tasks; `n_workers` if not given.
        seed: seed of the picks. Draws in which nobody holds some batch are redrawn, at most 100 times.

    Structure:
        decoder: `"groups"`: a batch's workers are its group.

    Guarantees: exact as soon as every batch has been seen, so for any set of at most (rarest batch - 1) stragglers.
        Among many workers, about N (1 + 1/2 + ... + 1/N) arrivals are needed for N batches.
    Choose it: where workers come and go and nobody can coordinate who holds what; otherwise `fractional_repetition`,
        which spreads the batches evenly.
    Raises:
        InvalidArgument: if the load exceeds n_tasks, or there are too few workers to see every batch.

    >>> code = batched_coupons(60, load=10)
    >>> int(code.groups.max()) + 1, code.replicas
    (6, True)
    """
    n_workers, n_tasks = workers_and_tasks(n_workers, n_tasks)
    load = check_count("load", load, at_most=n_tasks)
    n_batches = -(-n_tasks // load)
    picks = _picks(n_workers, n_batches, seed)
    sizes = even_sizes(n_tasks, n_batches)
    starts = np.searchsorted(blocks(n_tasks, n_batches), np.arange(n_batches))
    return one_message_code(
        name="batched_coupons",
        parameters={"n_workers": n_workers, "load": load, "n_tasks": n_tasks, "seed": seed},
        encoding=from_rows(ranges(starts[picks], sizes[picks]), sizes[picks], n_tasks),
        groups=picks,
        tolerance=int(np.bincount(picks).min()) - 1,
        source="Li, Mousavi Kalan, Avestimehr, Soltanolkotabi (arXiv:1710.09990), batched coupon's collector",
        structure=Structure(decoder="groups"),
    )


def _picks(n_workers: int, n_batches: int, seed: int) -> IntArray:
    random = generator_of(seed)
    for _ in range(_DRAWS):
        picks = random.integers(0, n_batches, n_workers)
        if len(np.unique(picks)) == n_batches:
            return picks
    needed = int(np.ceil(n_batches * (1.0 / np.arange(1, n_batches + 1)).sum()))
    raise InvalidArgument(
        "n_workers",
        f"must be enough to see all {n_batches} batches (about {needed} random picks)",
        n_workers,
        f"{_DRAWS} draws left a batch to nobody; use a larger load, more workers, or fractional_repetition",
    )
