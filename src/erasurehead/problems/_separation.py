"""Classes that a column separates: without a penalty, its weight then grows for ever, and there is no minimum."""

from __future__ import annotations

import numpy as np

from erasurehead._internal.arrays import Array, IntArray
from erasurehead.problems._design_matrices import Design
from erasurehead.problems._losses import Labels

_ROWS = 2**14  # that are looked at together


def all_correct(loss: float, n_samples: int, lightest: float) -> bool:
    """Return whether a mean loss is so small that no sample can be on the wrong side of any of its margins.

    Each sample's own loss is then less than log 2. Such a model times a growing factor brings the loss down to 0, which
    no model reaches.

    Arguments:
        loss: the mean of the samples' losses, times their weights.
        n_samples: number of samples.
        lightest: the least weight of a sample that is not 0, where the mean weight is 1.
    """
    return loss * n_samples < np.log(2.0) * lightest


def separates(design: Design, labels: Labels, n_classes: int, columns: IntArray, weights: Array | None) -> bool:
    """Return whether one of the columns, up to a constant column among them, is on one side for all samples of a class,
    and on the other for all others.

    Samples may lie on the border, if not all do: a category that occurs in one class alone is such a column.

    Arguments:
        design: the samples.
        labels: their classes, shape (n_samples,): -1 and +1, or class numbers.
        n_classes: number of classes; there may be some without samples.
        columns: the columns to look at.
        weights: of the samples, shape (n_samples,): those of weight 0 do not count; None if all count.
    """
    numbers = (labels > 0.0).astype(np.int64) if labels.dtype.kind == "f" else labels
    low, high = _extremes(design, numbers, n_classes, columns, weights)
    other_low = _of_others(low)
    other_high = -_of_others(-high)
    least, greatest = low.min(axis=0), high.max(axis=0)
    constant = (least == greatest) & (least != 0.0)
    about_zero = (low >= 0.0) & (other_high <= 0.0) | (high <= 0.0) & (other_low >= 0.0)
    separating = about_zero & ((least != 0.0) | (greatest != 0.0))
    if constant.any():  # its weight moves the border
        separating |= ((low >= other_high) | (high <= other_low)) & (least != greatest)
    return bool(separating.any())


def _extremes(
    design: Design, numbers: Labels, n_classes: int, columns: IntArray, weights: Array | None
) -> tuple[Array, Array]:
    """Return the least and the greatest number in each column for each class, shape (n_classes, n_columns).

    They are inf and -inf for a class without samples that count.
    """
    low = np.full((n_classes, len(columns)), np.inf)
    high = -low
    for start in range(0, design.n_rows, _ROWS):
        rows = np.arange(start, min(start + _ROWS, design.n_rows))
        if weights is not None:
            rows = rows[weights[rows] > 0.0]
        for number in np.unique(numbers[rows]):
            least, greatest = design.extremes(rows[numbers[rows] == number], columns)
            np.minimum(low[number], least, out=low[number])
            np.maximum(high[number], greatest, out=high[number])
    return low, high


def _of_others(low: Array) -> Array:
    """Return the least of all other classes for each class, shape (n_classes, n_columns)."""
    holder, columns = low.argmin(axis=0), np.arange(len(low[0]))
    others = low.copy()
    others[holder, columns] = np.inf
    least = np.repeat(low.min(axis=0)[np.newaxis], len(low), axis=0)
    least[holder, columns] = others.min(axis=0)
    return least
