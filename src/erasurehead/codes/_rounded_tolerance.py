"""How many stragglers float64 lets a code tolerate, by how much rounding grows without the worst ones."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from erasurehead._internal.arrays import IntArray
from erasurehead.codes._base import GradientCode
from erasurehead.codes._exact_weights import ExactWeights
from erasurehead.codes._exactness import DENSE, EXACT, MOST_AMPLIFIED, Unbearable
from erasurehead.codes._sparse_elimination import eliminated
from erasurehead.codes._worst_rounding import hardest
from erasurehead.errors import counted, listed


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
    worst = hardest(code, weights, code.tolerance, most)
    without = f"without workers {listed(worst.stragglers.tolist())}"
    if not worst.amplification <= most:
        reason = (
            "no weights decode" if worst.amplification == np.inf else f"rounding grows {worst.amplification:.1e} times"
        )
        raise _refused(code, f"{reason} {without} ({most:.0e} times would do)", instead)
    left = _left(code, weights, worst.stragglers)
    if left > EXACT / 4:
        raise _refused(code, f"{left:.1e} of the gradient is left {without}", instead)
    return code.with_structure(
        amplification=worst.amplification, amplification_bound=worst.bound, hardest=worst.stragglers
    )


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
    """Return the residual that decoding without some workers leaves in float64, as a fraction of the tasks."""
    if weights.sharp:
        solved = weights.without(code.messages_of_workers(stragglers)).weights
        scaled = np.divide(solved, weights.lengths, out=np.zeros_like(solved), where=weights.lengths > 0)
        gap = np.asarray(code.encoding.T @ scaled.T) - code.target.T
    elif code.n_messages > DENSE:
        messages = code.messages_without(stragglers)
        solution = eliminated(code, messages)
        gap = code.target.T if solution is None else np.asarray(code.encoding[messages].T @ solution.T) - code.target.T
    else:
        return 0.0  # decoding uses sharper weights, which are too expensive to make for this only
    return float((gap**2).sum()) / (code.n_tasks * code.n_pieces)


def _refused(code: GradientCode, why: str, instead: str) -> Unbearable:
    clause = f"{code.name} of {counted('worker', code.n_workers)} cannot bear {code.tolerance}: {why}"
    return Unbearable(
        "stragglers",
        "must be few enough for float64",
        code.tolerance,
        instead,
        sentence=f"stragglers must be few enough for float64, but {clause}; {instead}.",
    )
