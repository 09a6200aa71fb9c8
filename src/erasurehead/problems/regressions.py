"""The three linear problems: logistic, least-squares and softmax regression."""

from __future__ import annotations

from typing import Any, final

import numpy as np

from erasurehead.arrays import Array
from erasurehead.errors import UNSAID, invalid
from erasurehead.problems.checks import check_squares
from erasurehead.problems.linear import LinearProblem
from erasurehead.problems.losses import LogisticLoss, SampleLoss, SoftmaxLoss, SquaredLoss


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
        found = np.unique(loss.labels(values, "y"))
        if len(found) != 2:
            raise invalid("y", "must hold both labels, -1 and +1", f"{found[0]:+g} throughout")
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
        check_squares(values, "y")
        return SquaredLoss()


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
        n_classes: number of classes, at least 2; None for the greatest label plus one, if all up to it occur.
        intercept: as for `LinearProblem`.
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
    ) -> None:
        self._n_classes = n_classes
        super().__init__(X, y, l2=l2, test=test, intercept=intercept)

    def _choose_loss(self, values: Array) -> SampleLoss:
        if self._n_classes is not None:
            return SoftmaxLoss(self._n_classes)
        found = np.unique(values)
        greatest = float(found[-1])
        if greatest < 1:
            raise invalid("y", "must number at least two classes, from 0", f"{greatest:g} at most")
        if found[0] >= 0 and len(found) <= greatest and (found % 1 == 0).all():
            empty = next(number for number, label in enumerate(found) if label != number)
            raise invalid(
                "y", f"must number the classes from 0 without a gap, but no sample is of class {empty}", UNSAID,
                "number the classes from 0, or state n_classes, those without samples included",
            )  # fmt: skip
        return SoftmaxLoss(int(greatest) + 1)
