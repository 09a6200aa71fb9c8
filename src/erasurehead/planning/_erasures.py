"""Which groups of a repetition code are missing when r workers have answered: the ErasureHead paper, section 3.

In the paper's notation: k workers form k/l groups of l, and all members of a group send the same message; the first r
workers to answer are a uniformly random r-subset (for any delays that are exchangeable between workers). p is the
probability that one given group is missing, q that at least one of two given groups is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from erasurehead.errors import check_count, check_size, invalid


@dataclass(frozen=True)
class Erasures:
    """A repetition code whose coordinator waits for the first `waited` workers.

    Arguments:
        n_workers: k, a multiple of `replicas`.
        replicas: l, workers per group.
        waited: r, from 0 to k.
    """

    n_workers: int
    replicas: int
    waited: int

    def __post_init__(self) -> None:
        check_size("n_workers", self.n_workers)
        check_count("replicas", self.replicas, at_most=self.n_workers)
        check_count("waited", self.waited, at_least=0, at_most=self.n_workers)
        if self.n_workers % self.replicas:
            raise invalid("replicas", f"must divide the number of workers, {self.n_workers}", self.replicas)

    @property
    def n_groups(self) -> int:
        """Number of groups, n/c in the paper."""
        return self.n_workers // self.replicas

    @property
    def p(self) -> float:
        """Probability that a given group is missing: C(k-l, r) / C(k, r). Lemma 2."""
        return self._all_missing(1)

    @property
    def q(self) -> float:
        """Probability that one or both of two given groups are missing: 2 p - C(k-2l, r) / C(k, r). Lemma 2."""
        return 2.0 * self.p - self._all_missing(2)

    def _all_missing(self, groups: int) -> float:
        rest = self.n_workers - groups * self.replicas
        if rest < self.waited:
            return 0.0
        # math.comb is exact, and the quotient of two integers is rounded only once.
        return math.comb(rest, self.waited) / math.comb(self.n_workers, self.waited)

    @property
    def complete(self) -> float:
        """Probability that no group is missing."""
        groups = self.n_groups
        count = sum(
            (-1) ** m * math.comb(groups, m) * math.comb(self.n_workers - m * self.replicas, self.waited)
            for m in range(groups + 1)
        )
        return count / math.comb(self.n_workers, self.waited)
