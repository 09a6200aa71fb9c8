"""A quadratic problem with known gradients, for tests of codes and training loops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from erasurehead._internal.arrays import Array, Places
from erasurehead.problems import Problem, Shard


@dataclass(eq=False)
class _Rows(Shard):
    """The samples of some tasks, restricted to the parameters that they touch."""

    rows: list[Array]
    centres: list[Array]
    support: Places | None
    n_samples: int

    def __post_init__(self) -> None:
        self.n_tasks = len(self.rows)

    def combine(self, local: Array, coefficients: Array, step: int, out: Array) -> float:
        out[:] = 0.0
        loss = 0.0
        for coefficient, rows, centres in zip(coefficients, self.rows, self.centres, strict=True):
            errors = rows @ local - centres
            out += coefficient * (errors @ rows) / self.n_samples
            loss += float(coefficient * (errors @ errors)) / (2 * self.n_samples)
        return loss


class Quadratic(Problem):
    """The mean of `(row @ x - centre)^2 / 2` over the samples.

    Arguments:
        rows: shape (n_samples, n_parameters). Zeros are structural: a shard's support has the columns with others.
        centres: shape (n_samples,).
        l2: factor of the l2 penalty.
        sparse: whether shards keep only the parameters that they touch.
    """

    def __init__(self, rows: Array, centres: Array, l2: float = 0.0, sparse: bool = False) -> None:
        self.rows, self.centres, self.l2, self.sparse = rows, centres, l2, sparse
        self.n_samples, self.n_parameters = rows.shape

    def shard(self, tasks: Sequence[slice]) -> Shard:
        rows_of_tasks = [self.rows[task] for task in tasks]
        centres = [self.centres[task] for task in tasks]
        if not self.sparse:
            return _Rows(rows_of_tasks, centres, None, self.n_samples)
        support = np.flatnonzero((np.vstack(rows_of_tasks) != 0).any(axis=0)).astype(np.int32)
        return _Rows([rows[:, support] for rows in rows_of_tasks], centres, support, self.n_samples)

    def loss(self, x: Array) -> float:
        errors = self.rows @ x - self.centres
        return float(errors @ errors) / (2 * self.n_samples)

    def gradient(self, x: Array) -> Array:
        return (self.rows @ x - self.centres) @ self.rows / self.n_samples

    def metrics(self, x: Array) -> dict[str, float]:
        return {"objective": self.objective(x)}

    @classmethod
    def random(
        cls,
        n_samples: int,
        n_parameters: int,
        seed: int = 0,
        density: float = 1.0,
        l2: float = 0.0,
        sparse: bool = False,
    ) -> Quadratic:
        """Return a random problem.

        Arguments:
            n_samples, n_parameters: shape of the rows.
            seed: seed of the draws.
            density: fraction of the elements of the rows that are not zero.
            l2, sparse: as for the class.
        """
        rng = np.random.default_rng(seed)
        rows = rng.standard_normal((n_samples, n_parameters)) * (rng.random((n_samples, n_parameters)) < density)
        return cls(rows, rng.standard_normal(n_samples), l2, sparse)
