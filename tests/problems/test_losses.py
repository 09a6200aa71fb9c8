"""Each loss: its value and slope from the definition, and what it makes of margins."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.special import expit, softmax
from sklearn.metrics import average_precision_score, log_loss

from erasurehead.problems._losses import LogisticLoss, SampleLoss, SoftmaxLoss, SquaredLoss

from .oracles import N_CLASSES, gradients, labels_of, losses

LOSSES: tuple[SampleLoss, ...] = (LogisticLoss(), SquaredLoss(), SoftmaxLoss(N_CLASSES))


@given(st.sampled_from(LOSSES), st.integers(2, 40), st.integers(0, 10_000), st.sampled_from([0.0, -0.5, 2.0]))
def test_differentiating_gives_slopes_and_the_loss_both_scaled(
    loss: SampleLoss, n_samples: int, seed: int, scale: float
) -> None:
    rng = np.random.default_rng(seed)
    margins, y = rng.normal(size=(loss.n_outputs, n_samples)), labels_of(loss.name, rng, n_samples)
    for sample in range(n_samples):  # a sample with features 1: its margins are the model
        one = margins[:, [sample]].copy()
        value = loss.differentiate(one, loss.labels(y[[sample]], "y"), scale)
        model, dense, label = margins[:, sample], np.ones((1, 1)), y[[sample]]
        assert value == pytest.approx(scale * losses(loss.name, dense, label, model)[0], rel=1e-12, abs=1e-15)
        slopes = scale * gradients(loss.name, dense, label, model)[0]
        np.testing.assert_allclose(one[:, 0], slopes, rtol=1e-10, atol=1e-15)
    together = margins.copy()
    value = loss.differentiate(together, loss.labels(y, "y"), scale)
    expected = scale * sum(losses(loss.name, np.ones((1, 1)), y[[i]], margins[:, i])[0] for i in range(n_samples))
    assert value == pytest.approx(expected, rel=1e-12, abs=1e-14)


@pytest.mark.parametrize("size", [1e3, 1e300])
def test_softmax_of_huge_margins_is_finite(size: float) -> None:
    margins = size * np.array([[1.0, -1.0], [0.0, 0.5], [-1.0, 1.0]])
    changed = margins.copy()
    value = SoftmaxLoss(3).differentiate(changed, np.array([0, 0]), 1.0)
    assert value == pytest.approx(2.0 * size)
    np.testing.assert_allclose(changed, [[0.0, -1.0], [0.0, 0.0], [0.0, 1.0]], atol=1e-200)


def test_predictions_probabilities_and_scores_of_two_classes() -> None:
    loss, margins = LogisticLoss(), np.array([[2.0, -1.0, 0.0, -800.0, 800.0]])
    np.testing.assert_array_equal(loss.predict(margins), [1.0, -1.0, -1.0, -1.0, 1.0])
    probabilities = loss.probabilities(margins)
    assert probabilities is not None
    np.testing.assert_allclose(probabilities, expit(margins[0]), rtol=1e-12, atol=1e-300)
    labels = np.array([1.0, 1.0, -1.0, -1.0, 1.0])
    scores = loss.scores(margins, labels)
    assert scores["accuracy"] == 0.8
    assert scores["auc"] == pytest.approx(5 / 6)
    assert scores["log_loss"] == pytest.approx(np.logaddexp(0.0, -labels * margins[0]).mean())
    assert scores["pr_auc"] == pytest.approx(average_precision_score(labels, margins[0]))
    assert set(loss.scores(margins, np.ones(5))) == {"accuracy", "log_loss"}


def test_predictions_probabilities_and_scores_of_classes() -> None:
    rng = np.random.default_rng(0)
    loss, margins, labels = SoftmaxLoss(3), 3 * rng.normal(size=(3, 50)), rng.integers(0, 3, 50)
    probabilities = loss.probabilities(margins)
    assert probabilities is not None
    np.testing.assert_allclose(probabilities, softmax(margins.T, axis=1), rtol=1e-12)
    np.testing.assert_array_equal(loss.predict(margins), probabilities.argmax(axis=1))
    before = margins.copy()
    scores = loss.scores(margins, labels)
    assert scores["log_loss"] == pytest.approx(log_loss(labels, probabilities, labels=[0, 1, 2]), rel=1e-10)
    assert scores["accuracy"] == (loss.predict(margins) == labels).mean()
    np.testing.assert_array_equal(margins, before)


def test_predictions_and_scores_of_numbers() -> None:
    loss, margins = SquaredLoss(), np.array([[1.0, 2.0, 4.0]])
    np.testing.assert_array_equal(loss.predict(margins), [1.0, 2.0, 4.0])
    assert loss.probabilities(margins) is None
    scores = loss.scores(margins, np.array([1.0, 2.0, 3.0]))
    assert scores == {
        "mse": pytest.approx(1 / 3),
        "rmse": pytest.approx(3**-0.5),
        "mae": pytest.approx(1 / 3),
        "r2": pytest.approx(1 - (1 / 3) / (2 / 3)),
    }
    assert set(loss.scores(margins, np.ones(3))) == {"mse", "rmse", "mae"}
