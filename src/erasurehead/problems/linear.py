"""Linear models: the mean loss over samples, to be cut into tasks; and what a trained model predicts."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self, final

import numpy as np

from erasurehead.arrays import Array
from erasurehead.errors import invalid
from erasurehead.problems.base import Problem
from erasurehead.problems.checks import check_design, check_target
from erasurehead.problems.losses import Labels, LogisticLoss, SampleLoss, SoftmaxLoss, SquaredLoss
from erasurehead.problems.shards import LinearShard, build_shard, hold_rows


class LinearProblem(Problem):
    """A linear model's mean loss over the training samples, plus `l2 * ||x||^2`.

    The parameters are `x.reshape(n_outputs, n_features)`: one row of weights, or one a class (the order of
    scikit-learn's `coef_`). There is no hidden constant term: give X a column of ones to have one; l2 then holds for
    it as for any other column, as in the original experiments.

    Arguments:
        X: training samples x features; a scipy sparse matrix or array, or an array of two dimensions. A sparse matrix
            whose stored numbers are all 1, such as a one-hot encoding, is kept without its numbers.
        y: one label or target a sample, shape (n_samples,).
        l2: factor of the penalty, at least 0.
        test: samples and labels to measure models on, (X_test, y_test); None for none.

    Raises:
        InvalidArgument: if shapes do not fit, a number is not finite, or labels are not those that the loss knows.
    """

    preload = ("erasurehead.problems.kernels",)

    def __init__(self, X: Any, y: Any, *, l2: float = 0.0, test: tuple[Any, Any] | None = None) -> None:
        if not (np.isfinite(l2) and l2 >= 0):
            raise invalid("l2", "must be a finite number of at least 0", l2)
        self._design = check_design(X, "X")
        values = check_target(y, "y", self._design.n_rows, "X")
        self.sample_loss = self._choose_loss(values)
        self._labels = self.sample_loss.labels(values, "y")
        self.l2 = float(l2)
        self.n_samples = self._design.n_rows
        self.n_features = self._design.n_columns
        self.n_parameters = self.sample_loss.n_outputs * self.n_features
        self._test = None if test is None else self._hold(*test)

    @abstractmethod
    def _choose_loss(self, values: Array) -> SampleLoss:
        """Return the loss for the training labels, which are finite numbers."""

    def shard(self, tasks: Sequence[slice]) -> LinearShard:
        return build_shard(self._design, self._labels, self.sample_loss, tasks)

    def loss(self, x: Array) -> float:
        return self._whole.loss(x, np.ones(1))

    def gradient(self, x: Array) -> Array:
        out = np.empty(self.n_parameters)
        self._whole.combine(x, np.ones(1), 0, out)
        return out

    def metrics(self, x: Array) -> dict[str, float]:
        """Return the quality of a model on the test samples by name; empty without test samples.

        `auc`, `accuracy` and `log_loss` for logistic regression, `mse` and `r2` for least squares, `accuracy` and
        `log_loss` for softmax regression; without `auc` where all test samples are of one class, and without `r2`
        where all targets are equal.
        """
        return {} if self._test is None else self._test.scores(x)

    def model(self, x: Array) -> LinearModel:
        """Return what predicts for new samples with the parameters `x`, shape (n_parameters,)."""
        return LinearModel(self.sample_loss, x)

    def _hold(self, X: Any, y: Any) -> LinearShard:
        design = check_design(X, "test[0]", self.n_features)
        labels = self.sample_loss.labels(check_target(y, "test[1]", design.n_rows, "test[0]"), "test[1]")
        return hold_rows(design, labels, self.sample_loss)

    @cached_property
    def _whole(self) -> LinearShard:
        return hold_rows(self._design, self._labels, self.sample_loss)


@final
@dataclass(frozen=True, eq=False)
class LinearModel:
    """A trained linear model: what it predicts, without the data that it was trained on.

    >>> model = LinearModel.named("logistic", np.array([1.0, -2.0]))
    >>> model.predict([[3.0, 1.0], [1.0, 1.0]])
    array([ 1., -1.])

    Arguments:
        sample_loss: the loss that it was trained for.
        x: the parameters, shape (n_outputs * n_features,).
    """

    sample_loss: SampleLoss
    x: Array

    def __post_init__(self) -> None:
        if self.x.ndim != 1 or len(self.x) % self.sample_loss.n_outputs:
            raise invalid(
                "the shape of x", f"must be (n_features * {self.sample_loss.n_outputs},)", self.x.shape,
            )  # fmt: skip

    @classmethod
    def named(cls, name: str, x: Array, n_classes: int = 2) -> Self:
        """Return the model of a regression by its name, as a run's files keep it.

        Arguments:
            name: `"logistic"`, `"least_squares"` or `"softmax"`.
            x: the parameters, shape (n_outputs * n_features,).
            n_classes: for softmax alone.
        """
        if name == SoftmaxLoss.name:
            return cls(SoftmaxLoss(n_classes), x)
        losses: dict[str, SampleLoss] = {loss.name: loss for loss in (LogisticLoss(), SquaredLoss())}
        if name not in losses:
            raise invalid("name", f"must be one of {[*losses, SoftmaxLoss.name]}", name)
        return cls(losses[name], x)

    @property
    def n_features(self) -> int:
        """Number of columns that samples must have."""
        return len(self.x) // self.sample_loss.n_outputs

    def decision(self, X: Any) -> Array:
        """Return the margins, shape (n_samples,); with more than one output (n_samples, n_outputs)."""
        margins = self._margins(X)
        return margins[0] if len(margins) == 1 else margins.T

    def predict(self, X: Any) -> Labels:
        """Return the predicted labels or targets, shape (n_samples,)."""
        return self.sample_loss.predict(self._margins(X))

    def probabilities(self, X: Any) -> Array | None:
        """Return the probability of label +1, shape (n_samples,), or of each class, shape (n_samples, n_classes).

        None for least squares, which speaks of no classes.
        """
        return self.sample_loss.probabilities(self._margins(X))

    def evaluate(self, X: Any, y: Any) -> dict[str, float]:
        """Return the quality on labelled samples by name, as `LinearProblem.metrics` does on the test samples."""
        design = check_design(X, "X", self.n_features)
        labels = self.sample_loss.labels(check_target(y, "y", design.n_rows, "X"), "y")
        return hold_rows(design, labels, self.sample_loss).scores(self.x)

    def _margins(self, X: Any) -> Array:
        design = check_design(X, "X", self.n_features)
        nothing = np.zeros(design.n_rows)  # margins ask for no labels
        return hold_rows(design, nothing, self.sample_loss).margins(self.x)
