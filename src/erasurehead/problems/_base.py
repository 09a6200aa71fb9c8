"""The interface of problems: sums over samples that are cut into tasks, which workers hold as shards."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from erasurehead._internal.arrays import Array, Places
from erasurehead._internal.partition import split_samples as split_samples
from erasurehead.problems._penalties import ElasticNet, Penalty, as_penalty


class Shard(ABC):
    """The part of a problem that one worker (or a group of equal ones) holds: the data of its tasks.

    Arguments:
        support: the parameters that the shard's gradients touch, ascending, shape (m,); None if all of them.
        n_tasks: number of tasks in the shard.
    """

    support: Places | None
    n_tasks: int

    def take(self, point: Array) -> Array:
        """Return a copy of a model restricted to the support, shape (m,), or of the whole model without a support."""
        # "clip" avoids checking every index, which would cost as much as the copy: all lie within the model.
        return point.copy() if self.support is None else point.take(self.support, mode="clip")

    @abstractmethod
    def combine(self, local: Array, coefficients: Array, step: int, out: Array) -> float:
        """Combine the partial gradients of the shard's tasks, without the penalty.

        Arguments:
            local: the model restricted to the support, shape (m,); the whole model if there is no support.
            coefficients: one number per task of the shard, shape (n_tasks,); zero leaves a task out.
            step: the step; random choices (mini-batches) are drawn from it, the seed and the task.
            out: output, `sum_j coefficients[j] * gradient_j` on the support, shape (m,), C-contiguous. Every
                element is written.

        Returns:
            `sum_j coefficients[j] * loss_j`. Gradients and losses are divided by the number of samples of the
            whole problem, so that their plain sum over all tasks is the mean over the samples.
        """

    def curvature(self, coefficients: Array, out: Array) -> float:
        """Sum a bound on the curvature along each parameter over the shard's tasks, without the penalty.

        It is the diagonal of a matrix H such that the second derivatives of the tasks' losses are nowhere above H
        along a single parameter. Such bounds can be summed like gradients, and are coded like them. Shards of problems
        without one leave it at zero, and `Problem.curved` is False.

        Arguments:
            coefficients: one number per task of the shard, shape (n_tasks,).
            out: output, the sum on the support, shape (m,). Every element is written.

        Returns:
            The mean number of entries in a sample that are not 0, summed in the same way: where samples touch that many
            parameters, the loss may be that many times as curved along all of them together.
        """
        out[:] = 0.0
        return 0.0

    def block(self, local: Array, marks: Array, coefficients: Array, coupled: bool, out: Array) -> None:
        """Sum the second derivatives between some columns over the shard's tasks, without the penalty.

        Each column of the data has one parameter, or one per output: `Problem.outputs`. Such sums are coded like
        gradients. Shards of problems without them leave them at zero, and `Problem.outputs` is 0.

        Arguments:
            local: the model restricted to the support, shape (m,).
            marks: for each of its parameters the place that its column has among those of the block, from 1; 0 if it is
                not one of them, shape (m,).
            coefficients: one number per task of the shard, shape (n_tasks,).
            coupled: whether those between parameters of different outputs are wanted, too.
            out: output: rows of the upper triangle of one matrix per output, or, `coupled`, of one for all outputs,
                whose parameters follow each other. Every element is written.
        """
        out[:] = 0.0

    def newton_step(
        self, local: Array, vector: Array, coefficients: Array, damping: float, iterations: int, out: Array
    ) -> None:
        """Solve, roughly, a Newton system of the shard's tasks alone, as if all samples were like theirs.

        The system is (H / share + damping I) z = vector, with H the sum of the tasks' second derivatives, and share
        the fraction of all samples that they have. Shards of problems without second derivatives leave z at zero, and
        `Problem.newton` is False.

        Arguments:
            local: the model restricted to the support, shape (m,).
            vector: likewise.
            coefficients: one number per task of the shard, at least 0, shape (n_tasks,).
            damping: what the penalty adds to the curvature along each parameter, at least 0.
            iterations: products with H that may be computed; each takes as long as a gradient.
            out: output, z on the support, shape (m,). Every element is written: zeros, if no finite z is found.
        """
        out[:] = 0.0


@dataclass(frozen=True)
class Exact:
    """The exact mean loss over samples, and its gradient, without the penalty.

    Attributes:
        loss: the mean over the samples; NaN if there are none.
        gradient: gradient of that mean, shape (n_parameters,).
        n_samples: number of samples in the mean.
    """

    loss: float
    gradient: Array
    n_samples: int


class Problem(ABC):
    """What is minimised: the mean loss over `n_samples` samples plus a penalty, by default `l2 * ||x||^2`.

    The penalty is added by the coordinator, outside all coding: its gradient is dense, and messages would lose
    their support. There is no half before its factor, `l2`. Of the parameters, `n_parameters` in all, those in
    `unpenalized`, such as an intercept, are left out of it.
    """

    preload: tuple[str, ...] = ()
    """Modules that workers need; engines import them once."""

    n_samples: int
    n_parameters: int
    l2: float
    dtype: str = "float64"
    """The type of number, as numpy writes it, in which models and gradients cross between coordinator and workers."""
    unpenalized: Sequence[int] = ()
    """Parameters that the penalty leaves alone."""

    stochastic: bool = False
    """Whether a step's gradients use randomly drawn samples, or are random otherwise: exact decoding then still gives
    an estimate."""

    curved: bool = False
    """Whether shards compute a bound on the curvature along each parameter: see `Shard.curvature`."""

    newton: bool = False
    """Whether shards solve Newton systems of their own tasks: see `Shard.newton_step`."""

    outputs: int = 0
    """How many parameters each column of the data has, where shards sum second derivatives between columns (see
    `Shard.block`); 0 where they do not."""

    quadratic: bool = False
    """Whether these are the same for all models."""

    convex: bool = True
    """Whether every point where the gradient vanishes is a global minimum; only then can gaps be measured."""

    @abstractmethod
    def shard(self, tasks: Sequence[slice]) -> Shard:
        """Return the shard that holds the given ranges of samples, one per task."""

    @abstractmethod
    def loss(self, x: Array) -> float:
        """Return the mean loss over all samples, without the penalty."""

    @abstractmethod
    def gradient(self, x: Array) -> Array:
        """Return the gradient of the mean loss over all samples, without the penalty, shape (n_parameters,)."""

    @abstractmethod
    def metrics(self, x: Array) -> dict[str, float]:
        """Return quality measures of a model on the test samples, such as `{"auc": 0.84}`; may be empty."""

    def training_metrics(self, x: Array) -> dict[str, float]:
        """Return the same measures on the training samples; empty where these are not at hand."""
        return {}

    def weight(self, rows: slice) -> float:
        """Return how many of the `n_samples` a range of samples counts for: by default, each counts for one."""
        return float(rows.stop - rows.start)

    def initial(self) -> Array:
        """Return the model that training starts from if none is given: zeros."""
        return np.zeros(self.n_parameters)

    _regularizer: Penalty | None = None

    @property
    def regularizer(self) -> Penalty:
        """The penalty as an object: by default `l2 * ||x||^2` on all parameters but those in `unpenalized`."""
        return (
            ElasticNet(l2=self.l2, unpenalized=tuple(self.unpenalized))
            if self._regularizer is None
            else self._regularizer
        )

    def _penalize(self, l2: float, penalty: Penalty | None, unpenalized: tuple[int, ...] = ()) -> None:
        """Take the penalty that a problem's arguments stand for; see `as_penalty`."""
        self.unpenalized = unpenalized
        self._regularizer = as_penalty(l2, penalty, unpenalized)
        self.l2 = float(getattr(self._regularizer, "l2", 0.0))

    def penalty(self, x: Array) -> float:
        """Return the penalty of a model: by default `l2 * ||x||^2`, without the parameters in `unpenalized`."""
        return self.regularizer.value(x)

    def penalty_gradient(self, x: Array) -> Array:
        """Return the gradient of the penalty's smooth part, in a new array."""
        return self.regularizer.gradient(x)

    def objective(self, x: Array) -> float:
        """Return what is minimised: the mean loss plus the penalty."""
        return self.loss(x) + self.penalty(x)

    def without_minimum(self, loss: float) -> bool:
        """Return whether the objective is known to have no minimum, as it falls for ever while parameters grow.

        Arguments:
            loss: the mean loss of a model over all samples, without the penalty.
        """
        return False

    def column_scales(self) -> tuple[float, float] | None:
        """Return the smallest and the largest root mean square of a column of the data; None if it is not known.

        Columns that are 0 throughout, and those that the penalty leaves alone, do not count.
        """
        return None

    def curvature(self) -> tuple[Array, float]:
        """Return the sum of `Shard.curvature` over all samples.

        Returns:
            A bound on the curvature along each parameter, shape (n_parameters,), and the mean number of
            entries in a sample that are not 0.
        """
        shard, sums = self.shard([slice(0, self.n_samples)]), np.zeros(self.n_parameters)
        local = np.empty(self.n_parameters if shard.support is None else len(shard.support))
        entries = shard.curvature(np.ones(1), local)
        sums[slice(None) if shard.support is None else shard.support] = local
        return sums, entries

    def block(self, x: Array, marks: Array, coupled: bool, out: Array) -> None:
        """Sum `Shard.block` over all samples.

        Arguments:
            x: the model, shape (n_parameters,).
            marks, coupled, out: as there, for all parameters.
        """
        shard = self.shard([slice(0, self.n_samples)])
        shard.block(shard.take(x), shard.take(marks), np.ones(1), coupled, out)

    def exact(self, points: Sequence[Array], without: Sequence[slice] = ()) -> list[Exact]:
        """Return the exact mean loss and gradient at each of several models, from all samples that are in reach.

        Arguments:
            points: the models, each of shape (n_parameters,).
            without: ranges of samples to leave out.

        Returns:
            One for each model, all over the same samples. A problem whose data may be out of reach here, such as files
            on other machines, leaves those samples out; `Exact.n_samples` tells.
        """
        if not without:
            return [Exact(self.loss(x), self.gradient(x), self.n_samples) for x in points]
        kept = remaining(self.n_samples, without)
        count = sum(rows.stop - rows.start for rows in kept)
        if not count:
            return [Exact(math.nan, np.full(self.n_parameters, math.nan), 0) for _ in points]
        shard, factor = self.shard(kept), self.n_samples / sum(self.weight(rows) for rows in kept)
        results: list[Exact] = []
        for x in points:
            gradient = np.zeros(self.n_parameters)
            local = np.empty(self.n_parameters if shard.support is None else len(shard.support))
            loss = shard.combine(shard.take(x), np.full(len(kept), factor), 0, local)
            gradient[slice(None) if shard.support is None else shard.support] = local
            results.append(Exact(loss, gradient, count))
        return results

    def losses(self, points: Sequence[Array], without: Sequence[slice] = ()) -> list[Exact]:
        """Return the same as `exact`, with gradients of NaN where a gradient takes much longer than a loss."""
        return self.exact(points, without)


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
