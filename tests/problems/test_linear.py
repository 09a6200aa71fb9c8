"""Loss and gradient of a whole problem, whatever the loss and the form of the data."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from scipy import sparse

from erasurehead.errors import InvalidArgument
from erasurehead.problems import LeastSquares, LogisticRegression, SoftmaxRegression
from erasurehead.problems._blocks import DenseBlock, PatternBlock, SparseBlock

from .oracles import FORMS, KINDS, Case, case_of, cases, gradients, losses, problem_of


@given(cases())
def test_loss_and_gradient_are_the_means_over_the_samples(case: Case) -> None:
    problem = case.problem()
    dense, y, x = case.dense, case.y, case.x
    assert problem.loss(x) == pytest.approx(losses(case.kind, dense, y, x).mean(), rel=1e-12, abs=1e-14)
    expected = gradients(case.kind, dense, y, x).mean(axis=0)
    np.testing.assert_allclose(problem.gradient(x), expected, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", FORMS)
def test_gradient_is_the_slope_of_the_loss(kind: str, form: str) -> None:
    case = case_of(kind, form, seed=5)
    problem = case.problem()
    step = 1e-5
    slopes = [
        (problem.loss(case.x + nudge) - problem.loss(case.x - nudge)) / (2 * step)
        for nudge in step * np.eye(len(case.x))
    ]
    np.testing.assert_allclose(problem.gradient(case.x), slopes, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", ["one_hot", "ragged"])
def test_a_pattern_gives_what_its_numbers_give(kind: str, form: str) -> None:
    # Twice the model on half the matrix: its numbers are not ones, so that they are multiplied.
    case = case_of(kind, form, seed=8, n_rows=60, n_columns=20)
    pattern, numbers = case.problem(), problem_of(kind, case.X * 0.5, case.y)
    tasks = [slice(0, 20), slice(33, 60)]
    assert {type(piece.block) for piece in pattern.shard(tasks).pieces} == {PatternBlock}
    assert {type(piece.block) for piece in numbers.shard(tasks).pieces} == {SparseBlock}
    assert pattern.loss(case.x) == pytest.approx(numbers.loss(2 * case.x), rel=1e-13)
    np.testing.assert_allclose(pattern.gradient(case.x), 2 * numbers.gradient(2 * case.x), rtol=1e-12, atol=1e-15)


def test_a_matrix_of_ones_keeps_no_numbers_and_a_dense_one_no_support() -> None:
    ones = np.array([[1.0, 0.0, 1.0], [0.0, 1.0, 1.0]])
    for X, block in ((sparse.coo_matrix(ones), PatternBlock), (sparse.csc_array(3 * ones), SparseBlock)):
        shard = LeastSquares(X, np.zeros(2)).shard([slice(0, 1)])
        assert isinstance(shard.pieces[0].block, block)
        np.testing.assert_array_equal(shard.support, [0, 2])
    shard = LeastSquares(ones, np.zeros(2)).shard([slice(0, 1)])
    assert isinstance(shard.pieces[0].block, DenseBlock)
    assert shard.support is None


def test_doubles_are_summed_and_stored_zeros_dropped_without_touching_the_users_arrays() -> None:
    X = sparse.csr_matrix((np.array([1.0, 1.0, 0.0]), np.array([1, 1, 0]), np.array([0, 2, 3])), shape=(2, 2))
    before = X.data.copy(), X.indices.copy(), X.indptr.copy()
    problem = LeastSquares(X, np.array([3.0, 1.0]))
    np.testing.assert_allclose(problem.gradient(np.array([5.0, 1.0])), [0.0, 2.0 * 2.0 * (2.0 - 3.0) / 2])
    for array, kept in zip((X.data, X.indices, X.indptr), before, strict=True):
        np.testing.assert_array_equal(array, kept)


def test_softmax_of_two_classes_is_logistic_regression() -> None:
    case = case_of("logistic", "one_hot", seed=3)
    logistic = case.problem()
    softmax = SoftmaxRegression(case.X, (case.y + 1) / 2)
    both = np.concatenate([-case.x / 2, case.x / 2])
    assert softmax.loss(both) == pytest.approx(logistic.loss(case.x), rel=1e-12)
    for sign, gradient in zip((-1.0, 1.0), softmax.gradient(both).reshape(2, -1), strict=True):
        np.testing.assert_allclose(gradient, sign * logistic.gradient(case.x), rtol=1e-11, atol=1e-14)


@pytest.mark.parametrize("form", ["dense", "one_hot", "sparse"])
def test_huge_margins_lose_nothing_and_warn_of_nothing(form: str) -> None:
    case = case_of("logistic", form, seed=2)
    for scale in (1e3, 1e150):
        problem = case.problem()
        margins = case.y * (case.dense @ (scale * case.x))
        expected = np.maximum(-margins, 0.0).mean()
        assert problem.loss(scale * case.x) == pytest.approx(expected, rel=1e-9)
        slopes = -case.y * (margins < 0)
        np.testing.assert_allclose(problem.gradient(scale * case.x), slopes @ case.dense / len(case.y), atol=1e-12)


def test_a_model_that_has_run_away_gives_non_finite_numbers_and_no_warning() -> None:
    for kind in KINDS:
        case = case_of(kind, "dense", seed=1)
        away = np.full_like(case.x, 1e308)
        away[::2] = -1e308
        gradient = case.problem().gradient(away)
        assert not np.isfinite(gradient).all() or not np.isfinite(case.problem().loss(away))


def test_metrics_measure_the_test_part_and_are_empty_without_one() -> None:
    case, other = case_of("logistic", "one_hot", seed=4), case_of("logistic", "one_hot", seed=6)
    assert case.problem().metrics(case.x) == {}
    measured = case.problem(test=(other.X, other.y)).metrics(case.x)
    assert set(measured) == {"auc", "pr_auc", "accuracy", "log_loss"}
    assert measured["log_loss"] == pytest.approx(losses("logistic", other.dense, other.y, case.x).mean(), rel=1e-12)
    assert measured == case.problem().model(case.x).evaluate(other.X, other.y)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"l2": -1.0}, "l2 must be a finite number of at least 0, but it is -1.0."),
        ({"l2": float("nan")}, "l2 must be a finite number of at least 0, but it is nan."),
        (
            {"test": (np.ones((4, 2)),)},
            "test must be the samples and their labels, (X_test, y_test), but it is '1 in all'.",
        ),
        ({"test": 3}, "test must be the samples and their labels, (X_test, y_test), but it is 3."),
        (
            {"test": (np.ones((4, 3)), np.ones(4))},
            "the number of columns of test[0] must be 2, as in the training data, but it is 3; "
            "encode it with the encoding of the training data.",
        ),
        (
            {"test": (np.ones((4, 2)), np.ones(3))},
            "the shape of test[1] must be (4,), one value a row of test[0], but it is (3,).",
        ),
        (
            {"test": (np.ones((2, 2)), [1, 2])},
            "every value of test[1] must be one of the two labels -1 and +1, but it is '1, 2'; "
            "map one class to -1 and the other to +1.",
        ),
    ],
)
def test_arguments_that_cannot_be_are_refused_in_one_sentence(arguments: dict[str, object], sentence: str) -> None:
    with pytest.raises(InvalidArgument) as refusal:
        LogisticRegression(np.ones((2, 2)), np.array([1.0, -1.0]), **arguments)
    assert str(refusal.value) == sentence


@pytest.mark.parametrize("wrong", [1, 3])
def test_a_model_of_another_length_is_refused(wrong: int) -> None:
    problem = LogisticRegression(np.eye(2), np.array([1.0, -1.0]))
    for measure in (problem.loss, problem.gradient, problem.objective):
        with pytest.raises(InvalidArgument, match=rf"the shape of x must be \(2,\), but it is \({wrong},\)"):
            measure(np.ones(wrong))
