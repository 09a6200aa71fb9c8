"""Who sent something that no gradients could have made: locating corrupted workers by the code's own redundancy."""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from erasurehead.arrays import Array, IntArray
from erasurehead.codes.base import GradientCode
from erasurehead.errors import Unreachable

ComplexArray = NDArray[np.complex128]

_SUBSETS = 20_000
"""Sets of workers that are tried one by one, at most."""


class FourierChecks(NamedTuple):
    """Neighbouring Fourier frequencies on which all honest messages together vanish."""

    points: ComplexArray
    """exp(2 pi i w / n) of each worker w."""
    first: int
    number: int


def fourier_checks(code: GradientCode) -> FourierChecks | None:
    """Return the checks of a cyclic Fourier code (DRACO's, or cyclic MDS), or None for other codes."""
    n = code.n_workers
    if "parity" in code.labels:
        parity = np.asarray(code.labels["parity"], dtype=np.complex128)
        powers = np.round(np.angle(parity[:, 1 % n]) * n / (2 * np.pi)).astype(np.int64) % n
    elif code.labels.get("decoder") == "cyclic_mds":
        powers = np.sort(np.asarray(code.labels["roots"], dtype=np.int64))
    else:
        return None
    if not len(powers) or (np.diff(powers) != 1).any():
        return None
    return FourierChecks(np.exp(2j * np.pi * np.arange(n) / n), int(powers[0]), len(powers))


def locate_by_fourier(
    code: GradientCode, checks: FourierChecks, messages: IntArray, vectors: Array, limit: int, tolerance: float
) -> IntArray:
    """Return the workers whose messages cannot be right, for codes with neighbouring Fourier checks.

    The checks see a sum of exponentials, one for each liar. Missing workers are exponentials of known frequency and
    are filtered out first; what is left fills a Hankel matrix whose rows span the liars' exponentials and no others'.
    Works however the lies are related: liars who all add the same vector are found.

    Arguments:
        code, checks: the code and its checks.
        messages: those that are in, ascending.
        vectors: what they say, shape (len(messages), length).
        limit: liars, at most.
        tolerance: relative size of what passes for a rounding error.

    Raises:
        Unreachable: more liars than the checks that are left can locate, or than `limit`.

    Source: Chen, Wang, Charles, Papailiopoulos, arXiv 1803.09877, section 4.2 (cyclic code); several projections are
    stacked here, and stragglers are allowed for, two of them for each liar less.
    """
    said, missing = _complex_rows(code, messages, vectors)
    powers = checks.first + np.arange(checks.number)
    syndromes = checks.points[None, :] ** powers[:, None] @ said
    filtering = np.atleast_1d(np.poly(checks.points[missing]))[::-1].astype(np.complex128)  # one if nobody is missing
    left = checks.number - len(missing)
    if left < 1:
        return np.zeros(0, dtype=np.int64)
    seen = np.array([filtering @ syndromes[k : k + len(filtering)] for k in range(left)])
    noise = tolerance * float(np.abs(said).max()) * float(np.abs(filtering).sum()) * math.sqrt(code.n_workers)
    if np.abs(seen).max() <= noise:
        return np.zeros(0, dtype=np.int64)
    degree = left // 2
    hankel = np.concatenate([seen[k : k + degree + 1].T for k in range(left - degree)])
    _, values, right = np.linalg.svd(hankel, full_matrices=False)
    rank = int((values > max(noise, tolerance * values[0])).sum())
    if rank > min(degree, limit):
        raise too_many(limit)
    waves = checks.points[:, None] ** np.arange(degree + 1) / math.sqrt(degree + 1)
    distance = np.linalg.norm(waves - waves @ right[:rank].conj().T @ right[:rank], axis=1)
    distance[missing] = np.inf
    liars = np.sort(np.argsort(distance, kind="stable")[:rank])
    if distance[liars].max() > math.sqrt(tolerance):
        raise too_many(limit)
    return liars.astype(np.int64)


def _complex_rows(code: GradientCode, messages: IntArray, vectors: Array) -> tuple[ComplexArray, IntArray]:
    """Return what each worker says as one complex row, zero if not all of it is in, and who is missing."""
    part = np.asarray(code.labels.get("complex_part", np.zeros(code.n_messages)), dtype=np.int64)
    said = np.zeros((code.n_workers, vectors.shape[1]), dtype=np.complex128)
    np.add.at(said, code.owner[messages], np.where(part[messages, None] == 1, 1j, 1.0) * vectors)
    missing = np.flatnonzero(np.bincount(code.owner[messages], minlength=code.n_workers) < code.messages_per_worker)
    said[missing] = 0.0
    return said, missing


def locate_by_null_space(
    code: GradientCode, messages: IntArray, vectors: Array, limit: int, tolerance: float
) -> IntArray:
    """Return the workers whose messages cannot be right, for any code.

    Honest messages lie in the column space of the arrived rows; the part outside it is the liars' doing. If their lies
    are independent, a worker lies exactly if all of its directions outside that space are among those seen. Else the
    smallest set of workers that explains what is seen is searched for.

    Arguments:
        code: any code.
        messages: those that are in, ascending.
        vectors: what they say, shape (len(messages), length).
        limit: liars, at most.
        tolerance: relative size of what passes for a rounding error.

    Raises:
        Unreachable: no set of at most `limit` workers explains the messages, or there are too many sets to try.
    """
    rows = code.encoding[messages].toarray()
    lengths = np.sqrt(np.einsum("mt,mt->m", rows, rows))
    lengths[lengths == 0] = 1.0
    said = vectors / lengths[:, None]
    basis, values, _ = np.linalg.svd(rows / lengths[:, None], full_matrices=True)
    rank = int((values > 1e-11 * values[0]).sum())
    outside = basis[:, rank:].T  # (checks, messages)
    seen = outside @ said
    noise = tolerance * float(np.linalg.norm(said, axis=1).max()) * math.sqrt(len(messages))
    if not seen.size or np.linalg.norm(seen, axis=0).max() <= noise:
        return np.zeros(0, dtype=np.int64)
    owners = np.unique(code.owner[messages])
    blocks = {int(worker): outside[:, code.owner[messages] == worker] for worker in owners}
    found = _independent(blocks, seen, noise, tolerance)
    if not 0 < len(found) <= limit or not _explains(blocks, found, seen, noise):
        found = _smallest(blocks, seen, noise, limit)
    return np.array(sorted(found), dtype=np.int64)


def _independent(blocks: dict[int, Array], seen: Array, noise: float, tolerance: float) -> tuple[int, ...]:
    span, values, _ = np.linalg.svd(seen, full_matrices=False)
    span = span[:, values > noise]
    near = math.sqrt(tolerance)

    def within(block: Array) -> bool:
        lengths = np.linalg.norm(block, axis=0)
        rest = np.linalg.norm(block - span @ (span.T @ block), axis=0)
        return bool((lengths > near).all() and (rest <= near * lengths).all())

    return tuple(worker for worker, block in blocks.items() if within(block))


def _explains(blocks: dict[int, Array], workers: tuple[int, ...], seen: Array, noise: float) -> bool:
    directions = np.concatenate([blocks[worker] for worker in workers], axis=1)
    mix = np.linalg.lstsq(directions, seen, rcond=1e-9)[0]
    return float(np.linalg.norm(seen - directions @ mix, axis=0).max()) <= noise


def _smallest(blocks: dict[int, Array], seen: Array, noise: float, limit: int) -> tuple[int, ...]:
    tried = 0
    for size in range(1, limit + 1):
        tried += math.comb(len(blocks), size)
        if tried > _SUBSETS:
            break
        for workers in itertools.combinations(blocks, size):
            if _explains(blocks, workers, seen, noise):
                return workers
    raise too_many(limit)


def too_many(limit: int) -> Unreachable:
    """Return the error for messages that contradict each other in a way that cannot be resolved."""
    who = "no worker may lie" if limit == 0 else f"no set of at most {limit} corrupted workers explains them"
    return Unreachable(
        f"The messages contradict each other and {who}; wait for more messages, or use a code with more redundancy"
        " (draco_repetition or draco_cyclic with a larger `corrupted`)."
    )
