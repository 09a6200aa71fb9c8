"""The worst set of stragglers: exact where it can be computed, otherwise found by a searching adversary."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np

from erasurehead._internal.arrays import Array, BoolArray, IntArray
from erasurehead._internal.rng import stream
from erasurehead.codes import GradientCode
from erasurehead.decoding._base import Decoder
from erasurehead.decoding._choice import make_decoder
from erasurehead.decoding._design import UniformOverlap
from erasurehead.decoding._groups import FirstPerGroup
from erasurehead.errors import check_count

if TYPE_CHECKING:
    from erasurehead._internal.arrays import SparseMatrix

_KNAPSACK = 4_000_000  # cells of the table over groups and stragglers
_CLIMBERS = 4  # sets from which the search begins
_HEAT = 0.3  # the typical loss that it accepts half-way, as a fraction of the best residual; falls to 0


@dataclass(frozen=True, eq=False)
class WorstCase:
    """A worst set of stragglers.

    Arguments:
        stragglers: the workers, ascending.
        residual: the residual of optimal decoding without them, in tasks.
        proven: whether no other set of as many workers is worse; otherwise it is the worst that was found.
    """

    stragglers: IntArray
    residual: float
    proven: bool


def worst_case(
    code: GradientCode,
    stragglers: int,
    *,
    enumerate_up_to: int = 20_000,
    effort: int = 1000,
    seed: int = 0,
    decoder: Decoder | None = None,
    start: IntArray | None = None,
) -> WorstCase:
    """Return the set of stragglers for which the residual of optimal decoding is the largest.

    Replicas (a knapsack over the groups) and block designs (all sets are equivalent) are solved exactly, and so is any
    code with few enough sets. For others, an adversary searches: it isolates tasks by removing all their holders,
    removes neighbours, runs and random workers, and improves the best set by exchanging single workers. Finding the
    worst set is NP-hard in general, so that optimality cannot be guaranteed.

    Arguments:
        code: any code.
        stragglers: number of stragglers, at most the number of workers.
        enumerate_up_to: number of sets up to which all are tried.
        effort: number of residuals that the searching adversary may compute.
        seed: seed of the search.
        decoder: an optimal decoder; `make_decoder(code)` if None.
        start: a set of fewer stragglers from which the adversary may also start.

    Source: Charles, Papailiopoulos, Ellenberg, arXiv 1711.06771, section 4 (hardness; repetition's worst case).
    """
    s = check_count("stragglers", stragglers, at_least=0, at_most=code.n_workers)
    decoder = make_decoder(code) if decoder is None else decoder
    if isinstance(decoder, UniformOverlap) and code.one_message_each:
        chosen = np.arange(s)
        return WorstCase(chosen, decoder.residual_with(code.n_workers - s), True)
    if isinstance(decoder, FirstPerGroup):
        worst = _worst_groups(decoder, s)
        if worst is not None:
            return worst
    search = _Search(code, decoder)
    if code.tolerance is not None and s <= code.tolerance:
        chosen = np.arange(s)
        return WorstCase(chosen, search.residual(chosen), True)  # zero, up to rounding, as the code states
    if math.comb(code.n_workers, s) <= enumerate_up_to:
        return search.all_sets(s)
    return search.adversary(s, check_count("effort", effort), stream("adversary", seed), start)


def _worst_groups(decoder: FirstPerGroup, s: int) -> WorstCase | None:
    """Return the most valuable groups with at most s holders in total, if no worker holds two groups."""
    code = decoder.code
    pairs = np.unique(np.stack([decoder.groups, code.owner]), axis=1)
    if len(np.unique(pairs[1])) < pairs.shape[1] or (s + 1) * len(decoder.gains) > _KNAPSACK:
        return None
    sizes = np.bincount(pairs[0], minlength=len(decoder.gains))
    gains = decoder.gains
    best: Array = np.zeros(s + 1)
    taken: BoolArray = np.zeros((len(gains), s + 1), dtype=bool)
    for group, (size, gain) in enumerate(zip(sizes.tolist(), gains.tolist(), strict=True)):
        if size > s:
            continue
        with_it = best[: s + 1 - size] + gain
        taken[group, size:] = with_it > best[size:]
        best[size:] = np.maximum(best[size:], with_it)
    left, killed = s, np.zeros(len(gains), dtype=bool)
    for group in range(len(gains) - 1, -1, -1):
        if taken[group, left]:
            killed[group] = True
            left -= int(sizes[group])
    workers = pairs[1][killed[pairs[0]]]
    others = np.setdiff1d(np.arange(code.n_workers), workers)
    chosen = np.sort(np.concatenate([workers, others[:left]]))
    return WorstCase(chosen, code.n_tasks - float(gains[~killed].sum()), True)


@final
class _Search:
    def __init__(self, code: GradientCode, decoder: Decoder) -> None:
        self.code = code
        self.decoder = decoder
        self.spent = 0
        self._holders: SparseMatrix = code.assignment.T.tocsr()

    def holders_of(self, task: int) -> IntArray:
        """Return the workers that hold a task."""
        starts = self._holders.indptr
        return self._holders.indices[starts[task] : starts[task + 1]].astype(np.int64)

    def holders_near(self, worker: int, random: np.random.Generator) -> IntArray:
        """Return the workers that hold a random one of a worker's tasks."""
        tasks = self.code.tasks_of(worker)
        return self.holders_of(int(random.choice(tasks))) if len(tasks) else tasks

    def residual(self, stragglers: IntArray) -> float:
        self.spent += 1
        present = np.ones(self.code.n_workers, dtype=bool)
        present[stragglers] = False
        return self.decoder.residual(self.code.messages_of_workers(np.flatnonzero(present)))

    def all_sets(self, s: int) -> WorstCase:
        best, worst = -1.0, np.zeros(0, dtype=np.int64)
        for stragglers in itertools.combinations(range(self.code.n_workers), s):
            chosen = np.array(stragglers, dtype=np.int64)
            residual = self.residual(chosen)
            if residual > best * (1 + 1e-12):
                best, worst = residual, chosen
        return WorstCase(worst, best, True)

    def adversary(self, s: int, effort: int, random: np.random.Generator, start: IntArray | None) -> WorstCase:
        tries = min(16, 1 + effort // 20)
        candidates = [np.arange(s), random.permutation(self.code.n_workers)[:s]]
        candidates += [self.isolate(s, random) for _ in range(tries)]
        candidates += [self.neighbours(s, random) for _ in range(tries)]
        if start is not None and len(start) <= s:
            candidates.append(self.extend(start, s, random))
        scored = [WorstCase(np.sort(candidate), self.residual(candidate), False) for candidate in candidates]
        scored.sort(key=lambda case: -case.residual)
        if not 0 < s < self.code.n_workers:
            return scored[0]
        left = (effort - self.spent) // _CLIMBERS
        return max((self.climb(case, left, random) for case in scored[:_CLIMBERS]), key=lambda case: case.residual)

    def climb(self, start: WorstCase, effort: int, random: np.random.Generator) -> WorstCase:
        """Exchange single workers as long as the effort lasts, and return the worst set that was found."""
        best, current = start, start.residual
        inside = np.zeros(self.code.n_workers, dtype=bool)
        inside[start.stragglers] = True
        for trial in range(effort):
            # Replace one worker by another, mostly one that shares a task with the set. In the first half only
            # gains are accepted, then also losses, ever more rarely, to escape sets that no single exchange improves.
            out, anchor = (int(worker) for worker in random.choice(np.flatnonzero(inside), 2))
            pool = self.holders_near(anchor, random)
            pool = pool[~inside[pool]]
            if not len(pool) or random.random() < 0.2:
                pool = np.flatnonzero(~inside)
            new = int(random.choice(pool))
            inside[[out, new]] = False, True
            residual = self.residual(np.flatnonzero(inside))
            bearable = _HEAT * best.residual * (1 - trial / effort) if 2 * trial > effort else 0.0
            if residual >= current + bearable * float(np.log(random.random())):
                current = residual
            else:
                inside[[out, new]] = True, False
            if current > best.residual:
                best = WorstCase(np.flatnonzero(inside), current, False)
        return best

    def isolate(self, s: int, random: np.random.Generator) -> IntArray:
        """Remove all holders of one task after another, always one of the cheapest."""
        left = self.code.replication.copy()
        gone: BoolArray = np.zeros(self.code.n_workers, dtype=bool)
        while (budget := s - int(gone.sum())) > 0:
            payable = np.flatnonzero((left > 0) & (left <= budget))
            if not len(payable):
                break
            task = int(random.choice(payable[left[payable] == left[payable].min()]))
            for worker in self.holders_of(task):
                if not gone[worker]:
                    gone[worker] = True
                    left[self.code.tasks_of(int(worker))] -= 1
        return self.extend(np.flatnonzero(gone), s, random)

    def neighbours(self, s: int, random: np.random.Generator) -> IntArray:
        """Remove workers that share as many tasks as possible with those removed before."""
        gone: BoolArray = np.zeros(self.code.n_workers, dtype=bool)
        shared: Array = np.zeros(self.code.n_workers)
        worker = int(random.integers(self.code.n_workers))
        for _ in range(s):
            gone[worker] = True
            for task in self.code.tasks_of(worker):
                shared[self.holders_of(int(task))] += 1.0
            worker = int(np.argmax(np.where(gone, -1.0, shared)))
        return np.flatnonzero(gone)

    def extend(self, stragglers: IntArray, s: int, random: np.random.Generator) -> IntArray:
        others = np.setdiff1d(np.arange(self.code.n_workers), stragglers)
        more = random.permutation(others)[: s - len(stragglers)]
        return np.sort(np.concatenate([stragglers, more]))
