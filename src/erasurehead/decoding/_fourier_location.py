"""Locating liars on the unit circle, without trying all sets: their points are the roots of a polynomial.

Prony's method, or Peterson's decoder of Reed-Solomon codes, over rounded complex numbers in place of finite fields.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from erasurehead._internal.arrays import Array, IntArray
from erasurehead._internal.factors import least_squares, svd
from erasurehead.codes._smallest_lie import distance
from erasurehead.decoding._parity_checks import UNSEEN, Checks, FourierChecks


def locate_by_powers(
    checks: Checks, fourier: FourierChecks, received: Array, corrupted: int, tolerance: float
) -> tuple[list[int], bool]:
    """Return the proven liars, and whether a set of at most `corrupted` workers explains the observations.

    Candidates come from the polynomial whose roots are the liars' points. A distance proves them: a polynomial of the
    checks' degree that vanishes on the missing workers, on the other candidates, and on those workers that could best
    imitate this one, as many as may lie, still shows its lie.
    """
    best: tuple[int, ...] | None = None
    for chosen in _candidates(checks, fourier, received, corrupted):
        places = np.searchsorted(checks.workers, np.sort(chosen))
        if checks.explaining(places[None], received, tolerance)[0]:
            best = tuple(np.sort(chosen).tolist())
            break
    if best is None:
        return [], False
    received = received / np.abs(received).max()  # so that squares neither overflow nor vanish
    inside = np.isin(checks.owner, best)
    block = checks.table[:, inside]
    seen = checks.table[:, ~inside] @ received[~inside]
    honest = least_squares(block, -seen, UNSEEN).solution
    off = float(np.linalg.norm(seen + block @ honest, axis=0).max())
    lies = np.zeros((checks.code.n_workers, received.shape[1]))
    np.add.at(lies, checks.owner[inside], (received[inside] - honest) ** 2)
    sizes = np.sqrt(lies.max(axis=1))
    missing = np.setdiff1d(np.arange(checks.code.n_workers), checks.complete)
    size = np.abs(received).max(axis=1)
    guilty: list[int] = []
    for worker in sorted(best, key=lambda worker: -sizes[worker]):
        noise = tolerance * math.sqrt(len(received)) * float(size[~np.isin(checks.owner, guilty)].max())
        gone, pretenders = [*missing.tolist(), *(set(best) - {worker})], corrupted - len(guilty)
        if len(gone) + pretenders >= fourier.number:
            break
        if not sizes[worker] * distance(fourier.points, worker, gone, pretenders) > off + noise:
            break
        guilty.append(worker)
    return guilty, True


def _candidates(checks: Checks, fourier: FourierChecks, received: Array, corrupted: int) -> Iterator[IntArray]:
    """Yield sets of workers that may explain the observations, the smallest first."""
    code = checks.code
    size = np.zeros(code.n_workers)
    np.maximum.at(size, checks.owner, np.abs(received).max(axis=1))
    median = float(np.median(size[checks.workers]))
    huge = np.flatnonzero(size > 1e3 * median)
    part = code.complex_part[checks.messages]
    whole = checks.complete
    for peeled in [huge[:0], huge] if 0 < len(huge) <= corrupted else [huge[:0]]:
        if len(peeled) == corrupted:
            yield peeled
        rows = np.zeros((code.n_workers, received.shape[1]), dtype=np.complex128)
        np.add.at(rows, checks.owner, np.where(part[:, None] == 1, 1j, 1.0) * received)
        missing = np.union1d(np.setdiff1d(np.arange(code.n_workers), whole), peeled)
        rows[missing] = 0.0
        syndromes = fourier.matrix @ rows
        filtering = np.atleast_1d(np.poly(fourier.points[missing]))[::-1].astype(np.complex128)
        left = fourier.number - len(missing)
        if left < 1:
            continue
        seen = np.array([filtering @ syndromes[k : k + len(filtering)] for k in range(left)])
        present = np.setdiff1d(whole, peeled)
        for count in range(1, min(corrupted - len(peeled), left // 2) + 1):
            hankel = np.concatenate([seen[k : k + count + 1].T for k in range(left - count)])
            right = svd(hankel, full=True).right
            sizes = np.abs(fourier.points[present][:, None] ** np.arange(count + 1) @ right[-1].conj())
            yield np.union1d(present[np.argsort(sizes, kind="stable")[:count]], peeled)
