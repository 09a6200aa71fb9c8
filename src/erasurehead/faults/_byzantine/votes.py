"""Compares messages that should be equal, and outvotes minorities."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from erasurehead._internal.arrays import Array, BoolArray, finite
from erasurehead.errors import listed
from erasurehead.faults._byzantine.examination import NOT_FINITE, Finding, Undecided


@dataclass(frozen=True)
class Ballot:
    """The workers whose messages have the same content.

    Attributes:
        owner: the worker of each message that has arrived.
        pending: workers from which an equal message may still arrive.
        tolerance: largest difference of two honest vectors, relative to their largest element; 0.0 if they are equal.
        needed: number of workers that must agree before another is accused; they must also be a majority.
        moot: workers of whom no pair is questioned where no majority says who lies, each with the reason; None if
            nobody is.
    """

    owner: Mapping[int, int]
    pending: frozenset[int]
    tolerance: float
    needed: int
    moot: Mapping[int, str] | None = None


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
    finite_messages, compared, unequal, split = list[int](), 0, set[int](), False
    refused: dict[int, str] = {}
    for message, vector in vectors.items():
        first = vectors[finite_messages[0]] if finite_messages else vector
        if finite_messages:
            compared += vector is not first
            if vector is first or np.array_equal(vector, first):
                finite_messages.append(message)
                continue
        if not finite(vector):
            refused[message] = NOT_FINITE
            continue
        if finite_messages:
            unequal.add(ballot.owner[message])
            split |= not _distance(vector, first) <= 0.5 * ballot.tolerance * min(_size(vector), _size(first))
        finite_messages.append(message)
    if not split and not refused:
        too_few = len(set(ballot.owner.values())) < ballot.needed  # conspiring liars could have sent all that arrived
        return Finding(compared=compared, unlike=frozenset(unequal), error=math.inf if too_few else 0.0)
    if not split:  # messages that are not finite are outvoted by any two that are finite and agree
        majority = {ballot.owner[message] for message in finite_messages}
        outvoted = len(majority) >= ballot.needed and 2 * len(majority) > len({ballot.owner[m] for m in vectors})
        accused = (
            {ballot.owner[m]: _outvoted(m, ballot, majority, "is not finite") for m in refused} if outvoted else {}
        )
        return Finding(accused, refused, {}, compared, frozenset(unequal))
    return _divided(ballot, vectors, finite_messages, refused, compared)


def _divided(
    ballot: Ballot, vectors: Mapping[int, Array], finite_messages: Sequence[int], refused: dict[int, str], compared: int
) -> Finding:
    """Compare all pairs of messages that differ, and find the majority."""
    distances, scale = _distances([vectors[message] for message in finite_messages])
    compared += len(finite_messages) * (len(finite_messages) - 1) // 2
    agree = distances <= ballot.tolerance * scale
    supporters = [{ballot.owner[finite_messages[j]] for j in _indices(row)} for row in agree]
    winner = max(range(len(finite_messages)), key=lambda i: len(supporters[i]))
    majority, voters = supporters[winner], {ballot.owner[message] for message in vectors}
    if len(majority) >= ballot.needed and 2 * len(majority) > len(voters):
        far = ~(distances[winner] <= 2.0 * ballot.tolerance * scale)
        wrong = [finite_messages[j] for j in _indices(far)]
        accused = {ballot.owner[m]: _outvoted(m, ballot, majority, "differs") for m in wrong}
        accused |= {ballot.owner[m]: _outvoted(m, ballot, majority, "is not finite") for m in refused}
        unequal = {ballot.owner[finite_messages[j]] for j in _indices((distances[winner] > 0.0) & ~far)}
        return Finding(accused, refused, {}, compared, frozenset(unequal))
    workers = listed(ballot.owner[m] for m in finite_messages)
    reason = f"the equal messages of workers {workers} differ, and no majority says who lies"
    contradicting = dict.fromkeys(finite_messages, reason)
    undecided = (Undecided(tuple(sorted({ballot.owner[m] for m in finite_messages})), True, reason),)
    # Could one of them still win, if all that may come agree with it?
    more = len(ballot.pending - voters)
    if len(majority) + more >= ballot.needed and 2 * (len(majority) + more) > len(voters) + more:
        return Finding({}, refused, contradicting, compared, undecided=undecided)
    if (moot := ballot.moot) is not None:
        for i, j in itertools.combinations(range(len(finite_messages)), 2):
            pair = finite_messages[i], finite_messages[j]
            both = {ballot.owner[message] for message in pair}
            if not agree[i, j] and len(both) == 2 and not both <= moot.keys():
                return Finding({}, refused, contradicting, compared, undecided=undecided, dispute=pair)
        whys = dict.fromkeys(moot[owner] for message in finite_messages if (owner := ballot.owner[message]) in moot)
        contradicting = dict.fromkeys(finite_messages, "; ".join([reason, *whys]))
    return Finding({}, {**refused, **contradicting}, {}, compared, undecided=undecided)


def _outvoted(message: int, ballot: Ballot, majority: set[int], what: str) -> str:
    return f"its message {message} {what}, and workers {listed(majority - {ballot.owner[message]})} agree on another"


def _distances(vectors: Sequence[Array]) -> tuple[Array, float]:
    """Return the largest difference of each pair of vectors, and the median of their sizes."""
    distances = np.zeros((len(vectors), len(vectors)))
    for i, one in enumerate(vectors):
        for j in range(i):
            distances[i, j] = distances[j, i] = _distance(one, vectors[j])
    sizes = sorted(map(_size, vectors))
    return distances, sizes[(len(sizes) - 1) // 2]


def _distance(one: Array, other: Array) -> float:
    with np.errstate(over="ignore"):
        return float(np.abs(one - other).max(initial=0.0))


def _size(vector: Array) -> float:
    return float(np.abs(vector).max(initial=0.0))


def _indices(chosen: BoolArray) -> list[int]:
    return np.flatnonzero(chosen).tolist()
