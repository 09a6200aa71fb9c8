"""Linear models: the mean loss over samples, plus a penalty, as a problem that can be cut into tasks."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Literal, final

import numpy as np

from erasurehead._internal.arrays import Array, IntArray
from erasurehead.errors import UNSAID, invalid
from erasurehead.problems import _kernels as kernels
from erasurehead.problems._base import Exact, Problem
from erasurehead.problems._checks import (
    check_design,
    check_target,
    check_test_pair,
    intercept_parameters,
)
from erasurehead.problems._families import read_loss
from erasurehead.problems._losses import Labels, LogisticLoss, NumberLoss, SampleLoss, SoftmaxLoss, SquaredLoss
from erasurehead.problems._models import LinearModel, Samples, check_samples
from erasurehead.problems._penalties import Penalty, as_penalty
from erasurehead.problems._sample_weights import check_weights
from erasurehead.problems._sampled import linear_gradients
from erasurehead.problems._separation import all_correct, separates
from erasurehead.problems._shards import LinearShard, build_shard, hold_rows


class LinearProblem(Problem):
    """A linear model's mean loss over the training samples, plus a penalty: `l2 * ||x||^2`, or another.

    The parameters are `x.reshape(n_outputs, n_features)`: one row of weights, or one per class (the order of
    scikit-learn's `coef_`). There is no implicit constant term: add a column of ones to X to have one, and name it by
    `intercept`; otherwise l2 applies to it as to any other column, as in the original experiments.

    The penalty has no factor of one half, and the loss is a mean: scikit-learn's `LogisticRegression` minimises the
    same with `C = 1 / (2 * n_samples * l2)`, its `Ridge` with `alpha = n_samples * l2`.

    Arguments:
        X: training samples x features; a scipy sparse matrix or array, or an array of two dimensions. A sparse matrix
            whose stored numbers are all 1, such as a one-hot encoding, is kept without its numbers. X and y are both
            copied: changing them in place later does not change the problem. Read-only arrays
            (`array.flags.writeable = False`, or read-only memory maps) are not copied.
        y: one label or target per sample, shape (n_samples,).
        l2: factor of the penalty, at least 0.
        test: samples and labels to measure models on, (X_test, y_test); None for none.
        intercept: index of a column of X that is left out of the penalty, such as one of ones, from 0, or from -1 for
            the last; None for no such column.
        penalty: a penalty in place of l2, which must then be left out: `ElasticNet(l1=0.01, l2=0.1)`, or your
            own.
        sample_weight: how much each training sample counts, at least 0, shape (n_samples,): the loss is the weighted
            mean, so that a weight of 2 is a sample that occurs twice. None if all count alike.
        class_weight: factor by class, as a dict from label to factor; `"balanced"` for factors with which all classes
            weigh the same (n_samples / (classes * samples of the class)). Not for least squares.

    Raises:
        InvalidArgument: if shapes do not fit, a number is not finite, weights are negative or all 0, or labels are not
            those that the loss knows.
    """

    curved = True
    newton = True

    def __init__(
        self,
        X: Any,
        y: Any,
        *,
        l2: float = 0.0,
        test: tuple[Any, Any] | None = None,
        intercept: int | None = None,
        penalty: Penalty | None = None,
        sample_weight: Any = None,
        class_weight: Mapping[Any, float] | Literal["balanced"] | None = None,
    ) -> None:
        as_penalty(l2, penalty, ())
        self._design = check_design(X, "X")
        values = check_target(y, "y", self._design.n_rows, "X")
        self.sample_loss = self._choose_loss(values)
        self._labels = self.sample_loss.labels(values, "y")
        self._weights = check_weights(sample_weight, class_weight, self._labels, self.sample_loss)
        self.n_samples = self._design.n_rows
        self.n_features = self._design.n_columns
        self.outputs, self.quadratic = self.sample_loss.n_outputs, self.sample_loss.quadratic
        self.n_parameters = self.outputs * self.n_features
        size = self.n_parameters + self._design.n_rows + self._design.n_ones
        self.preload = (LinearShard.__module__, *kernels.modules_for(size))
        self._penalize(l2, penalty, intercept_parameters(intercept, self.n_features, self.sample_loss.n_outputs))
        self._test = None
        if test is not None:
            self._test = check_samples(
                *check_test_pair(test), self.sample_loss, self.n_features, names=("test[0]", "test[1]")
            )

    @abstractmethod
    def _choose_loss(self, values: Array) -> SampleLoss:
        """Return the loss for the training labels, which are known to be finite numbers."""

    @property
    def heaviest(self) -> float:
        """The greatest weight of a sample, relative to the mean: the loss may be that many times as curved."""
        return 1.0 if self._weights is None else float(self._weights.max())

    def weight(self, rows: slice) -> float:
        return super().weight(rows) if self._weights is None else float(self._weights[rows].sum())

    def shard(self, tasks: Sequence[slice]) -> LinearShard:
        return build_shard(self._design, self._labels, self.sample_loss, tasks, weights=self._weights)

    def loss(self, x: Array) -> float:
        return self._whole.loss(self._whole_model(x), np.ones(1))

    def gradient(self, x: Array) -> Array:
        out = np.empty(self.n_parameters)
        self._whole.combine(self._whole_model(x), np.ones(1), 0, out)
        return out

    def _whole_model(self, x: Array) -> Array:
        model = np.asarray(x)
        if model.size != self.n_parameters:
            raise invalid("the shape of x", f"must be ({self.n_parameters},)", model.shape)
        return model

    def exact(self, points: Sequence[Array], without: Sequence[slice] = ()) -> list[Exact]:
        if without:
            return super().exact(points, without)
        results: list[Exact] = []
        for x in points:  # loss and gradient in one pass over the data
            gradient = np.empty(self.n_parameters)
            results.append(Exact(self._whole.combine(x, np.ones(1), 0, gradient), gradient, self.n_samples))
        return results

    @property
    def labels(self) -> Labels:
        """The training labels, in the form that the loss computes with, shape (n_samples,)."""
        return self._labels

    def sample_gradients(self, models: Array, rows: IntArray) -> Array:
        """Return the gradients of several models over samples of their own; see `Sampled`."""
        return linear_gradients(self._design, self._labels, self.sample_loss, models, rows, self._weights)

    def without_minimum(self, loss: float) -> bool:
        if not self.sample_loss.endless:
            return False
        penalized = self.regularizer.smooth or self.regularizer.sharp
        lightest = 1.0 if self._weights is None else float(self._weights[self._weights > 0.0].min())
        if not penalized and all_correct(loss, self.n_samples, lightest):
            return True
        free = [column for column in self.unpenalized if column < self.n_features]
        columns = np.array(free, dtype=np.int64) if penalized else np.arange(self.n_features)
        n_classes = max(2, self.sample_loss.n_outputs)
        return len(columns) > 0 and separates(self._design, self._labels, n_classes, columns, self._weights)

    def column_scales(self) -> tuple[float, float] | None:
        scales = np.sqrt(self._design.column_squares() / self.n_samples)
        scales[[column for column in self.unpenalized if column < self.n_features]] = 0.0
        nonzero = scales[scales > 0.0]
        return (float(nonzero.min()), float(nonzero.max())) if len(nonzero) else None

    def metrics(self, x: Array) -> dict[str, float]:
        """Return the quality of a model on the test samples by name; empty without test samples.

        `auc`, `pr_auc`, `accuracy` and `log_loss` for logistic regression, `accuracy` and `log_loss` for softmax
        regression, `mse`, `rmse`, `mae` and `r2` for numbers, after `deviance` for the losses poisson and gamma, and
        `pinball` for quantile; without areas where all test samples are of one class, and without `r2` where all
        targets are equal.
        """
        return {} if self._test is None else self.model(x).measure(self._test)

    def training_metrics(self, x: Array) -> dict[str, float]:
        return self.model(x).measure(Samples(self._design, self._labels))

    def model(self, x: Array) -> LinearModel:
        """Return the model with the parameters `x`, shape (n_parameters,), which predicts for new samples."""
        return LinearModel(self.sample_loss, x)

    @cached_property
    def _whole(self) -> LinearShard:
        return hold_rows(self._design, self._labels, self.sample_loss, self._weights)


@final
class LogisticRegression(LinearProblem):
    """The mean of `log(1 + exp(-y_i * X_i x))` plus `l2 * ||x||^2`, for labels -1 and +1; arguments of `LinearProblem`.

    Both labels must occur in training. The ErasureHead paper trains it on Amazon and Covertype (Table 1).

    >>> problem = LogisticRegression([[1.0, 2.0], [1.0, -1.0]], [1, -1])
    >>> problem.gradient(problem.initial())
    array([ 0.  , -0.75])
    """

    def _choose_loss(self, values: Array) -> SampleLoss:
        loss = LogisticLoss()
        labels = np.unique(loss.labels(values, "y"))
        if len(labels) != 2:
            raise invalid("y", "must hold both labels, -1 and +1", f"{labels[0]:+g} throughout")
        return loss


@final
class LeastSquares(LinearProblem):
    """The mean of `(X_i x - y_i)^2` plus `l2 * ||x||^2`, for real targets; arguments of `LinearProblem`.

    The ErasureHead paper trains it on KC Housing (Table 1).

    >>> problem = LeastSquares([[1.0, 2.0], [1.0, -1.0]], [3.0, 0.0])
    >>> problem.gradient(problem.initial())
    array([-3., -6.])
    """

    def _choose_loss(self, values: Array) -> SampleLoss:
        return SquaredLoss().completed(values)


@final
class Regression(LinearProblem):
    """The mean of a loss of your choice of `X_i x` and `y_i` plus `l2 * ||x||^2`, for real targets.

    Of a margin m = X_i x and a target y, the losses are, with what is predicted:

    - `poisson`: `exp(m) - y m`, for y >= 0, such as counts; `exp(m)`.
    - `gamma`: `m + y exp(-m)`, for y > 0; `exp(m)`.
    - `log_least_squares`: `(m - log y)^2`, for y > 0; `exp(m)`.
    - `huber(threshold)`: `(m - y)^2`, beyond the threshold `threshold * (2 abs(m - y) - threshold)`; `m`.
    - `quantile(level, width)`: the pinball loss of the level, smoothed over the width; `m`.
    - `least_squares`: `(m - y)^2`; `m`.

    The pinball loss, `level * (y - m)` below and `(1 - level) * (m - y)` above, is not smooth. What is minimised is
    `(0.5 - level) * (m - y) + 0.5 * sqrt((m - y)^2 + width^2)`, which is above it by at most half of the width. By
    default the threshold is 1.35 times, and the width 0.01 times, the spread of the targets (1.4826 times their median
    absolute deviation from the median).

    >>> problem = Regression([[1.0, 0.0], [1.0, 1.0]], [1, 3], loss="poisson")
    >>> problem.gradient(problem.initial())
    array([-1., -1.])

    Arguments:
        X: as for `LinearProblem`.
        y: targets, shape (n_samples,).
        l2: as for `LinearProblem`.
        test: as for `LinearProblem`.
        loss: one of these, with or without its parameters: `"quantile(0.9)"`.
        intercept: as for `LinearProblem`.
        penalty: as for `LinearProblem`.
        sample_weight: as for `LinearProblem`.
    """

    def __init__(
        self,
        X: Any,
        y: Any,
        *,
        l2: float = 0.0,
        test: tuple[Any, Any] | None = None,
        loss: str = "least_squares",
        intercept: int | None = None,
        penalty: Penalty | None = None,
        sample_weight: Any = None,
    ) -> None:
        self._loss = loss
        super().__init__(X, y, l2=l2, test=test, intercept=intercept, penalty=penalty, sample_weight=sample_weight)

    def _choose_loss(self, values: Array) -> SampleLoss:
        loss = read_loss(self._loss)
        if not isinstance(loss, NumberLoss):
            raise invalid("loss", "must be one of numbers", self._loss, "the classes of other losses have problems")
        return loss.completed(values)


@final
class SoftmaxRegression(LinearProblem):
    """The mean cross-entropy of `softmax(X_i W^T)` plus `l2 * ||x||^2`, where W is `x.reshape(n_classes, n_features)`.

    >>> problem = SoftmaxRegression([[1.0, 2.0], [1.0, -1.0]], [0, 1])
    >>> problem.gradient(problem.initial()).reshape(2, 2)
    array([[ 0.  , -0.75],
           [ 0.  ,  0.75]])

    Arguments:
        X: as for `LinearProblem`.
        y: class numbers from 0 to n_classes - 1, shape (n_samples,).
        l2: as for `LinearProblem`.
        test: as for `LinearProblem`.
        n_classes: number of classes, at least 2; None for the greatest label plus one; all classes must then occur.
        intercept: as for `LinearProblem`.
        penalty: as for `LinearProblem`.
        sample_weight: as for `LinearProblem`.
        class_weight: as for `LinearProblem`, by class number.
    """

    def __init__(
        self,
        X: Any,
        y: Any,
        *,
        l2: float = 0.0,
        test: tuple[Any, Any] | None = None,
        n_classes: int | None = None,
        intercept: int | None = None,
        penalty: Penalty | None = None,
        sample_weight: Any = None,
        class_weight: Mapping[Any, float] | Literal["balanced"] | None = None,
    ) -> None:
        self._n_classes = n_classes
        super().__init__(
            X,
            y,
            l2=l2,
            test=test,
            intercept=intercept,
            penalty=penalty,
            sample_weight=sample_weight,
            class_weight=class_weight,
        )

    def _choose_loss(self, values: Array) -> SampleLoss:
        if self._n_classes is not None:
            return SoftmaxLoss(self._n_classes)
        classes = np.unique(values)
        greatest = float(classes[-1])
        if greatest < 1:
            raise invalid("y", "must number at least two classes, from 0", f"{greatest:g} at most")
        if classes[0] >= 0 and len(classes) <= greatest and (classes % 1 == 0).all():
            empty = next(number for number, label in enumerate(classes) if label != number)
            raise invalid(
                "y",
                f"must number the classes from 0 without a gap, but no sample is of class {empty}",
                UNSAID,
                "number the classes from 0, or state n_classes, those without samples included",
            )
        return SoftmaxLoss(int(greatest) + 1)
