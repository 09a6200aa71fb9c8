"""Losses of one sample, given its margins: they make a linear model a logistic, least-squares or softmax regression.

Margins have shape (n_outputs, n_samples), with one output for a number or two classes, and one per class for more.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from erasurehead._internal.arrays import Array
from erasurehead.errors import check_size, invalid
from erasurehead.problems import _kernels as kernels
from erasurehead.problems._checks import check_not_lost, check_squares
from erasurehead.problems._metrics import accuracy, areas, r_squared

Labels: TypeAlias = NDArray[Any]
"""One label per sample, as the loss takes them: float64, or int64 where they number the classes."""


class SampleLoss(ABC):
    """The loss of one sample, as a function of its margins."""

    name: str
    """What it is called in run files, with its parameters."""

    n_outputs: int
    """Number of margins per sample."""

    score_names: tuple[str, ...]
    """The names of the measures that `scores` may return."""

    curvature: float
    """The largest second derivative with respect to a margin, where one is known for all samples."""

    quadratic: ClassVar[bool] = False
    """Whether its second derivatives are the same for all margins."""

    endless: ClassVar[bool] = False
    """Whether the loss of a sample falls for ever as its margins grow, so that it has no minimum."""

    @abstractmethod
    def labels(self, values: Array, argument: str) -> Labels:
        """Check labels, finite numbers of shape (n_samples,), and return them in the form to compute with.

        Raises:
            InvalidArgument: if there are labels that the loss does not allow.
        """

    @abstractmethod
    def differentiate(self, margins: Array, labels: Labels, scale: float | Array) -> float:
        """Replace the margins by the derivatives of the losses.

        Arguments:
            margins: shape (n_outputs, n_samples); changed in place.
            labels: shape (n_samples,).
            scale: factor of the losses and of their derivatives: one number, or one per sample, shape (n_samples,).

        Returns:
            The sum of the losses, each times its scale.
        """

    def bounds(self, labels: Labels) -> float | Array:
        """Return the largest second derivative of each sample with respect to a margin; one number if all are equal."""
        return self.curvature

    @abstractmethod
    def bend(self, margins: Array, labels: Labels, change: Array) -> Array:
        """Return how the derivatives change as the margins do: the second derivatives, times a change of the margins.

        Arguments:
            margins: where, shape (n_outputs, n_samples).
            labels: shape (n_samples,).
            change: shape (n_outputs, n_samples).

        Returns:
            Shape (n_outputs, n_samples), before any scale.
        """

    @abstractmethod
    def predict(self, margins: Array) -> Labels:
        """Return the predicted class or number of each sample, shape (n_samples,)."""

    @abstractmethod
    def probabilities(self, margins: Array) -> Array | None:
        """Return the probability of +1, shape (n_samples,), or of each class, shape (n_samples, n_classes).

        None if the loss is not one for classification.
        """

    @abstractmethod
    def scores(self, margins: Array, labels: Labels) -> dict[str, float]:
        """Return the quality of the margins by name, without those measures that are not defined for these labels."""


@final
class LogisticLoss(SampleLoss):
    """`log(1 + exp(-label * margin))`, for labels -1 and +1."""

    name = "logistic"
    score_names = ("auc", "pr_auc", "accuracy", "log_loss")
    curvature = 0.25
    endless = True
    n_outputs = 1

    def labels(self, values: Array, argument: str) -> Labels:
        distinct = np.unique(values)
        if not np.isin(distinct, (-1.0, 1.0)).all():
            raise invalid(
                f"every value of {argument}",
                "must be one of the two labels -1 and +1",
                _few(distinct),
                "map one class to -1 and the other to +1",
            )
        return values

    def differentiate(self, margins: Array, labels: Labels, scale: float | Array) -> float:
        if isinstance(scale, np.ndarray):
            return _weighted_logistic(margins[0], labels, scale)
        decays = np.abs(margins[0])
        np.exp(np.negative(decays, out=decays), out=decays)
        return kernels.logistic_residuals(margins[0], decays, labels, scale)

    def bend(self, margins: Array, labels: Labels, change: Array) -> Array:
        decays = np.exp(-np.abs(margins))
        return change * decays / (1.0 + decays) ** 2

    def predict(self, margins: Array) -> Labels:
        return np.where(margins[0] > 0, 1.0, -1.0)

    def probabilities(self, margins: Array) -> Array | None:
        return np.exp(-np.logaddexp(0.0, -margins[0]))

    def scores(self, margins: Array, labels: Labels) -> dict[str, float]:
        log_loss = float(np.logaddexp(0.0, -labels * margins[0]).mean())
        return areas(labels, margins[0]) | {"accuracy": accuracy(labels, self.predict(margins)), "log_loss": log_loss}


class NumberLoss(SampleLoss):
    """A loss for targets that are numbers."""

    score_names = ("mse", "rmse", "mae", "r2")
    n_outputs = 1
    logs: bool = False
    """Whether margins are logarithms of what is predicted."""

    def completed(self, values: Array) -> NumberLoss:
        """Return the loss with all of its parameters, of which some may depend on labels, shape (n_samples,).

        Raises:
            InvalidArgument: if it cannot be computed for such labels.
        """
        return self

    def predict(self, margins: Array) -> Labels:
        return np.exp(margins[0]) if self.logs else margins[0]

    def probabilities(self, margins: Array) -> Array | None:
        return None

    def scores(self, margins: Array, labels: Labels) -> dict[str, float]:
        misses: Array = self.predict(margins) - labels
        error = float(misses @ misses) / len(misses)
        explained = r_squared(error, labels)
        scores = {"mse": error, "rmse": error**0.5, "mae": float(np.abs(misses).mean())}
        return scores if explained is None else scores | {"r2": explained}


@final
class SquaredLoss(NumberLoss):
    """`(margin - target)^2`, without the factor of one half that some authors use."""

    name = "least_squares"
    curvature = 2.0
    quadratic = True

    def completed(self, values: Array) -> NumberLoss:
        check_squares(values, "y")
        check_not_lost(values, "y")
        return self

    def labels(self, values: Array, argument: str) -> Labels:
        return values

    def differentiate(self, margins: Array, labels: Labels, scale: float | Array) -> float:
        margins -= labels
        loss = (
            summed(margins[0] ** 2, scale) if isinstance(scale, np.ndarray) else scale * float(margins[0] @ margins[0])
        )
        margins *= 2.0 * scale
        return loss

    def bend(self, margins: Array, labels: Labels, change: Array) -> Array:
        return 2.0 * change


@final
class SoftmaxLoss(SampleLoss):
    """`log(sum_k exp(margin_k)) - margin_label`, for labels 0..n_classes-1.

    Arguments:
        n_classes: at least 2.
    """

    name = "softmax"
    score_names = ("accuracy", "log_loss")
    curvature = 0.5
    endless = True

    def __init__(self, n_classes: int) -> None:
        self.n_outputs = check_size("n_classes", n_classes, at_least=2)

    def labels(self, values: Array, argument: str) -> Labels:
        distinct = np.unique(values)
        if not np.isin(distinct, np.arange(self.n_outputs)).all():
            raise invalid(
                f"every value of {argument}",
                f"must be a class number from 0 to {self.n_outputs - 1}",
                _few(distinct),
                "number the classes from 0, or state n_classes",
            )
        return values.astype(np.int64)

    def differentiate(self, margins: Array, labels: Labels, scale: float | Array) -> float:
        samples = np.arange(len(labels))
        margins -= margins.max(axis=0)  # so that no exponential overflows
        chosen = margins[labels, samples]
        np.exp(margins, out=margins)
        total = margins.sum(axis=0)
        loss = summed(np.log(total) - chosen, scale)
        margins *= scale / total
        margins[labels, samples] -= scale
        return loss

    def bend(self, margins: Array, labels: Labels, change: Array) -> Array:
        powers = np.exp(margins - margins.max(axis=0))
        powers /= powers.sum(axis=0)
        return powers * (change - (powers * change).sum(axis=0))

    def predict(self, margins: Array) -> Labels:
        return margins.argmax(axis=0)

    def probabilities(self, margins: Array) -> Array | None:
        powers = np.exp(margins - margins.max(axis=0))
        return (powers / powers.sum(axis=0)).T

    def scores(self, margins: Array, labels: Labels) -> dict[str, float]:
        log_loss = self.differentiate(margins.copy(), labels, 1.0 / len(labels))
        return {"accuracy": accuracy(labels, self.predict(margins)), "log_loss": log_loss}


def squared_parts(margins: Array, labels: Labels) -> tuple[Array, Array, float]:
    """Return the squares of what margins are off by, and their first and second derivatives."""
    misses = margins - labels
    return misses * misses, 2.0 * misses, 2.0


def summed(losses: Array, scale: float | Array) -> float:
    """Return the sum of losses, each times its scale."""
    return float(losses @ scale) if isinstance(scale, np.ndarray) else scale * float(losses.sum())


def _weighted_logistic(margins: Array, labels: Labels, scales: Array) -> float:
    signed = margins * labels
    decays = np.exp(-np.abs(signed))
    loss = float((np.log1p(decays) - np.minimum(signed, 0.0)) @ scales)
    margins[:] = -scales * labels * np.where(signed >= 0.0, decays, 1.0) / (1.0 + decays)
    return loss


def _few(values: Array, most: int = 6) -> str:
    # The values found, as a person would write them.
    shown = ", ".join(f"{value:g}" for value in values[:most])
    return shown if len(values) <= most else f"{shown}, ... ({len(values)} different ones)"
