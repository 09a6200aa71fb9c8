"""Cyclic MDS codes: exact, deterministic, and better conditioned than random coefficients."""

from __future__ import annotations

import numpy as np

from erasurehead.arrays import Array, IntArray
from erasurehead.codes.assemble import from_rows, stragglers_and_load
from erasurehead.codes.base import GradientCode
from erasurehead.codes.complex_rows import real_rows
from erasurehead.codes.cyclic import cyclic_repetition
from erasurehead.errors import check_count, invalid

_SOURCE = "Raviv, Tamo, Tandon, Dimakis (arXiv:1707.03858), cyclic MDS codes"


def cyclic_mds(n_workers: int, stragglers: int | None = None, load: int | None = None) -> GradientCode:
    """Every worker's coefficients are the same, shifted around the circle: a real cyclic MDS code.

    The coefficients are those of the polynomial whose roots are the `stragglers` powers of exp(2 pi i / n) next to -1.
    They are real where the run of roots is its own conjugate, that is where n - stragglers is odd.

    Arguments:
        n_workers: number of workers and of tasks (n).
        stragglers: how many stragglers must be borne; n - stragglers must be odd. Give this or `load`.
        load: tasks per worker, stragglers + 1; give this or `stragglers`.

    Labels:
        decoder: `"cyclic_mds"`; generator, roots, largest_coefficient.

    Guarantees: exact for any set of at most `stragglers` stragglers, at the least possible load for n tasks; the
        coefficients are positive, palindromic, and the same on every machine.
    Choose it: as the default exact cyclic code, where every worker must hold equally many tasks and repetition does
        not divide. Decoding is by least squares, and rounding grows with n: needs float64 messages from 20 workers on.
    Raises:
        InvalidArgument: n - stragglers is even, or the load exceeds the number of workers.

    >>> cyclic_mds(6, stragglers=3).labels["generator"].round(6).tolist()
    [1.0, 2.0, 2.0, 1.0]
    """
    n_workers = check_count("n_workers", n_workers)
    s, load = stragglers_and_load(stragglers, load, n_workers)
    if (n_workers - s) % 2 == 0:
        raise invalid(
            "stragglers",
            f"must leave an odd number of the {n_workers} workers for the coefficients to be real",
            s,
            f"use stragglers={s + 1} (load {s + 2}), or complex_cyclic_mds or cyclic_repetition with stragglers={s}",
        )
    generator = _sine_binomials(n_workers, s)
    columns = (np.arange(n_workers)[:, None] + np.arange(load)) % n_workers
    return GradientCode(
        name="cyclic_mds",
        parameters={"n_workers": n_workers, "stragglers": s},
        encoding=from_rows(columns.ravel(), np.full(n_workers, load), n_workers, np.tile(generator, n_workers)),
        owner=np.arange(n_workers),
        n_workers=n_workers,
        n_tasks=n_workers,
        tolerance=s,
        source=_SOURCE,
        labels={
            "decoder": "cyclic_mds",
            "generator": generator,
            "roots": _roots(n_workers, s),
            "largest_coefficient": float(generator.max()),
        },
    )


def complex_cyclic_mds(n_workers: int, stragglers: int | None = None, load: int | None = None) -> GradientCode:
    """The cyclic MDS code for any number of stragglers: complex coefficients, sent as two real messages a worker.

    Arguments:
        n_workers: number of workers and of tasks (n).
        stragglers: how many stragglers must be borne; give this or `load`.
        load: tasks per worker, stragglers + 1; give this or `stragglers`.

    Labels:
        decoder: `"least_squares"`; complex_part, roots, largest_coefficient.

    Guarantees: exact for any set of at most `stragglers` stragglers, at the least possible load for n tasks.
    Choose it: where n - stragglers is even and the coefficients must not be random. It sends twice as many bytes as
        `cyclic_repetition`.
    Raises:
        InvalidArgument: the load exceeds the number of workers.

    The source takes the roots w^1..w^s; any s neighbouring powers without w^0 do, and those next to -1 keep the
    decoding weights ten to a thousand times smaller.

    >>> code = complex_cyclic_mds(6, stragglers=2)
    >>> code.n_messages, code.load
    (12, 3)
    """
    n_workers = check_count("n_workers", n_workers)
    s, load = stragglers_and_load(stragglers, load, n_workers)
    roots = _roots(n_workers, s)
    middle = 2 * np.pi * float(roots.mean()) / n_workers if s else 0.0
    generator = _sine_binomials(n_workers, s) * (-np.exp(-1j * middle)) ** np.arange(load)
    columns = (np.arange(n_workers)[:, None] + np.arange(load)) % n_workers
    encoding, owner, part = real_rows(columns, np.tile(generator, (n_workers, 1)), n_workers)
    return GradientCode(
        name="complex_cyclic_mds",
        parameters={"n_workers": n_workers, "stragglers": s},
        encoding=encoding,
        owner=owner,
        n_workers=n_workers,
        n_tasks=n_workers,
        tolerance=s,
        source=_SOURCE,
        labels={
            "decoder": "least_squares",
            "roots": roots,
            "complex_part": part,
            "largest_coefficient": float(np.abs(generator).max()),
        },
    )


def exact_cyclic(n_workers: int, stragglers: int, seed: int = 0) -> GradientCode:
    """The cyclic code to use with one real message a worker: `cyclic_mds` where it exists, else `cyclic_repetition`.

    Arguments:
        n_workers: number of workers and of tasks.
        stragglers: how many stragglers must be borne.
        seed: of the random coefficients, where they are needed.

    Labels:
        as the chosen code's own.

    Guarantees: exact for any set of at most `stragglers` stragglers.
    Choose it: when any cyclic code will do.
    Raises:
        InvalidArgument: more stragglers than workers.

    >>> exact_cyclic(6, 3).name, exact_cyclic(6, 2).name
    ('cyclic_mds', 'cyclic_repetition')
    """
    if (n_workers - stragglers) % 2:
        return cyclic_mds(n_workers, stragglers)
    return cyclic_repetition(n_workers, stragglers, seed=seed)


def _roots(n_workers: int, s: int) -> IntArray:
    # s neighbours, as symmetric about n/2 as they can be, 0 not among them.
    return (n_workers - s + 1) // 2 + np.arange(s, dtype=np.int64)


def _sine_binomials(n_workers: int, s: int) -> Array:
    # The q-binomial theorem: the product of (x + exp(i t_j)) over angles symmetric about 0, 2 pi / n apart.
    steps = np.arange(1, s + 1)
    ratios = np.sin(np.pi * (s - steps + 1) / n_workers) / np.sin(np.pi * steps / n_workers)
    coefficients = np.ones(s + 1)
    np.cumprod(ratios, out=coefficients[1:])
    return (coefficients + coefficients[::-1]) / 2  # palindromic to the last bit
