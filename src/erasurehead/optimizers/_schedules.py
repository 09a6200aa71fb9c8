"""Step sizes that change from step to step."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from erasurehead._internal.text_parser import read
from erasurehead.errors import check_positive, invalid, real


class Schedule(ABC):
    """The step size of each step. A subclass implements `__call__`."""

    @abstractmethod
    def __call__(self, step: int) -> float:
        """Return the step size of a step, counted from 0."""


def _check_rate(rate: float) -> None:
    check_positive("rate", rate, "must be a positive finite number")


@dataclass(frozen=True)
class Constant(Schedule):
    """The same step size at every step.

    Arguments:
        rate: step size, greater than 0.

    >>> Constant(10.0)(99)
    10.0
    """

    rate: float

    def __post_init__(self) -> None:
        _check_rate(self.rate)
        object.__setattr__(self, "rate", float(self.rate))

    def __call__(self, step: int) -> float:
        return self.rate


@dataclass(frozen=True)
class Geometric(Schedule):
    """`rate * factor**step`: 0.1 and 0.99 for KC Housing in the ErasureHead paper, Table 1.

    Arguments:
        rate: step size of the first step, greater than 0.
        factor: ratio of each step size to the one before, in (0, 1].

    >>> round(Geometric(0.1, 0.99)(100), 6)
    0.036603
    """

    rate: float
    factor: float

    def __post_init__(self) -> None:
        _check_rate(self.rate)
        if not 0 < real(self.factor) <= 1:
            raise invalid("factor", "must lie in (0, 1]", self.factor)

    def __call__(self, step: int) -> float:
        return self.rate * self.factor**step


@dataclass(frozen=True)
class InverseTime(Schedule):
    """`rate / (1 + step / half_life)`: the 1/t rate of stochastic gradient descent on strongly convex functions.

    Arguments:
        rate: step size of the first step, greater than 0.
        half_life: number of steps after which the step size has halved, greater than 0.

    >>> InverseTime(1.0, half_life=10.0)(10)
    0.5
    """

    rate: float
    half_life: float = 1.0

    def __post_init__(self) -> None:
        _check_rate(self.rate)
        if not real(self.half_life) > 0:
            raise invalid("half_life", "must be positive", self.half_life)

    def __call__(self, step: int) -> float:
        return self.rate / (1.0 + step / self.half_life)


def as_schedule(rate: float | str | Schedule) -> Schedule:
    """Return the schedule that a number or a text stands for; a schedule is returned unchanged.

    Arguments:
        rate: a number, a schedule, or the text of one: `constant(rate)`, `geometric(rate, factor)` or
            `inverse_time(rate, half_life)`.

    Raises:
        InvalidArgument: if it is none of these.

    >>> as_schedule("geometric(0.1, 0.99)")
    Geometric(rate=0.1, factor=0.99)
    """
    if isinstance(rate, Schedule):
        return rate
    if isinstance(rate, str):
        try:
            number = float(rate)
        except ValueError:
            return read(rate, "rate", Schedule, SCHEDULES, {})
        return Constant(number)
    return Constant(rate)


SCHEDULES: Mapping[str, Callable[..., Schedule]] = {
    "constant": Constant,
    "geometric": Geometric,
    "inverse_time": InverseTime,
}
"""What each name in the text of a schedule builds."""
