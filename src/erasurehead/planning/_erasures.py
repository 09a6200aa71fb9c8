"""Which groups of a repetition code are missing when r workers have answered: the ErasureHead paper, section 3.

In the paper's notation: k workers form k/l groups of l, and all members of a group send the same message; the first r
workers to answer are a uniformly random r-subset (for any delays that are exchangeable between workers). p is the
probability that one given group is missing, q that at least one of two given groups is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from erasurehead._internal.arrays import Array, real_numbers
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

    @property
    def p_bound(self) -> float:
        """The bound of Lemma 5: p <= exp(-l r / k), which is exp(-c r / n)."""
        return math.exp(-self.replicas * self.waited / self.n_workers)

    def _all_missing(self, groups: int) -> float:
        rest = self.n_workers - groups * self.replicas
        if rest < self.waited:
            return 0.0
        # math.comb is exact, and the quotient of two integers is rounded only once.
        return math.comb(rest, self.waited) / math.comb(self.n_workers, self.waited)

    def moments(self) -> tuple[float, float]:
        """Return E[Y_i] = 1 - p and E[Y_i Y_j] = 1 - q, where Y_i indicates that group i has answered. Lemma 2."""
        return 1.0 - self.p, 1.0 - self.q

    def missing_groups(self) -> Array:
        """Return the distribution of the number of missing groups, shape (n_groups + 1,).

        Computed by inclusion and exclusion, P(j missing) = C(B, j) sum_i (-1)^i C(B-j, i) C(k - (i+j) l, r) / C(k, r),
        in integers, as the alternating sum would lose all digits in floating point. Takes a second for 2,000 workers.
        """
        groups = self.n_groups
        rest = [math.comb(self.n_workers - m * self.replicas, self.waited) for m in range(groups + 1)]
        total = math.comb(self.n_workers, self.waited)
        law = np.zeros(groups + 1)
        for missing in range(groups + 1):
            if not rest[missing]:
                break
            count = sum(
                (-1) ** more * math.comb(groups - missing, more) * rest[missing + more]
                for more in range(groups - missing + 1)
                if rest[missing + more]
            )
            law[missing] = math.comb(groups, missing) * count / total
        return law

    @property
    def complete(self) -> float:
        """Probability that no group is missing."""
        groups = self.n_groups
        count = sum(
            (-1) ** m * math.comb(groups, m) * math.comb(self.n_workers - m * self.replicas, self.waited)
            for m in range(groups + 1)
        )
        return count / math.comb(self.n_workers, self.waited)

    def mean_residual(self, n_tasks: int) -> float:
        """Return the expected residual of optimal decoding, in tasks: n_tasks * p."""
        return n_tasks * self.p

    def lemma3(self, group_gradients: Array) -> tuple[float, float]:
        """Return mean factor and second moment of the estimate g of equation (1): Lemma 3.

        E[g] = (1 - p) grad f, so that the plain estimate is too short. Expectations are over the random set of workers
        only.

        Arguments:
            group_gradients: g[i](x), the sum of the gradients of the tasks of group i, divided by the number of tasks
                so that the total over all groups is grad f; shape (n_groups, d).

        Returns:
            The factor 1 - p of grad f in E[g(x)], and E[||g(x)||^2].
        """
        group_gradients = real_numbers("group_gradients", group_gradients)
        if group_gradients.ndim != 2 or group_gradients.shape[0] != self.n_groups:
            raise invalid(
                "group_gradients", f"must have a row for each of {self.n_groups} groups", group_gradients.shape
            )
        total = group_gradients.sum(axis=0)
        squares = float(np.einsum("gd,gd->", group_gradients, group_gradients))
        return 1.0 - self.p, (1.0 - self.q) * float(total @ total) + (self.q - self.p) * squares

    def lemma4(self, gradient_norm: float, sigma: float, n_tasks: int) -> float:
        """Return the bound of Lemma 4 on E[||g(x)||^2], if the norm of every task's gradient is at most sigma.

        (1 - q) ||grad f||^2 + (q - p) c sigma^2 / n, with c = n / n_groups tasks a group. (The paper's step (5)
        divides by n^2 a second time; the lemma itself is right.)
        """
        per_group = n_tasks / self.n_groups
        return (1.0 - self.q) * gradient_norm**2 + (self.q - self.p) * per_group * sigma**2 / n_tasks
