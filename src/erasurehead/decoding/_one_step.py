"""The mean residual of one-step decoding: one weight for all arrived messages, which depends only on their number."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from erasurehead.codes import GradientCode
from erasurehead.decoding._matrix_products import backward, row_sums


class SumMoments(NamedTuple):
    """Moments of the plain sum of r of n messages, drawn without replacement, relative to the target."""

    n_messages: int
    total: float
    """Sum of all coefficients."""
    own: float
    """Sum of the squared coefficients."""
    together: float
    """Squared norm of the sum of all messages."""

    @classmethod
    def of(cls, code: GradientCode) -> SumMoments:
        """Return the moments of a code with one piece."""
        summed = backward(code, np.ones(code.n_messages))
        own = float(row_sums(code, power=2).sum())
        return cls(code.n_messages, float(summed.sum()), own, float(summed @ summed))

    @property
    def vanish(self) -> bool:
        """Whether coefficients add up to zero, so that no weight counts every task once."""
        return abs(self.total) <= 1e-12 * self.own

    def along(self, n_arrived: int) -> float:
        """Return the mean of `<sum of the messages, target>`."""
        return n_arrived / self.n_messages * self.total

    def square(self, n_arrived: int) -> float:
        """Return the mean squared norm of the sum of the messages."""
        n, r = self.n_messages, n_arrived
        pairs = r * (r - 1) / (n * (n - 1)) if n > 1 else 0.0
        return r / n * self.own + pairs * (self.together - self.own)

    def residual(self, n_tasks: int, n_arrived: int) -> float:
        """Return the mean residual over all sets of `n_arrived` messages if every task is counted once on average.

        The weight is k / (r s) for k tasks, r arrivals and a mean load of s (Charles, Papailiopoulos, Ellenberg, arXiv
        1711.06771, section 2); where there are as many tasks as workers, that is n / ((n - t) d) for t stragglers of n
        workers and d replicas (Raviv et al., arXiv 1707.03858, section 5).
        """
        along, square = self.along(n_arrived), self.square(n_arrived)
        rho = n_tasks / along if n_arrived else 0.0
        return n_tasks - 2 * rho * along + rho**2 * square
