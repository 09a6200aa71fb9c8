"""Losses of numbers, declared in one table: what is predicted for a margin, and value, slope and bend of the loss."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias, cast, final

import numpy as np

from erasurehead._internal import text_parser
from erasurehead._internal.arrays import Array
from erasurehead.errors import InvalidArgument, invalid
from erasurehead.problems._losses import (
    Labels,
    LogisticLoss,
    NumberLoss,
    SampleLoss,
    SoftmaxLoss,
    SquaredLoss,
    squared_parts,
    summed,
)

Parts: TypeAlias = tuple[Array, Array, "Array | float"]
"""The losses of samples, and their first and second derivatives with respect to the margins."""


_FAR = 300.0  # beyond, margins are so far off that what is expected stays as it is, as sums of more would overflow


def _poisson(margins: Array, labels: Array) -> Parts:
    means = np.exp(np.minimum(margins, _FAR))
    return means - labels * margins, means - labels, means


def _gamma(margins: Array, labels: Array) -> Parts:
    ratios = labels * np.exp(-np.maximum(margins, -_FAR))
    return margins + ratios, 1.0 - ratios, ratios


def _huber(margins: Array, labels: Array, threshold: float) -> Parts:
    misses = margins - labels
    cut = np.clip(misses, -threshold, threshold)
    return cut * (2.0 * misses - cut), 2.0 * cut, 2.0 * (cut == misses)


def _quantile(margins: Array, labels: Array, level: float, width: float) -> Parts:
    misses = margins - labels
    roots = np.sqrt(misses * misses + width * width)
    ratios = width / roots
    return 0.5 * roots + (0.5 - level) * misses, 0.5 * misses / roots + (0.5 - level), 0.5 * ratios**3 / width


def _poisson_deviance(predicted: Array, labels: Array) -> Array:
    logs = np.log(np.where(labels > 0.0, labels / predicted, 1.0))
    return 2.0 * (labels * logs - labels + predicted)


def _gamma_deviance(predicted: Array, labels: Array) -> Array:
    return 2.0 * (labels / predicted - 1.0 - np.log(labels / predicted))


def _pinball(predicted: Array, labels: Array, level: float, width: float) -> Array:
    return np.maximum(level * (labels - predicted), (level - 1.0) * (labels - predicted))


@dataclass(frozen=True)
class LossFamily:
    """The declaration of a loss of numbers.

    Attributes:
        parts: value, slope and bend at some margins, given the labels and the parameters.
        score: measure of what is predicted, given the labels and the parameters, sample by sample; None for none.
        score_name: its name.
        logs: whether margins are logarithms of what is predicted.
        fits_logs: whether the labels are replaced by their logarithms.
        least: the least label; labels must be above it where it is not allowed itself.
        zero: whether the least label is allowed itself.
        plain: parameters and their defaults, fractions between 0 and 1.
        scaled: parameters whose defaults are so many times the spread of the labels.
    """

    parts: Callable[..., Parts]
    score: Callable[..., Array] | None = None
    score_name: str = ""
    logs: bool = False
    fits_logs: bool = False
    least: float = -np.inf
    zero: bool = False
    plain: Mapping[str, float] = field(default_factory=dict[str, float])
    scaled: Mapping[str, float] = field(default_factory=dict[str, float])


FAMILIES: Mapping[str, LossFamily] = {
    "poisson": LossFamily(_poisson, _poisson_deviance, "deviance", logs=True, least=0.0, zero=True),
    "gamma": LossFamily(_gamma, _gamma_deviance, "deviance", logs=True, least=0.0),
    "log_least_squares": LossFamily(squared_parts, logs=True, fits_logs=True, least=0.0),
    "huber": LossFamily(_huber, scaled={"threshold": 1.35}),
    "quantile": LossFamily(_quantile, _pinball, "pinball", plain={"level": 0.5}, scaled={"width": 0.01}),
}
"""The losses of numbers beside least squares, by name. Whatever takes the name of a loss knows those in this table."""


_LEAST = np.finfo(np.float64).tiny  # whose logarithm is finite


@final
@dataclass(frozen=True)
class FamilyLoss(NumberLoss):
    """A loss of numbers as its family declares it.

    Arguments:
        kind: name of the family.
        given: its parameters, in the order of their declaration; None for a default that depends on the labels.
    """

    kind: str
    given: tuple[float | None, ...] = ()

    @property
    def name(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The loss as a text, such as `"huber(threshold=1.5)"`."""
        names = [*self._family.plain, *self._family.scaled]
        said = [f"{name}={value:.6g}" for name, value in zip(names, self.given, strict=True) if value is not None]
        return f"{self.kind}({', '.join(said)})" if said else self.kind

    @property
    def _family(self) -> LossFamily:
        return FAMILIES[self.kind]

    @property
    def logs(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self._family.logs

    @property
    def score_names(self) -> tuple[str, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        return (*filter(None, (self._family.score_name,)), *NumberLoss.score_names)

    def completed(self, values: Array) -> FamilyLoss:
        middle = np.median(values)
        spread = float(1.4826 * np.median(np.abs(values - middle)) or values.std() or 1.0)
        factors = [*dict.fromkeys(self._family.plain, 0.0).values(), *self._family.scaled.values()]
        found = [
            float(f"{spread * factor:.6g}") if own is None else own
            for own, factor in zip(self.given, factors, strict=True)
        ]
        return replace(self, given=tuple(found))

    def labels(self, values: Array, argument: str) -> Labels:
        family = self._family
        low = values < family.least if family.zero else values <= family.least
        if low.any():
            rule = f"must be {'at least' if family.zero else 'above'} {family.least:g} for the loss {self.kind}"
            raise invalid(f"every value of {argument}", rule, float(values[low][0]))
        return np.log(values) if family.fits_logs else values

    def bounds(self, labels: Labels) -> float | Array:
        """Return the second derivatives where margins are 0, or where labels are predicted, whichever are larger.

        Where there is a bound, that is it; those of poisson and gamma grow beyond, where models are far off.
        """
        family = self._family
        fitted = np.log(np.maximum(labels, _LEAST)) if family.logs and not family.fits_logs else labels
        first, second = (family.parts(place, labels, *self.given)[2] for place in (0.0 * labels, fitted))
        return np.maximum(first, second)

    def differentiate(self, margins: Array, labels: Labels, scale: float | Array) -> float:
        values, slopes, _ = self._family.parts(margins[0], labels, *self.given)
        margins[0] = slopes * scale
        return summed(values, scale)

    def bend(self, margins: Array, labels: Labels, change: Array) -> Array:
        return change * self._family.parts(margins[0], labels, *self.given)[2]

    def scores(self, margins: Array, labels: Labels) -> dict[str, float]:
        family, scores = self._family, super().scores(margins, np.exp(labels) if self._family.fits_logs else labels)
        if family.score is None:
            return scores
        return {family.score_name: float(family.score(self.predict(margins), labels, *self.given).mean()), **scores}


def _maker(kind: str, family: LossFamily) -> Callable[..., SampleLoss]:
    """Return a function that makes a loss of a family from the parameters of its text."""

    def made(*given: Any, **named: Any) -> SampleLoss:
        bound = signature.bind(*given, **named)
        bound.apply_defaults()
        for name, value in bound.arguments.items():
            top = 1.0 if name in family.plain else np.inf
            if value is not None and not 0.0 < float(value) < top:
                raise invalid(name, f"must be above 0{' and below 1' * (top == 1.0)}", value)
        return FamilyLoss(kind, bound.args)

    defaults: dict[str, float | None] = {**family.plain, **dict.fromkeys(family.scaled)}
    either = inspect.Parameter.POSITIONAL_OR_KEYWORD
    signature = inspect.Signature(
        [inspect.Parameter(name, either, default=default) for name, default in defaults.items()]
    )
    cast("Any", made).__signature__ = signature
    return made


def read_loss(text: str, n_classes: int = 2, argument: str = "loss") -> SampleLoss:
    """Return the loss that a text stands for.

    Arguments:
        text: `logistic`, `softmax`, `least_squares`, or one of `FAMILIES`, such as `huber(threshold=1.5)`.
        n_classes: number of classes, for softmax only.
        argument: name of the text, for errors.

    Raises:
        InvalidArgument: if there is no such loss.

    >>> read_loss("quantile(0.9, width=0.1)").name
    'quantile(level=0.9, width=0.1)'
    """
    makers: dict[str, Callable[..., SampleLoss]] = {
        LogisticLoss.name: LogisticLoss,
        SquaredLoss.name: SquaredLoss,
        SoftmaxLoss.name: lambda: SoftmaxLoss(max(2, n_classes)),
        **{kind: _maker(kind, family) for kind, family in FAMILIES.items()},
    }
    call = f"{text}()" if text.strip() in makers else text
    try:
        return text_parser.read(call, argument, SampleLoss, makers, {})
    except InvalidArgument as error:
        if error.argument != argument:
            raise error.inside(argument, text) from None
        if text.strip().partition("(")[0] in makers:
            raise
        raise invalid(argument, f"must be one of {', '.join(makers)}", text) from None


def task_of(loss: str) -> str:
    """Return what labels are read as for a loss: `logistic` or `softmax`, or `least_squares` for all that take numbers.

    >>> task_of("poisson"), task_of("softmax")
    ('least_squares', 'softmax')
    """
    return SquaredLoss.name if isinstance(read_loss(loss), NumberLoss) else loss.strip()
