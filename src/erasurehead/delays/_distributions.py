"""Delays drawn independently for every worker and step from one distribution."""

from __future__ import annotations

import math
import warnings
from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead.delays._base import MOST_SECONDS, Declared
from erasurehead.delays._draws import Kind, draw
from erasurehead.errors import check_count, check_not_negative, check_positive, invalid


def check_seconds(argument: str, value: float, zero: bool = False) -> None:
    """Raise unless a value is greater than 0 (or, with `zero`, at least 0), and a time that can be added up."""
    check = check_not_negative if zero else check_positive
    check(argument, value, f"must be finite and {'at least' if zero else 'greater than'} 0")
    if value > MOST_SECONDS:
        raise invalid(argument, f"must be at most {MOST_SECONDS:g}, so that times can be added up", value)


def grow(values: Array, work: float | Array, scale_with_load: bool) -> Array:
    """Multiply delays by the work in place, if they grow with it (the scaled law)."""
    if scale_with_load and not (isinstance(work, float | int) and work == 1.0):
        values *= work
    return values


_TIMES = ("mean", "shift", "scale", "minimum", "median")
_EXPONENTS = ("shape", "exponent", "sigma")


class Drawn(Declared):
    """A distribution: transformed standard draws, multiplied by the load under the scaled law.

    Of the two laws in use, the additive one (`scale_with_load=False`) adds the same delay to the computing time
    whatever the load; the scaled one multiplies the delay by the load. They can rank codes in opposite orders.
    """

    kind: ClassVar[Kind] = "exponential"
    seed: int
    scale_with_load: bool

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if name in _TIMES:
                check_seconds(name, value, zero=name == "shift")
            elif name in _EXPONENTS:
                check_positive(name, value, "must be finite and greater than 0")
        check_count("seed", self.seed, at_least=0)

    @property
    def factor(self) -> float:
        """The factor by which standard draws are multiplied first."""
        return 1.0

    @abstractmethod
    def transform(self, values: Array) -> None:
        """Turn draws, multiplied by `factor`, into seconds per unit of work, in place."""

    def rows(
        self, first: int, count: int, n_workers: int, unit: int = 0, work: float | Array = 1.0, out: Array | None = None
    ) -> Array:
        values = draw(self.kind, self.seed, first, count, n_workers, unit, out=out, factor=self.factor)
        with np.errstate(over="ignore"):  # beyond all numbers, a delay is inf: no answer
            self.transform(values)
        return grow(values, work, self.scale_with_load)


@final
@dataclass(frozen=True)
class Exponential(Drawn):
    """Memoryless delays: those of the ErasureHead experiments (mean 0.5 s, additive).

    The paper's section 5.1 gives the parameter of the exponential as lambda = 1/2; the published code draws with
    *mean* 1/2, which its measured times confirm.

    Arguments:
        mean: mean delay in seconds, greater than 0.
        seed: seed of the draws, at least 0.
        scale_with_load: whether delays grow with the load.
    """

    mean: float
    seed: int = 0
    scale_with_load: bool = False
    name = "exponential"

    @property
    def factor(self) -> float:
        return self.mean

    @property
    def expected(self) -> float:
        return self.mean

    def transform(self, values: Array) -> None:
        return


@final
@dataclass(frozen=True)
class ShiftedExponential(Drawn):
    """`shift` plus an exponential time.

    Under the scaled law, with shift 1/n and mean 1/(lambda n), it is the ErasureHead paper's model, section 4,
    equations (7)-(8): c tasks take c/n + Exp(rate lambda n / c). (Its (8) prints
    `P[T <= 1/B + tau] = exp(-B lambda tau)`; the left side must be `P[T > ...]`.)

    Arguments:
        shift: smallest delay in seconds, at least 0.
        mean: mean of the exponential part, in seconds, greater than 0.
        seed: seed of the draws, at least 0.
        scale_with_load: whether delays grow with the load.
    """

    shift: float
    mean: float
    seed: int = 0
    scale_with_load: bool = False
    name = "shifted_exponential"

    @property
    def factor(self) -> float:
        return self.mean

    @property
    def expected(self) -> float:
        return self.shift + self.mean

    def transform(self, values: Array) -> None:
        values += self.shift


@final
@dataclass(frozen=True)
class Weibull(Drawn):
    """`shift` plus `scale` times an exponential to the power 1/shape: its tail is heavier for a shape below 1.

    Arguments:
        scale: scale in seconds, greater than 0.
        shape: exponent, greater than 0; 1 is the exponential.
        shift: smallest delay in seconds, at least 0.
        seed: seed of the draws, at least 0.
        scale_with_load: whether delays grow with the load.
    """

    scale: float
    shape: float
    shift: float = 0.0
    seed: int = 0
    scale_with_load: bool = False
    name = "weibull"

    @property
    def expected(self) -> float:
        return self.shift + self.scale * _gamma(1.0 + 1.0 / self.shape)

    def transform(self, values: Array) -> None:
        np.power(values, 1.0 / self.shape, out=values)
        values *= self.scale
        values += self.shift


@final
@dataclass(frozen=True)
class Pareto(Drawn):
    """At least `minimum`, and longer than t with probability (minimum / t) ** exponent.

    Arguments:
        minimum: smallest delay in seconds, greater than 0.
        exponent: greater than 0. At 1 or less the mean is infinite, which is allowed, with a warning: the time to hear
            from *all* workers then has no expectation, but the time to hear from the first r of them does.
        seed: seed of the draws, at least 0.
        scale_with_load: whether delays grow with the load.
    """

    minimum: float
    exponent: float
    seed: int = 0
    scale_with_load: bool = False
    name = "pareto"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.exponent <= 1.0:
            warnings.warn(f"{self} has an infinite mean; averages of its delays do not settle.", stacklevel=3)

    @property
    def expected(self) -> float:
        return self.minimum * self.exponent / (self.exponent - 1.0) if self.exponent > 1.0 else math.inf

    def transform(self, values: Array) -> None:
        values /= self.exponent
        np.exp(values, out=values)
        values *= self.minimum


@final
@dataclass(frozen=True)
class LogNormal(Drawn):
    """`shift` plus `median` times the exponential of a normal variable.

    Arguments:
        median: median of the part above the shift, in seconds, greater than 0.
        sigma: standard deviation of the logarithm, greater than 0.
        shift: smallest delay in seconds, at least 0.
        seed: seed of the draws, at least 0.
        scale_with_load: whether delays grow with the load.
    """

    median: float
    sigma: float
    shift: float = 0.0
    seed: int = 0
    scale_with_load: bool = False
    name = "lognormal"
    kind: ClassVar[Kind] = "normal"

    @property
    def expected(self) -> float:
        return self.shift + self.median * _exp(0.5 * self.sigma**2)

    def transform(self, values: Array) -> None:
        values *= self.sigma
        np.exp(values, out=values)
        values *= self.median
        values += self.shift


def _exp(power: float) -> float:
    try:
        return math.exp(power)
    except OverflowError:
        return math.inf


def _gamma(x: float) -> float:
    return math.gamma(x) if x < 171.0 else math.inf  # beyond it, float64 overflows
