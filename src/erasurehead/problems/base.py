"""What a problem is: a sum over samples that can be cut into tasks, each of them into the hands of workers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from erasurehead.arrays import Array, Places, squared_norm
from erasurehead.splitting import split_samples as split_samples


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


class Problem(ABC):
    """What is minimised: the mean loss over the samples plus `l2 * ||x||^2`.

    The penalty is added by the coordinator, outside all coding: its gradient is dense, and messages would lose
    their support.
    """

    preload: ClassVar[tuple[str, ...]] = ()
    """Modules that workers need; engines import them once."""

    n_samples: int
    n_parameters: int
    l2: float

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

    def initial(self) -> Array:
        """Return the model that training starts from if none is given: zeros."""
        return np.zeros(self.n_parameters)

    def penalty(self, x: Array) -> float:
        """Return `l2 * ||x||^2`."""
        return self.l2 * squared_norm(x) if self.l2 else 0.0

    def penalty_gradient(self, x: Array) -> Array:
        """Return `2 * l2 * x`, as the original code writes it, in a new array."""
        return 2.0 * self.l2 * x

    def objective(self, x: Array) -> float:
        """Return what is minimised: the mean loss plus the penalty."""
        return self.loss(x) + self.penalty(x)
