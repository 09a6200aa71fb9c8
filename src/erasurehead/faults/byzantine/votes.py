"""Messages that should be equal are compared, and the minority is outvoted."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from erasurehead._internal.arrays import Array, BoolArray, finite
from erasurehead.errors import listed
from erasurehead.faults.byzantine.examination import NOT_FINITE, Finding, Undecided


@dataclass(frozen=True)
class Ballot:
    """The workers that may vote on one content.

    Attributes:
        owner: the worker of each message that has arrived.
        pending: workers from which an equal message may still come.
        tolerance: largest difference of two honest vectors, relative to the largest element; 0.0 for none at all.
        needed: number of workers that must agree before another is accused; they must also be more than half.
    """

    owner: Mapping[int, int]
    pending: frozenset[int]
    tolerance: float
    needed: int


def vote(ballot: Ballot, vectors: Mapping[int, Array]) -> Finding:
    """Compare messages of equal content.

    Each is compared with the first one, bit for bit and then within half the tolerance; only where that fails, all are
    compared with all. A worker is accused if its message is further than twice the tolerance from one with which more
    than half of the workers agree: then no honest worker is accused as long as most of those here are honest, and two
    honest messages differ by no more than the tolerance.

    Arguments:
        ballot: the workers that may vote.
        vectors: the vectors of the messages, in the order of arrival, all of the same shape.
    """
    good, compared, unlike, split = list[int](), 0, set[int](), False
    refused: dict[int, str] = {}
    for message, vector in vectors.items():
        first = vectors[good[0]] if good else vector
        if good:
            compared += vector is not first
            if vector is first or np.array_equal(vector, first):
                good.append(message)
                continue
        if not finite(vector):
            refused[message] = NOT_FINITE
            continue
        if good:
            unlike.add(ballot.owner[message])
            split |= not _apart(vector, first) <= 0.5 * ballot.tolerance * min(_size(vector), _size(first))
        good.append(message)
    if not split and not refused:
        alone = len(set(ballot.owner.values())) < ballot.needed  # conspiring liars could have sent all that arrived
        return Finding(compared=compared, unlike=frozenset(unlike), error=math.inf if alone else 0.0)
    if not split:  # messages that are not finite are outvoted by any two that are finite and agree
        ahead = {ballot.owner[message] for message in good}
        outvoted = len(ahead) >= ballot.needed and 2 * len(ahead) > len({ballot.owner[m] for m in vectors})
        accused = {ballot.owner[m]: _outvoted(m, ballot, ahead, "is not finite") for m in refused} if outvoted else {}
        return Finding(accused, refused, {}, compared, frozenset(unlike))
    return _divided(ballot, vectors, good, refused, compared)


def _divided(
    ballot: Ballot, vectors: Mapping[int, Array], good: Sequence[int], refused: dict[int, str], compared: int
) -> Finding:
    """Count the votes where messages differ."""
    apart, scale = _table([vectors[message] for message in good])
    compared += len(good) * (len(good) - 1) // 2
    near = apart <= ballot.tolerance * scale
    supporters = [{ballot.owner[good[j]] for j in _places(row)} for row in near]
    winner = max(range(len(good)), key=lambda i: len(supporters[i]))
    ahead, voters = supporters[winner], {ballot.owner[message] for message in vectors}
    if len(ahead) >= ballot.needed and 2 * len(ahead) > len(voters):
        far = ~(apart[winner] <= 2.0 * ballot.tolerance * scale)
        wrong = [good[j] for j in _places(far)]
        accused = {ballot.owner[m]: _outvoted(m, ballot, ahead, "differs") for m in wrong}
        accused |= {ballot.owner[m]: _outvoted(m, ballot, ahead, "is not finite") for m in refused}
        unlike = {ballot.owner[good[j]] for j in _places((apart[winner] > 0.0) & ~far)}
        return Finding(accused, refused, {}, compared, frozenset(unlike))
    why = f"the equal messages of workers {listed(ballot.owner[m] for m in good)} differ, and no majority says who lies"
    contradicting = dict.fromkeys(good, why)
    undecided = (Undecided(tuple(sorted({ballot.owner[m] for m in good})), True, why),)
    # Could one of them still win, if all that may come agree with it?
    more = len(ballot.pending - voters)
    if len(ahead) + more >= ballot.needed and 2 * (len(ahead) + more) > len(voters) + more:
        return Finding({}, refused, contradicting, compared, undecided=undecided)
    return Finding({}, {**refused, **contradicting}, {}, compared, undecided=undecided)


def _outvoted(message: int, ballot: Ballot, ahead: set[int], what: str) -> str:
    return f"its message {message} {what}, and workers {listed(ahead - {ballot.owner[message]})} agree on another"


def _table(vectors: Sequence[Array]) -> tuple[Array, float]:
    """Return the largest difference of each pair of vectors, and their size: the median, immune to minorities."""
    apart = np.zeros((len(vectors), len(vectors)))
    for i, one in enumerate(vectors):
        for j in range(i):
            apart[i, j] = apart[j, i] = _apart(one, vectors[j])
    sizes = sorted(map(_size, vectors))
    return apart, sizes[(len(sizes) - 1) // 2]


def _apart(one: Array, other: Array) -> float:
    with np.errstate(over="ignore"):
        return float(np.abs(one - other).max(initial=0.0))


def _size(vector: Array) -> float:
    return float(np.abs(vector).max(initial=0.0))


def _places(chosen: BoolArray) -> list[int]:
    return np.flatnonzero(chosen).tolist()
