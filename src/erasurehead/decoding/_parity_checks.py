"""Parity checks: combinations of a code's rows that vanish, and must therefore vanish on honest messages."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from erasurehead._internal.arrays import Array, BoolArray, IntArray
from erasurehead._internal.factors import pseudo_inverse, svd
from erasurehead._internal.rng import stream
from erasurehead.codes import GradientCode
from erasurehead.codes._assemble import windows
from erasurehead.codes._smallest_lie import circle

ComplexArray = NDArray[np.complex128]

HUGE = 1e300
"""Stands for values that are not finite."""

UNSEEN = 1e-13
"""Entries of orthonormal checks below this count as zero."""

_MOST_WEIGHED = 300  # number of sets that are examined one by one; of more, only neighbours and a sample
_SAMPLE = 50
_ENTRIES = 2_000_000  # numbers in one batch of sets
_RANK = 1e-11  # singular values below this fraction of the largest count as zero


@dataclass(frozen=True, eq=False)
class FourierChecks:
    """Consecutive Fourier frequencies on which all honest messages together vanish.

    Attributes:
        points: point of each worker on the unit circle, shape (n_workers,).
        first: exponent of the first check; the others follow.
        number: number of checks.
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


@dataclass(frozen=True, eq=False)
class Checks:
    """The parity checks among some messages of a code.

    Attributes:
        code: the code.
        messages: the messages, ascending, shape (m,).
        owner: owner of each message, shape (m,).
        lengths: divisor of each message: the norm of its row, or the largest one, shape (m,).
        table: orthonormal rows that vanish on honest messages divided by `lengths`, shape (c, m).
        weights: weights that decode these messages, divided by `lengths`, shape (n_pieces, m).
        left: number of stragglers and liars that the code still tolerates, beside the workers missing here; None if it
            promises nothing.
        fourier: some of the checks as powers, for codes on the unit circle. As gradients are real, there are more
            checks.
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
            messages: messages that have arrived, ascending, shape (m,).
            weights: weights that decode them, shape (n_pieces, m).
            unit: all messages over their tasks, including those that have not arrived; None for all messages.
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
        if fourier is not None:  # the same for all, so that the powers remain checks
            lengths[:] = lengths.max(initial=1.0)
        basis, values, _ = svd(dense / lengths[:, None], full=True)
        rank = int((values > _RANK * values[0]).sum()) if len(values) else 0
        return cls(code, messages, owner, lengths, basis[:, rank:].T, weights * lengths, left, fourier)

    @cached_property
    def workers(self) -> IntArray:
        """The workers of these messages, ascending."""
        return np.unique(self.owner)

    @property
    def complete(self) -> IntArray:
        """The workers whose messages have all arrived, ascending."""
        code, workers = self.code, self.workers
        here = np.bincount(code.owner[self.messages], minlength=code.n_workers)[workers]
        return workers[here == code.messages_per_worker[workers]]

    @cached_property
    def _amplifications(self) -> dict[int, tuple[float, bool]]:
        return {}

    def without(self, workers: Iterable[int]) -> Checks:
        """Return the checks among the other workers' messages."""
        gone = np.isin(self.owner, list(workers))
        if not gone.any():
            return self
        lost = len(np.unique(self.owner[gone]))
        return replace(
            self,
            messages=self.messages[~gone],
            owner=self.owner[~gone],
            lengths=self.lengths[~gone],
            table=_without(self.table, gone)[:, ~gone],
            weights=_reweighted(self.weights, self.table, gone)[:, ~gone],
            left=None if self.left is None else max(0, self.left - lost),
        )

    def hold(self, prints: Array, tolerance: float) -> bool:
        """Return whether all checks hold for finite linear functions of the messages, shape (m, numbers)."""
        with np.errstate(over="ignore", invalid="ignore"):
            received = prints / self.lengths[:, None]
            return self.off(received) <= min(noise(received, tolerance), HUGE)

    def off(self, received: Array) -> float:
        """Return the largest violation of a check by messages divided by `lengths`; inf if that is not finite."""
        off = float(np.abs(self.table @ received).max(initial=0.0))
        return off if math.isfinite(off) else math.inf

    def amplification(self, corrupted: int) -> tuple[float, bool]:
        """Return how much larger an undetected error of the decoded gradient may be than the violation of the checks.

        If only some set of workers lies, other weights decode without them and differ from these by a combination of
        the checks; the decoded errors differ by that combination of the checks' violations. The largest norm of it over
        the sets is returned; if there are too many sets, over neighbours (the worst sets of cyclic codes) and a sample.

        Arguments:
            corrupted: number of liars beside those that are known.

        Returns:
            The factor for what the checks see, and whether there are weights on messages that they do not see.
        """
        most = min(corrupted, len(self.workers))
        if most < 1:
            return 0.0, False
        if most not in self._amplifications:
            pairs = [self._amplified(sets) for sets in self.chunks(self._sets(most))]
            self._amplifications[most] = max(factor for factor, _ in pairs), any(unseen for _, unseen in pairs)
        return self._amplifications[most]

    def _sets(self, size: int) -> IntArray:
        n = len(self.workers)
        if math.comb(n, size) <= _MOST_WEIGHED:
            return np.array(list(itertools.combinations(range(n), size)), dtype=np.int64)
        runs = np.sort(windows(n, size), axis=1)
        random = stream("liars", n).random((_SAMPLE, n))
        return np.concatenate([runs, np.sort(np.argsort(random, axis=1)[:, :size], axis=1)])

    def _amplified(self, sets: IntArray) -> tuple[float, bool]:
        columns, mask = self._columns(sets)
        blocks = np.moveaxis(self.table[:, columns], 0, 1) * mask[:, None, :]  # (sets, checks, messages of the set)
        weights = np.moveaxis(self.weights[:, columns], 0, 1) * mask[:, None, :]
        _, values, right = svd(blocks)
        seen = (values > UNSEEN)[:, None, :]
        parts = weights @ np.swapaxes(right, 1, 2)
        unseen = weights - np.where(seen, parts, 0.0) @ right
        factors = np.where(seen, parts, 0.0) / np.where(seen, values[:, None, :], 1.0)
        matters = np.abs(unseen) > 1e-9 * np.abs(self.weights).max(initial=0.0)
        return float(np.sqrt((factors**2).sum(axis=(1, 2)).max())), bool(matters.any())

    @cached_property
    def _places(self) -> tuple[IntArray, BoolArray]:
        """Columns of each worker, padded to the same number, and which of them are not padding."""
        order = np.argsort(self.owner, kind="stable")
        counts: IntArray = np.unique(self.owner, return_counts=True)[1].astype(np.int64)
        starts = np.cumsum(counts) - counts
        each = np.arange(int(counts.max(initial=0)))
        mask: BoolArray = each < counts[:, None]
        return order[np.where(mask, starts[:, None] + each, starts[:, None])].astype(np.int64), mask

    def _columns(self, sets: IntArray) -> tuple[IntArray, BoolArray]:
        columns, mask = self._places
        return columns[sets].reshape(len(sets), -1), mask[sets].reshape(len(sets), -1)

    def chunks(self, sets: IntArray) -> Iterator[IntArray]:
        """Yield the sets in batches of bounded size."""
        at_once = max(1, _ENTRIES // max(1, 8 * sum(self.table.shape)))
        for begin in range(0, len(sets), at_once):
            yield sets[begin : begin + at_once]

    def explaining(self, sets: IntArray, received: Array, tolerance: float) -> BoolArray:
        """Return which sets of workers (indices into `workers`) explain the messages, shape (len(sets),)."""
        columns, mask = self._columns(sets)
        blocks = np.moveaxis(self.table[:, columns], 0, 1) * mask[:, None, :]
        left, values, _ = svd(blocks)
        inside = left * (values > UNSEEN)[:, None, :]
        # Their messages are removed before anything is added up, so that a huge lie does not drown the rest.
        others = np.ones((len(sets), len(received)), dtype=bool)
        rows = np.broadcast_to(np.arange(len(sets))[:, None], columns.shape)
        others[rows[mask], columns[mask]] = False
        seen = self.table @ np.where(others[:, :, None], received, 0.0)  # (sets, checks, numbers)
        seen -= inside @ (np.swapaxes(inside, 1, 2) @ seen)
        off = np.abs(seen).max(axis=(1, 2))
        sizes = np.where(others, np.abs(received).max(axis=1), 0.0).max(axis=1)
        return np.isfinite(off) & (off <= tolerance * math.sqrt(len(received)) * sizes)


def noise(received: Array, tolerance: float) -> float:
    """Return the violation of a check that rounding may cause.

    Arguments:
        received: messages divided by their lengths, shape (m, numbers).
        tolerance: relative size up to which differences count as rounding errors.
    """
    return tolerance * float(np.abs(received).max(initial=0.0)) * math.sqrt(len(received))


def _without(table: Array, gone: BoolArray) -> Array:
    """Return the combinations of checks that do not involve some columns, as orthonormal rows."""
    if not gone.any():
        return table
    left, values, _ = svd(table[:, gone], full=True)
    rank = int((values > UNSEEN).sum())
    return left[:, rank:].T @ table


def _reweighted(weights: Array, table: Array, gone: BoolArray) -> Array:
    """Return weights that decode without some messages, by adding combinations of checks."""
    return weights - weights[:, gone] @ pseudo_inverse(table[:, gone], UNSEEN) @ table
