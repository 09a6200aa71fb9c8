"""Who sent something that no gradients could have made: the mathematics of locating liars by a code's redundancy.

Every combination of the encoding's rows that vanishes must vanish on the messages as well: these combinations are the
code's *checks*. A set of workers *explains* what is seen if the checks that leave them out hold. The true liars always
explain it. So whoever is in every explanation by at most so many workers lies, if there are no more liars than that.

Nothing is told that rounding could have made up. What passes for rounding is stated (`tolerance`); what remains in the
checks bounds how far lies that nobody can see may turn the decoded gradient; and where that is more than `BEARABLE`,
the answer is that the liars cannot be located at this precision.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from erasurehead._internal.arrays import Array, BoolArray, IntArray
from erasurehead.decoding.fourier_location import locate_by_powers
from erasurehead.decoding.parity_checks import HUGE, Checks, noise

BEARABLE: Mapping[int, float] = {8: 1e-6, 4: 1e-3, 2: 1e-1}
"""How far unseen lies may turn a decoded gradient, over a sum of independent partial ones, by the bytes of a number."""

MOST_SETS = 20_000
"""Sets of workers that are tried as liars, at most."""

_CHANCE = 4.0  # projections of a vector are shorter than it by a chance; this is more than they all are


@dataclass(frozen=True)
class Located:
    """Where the errors are.

    Attributes:
        guilty: workers that lie, whatever else is true: no set of at most so many liars without them explains what is
            seen.
        suspected: workers that may lie: they are in some explanation, but not in every one.
        settled: whether the messages of all others hold together, and lies too small to be seen in them cannot turn
            the decoded gradient by more than `BEARABLE`.
        error: bound of what unseen lies do to the gradient decoded from the others, relative to the length of a sum of
            independent partial gradients, the rounding of the messages included; infinite if not `settled`, and where
            messages are believed that nothing checks.
        why: what cannot be told, as part of a sentence; empty if all can.
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
    """Return who must have lied.

    Arguments:
        checks: among the messages.
        prints: a few linear functions of each message's vector, finite, shape (m, numbers).
        corrupted: how many there may be, at most.
        tolerance: relative size of what passes for a rounding error.
        bytes_a_number: of the messages' numbers: 8, 4 or 2.
        strict: whether messages that nothing checks are in doubt, too; else they are believed as far as the code makes
            no promise of them.
    """
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        said = np.nan_to_num(prints / checks.lengths[:, None], nan=HUGE, posinf=HUGE, neginf=-HUGE)
        guilty: list[int] = []
        while True:
            if checks.off(said) <= noise(said, tolerance):
                return replace(_weighed(checks, said, corrupted, bytes_a_number, strict), guilty=tuple(sorted(guilty)))
            new, suspected, why = _search(checks, said, corrupted, tolerance)
            if not new:
                return Located(tuple(sorted(guilty)), suspected, settled=False, error=math.inf, why=why)
            kept = ~np.isin(checks.owner, new)
            checks, said, corrupted = checks.without(new), said[kept], corrupted - len(new)
            guilty += new


def most_corrupted(checks: Checks, wanted: int) -> int:
    """Return for how many liars among these workers all sets can be tried, at most `wanted` and at least 1.

    With checks on the unit circle, liars are found without trying all sets.
    """
    if checks.fourier is not None:
        return max(1, wanted)
    most = 0
    while most < wanted and math.comb(len(checks.workers), most + 1) <= MOST_SETS:
        most += 1
    return max(1, most)


def _weighed(checks: Checks, said: Array, corrupted: int, bytes_a_number: int, strict: bool) -> Located:
    """Say how far lies that the checks do not show may turn the gradient."""
    if not np.any(said):
        return Located()
    said = said / float(np.abs(said).max())  # so that squares neither overflow nor vanish
    middle = _middle(np.linalg.norm(said, axis=1))
    rounding = {8: 2.0**-49, 4: 2.0**-20}.get(bytes_a_number, 2.0**-7) * middle  # of a sum of a few terms
    seen = float(np.linalg.norm(checks.table @ said, axis=0).max(initial=0.0))
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
    many = f"{corrupted} liar{'s' * (corrupted > 1)} cannot be located"
    why = f"{what}: {many}" + ("" if unseen and strict else " at this precision")
    return Located(suspected=tuple(checks.workers.tolist()), settled=False, error=math.inf, why=why)


def _search(checks: Checks, said: Array, corrupted: int, tolerance: float) -> tuple[list[int], tuple[int, ...], str]:
    """Return who is in every explanation, who is in some, and what cannot be told."""
    everybody = tuple(checks.workers.tolist())
    if corrupted < 1:
        return [], everybody, "the messages contradict each other, and no worker may lie"
    most = min(corrupted, len(everybody))
    if sum(math.comb(len(everybody), size) for size in range(1, most + 1)) <= MOST_SETS:
        found = _explanations(checks, said, most, tolerance)
        if not found:
            return [], everybody, _unexplained(corrupted)
        inside = np.array(found)
        guilty = checks.workers[inside.all(axis=0)].tolist()
        if guilty:
            return guilty, (), ""
        return [], tuple(checks.workers[inside.any(axis=0)].tolist()), _ambiguous(checks.workers[inside.any(axis=0)])
    if checks.fourier is None:
        many = math.comb(len(everybody), most)
        why = f"{corrupted} liars cannot be located, as there are {many:.1e} sets of workers to try"
        return [], everybody, f"the messages contradict each other; {why}"
    guilty, explained = locate_by_powers(checks, checks.fourier, said, most, tolerance)
    return guilty, everybody, "" if guilty else (_ambiguous(everybody) if explained else _unexplained(corrupted))


def _unexplained(corrupted: int) -> str:
    return f"the messages contradict each other, and no {corrupted} of their workers explain it"


def _ambiguous(workers: Sequence[int] | IntArray) -> str:
    few = ", ".join(map(str, list(workers)[:12])) + (", ..." if len(workers) > 12 else "")
    return (
        f"the messages contradict each other, and each of workers {few} may be the one that lies: who it is cannot be "
        "located at this precision"
    )


def _explanations(checks: Checks, said: Array, corrupted: int, tolerance: float) -> list[BoolArray]:
    """Return every set of at most so many workers that explains what is seen, of those that hold no smaller one."""
    n = len(checks.workers)
    found: list[BoolArray] = []
    for size in range(1, corrupted + 1):
        every = np.array(list(itertools.combinations(range(n), size)), dtype=np.int64)
        for smaller in found:
            every = every[smaller[every].sum(axis=1) < smaller.sum()]
        for sets in checks.chunks(every):
            for chosen in sets[checks.explaining(sets, said, tolerance)]:
                inside = np.zeros(n, dtype=bool)
                inside[chosen] = True
                found.append(inside)
    return found


def _middle(lengths: Array) -> float:
    """Return the median, which no minority can move, of those that say something."""
    something = lengths[lengths > 0.0]
    return float(np.median(something)) if len(something) else 1.0
