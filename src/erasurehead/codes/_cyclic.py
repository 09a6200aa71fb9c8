"""Cyclic codes, exact with a load of stragglers + 1: the best of several random ones, and MDS from roots of unity."""

from __future__ import annotations

from functools import lru_cache
from heapq import nsmallest

import numpy as np

from erasurehead._internal.arrays import Array, IntArray
from erasurehead.codes._assemble import MOST_DRAWS, from_rows, generator_of, stragglers_and_load, windows
from erasurehead.codes._base import GradientCode, one_message_code
from erasurehead.codes._complex_rows import ComplexArray, real_rows
from erasurehead.codes._exact_weights import banded_weights, dense_weights, shifted_weights
from erasurehead.codes._exactness import (
    DENSE,
    MOST_AMPLIFIED,
    MOST_CHECKED,
    MOST_ELIMINATED,
    MOST_SAMPLED,
    Unbearable,
)
from erasurehead.codes._reed_solomon import reed_solomon
from erasurehead.codes._rounded_tolerance import certified
from erasurehead.codes._structure import Structure
from erasurehead.errors import check_count, check_size, invalid

_DRAWS = 50
_TRIED = 3  # draws, those with the smallest coefficients, of which one must bear its stragglers
_WORK = 4e9  # multiplications that the draws may cost together, if their number is not given
_SYSTEM = 1_500  # the same unit, for the overhead of each linear system
_ENTRIES = 4_000_000  # of the linear systems that are solved at once
_DENSE = 200  # workers up to which a dense decomposition measures the effect of rounding


def cyclic_repetition(
    n_workers: int, stragglers: int | None = None, load: int | None = None, *, seed: int = 0, draws: int | None = None
) -> GradientCode:
    """Worker i holds tasks i..i+s (around the circle); random coefficients make any n - s messages enough.

    The largest coefficient of one draw is heavy-tailed (12 workers, 3 stragglers: median 22, one in a hundred above
    1,222), and rounding errors grow with it. So several draws are made, and the one with the smallest is kept, or the
    next one where float64 does not bear that.

    Arguments:
        n_workers: number of workers and of tasks, at most 100,000.
        stragglers: number of stragglers to tolerate (s); give this or `load`.
        load: tasks per worker, s + 1; give this or `stragglers`.
        seed: seed of the random coefficients.
        draws: how many sets of coefficients to try, of which the best is kept, at most 10,000; by default 50, or as
            many as can be tried in a few seconds if the load is large.

    Structure:
        largest_coefficient: largest coefficient in magnitude, when the first of each row is one;
            amplification, amplification_bound, hardest.

    Guarantees: exact for any set of at most `stragglers` stragglers, at the least possible load for n tasks. Where
        there are more than some millions of sets (`amplification_bound` is None), a search found none that float64
        does not bear; there may be some, one set in as many millions.
    Choose it: where load does not divide the number of workers and `cyclic_mds` does not fit (n - s even, or too many
        stragglers among too many workers for float64); needs float64 messages beyond about 20 workers. The more sets of
        stragglers there are, the worse is the worst: most codes of 1,000 workers bear 2, of 300 workers 4, of 100
        workers 10.
    Raises:
        InvalidArgument: if the load exceeds the number of workers, or there are more stragglers than float64 allows.

    >>> code = cyclic_repetition(12, stragglers=3)
    >>> code.load, code.tolerance, code.structure.largest_coefficient < 10
    (4, 3, True)
    """
    n_workers = check_count("n_workers", n_workers, at_most=MOST_CHECKED)
    s, _ = stragglers_and_load(stragglers, load, n_workers)
    draws = _affordable(n_workers, s) if draws is None else check_count("draws", draws, at_most=MOST_DRAWS)
    return _best_of(n_workers, s, check_count("seed", seed, at_least=0), draws)


@lru_cache(maxsize=8)  # one code is often made several times: for each scheme of a comparison, and to resume
def _best_of(n_workers: int, s: int, seed: int, draws: int) -> GradientCode:
    """Return the code of the draw with the smallest coefficients, with what float64 makes of it.

    Arguments:
        n_workers, seed, draws: as for `cyclic_repetition`.
        s: number of stragglers to tolerate.
    """
    random = generator_of(seed)
    drawn = (_coefficients(n_workers, s, random) for _ in range(draws))
    best = nsmallest(_TRIED, drawn, key=lambda candidate: float(np.abs(candidate).max()))
    if not np.isfinite(best[0]).all():
        raise invalid("draws", "must bring one draw whose equations can be solved", draws, "try another seed")
    refused: list[Unbearable] = []
    for coefficients in best:
        try:
            return _of_coefficients(
                coefficients, {"n_workers": n_workers, "stragglers": s, "seed": seed, "draws": draws}
            )
        except Unbearable as error:
            refused.append(error)
    raise refused[0]


def _of_coefficients(coefficients: Array, parameters: dict[str, int]) -> GradientCode:
    n_workers, load = len(coefficients), len(coefficients[0])
    columns = windows(n_workers, load)
    code = one_message_code(
        name="cyclic_repetition",
        parameters=parameters,
        encoding=from_rows(columns.ravel(), np.full(n_workers, load), n_workers, coefficients.ravel()),
        tolerance=load - 1,
        source="Tandon et al. (ICML 2017), cyclic repetition",
        structure=Structure(decoder="least_squares", largest_coefficient=float(np.abs(coefficients).max())),
    )
    weights = dense_weights(code) if n_workers <= _DENSE else banded_weights(code, coefficients)
    most = MOST_AMPLIFIED if n_workers <= _DENSE else MOST_SAMPLED if n_workers <= DENSE else MOST_ELIMINATED
    return certified(code, weights, f"use reed_solomon({n_workers}, load={load}), or another seed", most)


def _affordable(n_workers: int, s: int) -> int:
    return max(1, min(_DRAWS, int(_WORK / (n_workers * (_SYSTEM + s**3)))))


def _coefficients(n_workers: int, s: int, random: np.random.Generator) -> Array:
    # Rows of B lie in the null space of a random H (s x n) that also holds the all-ones vector; any n - s of them
    # span it. Shape (n_workers, s + 1).
    if s == 0:
        return np.ones((n_workers, 1))
    checks = random.standard_normal((s, n_workers))
    checks[:, -1] = -checks[:, :-1].sum(axis=1)
    supports = windows(n_workers, s + 1)
    coefficients = np.ones((n_workers, s + 1))
    at_once = max(1, _ENTRIES // (s * (s + 1)))
    for low in range(0, n_workers, at_once):
        systems = checks[:, supports[low : low + at_once]].transpose(1, 0, 2)  # (workers, s, s + 1)
        try:
            coefficients[low : low + at_once, 1:] = -np.linalg.solve(systems[:, :, 1:], systems[:, :, :1])[:, :, 0]
        except np.linalg.LinAlgError:
            return np.full((n_workers, s + 1), np.inf)  # a singular draw is never the best
    return coefficients


_SOURCE = "Raviv, Tamo, Tandon, Dimakis (arXiv:1707.03858), cyclic MDS codes"


def cyclic_mds(n_workers: int, stragglers: int | None = None, load: int | None = None) -> GradientCode:
    """A real cyclic MDS code: all workers have the same coefficients, shifted around the circle.

    The coefficients are those of the polynomial whose roots are the `stragglers` powers of exp(2 pi i / n) next to -1.
    They are real if the run of roots is closed under conjugation, which is the case if n - stragglers is odd.

    Arguments:
        n_workers: number of workers and of tasks (n).
        stragglers: number of stragglers to tolerate; n - stragglers must be odd. Give this or `load`.
        load: tasks per worker, stragglers + 1; give this or `stragglers`.

    Structure:
        decoder: `"cyclic_mds"`; generator, roots, shift, largest_coefficient, amplification, amplification_bound,
            hardest.

    Guarantees: exact for any set of at most `stragglers` stragglers, at the least possible load for n tasks; the
        coefficients are positive, palindromic, and the same on every machine.
    Choose it: as the default exact cyclic code, where every worker must hold equally many tasks and the load does not
        divide the number of workers. Neighbours that are missing together amplify the rounding of the messages, the
        more so the more workers there are: float64 messages are needed from 20 workers, and float64 allows 12
        stragglers of 61 workers, 9 of 100, 7 of 200 and 5 of 300. For more use `reed_solomon`, or `exact_cyclic`, which
        chooses.
    Raises:
        InvalidArgument: if n - stragglers is even, the load exceeds the number of workers, or there are more stragglers
            than float64 allows.

    >>> cyclic_mds(6, stragglers=3).structure.generator.round(6).tolist()
    [1.0, 2.0, 2.0, 1.0]
    """
    n_workers = check_size("n_workers", n_workers)
    s, load = stragglers_and_load(stragglers, load, n_workers)
    if (n_workers - s) % 2 == 0:
        raise invalid(
            "stragglers",
            f"must leave an odd number of the {n_workers} workers for the coefficients to be real",
            s,
            f"use stragglers={s + 1} (load {s + 2}), or complex_cyclic_mds or cyclic_repetition with stragglers={s}",
        )
    generator = _sine_binomials(n_workers, s)
    columns = windows(n_workers, load)
    code = one_message_code(
        name="cyclic_mds",
        parameters={"n_workers": n_workers, "stragglers": s},
        encoding=from_rows(columns.ravel(), np.full(n_workers, load), n_workers, np.tile(generator, n_workers)),
        tolerance=s,
        source=_SOURCE,
        structure=Structure(
            decoder="cyclic_mds",
            generator=generator,
            roots=_roots(n_workers, s),
            shift=1,
            largest_coefficient=float(generator.max()),
        ),
    )
    return certified(code, shifted_weights(code), _instead(n_workers, load))


def complex_cyclic_mds(n_workers: int, stragglers: int | None = None, load: int | None = None) -> GradientCode:
    """The cyclic MDS code for any number of stragglers: complex coefficients, sent as two real messages per worker.

    Arguments:
        n_workers: number of workers and of tasks (n).
        stragglers: number of stragglers to tolerate; give this or `load`.
        load: tasks per worker, stragglers + 1; give this or `stragglers`.

    Structure:
        decoder: `"least_squares"`; complex_part, roots, shift, largest_coefficient, amplification,
            amplification_bound, hardest.

    Guarantees: exact for any set of at most `stragglers` stragglers, at the least possible load for n tasks.
    Choose it: where n - stragglers is even and the coefficients must not be random. It sends twice as many bytes as
        `cyclic_repetition`, and rounding grows as for `cyclic_mds`.
    Raises:
        InvalidArgument: if the load exceeds the number of workers, or there are more stragglers than float64 allows.

    The source takes the roots w^1..w^s; any s neighbouring powers without w^0 will do, and those next to -1 keep the
    decoding weights ten to a thousand times smaller.

    >>> code = complex_cyclic_mds(6, stragglers=2)
    >>> code.n_messages, code.load
    (12, 3)
    """
    n_workers = check_size("n_workers", n_workers)
    s, load = stragglers_and_load(stragglers, load, n_workers)
    roots = _roots(n_workers, s)
    generator = fourier_generator(n_workers, roots)
    columns = windows(n_workers, load)
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
        structure=Structure(
            decoder="least_squares",
            roots=roots,
            shift=1,
            complex_part=part,
            largest_coefficient=float(np.abs(generator).max()),
        ),
    )
    return certified(code, shifted_weights(code), _instead(n_workers, load))


def exact_cyclic(n_workers: int, stragglers: int, seed: int = 0) -> GradientCode:
    """The code to use when all workers must hold equally much and any `stragglers` stragglers must be tolerated.

    `cyclic_mds` where it exists and float64 allows it, otherwise `cyclic_repetition`, both with one real message per
    worker; where float64 does not allow that either, `reed_solomon`, which sends two and hardly amplifies rounding.

    Arguments:
        n_workers: number of workers and of tasks; at most 100,000 where n - stragglers is even.
        stragglers: number of stragglers to tolerate; the load is one more.
        seed: seed of the random coefficients, where they are needed.

    Structure:
        that of the chosen code.

    Guarantees: exact for any set of at most `stragglers` stragglers.
    Choose it: when every worker must hold equally many tasks and `stragglers` + 1 does not divide the number of
        workers.
    Raises:
        InvalidArgument: if there are more stragglers than workers.

    >>> exact_cyclic(6, 3).name, exact_cyclic(6, 2).name, exact_cyclic(100, 11).name
    ('cyclic_mds', 'cyclic_repetition', 'reed_solomon')
    """
    try:
        return one_message_cyclic(n_workers, stragglers, seed=seed)
    except Unbearable:
        return reed_solomon(n_workers, stragglers + 1)


def one_message_cyclic(n_workers: int, stragglers: int, seed: int) -> GradientCode:
    """Return `cyclic_mds` where it exists and float64 allows it, else `cyclic_repetition`: one message per worker.

    Raises:
        Unbearable: if float64 allows neither.
        InvalidArgument: if there are more stragglers than workers.
    """
    n_workers = check_size("n_workers", n_workers)
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
        roots: exponents, consecutive and ascending, shape (s,).
    """
    middle = 2 * np.pi * float(roots.mean()) / n_workers if len(roots) else 0.0
    return _sine_binomials(n_workers, len(roots)) * (-np.exp(-1j * middle)) ** np.arange(len(roots) + 1)


def _instead(n_workers: int, load: int) -> str:
    return f"use reed_solomon({n_workers}, load={load}), or exact_cyclic({n_workers}, stragglers={load - 1})"


def _roots(n_workers: int, s: int) -> IntArray:
    # s consecutive exponents, as symmetric about n/2 as possible, without 0.
    return (n_workers - s + 1) // 2 + np.arange(s, dtype=np.int64)


def _sine_binomials(n_workers: int, s: int) -> Array:
    # The q-binomial theorem: the product of (x + exp(i t_j)) over angles symmetric about 0, 2 pi / n apart.
    steps = np.arange(1, s + 1)
    ratios = np.sin(np.pi * (s - steps + 1) / n_workers) / np.sin(np.pi * steps / n_workers)
    coefficients = np.ones(s + 1)
    np.cumprod(ratios, out=coefficients[1:])
    return (coefficients + coefficients[::-1]) / 2  # palindromic, bit for bit
