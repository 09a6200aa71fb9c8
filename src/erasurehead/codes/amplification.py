"""How much a code amplifies rounding errors in the worst case, and which tolerance float64 allows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from erasurehead._internal.arrays import IntArray
from erasurehead._internal.rng import stream
from erasurehead.codes.base import GradientCode
from erasurehead.codes.exact_weights import ExactWeights
from erasurehead.codes.exactness import EXACT, MOST_AMPLIFIED, Unbearable
from erasurehead.errors import counted, listed

_WORK = 2e8  # approximate number of multiplications that a search may cost
_SETS = 250  # greatest number of sets that it examines
_SETS_OF_SHIFTED = 30  # the same for codes whose worst set is a run of neighbours
_LEAST = 12  # least number of sets that it examines, whatever they cost


class Hardest(NamedTuple):
    """The stragglers whose absence amplifies rounding errors most, as far as a search has found them."""

    amplification: float
    """Worst factor between the rounding error of a message and the relative error of the decoded gradient."""
    stragglers: IntArray
    """The workers, ascending."""


def hardest(code: GradientCode, weights: ExactWeights, stragglers: int) -> Hardest:
    """Search for the set of stragglers of a given size whose absence amplifies rounding most.

    The search examines no stragglers, runs of neighbours (by far the worst for codes made of Fourier polynomials), two
    runs, and workers evenly spread and at random; the worst of them is then improved by exchanging single workers.

    Arguments:
        code: any code.
        weights: its exact weights.
        stragglers: number of stragglers, at most the code's tolerance.
    """
    n, size = code.n_workers, code.n_tasks * code.n_pieces

    def judged(chosen: IntArray) -> Hardest:
        ordered = np.sort(chosen)
        return Hardest(weights.amplification(code.messages_of_workers(ordered), size), ordered)

    found = judged(np.zeros(0, dtype=np.int64))
    if not 0 < stragglers < n:
        return found
    shifted = code.structure.shift is not None  # then all runs are equivalent
    width = stragglers * code.n_messages / n
    price = width**2 * max(weights.nullity, 1) + 20_000 + 20 * n
    left = int(min(_SETS_OF_SHIFTED if shifted else _SETS, max(_LEAST, _WORK / price)))
    random = stream("hardest stragglers", 0)
    candidates = list(_patterns(n, stragglers, 1 if shifted else max(1, min(n, left // 2)), random))
    best = max((found, *(judged(chosen) for chosen in candidates)), key=lambda one: one.amplification)
    for _ in range(left - len(candidates) if len(best.stragglers) else 0):
        tried = judged(_exchanged(best.stragglers, n, random))
        if tried.amplification > best.amplification:
            best = tried
    return best


def _patterns(n: int, s: int, runs: int, random: np.random.Generator) -> Iterator[IntArray]:
    for begin in np.unique(np.linspace(0, n, runs, endpoint=False).astype(np.int64)).tolist():
        yield (begin + np.arange(s)) % n
    yield np.arange(s) * n // s
    yield np.concatenate([np.arange(s // 2), n // 2 + np.arange(s - s // 2)])
    for _ in range(3):
        yield random.permutation(n)[:s]


def _exchanged(stragglers: IntArray, n: int, random: np.random.Generator) -> IntArray:
    """Return the stragglers with one of them exchanged, half of the time for a neighbour of another."""
    place, anchor = random.integers(len(stragglers), size=2)
    new = int(random.integers(n) if random.random() < 0.5 else (stragglers[anchor] + random.integers(-3, 4)) % n)
    chosen = stragglers.copy()
    if new not in stragglers:
        chosen[place] = new
    return chosen


def certified(
    code: GradientCode, weights: ExactWeights | None, instead: str, most: float = MOST_AMPLIFIED
) -> GradientCode:
    """Return a code with its `amplification`, or raise if float64 does not allow its tolerance.

    Arguments:
        code: a code with a tolerance.
        weights: its exact weights, or None where they could not be found.
        instead: what would work, for the message.
        most: the largest amplification that its decoder allows.

    Raises:
        InvalidArgument: if the stragglers that it is built for amplify rounding by more than that.
    """
    assert code.tolerance is not None
    if weights is None:
        raise _refused(code, "its messages do not decode in float64", instead)
    found = hardest(code, weights, code.tolerance)
    if not found.amplification <= most:
        said = (
            "no weights decode" if found.amplification == np.inf else f"rounding grows {found.amplification:.1e} times"
        )
        who = listed(found.stragglers.tolist())
        raise _refused(code, f"{said} without workers {who} ({most:.0e} times would do)", instead)
    left = _left(code, weights, found.stragglers) if weights.sharp else 0.0
    if left > EXACT / 4:
        who = listed(found.stragglers.tolist())
        raise _refused(code, f"{left:.1e} of the gradient is left without workers {who}", instead)
    return code.with_structure(amplification=found.amplification, hardest=found.stragglers)


def tolerated(code: GradientCode, weights: ExactWeights | None, least: int, instead: str) -> GradientCode:
    """Return a code whose tolerance is lowered to what float64 allows, or raise if that is too little.

    Arguments:
        code: a code with its theoretical tolerance.
        weights, instead: as for `certified`.
        least: the tolerance that it must keep.

    Raises:
        InvalidArgument: if not even `least` stragglers can be tolerated.
    """
    assert code.tolerance is not None
    low, high, best = least, code.tolerance, None
    while low <= high:
        middle = high if best is None and high == code.tolerance and low == least else (low + high) // 2
        try:
            best, low = certified(replace(code, tolerance=middle), weights, instead), middle + 1
        except Unbearable:
            high = middle - 1
    return certified(replace(code, tolerance=least), weights, instead) if best is None else best


def _left(code: GradientCode, weights: ExactWeights, stragglers: IntArray) -> float:
    """Return the residual that the weights without some workers leave in float64, as a fraction of the tasks."""
    solved = weights.without(code.messages_of_workers(stragglers)).weights
    scaled = np.divide(solved, weights.lengths, out=np.zeros_like(solved), where=weights.lengths > 0)
    gap = np.asarray(code.encoding.T @ scaled.T) - code.target.T
    return float((gap**2).sum()) / (code.n_tasks * code.n_pieces)


def _refused(code: GradientCode, why: str, instead: str) -> Unbearable:
    said = f"{code.name} of {counted('worker', code.n_workers)} cannot bear {code.tolerance}: {why}"
    return Unbearable(
        "stragglers", "must be few enough for float64", code.tolerance, instead,
        sentence=f"stragglers must be few enough for float64, but {said}; {instead}.",
    )  # fmt: skip
