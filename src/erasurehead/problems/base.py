"""What a problem is: a sum over samples that can be cut into tasks, each of them into the hands of workers."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from erasurehead._internal.arrays import Array, Places
from erasurehead._internal.partition import split_samples as split_samples
from erasurehead.problems.penalties import L2, Penalty

CURVATURE = "curvature"
"""The kind of order that asks for curvatures along the parameters beside gradients: see `Shard.curvature`."""

EARLY = "early"
"""The kind of order that a few arrivals answer well enough. It asks for curvatures, too, and its note says for how many
arrivals: see `wait_rules.early`."""

WITH_CURVATURE = (CURVATURE, EARLY)
"""The kinds of orders whose messages are two vectors: a gradient, and a curvature behind it."""


class Shard(ABC):
    """The part of a problem that one worker (or a group of equal ones) holds: the data of its tasks.

    Arguments:
        support: the parameters that the shard's gradients touch, ascending, shape (m,); None if all of them.
        n_tasks: number of tasks in the shard.
    """

    support: Places | None
    n_tasks: int

    def take(self, point: Array) -> Array:
        """Return a copy of a model restricted to the support, shape (m,); of all of it if there is no support."""
        # "clip" leaves out a check of every index, which would cost as much as the taking: all lie within the model.
        return point.copy() if self.support is None else point.take(self.support, mode="clip")

    @abstractmethod
    def combine(self, local: Array, coefficients: Array, step: int, out: Array) -> float:
        """Combine the partial gradients of the shard's tasks, without the penalty.

        Arguments:
            local: the model restricted to the support, shape (m,); all of it if there is no support.
            coefficients: one number a task of the shard, shape (n_tasks,); zero leaves a task out.
            step: the step that random choices (mini-batches) are drawn from, with the seed and the task.
            out: room for `sum_j coefficients[j] * gradient_j` on the support, shape (m,), C-contiguous. Every
                element is written.

        Returns:
            `sum_j coefficients[j] * loss_j`. Gradients and losses are divided by the number of samples of the
            whole problem, so that their plain sum over all tasks is the mean over the samples.
        """

    def curvature(self, coefficients: Array, out: Array) -> float:
        """Sum a bound on the curvature along each parameter over the shard's tasks, without the penalty.

        It is the diagonal of a matrix H such that the second derivatives of the tasks' losses are nowhere above H
        along a single parameter; sums of it are as good as those of gradients, and are coded like them. Problems whose
        shards know of none leave it at zeros, and say so by `Problem.curved`.

        Arguments:
            coefficients: one number a task of the shard, shape (n_tasks,).
            out: room for the sum on the support, shape (m,). Every element is written.

        Returns:
            The mean number of entries of a sample that are not 0, summed in the same way: a sample that touches so many
            parameters may bend the loss so many times as much along them together.
        """
        out[:] = 0.0
        return 0.0


@dataclass(frozen=True)
class Exact:
    """The mean loss over samples, from the data themselves, and its gradient; without the penalty.

    Attributes:
        loss: the mean over the samples; NaN if there are none.
        gradient: of that mean, shape (n_parameters,).
        n_samples: how many samples they are of.
    """

    loss: float
    gradient: Array
    n_samples: int


class Problem(ABC):
    """What is minimised: the mean loss over the samples plus a penalty, which by default is `l2 * ||x||^2`.

    The penalty is added by the coordinator, outside all coding: its gradient is dense, and messages would lose
    their support. There is no half before it. Parameters in `unpenalized`, such as an intercept, are left out of it.
    """

    preload: tuple[str, ...] = ()
    """Modules that workers need; engines import them once."""

    n_samples: int
    n_parameters: int
    l2: float
    unpenalized: Sequence[int] = ()
    """Parameters that the penalty leaves alone."""

    stochastic: bool = False
    """Whether a step's gradients are of samples that are drawn, or otherwise random: exact decoding then gives an
    estimate all the same."""

    curved: bool = False
    """Whether shards tell a bound on the curvature along each parameter: see `Shard.curvature`."""

    convex: bool = True
    """Whether a point where the gradient vanishes is a minimum of all; else nobody knows how far one is from it."""

    @abstractmethod
    def shard(self, tasks: Sequence[slice]) -> Shard:
        """Return the shard that holds the given ranges of samples, one a task."""

    @abstractmethod
    def loss(self, x: Array) -> float:
        """Return the mean loss over all samples, without the penalty."""

    @abstractmethod
    def gradient(self, x: Array) -> Array:
        """Return the gradient of the mean loss over all samples, without the penalty, shape (n_parameters,)."""

    @abstractmethod
    def metrics(self, x: Array) -> dict[str, float]:
        """Return what a person wants to know of a model on the test samples, such as `{"auc": 0.84}`; may be empty."""

    def weight(self, rows: slice) -> float:
        """Return how many of the `n_samples` a range of them counts for: by default each for one."""
        return float(rows.stop - rows.start)

    def initial(self) -> Array:
        """Return the model that training starts from if none is given: zeros."""
        return np.zeros(self.n_parameters)

    @property
    def regularizer(self) -> Penalty:
        """The penalty as an object: by default `l2 * ||x||^2` on all parameters but those in `unpenalized`."""
        return L2(self.l2, tuple(self.unpenalized))

    def penalty(self, x: Array) -> float:
        """Return the penalty of a model: by default `l2 * ||x||^2`, without the parameters in `unpenalized`."""
        return self.regularizer.value(x)

    def penalty_gradient(self, x: Array) -> Array:
        """Return the gradient of the penalty's smooth part, in a new array."""
        return self.regularizer.gradient(x)

    def objective(self, x: Array) -> float:
        """Return what is minimised: the mean loss plus the penalty."""
        return self.loss(x) + self.penalty(x)

    def column_scales(self) -> tuple[float, float] | None:
        """Return the smallest and the largest root mean square of a column of the data; None if it is not known.

        Columns that are 0 throughout, and those that the penalty leaves alone, do not count.
        """
        return None

    def curvature(self) -> tuple[Array, float]:
        """Return what `Shard.curvature` sums over all samples, with the mean number of a sample's entries.

        Returns:
            A bound on the curvature along each parameter, shape (n_parameters,), and that number.
        """
        shard, sums = self.shard([slice(0, self.n_samples)]), np.zeros(self.n_parameters)
        local = np.empty(self.n_parameters if shard.support is None else len(shard.support))
        entries = shard.curvature(np.ones(1), local)
        sums[slice(None) if shard.support is None else shard.support] = local
        return sums, entries

    def exact(self, points: Sequence[Array], without: Sequence[slice] = ()) -> list[Exact]:
        """Return mean loss and gradient at some models, from all samples that are in reach.

        Arguments:
            points: the models, each of shape (n_parameters,).
            without: ranges of samples that are left out.

        Returns:
            One for each model, all of the same samples. A problem whose data may be out of reach here, as are files
            on other machines, leaves those samples out, and says so by the number.
        """
        if not without:
            return [Exact(self.loss(x), self.gradient(x), self.n_samples) for x in points]
        kept = remaining(self.n_samples, without)
        count = sum(rows.stop - rows.start for rows in kept)
        if not count:
            return [Exact(math.nan, np.full(self.n_parameters, math.nan), 0) for _ in points]
        shard, factor = self.shard(kept), self.n_samples / sum(self.weight(rows) for rows in kept)
        found: list[Exact] = []
        for x in points:
            gradient = np.zeros(self.n_parameters)
            local = np.empty(self.n_parameters if shard.support is None else len(shard.support))
            loss = shard.combine(shard.take(x), np.full(len(kept), factor), 0, local)
            gradient[slice(None) if shard.support is None else shard.support] = local
            found.append(Exact(loss, gradient, count))
        return found


def remaining(n_samples: int, without: Sequence[slice]) -> list[slice]:
    """Return the ranges of samples that are left, ascending.

    >>> remaining(10, [slice(6, 8), slice(0, 2)])
    [slice(2, 6, None), slice(8, 10, None)]
    """
    left, low = list[slice](), 0
    for rows in sorted(without, key=lambda rows: rows.start):
        if rows.start > low:
            left.append(slice(low, rows.start))
        low = max(low, rows.stop)
    return [*left, slice(low, n_samples)] if low < n_samples else left
