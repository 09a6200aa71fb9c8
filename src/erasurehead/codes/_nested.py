"""Nested codes: a cyclic code for each number of stragglers, of which a step decodes the first that it can."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from erasurehead.codes._base import GradientCode
from erasurehead.codes._cyclic import one_message_cyclic
from erasurehead.codes._exactness import MOST_CHECKED, Unbearable
from erasurehead.codes._structure import Structure
from erasurehead.errors import check_count, invalid


def nested(n_workers: int, stragglers: int, *, seed: int = 0) -> GradientCode:
    """Stacked cyclic codes for 0, 1, ..., s stragglers: the more workers compute, the more stragglers are tolerated.

    Worker i computes tasks i, i+1, ..., i+s in turn; after t + 1 of them it can send its message of the code that
    tolerates t stragglers. In the source the workers only signal their progress, and the coordinator asks for the one
    level that can be decoded: that is the scheme `nested`. The message rows, in order, serve both ways.

    Arguments:
        n_workers: number of workers and of tasks, at most 100,000.
        stragglers: the largest number of stragglers to be tolerated (s).
        seed: seed of the levels that need random coefficients (those with n - t even).

    Structure:
        decoder: `"levels"`; levels (t of each message), inner (the codes, by level).

    Guarantees: exact as soon as n - t workers have finished t + 1 tasks, for any t; so for any set of at most
        `stragglers` stragglers, and never later than the best fixed cyclic code of at most that load.
    Choose it: when the number of stragglers, in particular of dead workers, changes from step to step.
    Raises:
        InvalidArgument: if there are more stragglers than workers, or more than float64 allows.

    >>> code = nested(8, stragglers=2)
    >>> code.n_messages, code.structure.levels[code.messages_of(0)].tolist()
    (24, [0, 1, 2])
    """
    n_workers = check_count("n_workers", n_workers, at_most=MOST_CHECKED)
    stragglers = check_count("stragglers", stragglers, at_least=0, at_most=n_workers - 1)
    inner: list[GradientCode] = []
    for level in range(stragglers + 1):
        try:
            inner.append(one_message_cyclic(n_workers, level, seed=seed))
        except Unbearable:
            rule = f"must be at most {level - 1} of {n_workers} workers with this seed, as float64 cannot bear {level}"
            hint = f"take {level - 1} (a load of {level}), or another seed"
            raise invalid("stragglers", rule, stragglers, hint) from None
    n_levels = len(inner)
    order = np.arange(n_levels * n_workers).reshape(n_levels, n_workers).T.ravel()
    return GradientCode(
        name="nested",
        parameters={"n_workers": n_workers, "stragglers": stragglers, "seed": seed},
        encoding=sparse.csr_array(sparse.vstack([code.encoding for code in inner], format="csr")[order]),
        owner=np.repeat(np.arange(n_workers), n_levels),
        n_workers=n_workers,
        n_tasks=n_workers,
        tolerance=stragglers,
        source="Massny, Hofmeister, Egger, Bitar, Wachter-Zeh (arXiv:2212.08580), nested gradient codes, reconstructed",
        inner=tuple(inner),
        structure=Structure(decoder="levels", levels=np.tile(np.arange(n_levels), n_workers)),
    )
