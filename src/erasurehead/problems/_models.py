"""Trained models: what they predict, and how well; all that is needed once training is over."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple, Self, cast, final

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead.errors import invalid
from erasurehead.problems._checks import check_design, check_target
from erasurehead.problems._design_matrices import CompressedDesign, DenseDesign, Design
from erasurehead.problems._families import read_loss
from erasurehead.problems._losses import Labels, SampleLoss


class Samples(NamedTuple):
    """Samples and their labels, checked."""

    design: Design
    labels: Labels


def check_samples(
    X: Any, y: Any, sample_loss: SampleLoss, n_features: int | None = None, names: tuple[str, str] = ("X", "y")
) -> Samples:
    """Check samples and their labels.

    Arguments:
        X: samples x features, as for `check_design`.
        y: one label per sample.
        sample_loss: the loss that the labels are for.
        n_features: number of columns that X must have; None for any.
        names: names of X and y, for errors.

    Raises:
        InvalidArgument: if shapes do not fit, a number is not finite, or labels are not those that the loss knows.
    """
    design = check_design(X, names[0], n_features)
    labels = sample_loss.labels(check_target(y, names[1], design.n_rows, names[0]), names[1])
    return Samples(design, labels)


class ScoringModel(ABC):
    """A trained model that scores samples, without the data that it was trained on.

    Attributes:
        sample_loss: the loss that it was trained for, which defines what its scores mean.
    """

    sample_loss: SampleLoss

    @property
    @abstractmethod
    def n_features(self) -> int:
        """Number of columns that samples must have."""

    @abstractmethod
    def _margins(self, X: Any) -> Array:
        """Return the margins, shape (n_outputs, n_samples)."""

    def decision(self, X: Any) -> Array:
        """Return the margins, shape (n_samples,); with more than one output (n_samples, n_outputs)."""
        margins = self._margins(X)
        return margins[0] if len(margins) == 1 else margins.T

    def predict(self, X: Any) -> Labels:
        """Return the predicted labels or targets, shape (n_samples,)."""
        return self.sample_loss.predict(self._margins(X))

    def probabilities(self, X: Any) -> Array | None:
        """Return the probability of label +1, shape (n_samples,), or of each class, shape (n_samples, n_classes).

        None for least squares, which has no classes.
        """
        return self.sample_loss.probabilities(self._margins(X))

    def evaluate(self, X: Any, y: Any) -> dict[str, float]:
        """Return the quality on labelled samples by name."""
        samples = check_samples(X, y, self.sample_loss, self.n_features)
        with np.errstate(all="ignore"):  # the measures show whether a model has diverged
            return self.sample_loss.scores(self._margins(X), samples.labels)


def checked_array(X: Any, n_features: int) -> Array:
    """Return samples, which may be sparse, as a dense array, shape (n_samples, n_features).

    Raises:
        InvalidArgument: if they have another number of columns, or numbers that are not finite.
    """
    design = check_design(X, "X", n_features)
    return design.matrix.toarray() if isinstance(design, CompressedDesign) else cast("DenseDesign", design).matrix


@final
@dataclass(frozen=True, eq=False)
class LinearModel(ScoringModel):
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
                "the shape of x",
                f"must be (n_features * {self.sample_loss.n_outputs},)",
                self.x.shape,
            )

    @classmethod
    def named(cls, name: str, x: Array, n_classes: int = 2) -> Self:
        """Return a linear model by the name of its loss, as it is stored in run files.

        Arguments:
            name: `"logistic"`, `"least_squares"`, `"softmax"` or another: see `read_loss`.
            x: the parameters, shape (n_outputs * n_features,).
            n_classes: number of classes, for softmax only.
        """
        return cls(read_loss(name, n_classes, "name"), x)

    @property
    def n_features(self) -> int:
        """Number of columns that samples must have."""
        return len(self.x) // self.sample_loss.n_outputs

    def evaluate(self, X: Any, y: Any) -> dict[str, float]:
        """Return the quality on labelled samples by name, as `LinearProblem.metrics` does on the test samples."""
        return self.measure(check_samples(X, y, self.sample_loss, self.n_features))

    def measure(self, samples: Samples) -> dict[str, float]:
        """Return the quality on samples that are checked already."""
        with np.errstate(all="ignore"):  # the measures show whether a model has diverged
            return self.sample_loss.scores(samples.design.margins(self._weights), samples.labels)

    @property
    def _weights(self) -> Array:
        return self.x.reshape(self.sample_loss.n_outputs, -1)

    def _margins(self, X: Any) -> Array:
        return check_design(X, "X", self.n_features).margins(self._weights)
