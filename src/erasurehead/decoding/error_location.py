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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from erasurehead._internal.arrays import Array, BoolArray, IntArray
from erasurehead._internal.rng import stream
from erasurehead.codes.base import GradientCode
from erasurehead.codes.locating import circle, distance

ComplexArray = NDArray[np.complex128]

BEARABLE: Mapping[int, float] = {8: 1e-6, 4: 1e-3, 2: 1e-1}
"""How far unseen lies may turn a decoded gradient, over a sum of independent partial ones, by the bytes of a number."""

MOST_SETS = 20_000
"""Sets of workers that are tried as liars, at most."""

_MOST_WEIGHED = 300  # sets whose unseen lies are weighed one by one; of more: neighbours, and a sample
_SAMPLE = 50
_ENTRIES = 2_000_000  # numbers in one batch of sets
_CHANCE = 4.0  # projections of a vector are shorter than it by a chance; this is more than they all are
_HUGE = 1e300  # stands for what is no finite number
_RANK = 1e-11  # singular values below this part of the largest are zero
_UNSEEN = 1e-13  # parts of orthonormal checks below this are zero


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


@dataclass(frozen=True, eq=False)
class Checks:
    """What the messages of some rows of a code must satisfy.

    Attributes:
        code: the code.
        messages: ascending, shape (m,).
        owner: of each message, shape (m,).
        lengths: what each message is divided by: the Euclidean length of its row, or of the longest one, shape (m,).
        table: orthonormal rows, shape (c, m): they vanish on honest messages divided by `lengths`.
        weights: that decode all these messages, for messages divided by `lengths`, shape (n_pieces, m).
        left: stragglers and liars that the code still bears, at most, beside the workers missing here; None if it
            promises nothing.
        fourier: some of the checks as powers, for codes on the unit circle. As gradients are real there are more.
    """

    code: GradientCode
    messages: IntArray
    owner: IntArray
    lengths: Array
    table: Array
    weights: Array
    left: int | None
    fourier: FourierChecks | None = None

    @classmethod
    def of(cls, code: GradientCode, messages: IntArray, weights: Array, unit: IntArray | None = None) -> Checks:
        """Return the checks among some messages of a code.

        Arguments:
            code: the code.
            messages: those that are in, ascending, shape (m,).
            weights: that decode them, shape (n_pieces, m).
            unit: all messages on tasks that no others touch, those that are in among them; all of the code if None.
        """
        owner = code.owner[messages]
        of_unit = np.arange(code.n_messages) if unit is None else unit
        missing = np.unique(code.owner[np.setdiff1d(of_unit, messages)])
        left = None if code.tolerance is None else max(0, code.tolerance - len(missing))
        fourier = fourier_checks(code)
        rows = code.encoding[messages]
        dense = rows[:, np.unique(rows.indices)].toarray()
        lengths = np.sqrt(np.einsum("mt,mt->m", dense, dense))
        lengths[lengths == 0.0] = 1.0
        if fourier is not None:  # all alike, so that the powers stay among the checks
            lengths[:] = lengths.max(initial=1.0)
        basis, values, _ = np.linalg.svd(dense / lengths[:, None], full_matrices=True)
        rank = int((values > _RANK * values[0]).sum()) if len(values) else 0
        return cls(code, messages, owner, lengths, basis[:, rank:].T, weights * lengths, left, fourier)

    @cached_property
    def workers(self) -> IntArray:
        """Whose messages these are, ascending."""
        return np.unique(self.owner)

    @cached_property
    def _known(self) -> dict[int, tuple[float, bool]]:
        return {}

    def without(self, workers: Iterable[int]) -> Checks:
        """Return the checks of the others."""
        gone = np.isin(self.owner, list(workers))
        if not gone.any():
            return self
        lost = len(np.unique(self.owner[gone]))
        return replace(
            self, messages=self.messages[~gone], owner=self.owner[~gone], lengths=self.lengths[~gone],
            table=_without(self.table, gone)[:, ~gone], weights=_reweighted(self.weights, self.table, gone)[:, ~gone],
            left=None if self.left is None else max(0, self.left - lost),
        )  # fmt: skip

    def hold(self, prints: Array, tolerance: float) -> bool:
        """Return whether all checks hold on linear functions of the messages, shape (m, numbers), finite."""
        with np.errstate(over="ignore", invalid="ignore"):
            said = prints / self.lengths[:, None]
            return _off(self.table, said) <= min(_noise(said, tolerance), _HUGE)

    def amplification(self, liars: int) -> tuple[float, bool]:
        """Return how much larger an unseen error of the decoded gradient may be than what is left in the checks.

        If nobody but some set of workers lies, other weights decode without them and differ from these by a
        combination of the checks; the decoded errors differ by that combination of what the checks say. Its largest
        length over the sets is returned; where there are too many of them, over neighbours (the worst sets of codes
        around a circle) and a sample.

        Arguments:
            liars: how many there may be beside those that are known.

        Returns:
            The factor, of what the checks see; and whether there are weights on what they do not see at all.
        """
        most = min(liars, len(self.workers))
        if most < 1:
            return 0.0, False
        if most not in self._known:
            found = [self._amplified(sets) for sets in self.chunks(self._sets(most))]
            self._known[most] = max(factor for factor, _ in found), any(unseen for _, unseen in found)
        return self._known[most]

    def _sets(self, size: int) -> IntArray:
        n = len(self.workers)
        if math.comb(n, size) <= _MOST_WEIGHED:
            return np.array(list(itertools.combinations(range(n), size)), dtype=np.int64)
        runs = np.sort((np.arange(n)[:, None] + np.arange(size)) % n, axis=1)
        random = stream("liars", n).random((_SAMPLE, n))
        return np.concatenate([runs, np.sort(np.argsort(random, axis=1)[:, :size], axis=1)])

    def _amplified(self, sets: IntArray) -> tuple[float, bool]:
        columns, there = self._columns(sets)
        blocks = np.moveaxis(self.table[:, columns], 0, 1) * there[:, None, :]  # (sets, checks, messages of the set)
        weights = np.moveaxis(self.weights[:, columns], 0, 1) * there[:, None, :]
        _, values, right = np.linalg.svd(blocks, full_matrices=False)
        seen = (values > _UNSEEN)[:, None, :]
        parts = weights @ np.swapaxes(right, 1, 2)
        unseen = weights - np.where(seen, parts, 0.0) @ right
        factors = np.where(seen, parts, 0.0) / np.where(seen, values[:, None, :], 1.0)
        matters = np.abs(unseen) > 1e-9 * np.abs(self.weights).max(initial=0.0)
        return float(np.sqrt((factors**2).sum(axis=(1, 2)).max())), bool(matters.any())

    @cached_property
    def _places(self) -> tuple[IntArray, BoolArray]:
        """Columns of each worker, padded to the same number, and which are no padding."""
        order = np.argsort(self.owner, kind="stable")
        counts: IntArray = np.unique(self.owner, return_counts=True)[1].astype(np.int64)
        starts = np.cumsum(counts) - counts
        each = np.arange(int(counts.max(initial=0)))
        there: BoolArray = each < counts[:, None]
        return order[np.where(there, starts[:, None] + each, starts[:, None])].astype(np.int64), there

    def _columns(self, sets: IntArray) -> tuple[IntArray, BoolArray]:
        columns, there = self._places
        return columns[sets].reshape(len(sets), -1), there[sets].reshape(len(sets), -1)

    def chunks(self, sets: IntArray) -> Iterator[IntArray]:
        """Yield some sets after the other, as many as are dealt with at once."""
        at_once = max(1, _ENTRIES // max(1, 8 * sum(self.table.shape)))
        for begin in range(0, len(sets), at_once):
            yield sets[begin : begin + at_once]

    def explaining(self, sets: IntArray, said: Array, tolerance: float) -> BoolArray:
        """Return which sets of workers (as places among `workers`) explain what the messages say, (len(sets),)."""
        columns, there = self._columns(sets)
        blocks = np.moveaxis(self.table[:, columns], 0, 1) * there[:, None, :]
        left, values, _ = np.linalg.svd(blocks, full_matrices=False)
        inside = left * (values > _UNSEEN)[:, None, :]
        # What they say is left out before anything is added up, so that a huge lie drowns nothing.
        others = np.ones((len(sets), len(said)), dtype=bool)
        rows = np.broadcast_to(np.arange(len(sets))[:, None], columns.shape)
        others[rows[there], columns[there]] = False
        seen = self.table @ np.where(others[:, :, None], said, 0.0)  # (sets, checks, numbers)
        seen -= inside @ (np.swapaxes(inside, 1, 2) @ seen)
        off = np.abs(seen).max(axis=(1, 2))
        sizes = np.where(others, np.abs(said).max(axis=1), 0.0).max(axis=1)
        return np.isfinite(off) & (off <= tolerance * math.sqrt(len(said)) * sizes)


def locate(
    checks: Checks,
    prints: Array,
    liars: int,
    tolerance: float,
    bytes_a_number: int = 8,
    strict: bool = False,
) -> Located:
    """Return who must have lied.

    Arguments:
        checks: among the messages.
        prints: a few linear functions of each message's vector, finite, shape (m, numbers).
        liars: how many there may be, at most.
        tolerance: relative size of what passes for a rounding error.
        bytes_a_number: of the messages' numbers: 8, 4 or 2.
        strict: whether messages that nothing checks are in doubt, too; else they are believed as far as the code makes
            no promise of them.
    """
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        said = np.nan_to_num(prints / checks.lengths[:, None], nan=_HUGE, posinf=_HUGE, neginf=-_HUGE)
        guilty: list[int] = []
        while True:
            if _off(checks.table, said) <= _noise(said, tolerance):
                return replace(_weighed(checks, said, liars, bytes_a_number, strict), guilty=tuple(sorted(guilty)))
            new, suspected, why = _search(checks, said, liars, tolerance)
            if not new:
                return Located(tuple(sorted(guilty)), suspected, settled=False, error=math.inf, why=why)
            kept = ~np.isin(checks.owner, new)
            checks, said, liars = checks.without(new), said[kept], liars - len(new)
            guilty += new


def most_liars(checks: Checks, wanted: int) -> int:
    """Return for how many liars among these workers all sets can be tried, at most `wanted` and at least 1.

    With checks on the unit circle, liars are found without trying all sets.
    """
    if checks.fourier is not None:
        return max(1, wanted)
    most = 0
    while most < wanted and math.comb(len(checks.workers), most + 1) <= MOST_SETS:
        most += 1
    return max(1, most)


def _weighed(checks: Checks, said: Array, liars: int, bytes_a_number: int, strict: bool) -> Located:
    """Say how far lies that the checks do not show may turn the gradient."""
    if not np.any(said):
        return Located()
    said = said / float(np.abs(said).max())  # so that squares neither overflow nor vanish
    middle = _middle(np.linalg.norm(said, axis=1))
    rounding = {8: 2.0**-49, 4: 2.0**-20}.get(bytes_a_number, 2.0**-7) * middle  # of a sum of a few terms
    seen = float(np.linalg.norm(checks.table @ said, axis=0).max(initial=0.0))
    promised = liars if checks.left is None or strict else min(liars, checks.left)
    factor, unseen = checks.amplification(promised)
    unseen &= strict or checks.left is not None
    error = factor * (seen + rounding) + rounding * float(np.linalg.norm(checks.weights))
    error *= _CHANCE / (math.sqrt(checks.code.n_tasks) * middle)
    bearable = BEARABLE.get(bytes_a_number, 0.1)
    if error <= bearable and not unseen:
        return Located(error=error if promised == liars and checks.left is not None else math.inf)
    what = f"lies within the rounding of the messages could turn the gradient by {error:.1e} (at most {bearable:g})"
    if unseen:
        what = "nothing that has arrived checks some of the messages"
    many = f"{liars} liar{'s' * (liars > 1)} cannot be located"
    why = f"{what}: {many}" + ("" if unseen and strict else " at this precision")
    return Located(suspected=tuple(checks.workers.tolist()), settled=False, error=math.inf, why=why)


def _search(checks: Checks, said: Array, liars: int, tolerance: float) -> tuple[list[int], tuple[int, ...], str]:
    """Return who is in every explanation, who is in some, and what cannot be told."""
    everybody = tuple(checks.workers.tolist())
    if liars < 1:
        return [], everybody, "the messages contradict each other, and no worker may lie"
    most = min(liars, len(everybody))
    if sum(math.comb(len(everybody), size) for size in range(1, most + 1)) <= MOST_SETS:
        found = _explanations(checks, said, most, tolerance)
        if not found:
            return [], everybody, _unexplained(liars)
        inside = np.array(found)
        guilty = checks.workers[inside.all(axis=0)].tolist()
        if guilty:
            return guilty, (), ""
        return [], tuple(checks.workers[inside.any(axis=0)].tolist()), _ambiguous(checks.workers[inside.any(axis=0)])
    if checks.fourier is None:
        many = math.comb(len(everybody), most)
        why = f"{liars} liars cannot be located, as there are {many:.1e} sets of workers to try"
        return [], everybody, f"the messages contradict each other; {why}"
    guilty, explained = _on_the_circle(checks, checks.fourier, said, most, tolerance)
    return guilty, everybody, "" if guilty else (_ambiguous(everybody) if explained else _unexplained(liars))


def _unexplained(liars: int) -> str:
    return f"the messages contradict each other, and no {liars} of their workers explain it"


def _ambiguous(workers: Sequence[int] | IntArray) -> str:
    few = ", ".join(map(str, list(workers)[:12])) + (", ..." if len(workers) > 12 else "")
    return (
        f"the messages contradict each other, and each of workers {few} may be the one that lies: who it is cannot be "
        "located at this precision"
    )


def _explanations(checks: Checks, said: Array, liars: int, tolerance: float) -> list[BoolArray]:
    """Return every set of at most so many workers that explains what is seen, of those that hold no smaller one."""
    n = len(checks.workers)
    found: list[BoolArray] = []
    for size in range(1, liars + 1):
        every = np.array(list(itertools.combinations(range(n), size)), dtype=np.int64)
        for smaller in found:
            every = every[smaller[every].sum(axis=1) < smaller.sum()]
        for sets in checks.chunks(every):
            for chosen in sets[checks.explaining(sets, said, tolerance)]:
                inside = np.zeros(n, dtype=bool)
                inside[chosen] = True
                found.append(inside)
    return found


# --- checks on the unit circle ----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class FourierChecks:
    """Neighbouring Fourier frequencies on which all honest messages together vanish.

    Attributes:
        points: of each worker on the unit circle, shape (n_workers,).
        first: exponent of the first check; the others follow.
        number: of checks.
    """

    points: ComplexArray
    first: int
    number: int

    @property
    def matrix(self) -> ComplexArray:
        """Orthonormal rows, shape (number, n_workers)."""
        powers = self.first + np.arange(self.number)
        exponents = np.outer(powers, np.arange(len(self.points))) % len(self.points)
        return self.points[exponents % len(self.points)] / math.sqrt(len(self.points))


@lru_cache(maxsize=8)
def fourier_checks(code: GradientCode) -> FourierChecks | None:
    """Return the checks of a cyclic Fourier code (DRACO's, or cyclic MDS), or None for other codes."""
    n = code.n_workers
    if code.structure.parity is not None:
        parity = code.structure.parity
        powers = np.round(np.angle(parity[:, 1 % n]) * n / (2 * np.pi)).astype(np.int64) % n
    elif code.structure.roots is not None:
        powers = -code.structure.roots[::-1] % n
    else:
        return None
    if not len(powers) or (np.diff(powers) != 1).any():
        return None
    return FourierChecks(circle(n), int(powers[0]), len(powers))


def _on_the_circle(
    checks: Checks, fourier: FourierChecks, said: Array, liars: int, tolerance: float
) -> tuple[list[int], bool]:
    """Return who is proved to lie, and whether any set of so many was found to explain what is seen.

    A candidate comes from the polynomial whose roots are the liars' points; what proves it is a distance: a polynomial
    of the checks' degree that vanishes on the missing, on the other candidates, and on those as many workers that could
    best pretend to be this one, still sees its lie.
    """
    best: tuple[int, ...] | None = None
    for chosen in _candidates(checks, fourier, said, liars):
        places = np.searchsorted(checks.workers, np.sort(chosen))
        if checks.explaining(places[None], said, tolerance)[0]:
            best = tuple(np.sort(chosen).tolist())
            break
    if best is None:
        return [], False
    said = said / np.abs(said).max()  # so that squares neither overflow nor vanish
    inside = np.isin(checks.owner, best)
    block = checks.table[:, inside]
    seen = checks.table[:, ~inside] @ said[~inside]
    honest = np.linalg.lstsq(block, -seen, rcond=_UNSEEN)[0]
    off = float(np.linalg.norm(seen + block @ honest, axis=0).max())
    lies = np.zeros((checks.code.n_workers, said.shape[1]))
    np.add.at(lies, checks.owner[inside], (said[inside] - honest) ** 2)
    sizes = np.sqrt(lies.max(axis=1))
    whole = checks.workers[_complete(checks.code, checks.messages, checks.workers)]
    missing = np.setdiff1d(np.arange(checks.code.n_workers), whole)
    size = np.abs(said).max(axis=1)
    guilty: list[int] = []
    for worker in sorted(best, key=lambda worker: -sizes[worker]):
        noise = tolerance * math.sqrt(len(said)) * float(size[~np.isin(checks.owner, guilty)].max())
        gone, pretenders = [*missing.tolist(), *(set(best) - {worker})], liars - len(guilty)
        if len(gone) + pretenders >= fourier.number:
            break
        if not sizes[worker] * distance(fourier.points, worker, gone, pretenders) > off + noise:
            break
        guilty.append(worker)
    return guilty, True


def _candidates(checks: Checks, fourier: FourierChecks, said: Array, liars: int) -> Iterator[IntArray]:
    """Yield sets of workers that may explain what is seen, the smallest first."""
    code = checks.code
    size = np.zeros(code.n_workers)
    np.maximum.at(size, checks.owner, np.abs(said).max(axis=1))
    median = float(np.median(size[checks.workers]))
    huge = np.flatnonzero(size > 1e3 * median)
    part = code.complex_part[checks.messages]
    whole = checks.workers[_complete(code, checks.messages, checks.workers)]
    for peeled in [huge[:0], huge] if 0 < len(huge) <= liars else [huge[:0]]:
        if len(peeled) == liars:
            yield peeled
        rows = np.zeros((code.n_workers, said.shape[1]), dtype=np.complex128)
        np.add.at(rows, checks.owner, np.where(part[:, None] == 1, 1j, 1.0) * said)
        missing = np.union1d(np.setdiff1d(np.arange(code.n_workers), whole), peeled)
        rows[missing] = 0.0
        syndromes = fourier.matrix @ rows
        filtering = np.atleast_1d(np.poly(fourier.points[missing]))[::-1].astype(np.complex128)
        left = fourier.number - len(missing)
        if left < 1:
            continue
        seen = np.array([filtering @ syndromes[k : k + len(filtering)] for k in range(left)])
        present = np.setdiff1d(whole, peeled)
        for count in range(1, min(liars - len(peeled), left // 2) + 1):
            hankel = np.concatenate([seen[k : k + count + 1].T for k in range(left - count)])
            right = np.linalg.svd(hankel, full_matrices=True)[2]
            sizes = np.abs(fourier.points[present][:, None] ** np.arange(count + 1) @ right[-1].conj())
            yield np.union1d(present[np.argsort(sizes, kind="stable")[:count]], peeled)


# --- small things -----------------------------------------------------------------------------------------------------


def _off(table: Array, said: Array) -> float:
    """Return the largest of what the checks say; infinite if that is no number."""
    off = float(np.abs(table @ said).max(initial=0.0))
    return off if math.isfinite(off) else math.inf


def _noise(said: Array, tolerance: float) -> float:
    return tolerance * float(np.abs(said).max(initial=0.0)) * math.sqrt(len(said))


def _middle(lengths: Array) -> float:
    """Return the median, which no minority can move, of those that say something."""
    something = lengths[lengths > 0.0]
    return float(np.median(something)) if len(something) else 1.0


def _without(table: Array, gone: BoolArray) -> Array:
    """Return the combinations of checks that leave some columns out, orthonormal as they are."""
    if not gone.any():
        return table
    left, values, _ = np.linalg.svd(table[:, gone], full_matrices=True)
    rank = int((values > _UNSEEN).sum())
    return left[:, rank:].T @ table


def _reweighted(weights: Array, table: Array, gone: BoolArray) -> Array:
    """Return weights that decode without some messages: the others take over what the checks say of them."""
    return weights - weights[:, gone] @ np.linalg.pinv(table[:, gone], rcond=_UNSEEN) @ table


def _complete(code: GradientCode, messages: IntArray, workers: IntArray) -> BoolArray:
    """Return which workers' messages are all there."""
    return np.bincount(code.owner[messages], minlength=code.n_workers)[workers] == code.messages_per_worker[workers]
