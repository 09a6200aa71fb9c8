"""Quality measures of a model's outputs on samples that it was not trained on."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from erasurehead._internal.arrays import Array


def areas(labels: Array, scores: Array) -> dict[str, float]:
    """Return the areas under two curves, each in [0, 1].

    Arguments:
        labels: labels; those above 0 are positive, shape (n_samples,).
        scores: the model's scores, shape (n_samples,).

    Returns:
        `auc`, that under the ROC curve: how likely a positive sample scores above a negative one, ties half; `pr_auc`,
        the average precision: the mean over positive samples of the share of positives among those that score no less.
        Empty where they are undefined: all samples are of one class, or a score is NaN.
    """
    positive = labels > 0
    n_positive = int(np.count_nonzero(positive))
    n_negative = len(labels) - n_positive
    if not n_positive or not n_negative or np.isnan(scores).any():
        return {}
    _, place, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = np.cumsum(counts) - (counts - 1) / 2  # equal scores share the mean of their ranks
    above = float(ranks[place[positive]].sum()) - n_positive * (n_positive + 1) / 2
    found = np.bincount(place[positive], minlength=len(counts))[::-1]
    precision = np.cumsum(found) / np.cumsum(counts[::-1])
    return {"auc": above / (n_positive * n_negative), "pr_auc": float(found @ precision) / n_positive}


def accuracy(labels: NDArray[Any], predicted: NDArray[Any]) -> float:
    """Return the fraction of samples whose class is predicted correctly."""
    return int(np.count_nonzero(labels == predicted)) / len(labels)


def confusion(labels: NDArray[Any], predicted: NDArray[Any], n_classes: int) -> NDArray[np.int64]:
    """Return how many samples of each class (rows) are predicted to be of which (columns), both numbered from 0."""
    counts = np.bincount(labels * n_classes + predicted, minlength=n_classes * n_classes)
    return counts.reshape(n_classes, n_classes)


def r_squared(mean_squared_error: float, targets: Array) -> float | None:
    """Return the fraction of the targets' variance that is explained; None if they do not vary."""
    variance = float(np.var(targets))
    return 1.0 - mean_squared_error / variance if variance > 0 else None
