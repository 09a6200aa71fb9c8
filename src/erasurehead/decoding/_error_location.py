"""The mathematics of locating liars, that is, messages that no gradients could have produced, by redundancy.

Every vanishing combination of the encoding's rows must vanish on the messages as well: these combinations are the
code's *checks*. A set of workers *explains* the observations if the checks that do not involve them hold. The true
liars always explain them. So a worker that is in every explanation of at most a given size lies, if there are no more
liars than that.

Nothing is claimed that rounding could have produced. The size of rounding errors is an argument (`tolerance`); what
remains in the checks bounds how far undetectable lies may turn the decoded gradient; and if that is more than
`BEARABLE`, the answer is that the liars cannot be located at this precision.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from erasurehead._internal.arrays import Array, BoolArray, IntArray
from erasurehead.decoding._fourier_location import locate_by_powers
from erasurehead.decoding._parity_checks import HUGE, Checks, noise
from erasurehead.errors import counted

BEARABLE: Mapping[int, float] = {8: 1e-6, 4: 1e-3, 2: 1e-1}
"""Tolerated effect of undetected lies, relative to a sum of independent partial gradients, by bytes per number."""

MOST_SETS = 20_000
"""Largest number of sets of workers that are tried as liars."""

_CHANCE = 4.0  # projections of a vector may be shorter than it by chance; this factor covers all of them


@dataclass(frozen=True)
class Located:
    """The result of locating errors.

    Attributes:
        guilty: workers that lie in any case: no set of at most `corrupted` liars without them explains the
            observations.
        suspected: workers that may lie: they are in some explanations, but not in all.
        settled: whether the messages of all others are consistent, and lies too small to be detected cannot turn
            the decoded gradient by more than `BEARABLE`.
        error: bound on the effect of undetected lies, and of rounding, on the gradient decoded from the others,
            relative to the norm of a sum of independent partial gradients; inf if not `settled`, or if messages are
            trusted that nothing checks.
        why: what cannot be decided, as part of a sentence; empty if everything can.
    """

    guilty: tuple[int, ...] = ()
    suspected: tuple[int, ...] = ()
    settled: bool = True
    error: float = 0.0
    why: str = ""


def locate(
    checks: Checks,
    prints: Array,
    corrupted: int,
    tolerance: float,
    bytes_a_number: int = 8,
    strict: bool = False,
) -> Located:
    """Return which workers must have lied.

    Arguments:
        checks: the checks among the messages.
        prints: fingerprints: a few linear functions of each message's vector, finite, shape (m, numbers).
        corrupted: the largest possible number of liars.
        tolerance: relative size up to which differences count as rounding errors.
        bytes_a_number: bytes per number of the messages: 8, 4 or 2.
        strict: whether messages that nothing checks are in doubt, too; otherwise they are trusted where the code makes
            no promise about them.
    """
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        received = np.nan_to_num(prints / checks.lengths[:, None], nan=HUGE, posinf=HUGE, neginf=-HUGE)
        guilty: list[int] = []
        while True:
            if checks.off(received) <= noise(received, tolerance):
                return replace(
                    _weighed(checks, received, corrupted, bytes_a_number, strict), guilty=tuple(sorted(guilty))
                )
            new, suspected, why = _search(checks, received, corrupted, tolerance)
            if not new:
                return Located(tuple(sorted(guilty)), suspected, settled=False, error=math.inf, why=why)
            kept = ~np.isin(checks.owner, new)
            checks, received, corrupted = checks.without(new), received[kept], corrupted - len(new)
            guilty += new


def most_corrupted(checks: Checks, wanted: int) -> int:
    """Return the number of liars, from 1 to `wanted`, for which all sets of these workers can be tried.

    With checks on the unit circle, liars are found without trying all sets.
    """
    if checks.fourier is not None:
        return max(1, wanted)
    most = 0
    while most < wanted and math.comb(len(checks.workers), most + 1) <= MOST_SETS:
        most += 1
    return max(1, most)


def _weighed(checks: Checks, received: Array, corrupted: int, bytes_a_number: int, strict: bool) -> Located:
    """Return how far lies that the checks do not show may turn the gradient."""
    if not np.any(received):
        return Located()
    received = received / float(np.abs(received).max())  # so that squares neither overflow nor vanish
    middle = _middle(np.linalg.norm(received, axis=1))
    rounding = {8: 2.0**-49, 4: 2.0**-20}.get(bytes_a_number, 2.0**-7) * middle  # of a sum of a few terms
    seen = float(np.linalg.norm(checks.table @ received, axis=0).max(initial=0.0))
    promised = corrupted if checks.left is None or strict else min(corrupted, checks.left)
    factor, unseen = checks.amplification(promised)
    unseen &= strict or checks.left is not None
    error = factor * (seen + rounding) + rounding * float(np.linalg.norm(checks.weights))
    error *= _CHANCE / (math.sqrt(checks.code.n_tasks) * middle)
    bearable = BEARABLE.get(bytes_a_number, 0.1)
    if error <= bearable and not unseen:
        return Located(error=error if promised == corrupted and checks.left is not None else math.inf)
    what = f"lies within the rounding of the messages could turn the gradient by {error:.1e} (at most {bearable:g})"
    if unseen:
        what = "nothing that has arrived checks some of the messages"
    many = f"{counted('liar', corrupted)} cannot be located"
    why = f"{what}: {many}" + ("" if unseen and strict else " at this precision")
    return Located(suspected=tuple(checks.workers.tolist()), settled=False, error=math.inf, why=why)


def _search(
    checks: Checks, received: Array, corrupted: int, tolerance: float
) -> tuple[list[int], tuple[int, ...], str]:
    """Return the workers in every explanation, those in some, and what cannot be decided."""
    everybody = tuple(checks.workers.tolist())
    if corrupted < 1:
        return [], everybody, "the messages contradict each other, and no worker may lie"
    most = min(corrupted, len(everybody))
    if sum(math.comb(len(everybody), size) for size in range(1, most + 1)) <= MOST_SETS:
        explanations = _explanations(checks, received, most, tolerance)
        if not explanations:
            return [], everybody, _unexplained(corrupted)
        inside = np.array(explanations)
        guilty = checks.workers[inside.all(axis=0)].tolist()
        if guilty:
            return guilty, (), ""
        return [], tuple(checks.workers[inside.any(axis=0)].tolist()), _ambiguous(checks.workers[inside.any(axis=0)])
    if checks.fourier is None:
        many = math.comb(len(everybody), most)
        why = f"{corrupted} liars cannot be located, as there are {many:.1e} sets of workers to try"
        return [], everybody, f"the messages contradict each other; {why}"
    guilty, explained = locate_by_powers(checks, checks.fourier, received, most, tolerance)
    return guilty, everybody, "" if guilty else (_ambiguous(everybody) if explained else _unexplained(corrupted))


def _unexplained(corrupted: int) -> str:
    return f"the messages contradict each other, and no {corrupted} of their workers explain it"


def _ambiguous(workers: Sequence[int] | IntArray) -> str:
    few = ", ".join(map(str, list(workers)[:12])) + (", ..." if len(workers) > 12 else "")
    return (
        f"the messages contradict each other, and each of workers {few} may be the one that lies: who it is cannot be "
        "located at this precision"
    )


def _explanations(checks: Checks, received: Array, corrupted: int, tolerance: float) -> list[BoolArray]:
    """Return all minimal sets of at most `corrupted` workers that explain the observations."""
    n = len(checks.workers)
    explanations: list[BoolArray] = []
    for size in range(1, corrupted + 1):
        every = np.array(list(itertools.combinations(range(n), size)), dtype=np.int64)
        for smaller in explanations:
            every = every[smaller[every].sum(axis=1) < smaller.sum()]
        for sets in checks.chunks(every):
            for chosen in sets[checks.explaining(sets, received, tolerance)]:
                inside = np.zeros(n, dtype=bool)
                inside[chosen] = True
                explanations.append(inside)
    return explanations


def _middle(lengths: Array) -> float:
    """Return the median, which no minority can change, of the nonzero lengths."""
    something = lengths[lengths > 0.0]
    return float(np.median(something)) if len(something) else 1.0
