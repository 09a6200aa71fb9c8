"""A two-layer classification network in NumPy: a non-convex problem that needs no extra package."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from erasurehead._internal.arrays import Array, IntArray
from erasurehead.errors import check_count, check_size, invalid
from erasurehead.problems._base import Problem, Shard
from erasurehead.problems._checks import check_design, check_target, check_test_pair
from erasurehead.problems._design_matrices import DenseDesign
from erasurehead.problems._losses import Labels, SampleLoss, SoftmaxLoss
from erasurehead.problems._models import ScoringModel, checked_array
from erasurehead.problems._penalties import as_penalty

_ROWS = 2_048
"""Number of samples that go through the network at once."""


@final
class TwoLayerNetwork(Problem):
    """`softmax(relu(x W1 + b1) W2 + b2)`: one hidden layer of rectified linear units, cross entropy, l2 on the weights.

    The parameters are W1, b1, W2, b2, one after the other, each in row-major order. The initial model is drawn randomly
    (He's initialisation), as at zero all hidden units would be alike and stay so.

    Arguments:
        X: training samples x features, dense.
        y: one class per sample, numbered from 0.
        hidden: number of units in the hidden layer.
        l2: factor of the penalty `l2 * ||weights||^2`, at least 0.
        test: samples and labels to measure models on; None for none.
        seed: seed of the initial model.

    Raises:
        InvalidArgument: if shapes do not fit, a number is not finite, or labels are not class numbers.
    """

    convex = False

    def __init__(
        self,
        X: Any,
        y: Any,
        *,
        hidden: int = 64,
        l2: float = 0.0,
        test: tuple[Any, Any] | None = None,
        seed: int = 0,
    ) -> None:
        as_penalty(l2, None, ())
        self._X = _dense(X, "X", None)
        values = check_target(y, "y", len(self._X), "X")
        self.n_classes = max(2, int(values.max()) + 1)
        self._loss = SoftmaxLoss(self.n_classes)
        self._labels: Labels = self._loss.labels(values, "y")
        self.hidden = check_size("hidden", hidden)
        self.seed = check_count("seed", seed, at_least=0)
        self.n_samples, self.n_features = self._X.shape
        first = self.n_features * hidden
        self.n_parameters = count_parameters(self.n_features, hidden, self.n_classes)
        biases = (*range(first, first + hidden), *range(self.n_parameters - self.n_classes, self.n_parameters))
        self._penalize(l2, None, biases)
        self._test = None
        if test is not None:
            X_test, y_test = check_test_pair(test)
            samples = _dense(X_test, "test[0]", self.n_features)
            labels = self._loss.labels(check_target(y_test, "test[1]", len(samples), "test[0]"), "test[1]")
            self._test = samples, labels

    @property
    def labels(self) -> Labels:
        """The class of each training sample, shape (n_samples,)."""
        return self._labels

    def initial(self) -> Array:
        """Return the initial model: weights drawn from the seed, scaled by the previous layer's width; zero biases."""
        rng = np.random.default_rng(self.seed)
        x = np.zeros(self.n_parameters)
        first, _, second, _ = self._split(x)
        first[:] = rng.standard_normal(first.shape) * np.sqrt(2.0 / self.n_features)
        second[:] = rng.standard_normal(second.shape) * np.sqrt(2.0 / self.hidden)
        return x

    def _split(self, x: Array) -> Layers:
        return layers_in(x, self.n_features, self.hidden, self.n_classes)

    def shard(self, tasks: Sequence[slice]) -> NetworkShard:
        return NetworkShard(self, tasks)

    def loss(self, x: Array) -> float:
        return sum(
            self._go(x, self._X[first : first + _ROWS], self._labels[first : first + _ROWS], 1.0 / self.n_samples, None)
            for first in range(0, self.n_samples, _ROWS)
        )

    def gradient(self, x: Array) -> Array:
        total, part = np.zeros(self.n_parameters), np.empty(self.n_parameters)
        for first in range(0, self.n_samples, _ROWS):
            rows = slice(first, first + _ROWS)
            self._go(x, self._X[rows], self._labels[rows], 1.0 / self.n_samples, part)
            total += part
        return total

    def sample_gradients(self, models: Array, rows: IntArray) -> Array:
        """Return the gradients of several models over samples of their own; see `Sampled`."""
        gradients = np.empty_like(models)
        for number, (model, own) in enumerate(zip(models, rows, strict=True)):
            self._go(model, self._X[own], self._labels[own], 1.0 / len(own), gradients[number])
        return gradients

    def metrics(self, x: Array) -> dict[str, float]:
        if self._test is None:
            return {}
        margins = self.margins(x, self._test[0])
        with np.errstate(over="ignore", invalid="ignore"):
            return self._loss.scores(np.ascontiguousarray(margins.T), self._test[1])

    def margins(self, x: Array, samples: Array) -> Array:
        """Return the margin of each class for samples, with parameters x: shape (n_samples, n_classes)."""
        return _forward(self._split(x), samples)

    def _go(self, x: Array, samples: Array, labels: Labels, scale: float, out: Array | None) -> float:
        """Return the loss over some samples, times the scale, and write its gradient."""
        first, first_bias, second, second_bias = self._split(x)
        with np.errstate(over="ignore", invalid="ignore"):
            active = samples @ first
            active += first_bias
            np.maximum(active, 0.0, out=active)
            margins = np.ascontiguousarray((active @ second + second_bias).T)
            loss = self._loss.differentiate(margins, labels, scale)
            if out is None:
                return loss
            to_first, to_first_bias, to_second, to_second_bias = self._split(out)
            residuals = margins.T
            to_second[:] = active.T @ residuals
            to_second_bias[:] = residuals.sum(axis=0)
            back = residuals @ second.T
            back *= active > 0.0
            to_first[:] = samples.T @ back
            to_first_bias[:] = back.sum(axis=0)
        return loss


@final
@dataclass(frozen=True, eq=False)
class NetworkModel(ScoringModel):
    """A trained network with one hidden layer: what it predicts, without the data that it was trained on.

    Arguments:
        sample_loss: the loss that it was trained for.
        x: the parameters, in the order of `TwoLayerNetwork`.
        n_columns: number of columns of the samples.
        hidden: number of units in the hidden layer.

    Raises:
        InvalidArgument: if the number of parameters is not that of such a network.
    """

    sample_loss: SampleLoss
    x: Array
    n_columns: int
    hidden: int

    def __post_init__(self) -> None:
        count = count_parameters(self.n_columns, self.hidden, self.sample_loss.n_outputs)
        if self.x.shape != (count,):
            raise invalid("the shape of x", f"must be ({count},)", self.x.shape)

    @property
    def n_features(self) -> int:
        return self.n_columns

    def _margins(self, X: Any) -> Array:
        layers = layers_in(self.x, self.n_columns, self.hidden, self.sample_loss.n_outputs)
        return np.ascontiguousarray(_forward(layers, checked_array(X, self.n_columns)).T)


Layers = tuple[Array, Array, Array, Array]
"""Weights and biases of the hidden layer, then of the output layer."""


def count_parameters(n_features: int, hidden: int, n_classes: int) -> int:
    """Return how many parameters a network with one hidden layer has."""
    return n_features * hidden + hidden + hidden * n_classes + n_classes


def layers_in(x: Array, n_features: int, hidden: int, n_classes: int) -> Layers:
    """Return views of the parameters, layer by layer."""
    edges = np.cumsum([n_features * hidden, hidden, hidden * n_classes])
    first, first_bias, second, second_bias = np.split(x, edges)
    return first.reshape(n_features, hidden), first_bias, second.reshape(hidden, n_classes), second_bias


def _forward(layers: Layers, samples: Array) -> Array:
    first, first_bias, second, second_bias = layers
    return np.maximum(samples @ first + first_bias, 0.0) @ second + second_bias


@final
class NetworkShard(Shard):
    """The tasks of a network that one worker holds.

    Arguments:
        problem: the network over all samples.
        tasks: ranges of samples.
    """

    support = None

    def __init__(self, problem: TwoLayerNetwork, tasks: Sequence[slice]) -> None:
        self._problem, self._tasks, self.n_tasks = problem, tuple(tasks), len(tasks)

    def combine(self, local: Array, coefficients: Array, step: int, out: Array) -> float:
        out[:] = 0.0
        loss, part, problem = 0.0, np.empty_like(out), self._problem
        for rows, coefficient in zip(self._tasks, coefficients, strict=True):
            if coefficient != 0.0:
                scale = float(coefficient) / problem.n_samples
                loss += problem._go(local, problem._X[rows], problem._labels[rows], scale, part)  # pyright: ignore[reportPrivateUsage]
                out += part
        return loss


def _dense(X: Any, argument: str, n_columns: int | None) -> Array:
    design = check_design(X, argument, n_columns)
    if not isinstance(design, DenseDesign):
        raise invalid(argument, "must be dense for a network", "a sparse matrix", "X.toarray() makes it so")
    return design.matrix
