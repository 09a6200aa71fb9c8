"""Messages that depend on each other: honest ones satisfy the code's own equations, and liars break them.

Any combination of the encoding's rows that vanishes must vanish on the messages as well. A set of workers *explains*
what is seen if the equations that leave them out hold. The true liars always explain it. So whoever is in every
explanation by at most so many workers is a liar, if there are no more of them than that; and where the messages have
too little redundancy to tell, nobody is accused.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import linalg

from erasurehead.arrays import Array, IntArray
from erasurehead.errors import listed
from erasurehead.verification.examination import Finding

if TYPE_CHECKING:
    from erasurehead.arrays import SparseMatrix

MOST_SETS = 2_000
"""Sets of workers that are tried as liars, at most."""

_RANK = 1e-11  # singular values below this part of the largest are zero


@dataclass(frozen=True, eq=False)
class Equations:
    """The equations that the messages of some rows must satisfy.

    Attributes:
        messages: shape (m,).
        owner: of each message, shape (m,).
        lengths: Euclidean lengths of the rows, shape (m,).
        checks: orthonormal rows, shape (c, m): they vanish on honest messages divided by `lengths`.
    """

    messages: IntArray
    owner: IntArray
    lengths: Array
    checks: Array

    @classmethod
    def of(cls, encoding: SparseMatrix, owner: IntArray, messages: IntArray) -> Equations:
        """Return the equations among some messages of a code."""
        rows = encoding[messages]
        held = np.unique(rows.indices)
        table = rows[:, held].toarray()
        lengths = np.sqrt(np.einsum("mt,mt->m", table, table))
        lengths[lengths == 0.0] = 1.0
        basis, values, _ = np.linalg.svd(table / lengths[:, None], full_matrices=True)
        rank = int((values > _RANK * values[0]).sum()) if len(values) else 0
        return cls(messages, owner[messages], lengths, basis[:, rank:].T)

    def hold(self, prints: Array, tolerance: float) -> bool:
        """Return whether all equations hold on linear functions of the messages, shape (m, numbers)."""
        with np.errstate(over="ignore", invalid="ignore"):
            return self.explained_by((), prints / self.lengths[:, None], tolerance)

    def explained_by(self, workers: Sequence[int], said: Array, tolerance: float) -> bool:
        """Return whether the equations without these workers hold on what the messages say, divided by `lengths`."""
        theirs = np.isin(self.owner, workers)
        left, checks = said[~theirs], self.checks[:, ~theirs]
        # What they say is left out before anything is added up, so that a huge lie drowns nothing.
        if theirs.any():
            checks = linalg.null_space(self.checks[:, theirs].T, rcond=1e-9).T @ checks
        if not checks.size:
            return True
        off = np.abs(checks @ left).max(initial=0.0)
        noise = tolerance * float(np.abs(left).max(initial=0.0)) * math.sqrt(len(left))
        return bool(np.isfinite(off) and off <= noise)


def most_liars(workers: int, wanted: int) -> int:
    """Return for how many liars among so many workers all sets can be tried, at most `wanted` and at least 1."""
    sets, most = 1, 0
    while most < wanted and (sets := sets + math.comb(workers, most + 1)) <= MOST_SETS:
        most += 1
    return max(1, most)


def locate(equations: Equations, prints: Array, liars: int, tolerance: float, more: bool) -> Finding:
    """Return who must have lied.

    Arguments:
        equations: among the messages.
        prints: a few linear functions of each message's vector, finite, shape (m, numbers).
        liars: how many there may be, at most.
        tolerance: relative size of what passes for a rounding error.
        more: whether further messages of the same tasks may come.
    """
    if equations.hold(prints, tolerance):
        return Finding()
    with np.errstate(over="ignore", invalid="ignore"):
        explanations = _explanations(equations, prints / equations.lengths[:, None], liars, tolerance)
    if not explanations:
        what = f"the messages contradict each other, and no {liars} of their workers explain it"
        return _in_doubt(equations.messages.tolist(), what, {}, more)
    suspected = {worker for explanation in explanations for worker in explanation}
    guilty = {worker for worker in suspected if all(worker in explanation for explanation in explanations)}
    open_to_doubt = suspected - guilty
    why = "its messages do not fit those of the others; without it they fit each other"
    accused = dict.fromkeys(sorted(guilty), why)
    doubted = equations.messages[np.isin(equations.owner, sorted(open_to_doubt))].tolist()
    what = f"the messages contradict each other, and each of workers {listed(open_to_doubt)} may be the one that lies"
    return _in_doubt(doubted, what, accused, more)


def _explanations(equations: Equations, said: Array, liars: int, tolerance: float) -> list[set[int]]:
    """Return every set of at most so many workers that explains what is seen, of those that hold no smaller one."""
    workers = np.unique(equations.owner).tolist()
    found: list[set[int]] = []
    for size in range(1, liars + 1):
        for chosen in itertools.combinations(workers, size):
            new = not any(smaller <= set(chosen) for smaller in found)
            if new and equations.explained_by(chosen, said, tolerance):
                found.append(set(chosen))
    return found


def _in_doubt(messages: Sequence[int], why: str, accused: Mapping[int, str], more: bool) -> Finding:
    doubted = dict.fromkeys(messages, why)
    return Finding(accused, {}, doubted) if more else Finding(accused, doubted)
