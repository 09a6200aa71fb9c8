"""The stragglers whose absence amplifies rounding most: all sets where there are few, otherwise a search, and a bound.

Of codes with random coefficients one set in so many thousands is worse than all others by as much: the more sets there
are, the worse is the worst of them, and neighbouring sets give no hint of it. Hence the search goes by exchanging two
workers at a time, which examines millions of sets at the cost of one matrix product.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import combinations
from typing import NamedTuple, final

import numpy as np

from erasurehead._internal.arrays import Array, IntArray
from erasurehead._internal.rng import stream
from erasurehead.codes._base import GradientCode
from erasurehead.codes._exact_weights import ExactWeights

_SECONDS = 0.25  # that examining all sets may take, and the search
_SET_SECONDS = 1.5e-6  # least cost of a set
_PAIR_SECONDS = 4e-8  # of a set among all those that differ from each other in two workers
_FIRST_SECONDS = 5e-6  # of all but two workers of such sets
_STEP_SECONDS = 2e-4  # least cost of a step of the search
_PRODUCTS = 2e9  # multiplications a second in small matrices
_ENTRIES = 1_000_000  # numbers in one batch
_CACHED = 50_000  # numbers in one batch of which many results are made
_SAMPLE = 2_000  # random sets, of which the worst are improved
_LEAST = 16
_CHECKED = 50  # sets that are examined again, by a decomposition that finds the rank


class Hardest(NamedTuple):
    """The stragglers whose absence amplifies rounding errors most."""

    amplification: float
    """Largest factor that was found between the rounding error of a message and the relative error of the gradient."""
    stragglers: IntArray
    """The workers, ascending."""
    bound: float | None
    """A factor that no set of as many stragglers exceeds: the same if all were examined; None if none is known."""


def hardest(code: GradientCode, weights: ExactWeights, stragglers: int, enough: float = math.inf) -> Hardest:
    """Find the set of stragglers of a given size whose absence amplifies rounding most.

    Arguments:
        code: any code.
        weights: its exact weights.
        stragglers: number of stragglers, at most the code's tolerance.
        enough: an amplification beyond which no worse set is looked for.
    """
    search = _Search(code, weights)
    if not 0 < stragglers < code.n_workers:
        worst = search.judged(np.arange(stragglers))
        return worst._replace(bound=worst.amplification)
    worst = None if search.table is None else search.all_sets(stragglers)
    if worst is not None:
        return worst
    bound = _fourier_bound(code, weights, stragglers)
    return search.searched(stragglers, enough, bound is not None)._replace(bound=bound)


@final
class _Search:
    def __init__(self, code: GradientCode, weights: ExactWeights) -> None:
        self.code = code
        self.weights = weights
        self.n = code.n_workers
        self.shifted = code.structure.shift is not None  # then all sets may be turned around the circle
        self.random = stream("hardest stragglers", 0)
        self.width = code.n_messages // self.n
        self.table: Array | None = None
        """Weights that decode to zero, of each worker's messages, shape (nullity, n_workers, width), if all have as
        many; None where there are none, or too many."""
        even = bool((code.messages_per_worker == self.width).all())
        if weights.nullity and even and weights.nullity * code.n_messages <= _ENTRIES:
            order = np.argsort(code.owner, kind="stable")
            self.table = weights.null_at(order).reshape(weights.nullity, self.n, self.width)
            self.base = weights.base[:, order].reshape(-1, self.n, self.width)

    def judged(self, chosen: IntArray) -> Hardest:
        """Return the amplification without some workers, by a decomposition that finds the rank."""
        ordered = np.sort(chosen)
        size = self.code.n_tasks * self.code.n_pieces
        return Hardest(self.weights.amplification(self.code.messages_of_workers(ordered), size), ordered, None)

    def all_sets(self, s: int) -> Hardest | None:
        """Return the worst of all sets; None if they are too many, or too many are useless for that to be certain."""
        assert self.table is not None
        sets = math.comb(self.n - 1, s - 1) if self.shifted else math.comb(self.n, s)
        products = len(self.table) * (s * self.width) ** 2
        each = _SET_SECONDS + products / _PRODUCTS
        if self.width == 1 and s == len(self.table) and self._pair_seconds(s) <= _SECONDS:
            worst = self._surely(np.array(list(self._worst_pairs(s))))
            if worst is not None:
                return worst
        if sets * each > _SECONDS:
            return None
        rest = combinations(range(1, self.n), s - 1) if self.shifted else combinations(range(self.n), s)
        chosen = np.array(list(rest), dtype=np.int64).reshape(sets, -1)
        return self._surely(np.insert(chosen, 0, 0, axis=1) if self.shifted else chosen)

    def _pair_seconds(self, s: int) -> float:
        assert self.table is not None
        first = _FIRST_SECONDS + len(self.table) * s**2 / _PRODUCTS
        return math.comb(self.n, s) * _PAIR_SECONDS + math.comb(max(0, self.n - 2), max(0, s - 2)) * first

    def _surely(self, sets: IntArray) -> Hardest | None:
        """Return the worst of some sets, or None if quick solutions are too far off for that to be certain."""
        squares, size = self.squares(sets), self.code.n_tasks * self.code.n_pieces
        best = self.judged(np.zeros(0, dtype=np.int64))
        # Where rows are dependent and yet not needed, quick solutions are far too large: the worst are examined again.
        for place in np.argsort(-squares, kind="stable")[:_CHECKED].tolist():
            if squares[place] <= best.amplification**2 * (1 - 1e-3) * size:
                return best._replace(bound=best.amplification)
            best = max(best, self.judged(sets[place]), key=lambda one: one.amplification)
            if best.amplification == np.inf:
                break
        return (
            best._replace(bound=best.amplification) if best.amplification == np.inf or len(sets) <= _CHECKED else None
        )

    def _worst_pairs(self, s: int) -> Iterator[IntArray]:
        """Yield the worst set of each batch of all sets: one message each, as many weights to choose as stragglers.

        All but the last two workers of a set leave two weights to choose; what these must be for every pair of later
        workers takes a few multiplications.
        """
        if s == 1:
            yield from np.arange(self.n)[:, None]
            return
        if s == 2:
            yield from self._worst_of(np.zeros((1, 0), dtype=np.int64), np.arange(self.n))
            return
        for last in range(s - 3, self.n - 2):
            first = np.array([(*some, last) for some in combinations(range(last), s - 3)], dtype=np.int64)
            later = np.arange(last + 1, self.n)
            at_once = max(1, _CACHED // len(later) ** 2)
            for low in range(0, len(first), at_once):
                yield from self._worst_of(first[low : low + at_once], later)

    def _worst_of(self, first: IntArray, later: IntArray) -> Iterator[IntArray]:
        assert self.table is not None
        null, base = self.table[:, :, 0], self.base[:, :, 0]
        basis, triangle = np.linalg.qr(null[:, first].transpose(1, 0, 2), mode="complete")
        size = first.shape[1]
        wanted = -base[:, first].transpose(1, 2, 0)
        mix = basis[:, :, :size] @ _solved(np.swapaxes(triangle[:, :size], 1, 2), wanted)
        yield from self._completed(first, mix, basis[:, :, size:], later, singular=np.inf)

    def _completed(
        self, first: IntArray, mix: Array, free: Array, later: IntArray, singular: float
    ) -> Iterator[IntArray]:
        """Yield the worst set of each batch of those that two of the later workers complete.

        Arguments:
            first: the other workers of each set.
            mix: the least choice of weights without them, shape (sets, nullity, pieces).
            free: two directions in which it can still be changed, shape (sets, nullity, 2).
            later: workers, ascending.
            singular: square of the weights of sets for which it cannot be found.
        """
        assert self.table is not None
        null, base = self.table[:, :, 0], self.base[:, :, 0]
        square = (mix**2).sum(axis=(1, 2))
        x, y = np.moveaxis(np.swapaxes(free, 1, 2) @ null[:, later], 1, 0)
        gap = -base[:, later] - np.swapaxes(mix, 1, 2) @ null[:, later]  # (sets, pieces, later)
        at_once = max(1, _CACHED // (len(first) * len(later)))
        for low in range(0, len(later), at_once):
            here = slice(low, low + at_once)
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                total = np.zeros((len(first), len(later[here]), len(later)))
                for left in np.moveaxis(gap, 1, 0):
                    total += (left[:, here, None] * x[:, None, :] - left[:, None, :] * x[:, here, None]) ** 2
                    total += (left[:, here, None] * y[:, None, :] - left[:, None, :] * y[:, here, None]) ** 2
                total /= (x[:, here, None] * y[:, None, :] - y[:, here, None] * x[:, None, :]) ** 2
            total += square[:, None, None]
            total[~np.isfinite(total)] = singular
            total[:, later[here, None] >= later] = -1.0
            place, one, other = np.unravel_index(int(np.argmax(total)), total.shape)
            if later[here][one] < later[other]:
                yield np.concatenate([first[place], [later[here][one], later[other]]])

    def squares(self, sets: IntArray) -> Array:
        """Return the squared norm of the weights without each set of workers, shape (len(sets),), quickly."""
        assert self.table is not None
        columns = sets.shape[1] * self.width
        at_once = max(1, _ENTRIES // (len(self.table) * columns))
        parts = [self._squares(sets[low : low + at_once]) for low in range(0, len(sets), at_once)]
        return float((self.base**2).sum()) + np.concatenate(parts)

    def _squares(self, sets: IntArray) -> Array:
        assert self.table is not None
        columns = sets.shape[1] * self.width
        null = self.table[:, sets].transpose(1, 0, 2, 3).reshape(len(sets), -1, columns)
        wanted = self.base[:, sets].transpose(1, 2, 3, 0).reshape(len(sets), columns, -1)
        if null.shape[1] < columns:
            return np.full(len(sets), np.inf)
        square = null if null.shape[1] == columns else np.asarray(np.linalg.qr(null, mode="r"), dtype=np.float64)
        return (_solved(np.swapaxes(square, 1, 2), wanted) ** 2).sum(axis=(1, 2))

    def searched(self, s: int, enough: float, bounded: bool) -> Hardest:
        """Return the worst set that a search finds; of codes with a bound a run of neighbours, which comes near it."""
        best = self.judged(np.zeros(0, dtype=np.int64))
        for chosen in [np.arange(s)] if bounded else self._candidates(s):
            best = max(best, self.judged(chosen), key=lambda one: one.amplification)
            if best.amplification > enough:
                break
        return best

    def _candidates(self, s: int) -> Iterator[IntArray]:
        """Yield sets that may be the hardest: patterns, random ones, and what exchanges make of the worst of them."""
        patterns = [np.arange(s), np.arange(s) * self.n // s]
        patterns.append(np.concatenate([np.arange(s // 2), self.n // 2 + np.arange(s - s // 2)]))
        yield from patterns
        count, step, price = _LEAST, None, math.inf
        if self.table is not None and s * self.width <= len(self.table):
            products = len(self.table) * (s * self.width) ** 2
            count = int(np.clip(_SECONDS / 3 / (_SET_SECONDS + products / _PRODUCTS), _LEAST, _SAMPLE))
            if self.width == 1 and s == len(self.table):
                step, price = self.two_exchanged, math.comb(s, 2) * self._most_new(s) ** 2 * _PAIR_SECONDS
            else:
                step, price = self.one_exchanged, 4 * products * self.n * self.width / _PRODUCTS
        sets = self._drawn(s, count)
        if step is None or price > _SECONDS:
            yield from sets[:_LEAST]
            return
        runs = (np.arange(0, self.n, max(1, self.n // 100))[:, None] + np.arange(s)) % self.n
        sets = np.concatenate([np.array(patterns), runs, sets])
        squares, spent = self.squares(sets), 0.0
        for place in np.argsort(-squares, kind="stable").tolist():
            chosen, square = sets[place], float(squares[place])
            while spent < _SECONDS:
                spent += price + _STEP_SECONDS
                tried = step(chosen)
                now = float(self.squares(tried[None])[0])
                if not now > square * (1 + 1e-6):
                    break
                chosen, square = tried, now
            yield chosen
            if spent >= _SECONDS:
                return

    def _drawn(self, s: int, count: int) -> IntArray:
        if self.n * count > _ENTRIES and 4 * s * s < self.n:  # then few of them have a worker twice
            sets = np.sort(self.random.integers(self.n, size=(count, s)), axis=1)
            return sets[(np.diff(sets, axis=1) > 0).all(axis=1)]
        return np.array([self.random.permutation(self.n)[:s] for _ in range(count)])

    def _most_new(self, s: int) -> int:
        """Return how many of the other workers two are chosen from when two are exchanged."""
        return min(self.n - s, max(_LEAST, int(math.sqrt(_SECONDS / 8 / _PAIR_SECONDS / max(1, math.comb(s, 2))))))

    def one_exchanged(self, chosen: IntArray) -> IntArray:
        """Return the worst set that exchanging one worker leads to."""
        assert self.table is not None
        s, nullity, width = len(chosen), len(self.table), self.width
        others = np.array([np.delete(chosen, place) for place in range(s)], dtype=np.int64).reshape(s, s - 1)
        flat = self.table.reshape(nullity, -1)
        kept = self.table[:, others].transpose(1, 0, 2, 3).reshape(s, nullity, -1)
        basis, triangle = np.linalg.qr(kept)
        wanted = -self.base[:, others].transpose(1, 2, 3, 0).reshape(s, (s - 1) * width, len(self.base))
        mix = basis @ _solved(np.swapaxes(triangle, 1, 2), wanted)  # of the weights without the others
        free = np.broadcast_to(flat, (s, *flat.shape))
        for _ in range(2):  # doing it once leaves rounding errors in the span
            free = free - basis @ (np.swapaxes(basis, 1, 2) @ free)
        free = free.reshape(s, nullity, self.n, width)
        gap = self.base.transpose(1, 2, 0).reshape(self.n * width, -1) + flat.T @ mix
        gap = gap.reshape(s, self.n, width, -1)
        gram = np.einsum("svni,svnj->snij", free, free)
        with np.errstate(over="ignore", invalid="ignore"):
            squares = (mix**2).sum(axis=(1, 2))[:, None] + (gap * _solved(gram, gap)).sum(axis=(2, 3))
        squares[np.arange(s)[:, None], others] = -1.0
        squares[~np.isfinite(squares)] = -1.0
        place, new = np.unravel_index(int(np.argmax(squares)), squares.shape)
        return np.append(others[int(place)], int(new))

    def two_exchanged(self, chosen: IntArray) -> IntArray:
        """Return the worst set that exchanging one worker or two leads to: for one message each, and as many of them
        as there are weights to choose."""
        assert self.table is not None
        s, null, base = len(chosen), self.table[:, :, 0], self.base[:, :, 0]
        out = np.setdiff1d(np.arange(self.n), chosen)
        new = np.sort(self.random.permutation(out)[: self._most_new(s)])
        pairs = np.stack(np.triu_indices(s, 1), axis=1)
        turned = _solved(null[:, chosen][None], np.eye(s)[None])[0]  # row i: changes the weight of the i-th only
        free = np.linalg.qr(turned[pairs].transpose(0, 2, 1))[0]
        mix = -(base[:, chosen] @ turned).T
        mix = mix - free @ (np.swapaxes(free, 1, 2) @ mix)
        kept = np.array([np.delete(chosen, pair) for pair in pairs], dtype=np.int64)
        tried = np.array([self.one_exchanged(chosen), *self._completed(kept, mix, free, new, singular=-1.0)])
        squares = self.squares(tried)
        return tried[int(np.argmax(np.where(np.isfinite(squares), squares, -1.0)))]


def _solved(matrices: Array, right: Array) -> Array:
    """Return the solutions of a stack of systems; infinity for those of an exactly singular one."""
    try:
        return np.asarray(np.linalg.solve(matrices, right), dtype=np.float64)
    except np.linalg.LinAlgError:
        singular = (np.linalg.det(matrices) == 0.0)[..., None, None]
        solutions = np.linalg.solve(np.where(singular, np.eye(matrices.shape[-1]), matrices), right)
        return np.where(singular, np.inf, np.asarray(solutions, dtype=np.float64))


def _fourier_bound(code: GradientCode, weights: ExactWeights, stragglers: int) -> float | None:
    """Return an amplification that no set of stragglers exceeds, for codes of a Fourier polynomial; otherwise None.

    The weights of all messages are one number b. Added to them is what the roots leave free: z^r p(z), with a
    polynomial p of degree less than s, that is -b at the stragglers' points. Lagrange's formula gives p. The
    coefficients of a product of s - 1 factors z - z_i are at most binomials, and the distances of s points, ordered
    from the largest gap between two of them, at least those of neighbours, or of the ends of that gap.

    Arguments:
        code: a code.
        weights: its exact weights.
        stragglers: s, at most the number of roots.
    """
    structure, n, s = code.structure, code.n_workers, stragglers
    if structure.shift != 1 or (structure.roots is None and structure.parity is None) or code.n_tasks != n:
        return None
    place = np.arange(s)
    apart = np.abs(place[:, None] - place)
    distances = 2.0 * np.minimum(np.sin(np.pi * apart / n), math.sin(math.pi / s))
    np.fill_diagonal(distances, 1.0)
    mixed = math.sqrt(math.comb(2 * s - 2, s - 1)) * float((1.0 / distances.prod(axis=1)).sum())
    total = code.totals[code.messages_of(0), 0]
    return float(weights.lengths.max() / np.linalg.norm(total)) * math.sqrt(1.0 + mixed**2)
