"""Each regression takes the labels that it knows, and names the others."""

from __future__ import annotations

import numpy as np
import pytest

from erasurehead.errors import InvalidArgument
from erasurehead.problems import LeastSquares, LogisticRegression, SoftmaxRegression

X = np.arange(8.0).reshape(4, 2)


@pytest.mark.parametrize(("labels", "named"), [([0, 1, 1, 0], "0, 1"), ([-1, 1, 3, 2.5], "-1, 1, 2.5, 3")])
def test_logistic_regression_names_the_labels_that_it_does_not_know(labels: list[float], named: str) -> None:
    with pytest.raises(InvalidArgument) as refusal:
        LogisticRegression(X, labels)
    rule = "every value of y must be one of the two labels -1 and +1"
    assert str(refusal.value) == f"{rule}, but it is '{named}'; map one class to -1 and the other to +1."


def test_logistic_regression_wants_both_labels() -> None:
    with pytest.raises(InvalidArgument) as refusal:
        LogisticRegression(X, np.ones(4))
    assert str(refusal.value) == "y must hold both labels, -1 and +1, got '+1 throughout'."


def test_many_wrong_labels_are_counted_not_listed() -> None:
    with pytest.raises(InvalidArgument, match=r"'0, 1, 2, 3, 4, 5, \.\.\. \(40 different ones\)'"):
        LogisticRegression(np.ones((40, 1)), np.arange(40))


@pytest.mark.parametrize(
    ("labels", "n_classes", "greatest", "named"),
    [([0, 1, 1.5, 0], None, 1, "0, 1, 1.5"), ([0, -1, 1, 0], None, 1, "-1, 0, 1"), ([0, 1, 2, 3], 3, 2, "0, 1, 2, 3")],
)
def test_softmax_regression_names_the_labels_that_it_does_not_know(
    labels: list[float], n_classes: int | None, greatest: int, named: str
) -> None:
    with pytest.raises(InvalidArgument) as refusal:
        SoftmaxRegression(X, labels, n_classes=n_classes)
    rule = f"every value of y must be a class number from 0 to {greatest}"
    assert str(refusal.value) == f"{rule}, but it is '{named}'; number the classes from 0, or state n_classes."


def test_softmax_regression_wants_two_classes() -> None:
    with pytest.raises(InvalidArgument, match="y must number at least two classes, from 0, got '0 at most'"):
        SoftmaxRegression(X, np.zeros(4))
    with pytest.raises(InvalidArgument, match="n_classes must be at least 2, but it is 1"):
        SoftmaxRegression(X, np.zeros(4), n_classes=1)


def test_softmax_regression_counts_classes_unless_told() -> None:
    assert SoftmaxRegression(X, [0, 2, 1, 0]).n_parameters == 3 * 2
    assert SoftmaxRegression(X, [0, 2, 1, 0], n_classes=5).n_parameters == 5 * 2


def test_least_squares_refuses_targets_whose_squares_are_lost() -> None:
    with pytest.raises(InvalidArgument, match="y must have a value that is large enough to be squared in float64"):
        LeastSquares(X, [1e-200, 0, -3e-190, 0])
    small = LeastSquares(X, [1e-140, 0, 0, 0])
    assert small.loss(small.initial()) == pytest.approx(1e-280 / 4)
    assert LeastSquares(X, [0, 0, 0, 0]).loss(small.initial()) == 0.0


def test_least_squares_takes_any_finite_target() -> None:
    problem = LeastSquares(X, [1e9, -3, 0, 0.5])
    assert problem.loss(problem.initial()) == pytest.approx((1e18 + 9 + 0.25) / 4)
