"""Cyclic MDS codes: exact, deterministic, and better conditioned than random coefficients."""

from __future__ import annotations

import numpy as np

from erasurehead.arrays import Array, IntArray
from erasurehead.codes.amplification import certified
from erasurehead.codes.assemble import from_rows, stragglers_and_load
from erasurehead.codes.base import GradientCode
from erasurehead.codes.complex_rows import ComplexArray, real_rows
from erasurehead.codes.cyclic import cyclic_repetition
from erasurehead.codes.exact_weights import shifted_weights
from erasurehead.codes.exactness import Unbearable
from erasurehead.codes.polynomial import reed_solomon
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
        decoder: `"cyclic_mds"`; generator, roots, shift, largest_coefficient, amplification, hardest.

    Guarantees: exact for any set of at most `stragglers` stragglers, at the least possible load for n tasks; the
        coefficients are positive, palindromic, and the same on every machine.
    Choose it: as the default exact cyclic code, where every worker must hold equally many tasks and repetition does
        not divide. Neighbours that are missing together multiply the rounding of the messages, by more among more
        workers: float64 messages are needed from 20 workers on, and float64 bears 12 stragglers of 61 workers, 9 of
        100, 7 of 200 and 5 of 300. For more take `reed_solomon`, or `exact_cyclic`, which chooses.
    Raises:
        InvalidArgument: n - stragglers is even, the load exceeds the number of workers, or float64 does not bear so
            many stragglers.

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
    code = GradientCode(
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
            "shift": 1,
            "largest_coefficient": float(generator.max()),
        },
    )
    return certified(code, shifted_weights(code), _instead(n_workers, load))


def complex_cyclic_mds(n_workers: int, stragglers: int | None = None, load: int | None = None) -> GradientCode:
    """The cyclic MDS code for any number of stragglers: complex coefficients, sent as two real messages a worker.

    Arguments:
        n_workers: number of workers and of tasks (n).
        stragglers: how many stragglers must be borne; give this or `load`.
        load: tasks per worker, stragglers + 1; give this or `stragglers`.

    Labels:
        decoder: `"least_squares"`; complex_part, roots, shift, largest_coefficient, amplification, hardest.

    Guarantees: exact for any set of at most `stragglers` stragglers, at the least possible load for n tasks.
    Choose it: where n - stragglers is even and the coefficients must not be random. It sends twice as many bytes as
        `cyclic_repetition`, and rounding grows as for `cyclic_mds`.
    Raises:
        InvalidArgument: the load exceeds the number of workers, or float64 does not bear so many stragglers.

    The source takes the roots w^1..w^s; any s neighbouring powers without w^0 do, and those next to -1 keep the
    decoding weights ten to a thousand times smaller.

    >>> code = complex_cyclic_mds(6, stragglers=2)
    >>> code.n_messages, code.load
    (12, 3)
    """
    n_workers = check_count("n_workers", n_workers)
    s, load = stragglers_and_load(stragglers, load, n_workers)
    roots = _roots(n_workers, s)
    generator = fourier_generator(n_workers, roots)
    columns = (np.arange(n_workers)[:, None] + np.arange(load)) % n_workers
    encoding, owner, part = real_rows(columns, np.tile(generator, (n_workers, 1)), n_workers)
    code = GradientCode(
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
            "shift": 1,
            "complex_part": part,
            "largest_coefficient": float(np.abs(generator).max()),
        },
    )
    return certified(code, shifted_weights(code), _instead(n_workers, load))


def exact_cyclic(n_workers: int, stragglers: int, seed: int = 0) -> GradientCode:
    """The code to use when all workers must hold equally much and any so many stragglers must be borne.

    `cyclic_mds` where it exists and float64 bears it, else `cyclic_repetition`, both with one real message a worker;
    where float64 does not bear that either, `reed_solomon`, which sends two and hardly amplifies rounding at all.

    Arguments:
        n_workers: number of workers and of tasks.
        stragglers: how many stragglers must be borne; the load is one more.
        seed: of the random coefficients, where they are needed.

    Labels:
        as the chosen code's own.

    Guarantees: exact for any set of at most `stragglers` stragglers.
    Choose it: when every worker must hold equally many tasks and `stragglers` + 1 does not divide the workers.
    Raises:
        InvalidArgument: more stragglers than workers.

    >>> exact_cyclic(6, 3).name, exact_cyclic(6, 2).name, exact_cyclic(100, 11).name
    ('cyclic_mds', 'cyclic_repetition', 'cyclic_repetition')
    """
    try:
        return one_message_cyclic(n_workers, stragglers, seed=seed)
    except Unbearable:
        return reed_solomon(n_workers, stragglers + 1)


def one_message_cyclic(n_workers: int, stragglers: int, seed: int = 0) -> GradientCode:
    """Return `cyclic_mds` where it exists and float64 bears it, else `cyclic_repetition`: one real message a worker.

    Raises:
        Unbearable: float64 bears neither.
        InvalidArgument: more stragglers than workers.
    """
    n_workers = check_count("n_workers", n_workers)
    stragglers = check_count("stragglers", stragglers, at_least=0, at_most=n_workers - 1)
    if (n_workers - stragglers) % 2:
        try:
            return cyclic_mds(n_workers, stragglers)
        except Unbearable:
            pass
    return cyclic_repetition(n_workers, stragglers, seed=seed)


def fourier_generator(n_workers: int, roots: IntArray) -> ComplexArray:
    """Return the coefficients, constant first, of the polynomial that vanishes at exp(2 pi i r / n) for each root r.

    Arguments:
        n_workers: n.
        roots: exponents, neighbours and ascending, shape (s,).
    """
    middle = 2 * np.pi * float(roots.mean()) / n_workers if len(roots) else 0.0
    return _sine_binomials(n_workers, len(roots)) * (-np.exp(-1j * middle)) ** np.arange(len(roots) + 1)


def _instead(n_workers: int, load: int) -> str:
    return f"use reed_solomon({n_workers}, load={load}), or exact_cyclic({n_workers}, stragglers={load - 1})"


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
