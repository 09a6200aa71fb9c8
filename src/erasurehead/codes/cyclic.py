"""Cyclic repetition: Tandon et al.'s random exact code, kept from the best-conditioned of many draws."""

from __future__ import annotations

import numpy as np

from erasurehead.arrays import Array
from erasurehead.codes.amplification import certified
from erasurehead.codes.assemble import from_rows, generator_of, stragglers_and_load
from erasurehead.codes.base import GradientCode
from erasurehead.codes.exact_weights import banded_weights, dense_weights
from erasurehead.codes.exactness import DENSE, MOST_AMPLIFIED, MOST_ELIMINATED
from erasurehead.errors import check_count, invalid

_DRAWS = 50
_WORK = 4e9  # multiplications that the draws may cost together, if their number is not given
_ENTRIES = 4_000_000  # of the linear systems that are solved at once
_DENSE = 200  # workers up to which a dense decomposition says what rounding does


def cyclic_repetition(
    n_workers: int, stragglers: int | None = None, load: int | None = None, *, seed: int = 0, draws: int | None = None
) -> GradientCode:
    """Worker i holds tasks i..i+s (around the circle); random coefficients make any n - s messages enough.

    The largest coefficient of one draw is heavy-tailed (12 workers, 3 stragglers: median 22, one in a hundred above
    1,222), and rounding errors grow with it. So many are drawn, and the one with the smallest is kept.

    Arguments:
        n_workers: number of workers and of tasks.
        stragglers: how many stragglers must be borne (s); give this or `load`.
        load: tasks per worker, s + 1; give this or `stragglers`.
        seed: of the random coefficients.
        draws: how many sets of coefficients are tried, the best of which is kept; 50 if not given, or as many as can be
            tried in a few seconds where the load is large.

    Labels:
        largest_coefficient: largest coefficient in magnitude, when the first of each row is one;
            amplification, hardest.

    Guarantees: exact for any set of at most `stragglers` stragglers, at the least possible load for n tasks.
    Choose it: where the workers' number does not divide and `cyclic_mds` does not fit (n - s even, or too many
        stragglers among too many workers for float64); needs float64 messages beyond about 20 workers.
    Raises:
        InvalidArgument: load beyond the number of workers, or float64 does not bear so many stragglers.

    >>> code = cyclic_repetition(12, stragglers=3)
    >>> code.load, code.tolerance, code.labels["largest_coefficient"] < 10
    (4, 3, True)
    """
    n_workers = check_count("n_workers", n_workers)
    s, load = stragglers_and_load(stragglers, load, n_workers)
    random = generator_of(seed)
    draws = _affordable(n_workers, s) if draws is None else check_count("draws", draws)
    candidates = (_coefficients(n_workers, s, random) for _ in range(draws))
    coefficients = min(candidates, key=lambda candidate: float(np.abs(candidate).max()))
    largest = float(np.abs(coefficients).max())
    if not np.isfinite(largest):
        raise invalid("draws", "must bring one draw whose equations can be solved", draws, "try another seed")
    columns = (np.arange(n_workers)[:, None] + np.arange(load)) % n_workers
    code = GradientCode(
        name="cyclic_repetition",
        parameters={"n_workers": n_workers, "stragglers": s, "seed": seed, "draws": draws},
        encoding=from_rows(columns.ravel(), np.full(n_workers, load), n_workers, coefficients.ravel()),
        owner=np.arange(n_workers),
        n_workers=n_workers,
        n_tasks=n_workers,
        tolerance=s,
        source="Tandon et al. (ICML 2017), cyclic repetition",
        labels={"decoder": "least_squares", "largest_coefficient": largest},
    )
    weights = dense_weights(code) if n_workers <= _DENSE else banded_weights(code, coefficients)
    most = MOST_AMPLIFIED if n_workers <= DENSE else MOST_ELIMINATED
    return certified(code, weights, f"use reed_solomon({n_workers}, load={load}), or another seed", most)


def _affordable(n_workers: int, s: int) -> int:
    return max(1, min(_DRAWS, int(_WORK / (n_workers * max(s, 1) ** 3))))


def _coefficients(n_workers: int, s: int, random: np.random.Generator) -> Array:
    # Rows of B lie in the null space of a random H (s x n) that also holds the all-ones vector; any n - s of them
    # span it. Shape (n_workers, s + 1).
    if s == 0:
        return np.ones((n_workers, 1))
    checks = random.standard_normal((s, n_workers))
    checks[:, -1] = -checks[:, :-1].sum(axis=1)
    supports = (np.arange(n_workers)[:, None] + np.arange(s + 1)) % n_workers
    coefficients = np.ones((n_workers, s + 1))
    at_once = max(1, _ENTRIES // (s * (s + 1)))
    for low in range(0, n_workers, at_once):
        systems = checks[:, supports[low : low + at_once]].transpose(1, 0, 2)  # (workers, s, s + 1)
        try:
            coefficients[low : low + at_once, 1:] = -np.linalg.solve(systems[:, :, 1:], systems[:, :, :1])[:, :, 0]
        except np.linalg.LinAlgError:
            return np.full((n_workers, s + 1), np.inf)  # a singular draw is never the best
    return coefficients
