"""Delays drawn independently for every worker and step from one distribution."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

from erasurehead.arrays import Array
from erasurehead.delays.base import Delays
from erasurehead.delays.draws import draw
from erasurehead.delays.written import written
from erasurehead.errors import check_count, invalid


def check_seconds(argument: str, value: float, zero: bool = False) -> None:
    """Raise unless a value is a finite number greater than 0 (or, with `zero`, at least 0)."""
    if not (math.isfinite(value) and (value > 0.0 or (zero and value == 0.0))):
        raise invalid(argument, f"must be finite and {'at least' if zero else 'greater than'} 0", value)


def grow(values: Array, work: float | Array, scale_with_load: bool) -> Array:
    """Multiply delays by the work in place, if the law says that they grow with it."""
    if scale_with_load and not (isinstance(work, float | int) and work == 1.0):
        values *= work
    return values


@final
@dataclass(frozen=True)
class Exponential(Delays):
    """Additive, memoryless delays that do not depend on the load: the ErasureHead experiments (mean 0.5 s).

    The paper's section 5.1 gives the parameter of the exponential as lambda = 1/2; the published code draws with
    *mean* 1/2, which its measured times confirm.

    Arguments:
        mean: in seconds, greater than 0.
        seed: at least 0.
    """

    mean: float
    seed: int = 0

    def __post_init__(self) -> None:
        check_seconds("mean", self.mean)
        check_count("seed", self.seed, at_least=0)

    def rows(
        self, first: int, count: int, n_workers: int, unit: int = 0, work: float | Array = 1.0, out: Array | None = None
    ) -> Array:
        values = draw("exponential", self.seed, first, count, n_workers, unit, out=out)
        values *= self.mean
        return values

    def __str__(self) -> str:
        return written("exponential", self)


@final
@dataclass(frozen=True)
class ShiftedExponential(Delays):
    """`shift` plus an exponential time, under either of the two laws in use.

    Additive (`scale_with_load=False`): the delay comes on top of the computing time, whatever the load.
    Scaled (`scale_with_load=True`): both terms are multiplied by the load. With shift 1/n and mean 1/(lambda n) that is
    the ErasureHead paper's model, section 4, equations (7)-(8): c tasks take c/n + Exp(rate lambda n / c). (Its (8)
    prints `P[T <= 1/B + tau] = exp(-B lambda tau)`; the left side must be `P[T > ...]`.)
    The two laws can rank codes in opposite orders.

    Arguments:
        shift: in seconds, at least 0.
        mean: of the exponential part, in seconds, greater than 0.
        seed: at least 0.
        scale_with_load: which law.
    """

    shift: float
    mean: float
    seed: int = 0
    scale_with_load: bool = False

    def __post_init__(self) -> None:
        check_seconds("shift", self.shift, zero=True)
        check_seconds("mean", self.mean)
        check_count("seed", self.seed, at_least=0)

    def rows(
        self, first: int, count: int, n_workers: int, unit: int = 0, work: float | Array = 1.0, out: Array | None = None
    ) -> Array:
        values = draw("exponential", self.seed, first, count, n_workers, unit, out=out)
        values *= self.mean
        values += self.shift
        return grow(values, work, self.scale_with_load)

    def __str__(self) -> str:
        return written("shifted_exponential", self)
