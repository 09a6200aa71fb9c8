"""Codes with shorter messages: gradients are cut into pieces, so that more load saves bytes."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Literal

import numpy as np

from erasurehead._internal.arrays import Array, IntArray, real_numbers
from erasurehead.codes._assemble import blocks, even_sizes, from_rows, generator_of, ranges, windows, workers_and_tasks
from erasurehead.codes._base import GradientCode
from erasurehead.codes._exact_weights import dense_weights
from erasurehead.codes._linear_codes import erasures_tolerated, gaussian_mds, parity_check, repetition
from erasurehead.codes._rounded_tolerance import certified
from erasurehead.codes._structure import Structure
from erasurehead.errors import InvalidArgument, check_count, check_size, invalid

_LARGEST_CYCLIC = 300

LinearCode = Literal["mds", "parity", "repetition"]


def communication_efficient_cyclic(
    n_workers: int,
    n_pieces: int,
    stragglers: int | None = None,
    load: int | None = None,
    generator: Sequence[Sequence[float]] | Array | None = None,
    *,
    seed: int = 0,
) -> GradientCode:
    """Cyclic assignment; every message is as long as one of `n_pieces` pieces of a gradient.

    Worker i holds tasks i, i+1, ... around the circle. All workers must cut the gradient at the same places.

    Arguments:
        n_workers: number of workers and of tasks (n), at most 300.
        n_pieces: number of pieces into which gradients are cut (m).
        stragglers: number of stragglers to tolerate (s); give this or `load`, or both.
        load: tasks per worker (d), at least stragglers + n_pieces: no code works with less.
        generator: generator of a linear code of your own, shape (n - load + n_pieces, n), such as a Vandermonde matrix;
            Gaussian by default, which makes the code MDS.
        seed: seed of the Gaussian generator.

    Structure:
        decoder: `"least_squares"`; amplification, amplification_bound, hardest.

    Guarantees: exact for any set of at most load - n_pieces stragglers; with a generator of your own, of fewer than
        its minimum distance.
    Choose it: when all workers must be treated alike and messages are float64; rounding grows quickly with n (relative
        error 1e-10 at 30 workers), so that `communication_efficient_groups` is nearly always better.
    Raises:
        InvalidArgument: if load is below stragglers + n_pieces, there are too many workers, the generator does not fit,
            or there are more stragglers than float64 allows.

    >>> code = communication_efficient_cyclic(10, n_pieces=2, stragglers=2)
    >>> code.load, code.encoding.shape
    (4, (10, 20))
    """
    n_workers = check_size("n_workers", n_workers)
    if n_workers > _LARGEST_CYCLIC:
        hint = "use communication_efficient_groups"
        raise invalid("n_workers", f"must be at most {_LARGEST_CYCLIC}: rounding grows with it", n_workers, hint)
    n_pieces = check_count("n_pieces", n_pieces, at_most=n_workers)
    load = _trade_off(stragglers, load, n_pieces, n_workers)
    dimension = n_workers - load + n_pieces  # any that many messages of an MDS code suffice
    if generator is None:
        base, tolerance = generator_of(seed).standard_normal((dimension, n_workers)), load - n_pieces
    else:
        base = _own_matrix(generator)
        if base.shape != (dimension, n_workers):
            rule = f"must have shape (n - load + n_pieces, n) = {(dimension, n_workers)}"
            raise invalid("generator", rule, base.shape)
        tolerance = erasures_tolerated(base)
        if tolerance < (stragglers or 0):
            hint = f"its minimum distance is {tolerance + 1}"
            raise invalid("stragglers", "must be less than the generator's minimum distance", stragglers, hint)
    encoding = _window_encoding(base, load, n_pieces)
    code = GradientCode(
        name="communication_efficient_cyclic",
        parameters={
            "n_workers": n_workers,
            "n_pieces": n_pieces,
            "load": load,
            "generator": None if generator is None else base.tolist(),
            "seed": seed,
        },
        encoding=from_rows(*_window(n_workers, load, n_pieces), n_workers * n_pieces, encoding.ravel()),
        owner=np.arange(n_workers),
        n_workers=n_workers,
        n_tasks=n_workers,
        n_pieces=n_pieces,
        tolerance=tolerance,
        source="Ye and Abbe (arXiv:1802.03475), section 3, with a Gaussian instead of a Vandermonde matrix",
        structure=Structure(decoder="least_squares"),
    )
    hint = f"use communication_efficient_groups({n_workers}, load={load}, n_pieces={n_pieces}), or another seed"
    return certified(code, dense_weights(code), hint)


def communication_efficient_groups(
    n_workers: int,
    load: int,
    n_pieces: int | None = None,
    generator: LinearCode | Sequence[Sequence[float]] | Array = "mds",
    n_tasks: int | None = None,
    *,
    seed: int = 0,
) -> GradientCode:
    """Groups that hold the same tasks; within each, a linear code over the pieces of the group's sum.

    The code's length is the group's number of workers, its dimension the number of pieces (by which messages are
    shorter), and its minimum distance, minus one, the number of stragglers tolerated in each group.

    Arguments:
        n_workers: number of workers.
        load: tasks per worker, at most (d); there are ceil(n_tasks / load) groups, as in `fractional_repetition`.
        n_pieces: number of pieces into which gradients are cut (m), at most the size of the smallest group; not needed
            where the generator implies it.
        generator: `"mds"` (Gaussian), `"parity"` (one straggler), `"repetition"` (one piece), or a matrix of your own,
            shape (n_pieces, workers of a group), in which case all groups must have the same size.
        n_tasks: number of tasks; `n_workers` if not given.
        seed: seed of Gaussian generators.

    Structure:
        decoder: `"pieces_by_group"`; generators, position.

    Guarantees: exact as soon as every group has enough messages (with `"mds"` any `n_pieces`), so for any set of at
        most (minimum distance - 1) stragglers.
    Choose it: when bytes are the bottleneck. A group decodes by itself, so rounding stays small even in float32: a
        relative error of the gradient of 1e-7 to 1e-4 for most sets of stragglers, the more the more pieces (8e-5
        measured at 64 workers in groups of 32 with 16 pieces, of which the hardest set that was found amplifies
        rounding 50,000 times: float32 is refused there).
    Raises:
        InvalidArgument: if groups are too small for the pieces, or the generator does not fit them.

    >>> code = communication_efficient_groups(12, load=4, n_pieces=2)
    >>> code.tolerance, code.n_pieces, code.load
    (2, 2, 4)
    """
    n_workers, n_tasks = workers_and_tasks(n_workers, n_tasks)
    load = check_count("load", load, at_most=n_tasks)
    n_groups = -(-n_tasks // load)
    if n_groups > n_workers:
        raise invalid("load", f"must leave no more groups than the {n_workers} workers", load)
    widths = even_sizes(n_workers, n_groups)
    by_width = {
        int(width): _generator(generator, n_pieces, int(width), seed) for width in np.unique(widths)[::-1].tolist()
    }
    pieces = len(by_width[int(widths[0])])
    for width, table in by_width.items():
        if len(table) != pieces:
            raise invalid(
                "generator",
                f"must cut gradients alike in all groups, of {int(widths[-1])} and {int(widths[0])} workers",
                f"{generator!r}, with {len(table)} pieces for {width} workers and {pieces} for {int(widths[0])}",
                f"use generator='mds' with n_pieces={int(widths[-1]) - 1 or 1}, or as many workers in every group",
            )
    groups = blocks(n_workers, n_groups)
    position = np.arange(n_workers) - np.searchsorted(groups, groups)
    encoding = _group_encoding(groups, position, widths, even_sizes(n_tasks, n_groups), by_width)
    parameters = {
        "n_workers": n_workers,
        "load": load,
        "n_pieces": pieces,
        "generator": generator if isinstance(generator, str) else np.asarray(generator).tolist(),
        "n_tasks": n_tasks,
        "seed": seed,
    }
    return GradientCode(
        name="communication_efficient_groups",
        parameters=parameters,
        encoding=from_rows(*encoding[:2], n_tasks * pieces, encoding[2]),
        owner=np.arange(n_workers),
        n_workers=n_workers,
        n_tasks=n_tasks,
        n_pieces=pieces,
        groups=groups,
        tolerance=min(_tolerated(generator, table) for table in by_width.values()),
        source="Kadhe, Koyluoglu, Ramchandran (arXiv:2005.07184), communication-efficient codes from linear codes",
        structure=Structure(
            decoder="pieces_by_group",
            generators=tuple(by_width[int(width)] for width in widths.tolist()),
            position=position,
        ),
    )


def _trade_off(stragglers: int | None, load: int | None, n_pieces: int, n_workers: int) -> int:
    if stragglers is None and load is None:
        sentence = f"Give stragglers or load (load = stragglers + n_pieces = stragglers + {n_pieces})."
        raise InvalidArgument("stragglers", "must be given, or load", sentence=sentence)
    least = n_pieces + (0 if stragglers is None else check_count("stragglers", stragglers, at_least=0))
    load = least if load is None else check_count("load", load)
    if load < least:
        rule = f"must be at least stragglers + n_pieces = {least}: no code does with less"
        raise invalid("load", rule, load, f"use load={least}, fewer stragglers or fewer pieces")
    if load > n_workers:
        raise invalid("load", f"must be at most the number of tasks, {n_workers}", load, "use fewer pieces")
    return load


def _window(n_workers: int, load: int, n_pieces: int) -> tuple[IntArray, IntArray]:
    tasks = windows(n_workers, load)
    columns = (tasks[:, :, None] * n_pieces + np.arange(n_pieces)).ravel()
    return columns, np.full(n_workers, load * n_pieces, dtype=np.int64)


def _window_encoding(base: Array, load: int, n_pieces: int) -> Array:
    # For task j, C_j = [I; R_j] is such that base.T @ C_j vanishes for every worker that does not hold it; then the
    # first n_pieces unknowns of any `dimension` messages are the pieces of the sum. Shape (n, load, n_pieces).
    dimension, n_workers = len(base), len(base[0])
    encoding = np.empty((n_workers, load, n_pieces))
    for task in range(n_workers):
        holders = (task - np.arange(load)) % n_workers
        without = (task + 1 + np.arange(n_workers - load)) % n_workers
        table = np.zeros((dimension, n_pieces))
        table[:n_pieces] = np.eye(n_pieces)
        if len(without):
            rows = base[:, without].T
            solution = _solve(rows[:, n_pieces:], -rows[:, :n_pieces])
            if solution is None:
                rule = f"must have independent columns below row {n_pieces} for the workers without task {task}"
                raise invalid("generator", rule, "a singular matrix", "use a Gaussian or Vandermonde one")
            table[n_pieces:] = solution
        encoding[holders, np.arange(load)] = base[:, holders].T @ table
    return encoding / np.abs(encoding).max(axis=(1, 2), keepdims=True)


def _solve(matrix: Array, right: Array) -> Array | None:
    """Return the solution, or None where the matrix is singular to working precision."""
    from scipy import linalg  # also estimates the condition, at a fraction of the solution's cost

    with warnings.catch_warnings():
        warnings.simplefilter("error", linalg.LinAlgWarning)
        try:
            return np.asarray(linalg.solve(matrix, right), dtype=np.float64)
        except (linalg.LinAlgError, linalg.LinAlgWarning):
            return None


def _generator(
    generator: LinearCode | Sequence[Sequence[float]] | Array, n_pieces: int | None, width: int, seed: int
) -> Array:
    """Return the generator for groups of `width` workers, checked."""
    if not isinstance(generator, str):
        table = _own_matrix(generator)
    elif generator == "parity":
        table = parity_check(width) if width > 1 else np.ones((1, 1))
    elif generator == "repetition":
        table = repetition(width)
    elif generator == "mds":
        if n_pieces is None:
            raise invalid("n_pieces", "must be given with generator='mds'", n_pieces)
        n_pieces = check_count("n_pieces", n_pieces)
        if n_pieces > width:
            rule = f"must be at most the {width} workers of the smallest group"
            raise invalid("n_pieces", rule, n_pieces, "use a larger load or fewer pieces")
        table = gaussian_mds(n_pieces, width, generator_of(seed))
    else:
        raise invalid("generator", "must be 'mds', 'parity', 'repetition' or a matrix", generator)
    if table.shape[1] != width:
        raise invalid("generator", f"must have a column for each of the {width} workers of a group", table.shape)
    if n_pieces is not None and len(table) != n_pieces:
        raise invalid("n_pieces", f"must be the generator's number of rows, {len(table)}", n_pieces)
    if not table.any(axis=0).all():
        empty = int(np.flatnonzero(~table.any(axis=0))[0])
        raise invalid("generator", "must have no empty column: that worker would send nothing", f"column {empty}")
    return table


def _own_matrix(generator: Sequence[Sequence[float]] | Array) -> Array:
    table = real_numbers("generator", generator).copy()
    if table.ndim != 2 or not np.isfinite(table).all():
        raise invalid("generator", "must be a finite matrix", f"an array of shape {table.shape}")
    return table


def _tolerated(generator: LinearCode | Sequence[Sequence[float]] | Array, table: Array) -> int:
    pieces, width = table.shape
    return width - pieces if isinstance(generator, str) else erasures_tolerated(table)


def _group_encoding(
    groups: IntArray, position: IntArray, widths: IntArray, tasks_each: IntArray, by_width: dict[int, Array]
) -> tuple[IntArray, IntArray, Array]:
    # Worker t of a group sends sum_u G[u, t] * (piece u of the sum of the group's tasks).
    pieces = len(by_width[int(widths[0])])
    own = np.empty((len(groups), pieces))
    for width, table in by_width.items():
        members = widths[groups] == width
        own[members] = table[:, position[members]].T
    first, count = (np.cumsum(tasks_each) - tasks_each)[groups], tasks_each[groups]
    values = own[np.repeat(np.arange(len(groups)), count)].ravel()
    return ranges(first * pieces, count * pieces), count * pieces, values
