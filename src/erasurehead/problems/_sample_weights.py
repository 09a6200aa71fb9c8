"""How much each sample counts: weights of samples and of classes, checked and scaled to a mean of 1."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, cast

import numpy as np

from erasurehead._internal.arrays import Array, IntArray
from erasurehead.errors import check_not_negative, check_positive, check_type, invalid
from erasurehead.problems._checks import check_target
from erasurehead.problems._losses import Labels, NumberLoss, SampleLoss


def check_weights(
    sample_weight: Any,
    class_weight: Mapping[Any, float] | Literal["balanced"] | None,
    labels: Labels,
    sample_loss: SampleLoss,
) -> Array | None:
    """Return the weights of samples, with a mean of 1, shape (n_samples,); None if all weights are equal.

    Arguments:
        sample_weight: one number per sample, at least 0; None if all count alike.
        class_weight: factor by label, for every label that occurs, or `"balanced"`; None for none.
        labels: labels of the samples, checked.
        sample_loss: the loss of a sample.

    Raises:
        InvalidArgument: if a weight is missing, negative or not finite, or all are 0.
    """
    if sample_weight is None and class_weight is None:
        return None
    weights = np.ones(len(labels))
    if sample_weight is not None:
        weights = check_target(sample_weight, "sample_weight", len(labels), "X").copy()
        negative = np.flatnonzero(weights < 0)
        if len(negative):
            raise invalid(f"sample_weight[{negative[0]}]", "must be at least 0", float(weights[negative[0]]))
    if class_weight is not None:
        weights *= _by_class(class_weight, labels, sample_loss)
    with np.errstate(over="ignore"):
        total = float(weights.sum())
    check_positive("the sum of all weights", total, "must be positive and finite")
    return weights * (len(weights) / total)


def balanced(places: IntArray, n_classes: int, weights: Array | None = None) -> Array:
    """Return factors by which all classes have the same total weight, shape (n_classes,); 0 for one without any.

    Arguments:
        places: the class of each sample, shape (n_samples,).
        n_classes: number of classes.
        weights: of the samples, shape (n_samples,); None if all count alike.
    """
    totals = np.bincount(places, weights, n_classes)
    return totals.sum() / (n_classes * np.where(totals > 0.0, totals, np.inf))


def _by_class(class_weight: Any, labels: Labels, sample_loss: SampleLoss) -> Array:
    if isinstance(sample_loss, NumberLoss):
        raise invalid(
            "class_weight", "must be left out where targets are no classes", class_weight, "use sample_weight"
        )
    classes, places = np.unique(labels, return_inverse=True)
    if isinstance(class_weight, str):
        if class_weight != "balanced":
            raise invalid("class_weight", "must be 'balanced', or factors by label", class_weight)
        return balanced(places, len(classes))[places]
    check_type("class_weight", class_weight, Mapping, "must be 'balanced', or factors by label")
    given = cast("Mapping[Any, Any]", class_weight)
    for label, factor in given.items():
        check_not_negative(f"class_weight[{label!r}]", factor, "must be a finite number of at least 0")
    missing = [float(label) for label in classes if label not in given]
    if missing:
        raise invalid("class_weight", f"must have a factor for the label {missing[0]:g}", dict(given))
    return np.array([float(given[label]) for label in classes.tolist()])[places]
