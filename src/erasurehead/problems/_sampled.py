"""Gradients of several models, each over its own samples, as training without a coordinator needs them."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np

from erasurehead._internal.arrays import Array, IntArray
from erasurehead.problems._design_matrices import CompressedDesign, DenseDesign, Design
from erasurehead.problems._losses import Labels, SampleLoss

MOST_NUMBERS = 1 << 19
"""Numbers that are gathered from samples at once: they stay in the processor's cache."""


@runtime_checkable
class Sampled(Protocol):
    """A problem that computes gradients over any samples, of several models at once."""

    def sample_gradients(self, models: Array, rows: IntArray) -> Array:
        """Return the gradients of the mean loss over some samples, without the penalty.

        Each is the same bit for bit, whatever other models it is computed with.

        Arguments:
            models: shape (n_models, n_parameters).
            rows: indices of each model's samples, shape (n_models, n_samples).

        Returns:
            Shape (n_models, n_parameters).
        """
        ...


def linear_gradients(
    design: Design, labels: Labels, loss: SampleLoss, models: Array, rows: IntArray, counts: Array | None
) -> Array:
    """Return what `Sampled.sample_gradients` does, for a linear model.

    Arguments:
        design: all samples.
        labels: labels of all samples.
        loss: the loss of one sample.
        models, rows: as for `Sampled.sample_gradients`.
        counts: weight of each sample, with a mean of 1; None if all count alike.
    """
    n_models, n_samples = rows.shape
    weights = np.ascontiguousarray(models).reshape(n_models, loss.n_outputs, design.n_columns)
    gradients = np.empty_like(weights)
    if isinstance(design, CompressedDesign):
        for model in range(n_models):
            own = rows[model]
            count = None if counts is None else counts[own]
            _sparse(design.matrix[own], labels[own], loss, weights[model], gradients[model], count)
    else:
        assert isinstance(design, DenseDesign)
        together = max(1, MOST_NUMBERS // (n_samples * design.n_columns))
        for first in range(0, n_models, together):
            part = slice(first, first + together)
            count = None if counts is None else counts[rows[part]].reshape(-1)
            _dense(design.matrix[rows[part]], labels[rows[part]], loss, weights[part], gradients[part], count)
    return gradients.reshape(n_models, -1)


def _dense(samples: Array, labels: Labels, loss: SampleLoss, weights: Array, out: Array, counts: Array | None) -> None:
    # (models, samples, columns) x (models, columns, outputs): one product per model, so that none depends on the others
    n_models, n_samples, _ = samples.shape
    margins: Array = np.matmul(samples, weights.transpose(0, 2, 1))
    flat = np.ascontiguousarray(margins.reshape(n_models * n_samples, -1).T)
    with np.errstate(over="ignore", invalid="ignore"):
        loss.differentiate(flat, labels.reshape(-1), 1.0 / n_samples)
        if counts is not None:
            flat *= counts
    residuals = np.ascontiguousarray(flat.reshape(-1, n_models, n_samples).transpose(1, 0, 2))
    np.matmul(residuals, samples, out=out)


def _sparse(samples: Any, labels: Labels, loss: SampleLoss, weights: Array, out: Array, counts: Array | None) -> None:
    margins = np.ascontiguousarray((samples @ weights.T).T)
    with np.errstate(over="ignore", invalid="ignore"):
        loss.differentiate(margins, labels, 1.0 / len(labels))
        if counts is not None:
            margins *= counts
    out[:] = np.asarray(samples.T @ margins.T).T
