"""DRACO: codes with redundancy 2 s + 1 that locate s corrupted workers and outvote them."""

from __future__ import annotations

import numpy as np

from erasurehead._internal.arrays import IntArray
from erasurehead.codes._assemble import blocks, even_sizes, from_rows, ranges, workers_and_tasks
from erasurehead.codes._base import GradientCode, one_message_code
from erasurehead.codes._complex_rows import ComplexArray, real_rows
from erasurehead.codes._cyclic import fourier_generator
from erasurehead.codes._exact_weights import shifted_weights
from erasurehead.codes._exactness import Unbearable
from erasurehead.codes._rounded_tolerance import tolerated
from erasurehead.codes._smallest_lie import smallest_lie
from erasurehead.codes._structure import Structure
from erasurehead.errors import check_count, check_size, invalid

_LARGEST = 10.0  # lengths of an honest message

_SOURCE = "Chen, Wang, Charles, Papailiopoulos (arXiv:1803.09877), DRACO"


def draco_repetition(n_workers: int, corrupted: int, n_tasks: int | None = None) -> GradientCode:
    """Groups of at least 2 s + 1 workers with the same tasks: the majority of each group is right.

    Arguments:
        n_workers: number of workers.
        corrupted: number of workers that may send arbitrary messages (s).
        n_tasks: number of tasks; `n_workers` if not given.

    Structure:
        decoder: `"majority"`; corrupted.

    Guarantees: if at most `corrupted` workers lie and all answer, the sum of the groups' majorities is the full
        gradient, and the liars are identified. With honest workers, exact for any set of at most 2 s stragglers or more
        (smallest group - 1).
    Choose it: when messages may be wrong; detection costs only a comparison.
    Raises:
        InvalidArgument: if there are fewer than 2 s + 1 workers.

    >>> code = draco_repetition(12, corrupted=1)
    >>> code.load, code.tolerance
    (3, 2)
    """
    n_workers, n_tasks = workers_and_tasks(n_workers, n_tasks)
    corrupted = _check_corrupted(corrupted, n_workers)
    n_groups = min(n_workers // (2 * corrupted + 1), n_tasks)
    groups, sizes = blocks(n_workers, n_groups), even_sizes(n_tasks, n_groups)
    starts = np.cumsum(sizes) - sizes
    return one_message_code(
        name="draco_repetition",
        parameters={"n_workers": n_workers, "corrupted": corrupted, "n_tasks": n_tasks},
        encoding=from_rows(ranges(starts[groups], sizes[groups]), sizes[groups], n_tasks),
        groups=groups,
        tolerance=n_workers // n_groups - 1,
        source=f"{_SOURCE}, repetition code",
        structure=Structure(decoder="majority", corrupted=corrupted),
    )


def draco_cyclic(n_workers: int, corrupted: int) -> GradientCode:
    """Cyclic assignment over a Fourier code: 2 s parity checks on the messages locate s corrupted workers.

    Worker i holds tasks i - 2s, ..., i around the circle and sends a complex combination, as two real messages. All
    honest messages together lie in a space on which the `parity` matrix vanishes.

    The source uses the frequencies next to zero as checks; here they are those next to n / 2, as in
    `complex_cyclic_mds`. Any 2 s consecutive ones without zero will do, and next to zero the weights that decode all
    messages, with nobody missing, would grow to 10^7 at (100, 4).

    Arguments:
        n_workers: number of workers and of tasks (n).
        corrupted: number of workers that may send arbitrary messages (s), at least 1.

    Structure:
        decoder: `"syndrome"`; corrupted, parity (2 s, n), complex_part, shift, amplification, amplification_bound,
            hardest; located: how large the lies of s neighbours must be for float64 to name all of them with a
            probability of at least 99%, relative to the norm of an honest message. Of smaller ones those are refused
            that could matter.

    Guarantees: if at most `corrupted` workers lie and all answer, they are located, as far as their lies stand out
        from rounding (`structure.located`, at most 10), and the rest decode exactly. With honest workers, exact for any
        set of at most `code.tolerance` stragglers: 2 s, or as many as float64 allows, at least s.
    Choose it: when messages may be wrong and 2 s + 1 does not divide the number of workers.
    Raises:
        InvalidArgument: if there are fewer than 2 s + 1 workers, or float64 cannot decode without s of them, or cannot
            name lies of ten times the size of an honest message: s may be at most 7 for 50 workers, 4 for 100, 2 for
            1,000.

    >>> code = draco_cyclic(9, corrupted=2)
    >>> code.load, code.tolerance, code.structure.parity.shape
    (5, 4, (4, 9))
    """
    n_workers = check_size("n_workers", n_workers)
    corrupted = _check_corrupted(corrupted, n_workers)
    instead = f"use draco_repetition({n_workers}, corrupted={corrupted})"
    located = smallest_lie(n_workers, corrupted)
    if located > _LARGEST:
        rule = "must be few enough for float64 to tell who lies"
        raise Unbearable(
            "corrupted",
            rule,
            corrupted,
            instead,
            sentence=f"corrupted {rule}, but with corrupted={corrupted} of {n_workers} workers only lies of "
            f"{located:.1e} times the length of an honest message are located; {instead}.",
        )
    checks, load = 2 * corrupted, 2 * corrupted + 1
    roots = _roots(n_workers, checks)
    columns = (np.arange(n_workers)[:, None] - np.arange(load)[::-1]) % n_workers
    coefficients = np.tile(fourier_generator(n_workers, roots), (n_workers, 1))
    encoding, owner, part = real_rows(columns, coefficients, n_workers)
    code = GradientCode(
        name="draco_cyclic",
        parameters={"n_workers": n_workers, "corrupted": corrupted},
        encoding=encoding,
        owner=owner,
        n_workers=n_workers,
        n_tasks=n_workers,
        tolerance=checks,
        source=f"{_SOURCE}, cyclic code",
        structure=Structure(
            decoder="syndrome",
            corrupted=corrupted,
            parity=_checks(n_workers, roots),
            complex_part=part,
            shift=1,
            located=located,
        ),
    )
    return tolerated(code, shifted_weights(code), corrupted, instead)


def _roots(n_workers: int, checks: int) -> IntArray:
    # Neighbours about n / 2. If they were symmetric about it, all coefficients would be real: one message per worker,
    # and less information to identify liars.
    symmetric = (n_workers - checks) % 2 == 1 and n_workers > checks + 1
    return (n_workers - checks + 1) // 2 - int(symmetric) + np.arange(checks, dtype=np.int64)


def _checks(n_workers: int, roots: IntArray) -> ComplexArray:
    # Frequencies of the messages along the circle: those of the generator's roots, turned round.
    powers = np.outer(np.sort(n_workers - roots), np.arange(n_workers)) % n_workers
    return np.exp(2j * np.pi * powers / n_workers) / np.sqrt(n_workers)


def _check_corrupted(corrupted: int, n_workers: int) -> int:
    corrupted = check_count("corrupted", corrupted)
    if 2 * corrupted + 1 > n_workers:
        rule = f"must leave 2 corrupted + 1 at most the {n_workers} workers"
        raise invalid("corrupted", rule, corrupted, f"use corrupted={(n_workers - 1) // 2}" if n_workers > 2 else "")
    return corrupted
