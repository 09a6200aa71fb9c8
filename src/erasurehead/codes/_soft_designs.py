"""Sparse Gaussian codes: random coefficients whose moments are those of a balanced design, for sizes that have none."""

from __future__ import annotations

import math

import numpy as np

from erasurehead._internal.arrays import Array, IntArray
from erasurehead.codes._assemble import generator_of
from erasurehead.codes._base import GradientCode, one_message_code
from erasurehead.codes._bernoulli import bernoulli_cells, check_probability, fill_empty, matrix_of
from erasurehead.codes._structure import Structure
from erasurehead.errors import check_size, invalid, real


def soft_design(
    n_workers: int,
    load: float,
    density: float,
    common: float | None = None,
    n_tasks: int | None = None,
    *,
    seed: int = 0,
) -> GradientCode:
    """Sparse Gaussian code: coins decide who holds what; correlated Gaussian coefficients imitate a design's overlaps.

    A worker holds each task with probability `density`. In expectation a row adds up to `load`, as does its squared
    norm, and two rows have the inner product `common`.

    Arguments:
        n_workers: number of workers (N).
        load: expected sum of a row (L), positive; the tasks that a worker computes are n_tasks * density.
        density: probability that a worker holds a task (gamma), in (0, 1].
        common: expected inner product of two rows (lambda); by default the least possible.
        n_tasks: number of tasks (K); `n_workers` if not given.
        seed: seed of coins and coefficients. A worker without a task, or a task without a worker, gets one at random.

    Structure:
        decoder: `"least_squares"`; mean_load (L), common (lambda).

    Guarantees: none for any one draw. With s stragglers and the equal weights c = L / (L + lambda (N - s - 1)) the
        expected residual is K - L^2 (N - s) / (L + lambda (N - s - 1)).
    Choose it: where a balanced design is wanted and none of that size exists; decode by least squares, which leaves
        much less than equal weights.
    Raises:
        InvalidArgument: if no coefficients have such moments; the message says which bound is violated.

    The source distinguishes this code from the soft BIBD of Sakorikar and Wang (arXiv:2105.05231), which is not here.

    With n_tasks = n_workers and a true design's lambda = L (L - 1) / (K - 1), only density 1 would do: a sparse soft
    design has a larger lambda.

    >>> round(soft_design(24, load=6, density=0.35).structure.common, 3)
    1.474
    """
    n_workers = check_size("n_workers", n_workers, at_least=2)
    n_tasks = n_workers if n_tasks is None else check_size("n_tasks", n_tasks)
    density = check_probability("density", density, positive=True)
    load, common = _check_moments(n_workers, n_tasks, load, density, common)
    random = generator_of(seed)
    cells = fill_empty(bernoulli_cells(n_workers * n_tasks, density, random), n_workers, n_tasks, random)
    spread = (load * density / n_tasks - common / n_tasks) / density**2  # the part of the variance not shared
    shared = (common / n_tasks - load**2 / n_tasks**2) / density**2  # the covariance of two workers' coefficients
    mean = load / (n_tasks * density)
    along = max(spread + n_workers * shared, 0.0)  # variance along (1, ..., 1); below zero by rounding only
    values = mean + _correlated(cells % n_tasks, n_workers, n_tasks, max(spread, 0.0), along, random)
    return one_message_code(
        name="soft_design",
        parameters={
            "n_workers": n_workers,
            "load": load,
            "density": density,
            "common": common,
            "n_tasks": n_tasks,
            "seed": seed,
        },
        encoding=matrix_of(cells, n_workers, n_tasks, values),
        tolerance=None,
        source="Jiang, Zhang, Wang (arXiv:2604.10374), sparse Gaussian gradient code",
        structure=Structure(decoder="least_squares", mean_load=load, common=common),
    )


def _check_moments(
    n_workers: int, n_tasks: int, load: float, density: float, common: float | None
) -> tuple[float, float]:
    if not 0 < (tasks := real(load)) <= n_tasks * density:
        hint = f"use density={math.ceil(tasks / n_tasks * 1e4) / 1e4:g}" if 0 < tasks <= n_tasks else ""
        raise invalid("load", f"must lie in (0, n_tasks * density = {n_tasks * density:g}]", load, hint)
    least = load * (n_workers * load / n_tasks - density) / (n_workers - 1)
    most = load * density
    if common is None:
        return load, max(least, 0.0)
    tiny = 1e-12 * load
    if math.isnan(real(common)):
        raise invalid("common", "must be a number", common)
    if not least - tiny <= common <= most + tiny:
        needed = n_workers * load / n_tasks - (n_workers - 1) * common / load
        hint = f"use common={least:.6g}" if common < least else f"use common={most:.6g}"
        if common < least and needed <= 1:
            hint += f" or density={math.ceil(needed * 1e4) / 1e4:g}"
        raise invalid(
            "common", f"must lie in [{least:.6g}, {most:.6g}] for the covariance to be positive", common, hint
        )
    return load, common


def _correlated(
    tasks: IntArray, n_workers: int, n_tasks: int, spread: float, along: float, random: np.random.Generator
) -> Array:
    # For each task an equicorrelated Gaussian vector over all workers, of which only the held entries are drawn: the
    # others enter through the mean alone.
    own = random.standard_normal(len(tasks))
    counts = np.bincount(tasks, minlength=n_tasks)
    rest = np.sqrt(n_workers - counts) * random.standard_normal(n_tasks)
    mean = (np.bincount(tasks, weights=own, minlength=n_tasks) + rest) / n_workers
    return math.sqrt(spread) * (own - mean[tasks]) + math.sqrt(along) * mean[tasks]
