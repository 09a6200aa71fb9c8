"""Penalties on the parameters: l2, l1, and both (the elastic net); added by the coordinator, outside all coding.

A penalty has a smooth part, whose gradient is added to the estimate, and a sharp part, which is applied after each step
by its proximal operator (Parikh and Boyd, Proximal Algorithms, 2014), so that parameters become exactly 0.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self, final

import numpy as np

from erasurehead._internal.arrays import Array, squared_norm
from erasurehead.errors import check_not_negative, check_type, invalid


class Penalty(ABC):
    """A function of the parameters alone that is added to the mean loss.

    Attributes:
        smooth: whether there is a smooth part; if not, `gradient` is never called.
        sharp: whether there is a sharp part; if not, `prox` is never called.
    """

    smooth: bool = True
    sharp: bool = True

    @abstractmethod
    def value(self, x: Array) -> float:
        """Return the penalty of a model, shape (n_parameters,)."""

    @abstractmethod
    def gradient(self, x: Array) -> Array:
        """Return the gradient of the smooth part, in a new array of shape (n_parameters,)."""

    @abstractmethod
    def prox(self, x: Array, step: float) -> Array:
        """Return the proximal point of the sharp part: the z that minimises `step * sharp(z) + ||z - x||^2 / 2`.

        Arguments:
            x: where a step along the gradients has led, shape (n_parameters,); not changed.
            step: the step size, positive.
        """

    def residual(self, x: Array, gradient: Array) -> Array:
        """Return how far a model is from a stationary point: 0 there, and the objective's gradient if that exists.

        By default `x - prox(x - slope)`, which is that gradient where nothing is sharp.

        Arguments:
            x: the model, shape (n_parameters,).
            gradient: gradient of the mean loss there, shape (n_parameters,).
        """
        slope = gradient + self.gradient(x)
        return x - self.prox(x - slope, 1.0) if self.sharp else slope

    def steepest(self, x: Array, slope: Array) -> Array | None:
        """Return the shortest subgradient of the objective: the direction of steepest ascent, 0 only at a minimum.

        By default the slope itself if there is no sharp part; None if the sharp part does not define it. It is taken to
        be linear, parameter by parameter, where no parameter changes its sign: by l1 and its like.

        Arguments:
            x: the model, shape (n_parameters,).
            slope: gradient of all smooth parts there, shape (n_parameters,).
        """
        return None if self.sharp else slope

    def without(self, parameters: Sequence[int]) -> Self:
        """Return the same penalty on all but the given parameters.

        Raises:
            InvalidArgument: if this penalty cannot leave any out.
        """
        if len(parameters):
            raise invalid(
                "penalty", "must be able to leave the intercept out", type(self).__name__, "override `without`"
            )
        return self


@final
@dataclass(frozen=True)
class ElasticNet(Penalty):
    """`l1 * sum |x_i| + l2 * ||x||^2`, without a factor of one half: `ElasticNet(l1=0.1)` is the lasso's penalty.

    By l1, parameters that contribute too little become exactly 0; with l2 beside it, the minimum is unique where
    columns are copies of each other.

    >>> ElasticNet(1.0, 0.5).value(np.array([3.0, -4.0]))
    19.5
    >>> ElasticNet(l1=0.5).prox(np.array([3.0, -0.2, 0.4]), step=1.0)
    array([ 2.5, -0. ,  0. ])
    >>> ElasticNet(l2=0.5, unpenalized=(1,)).gradient(np.array([3.0, 4.0]))
    array([3., 0.])

    Arguments:
        l1: factor of the absolute values, at least 0.
        l2: factor of the squares, at least 0.
        unpenalized: parameters that are not penalised, such as an intercept.
    """

    l1: float = 0.0
    l2: float = 0.0
    unpenalized: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        _check("l1", self.l1)
        _check("l2", self.l2)

    @property
    def smooth(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.l2 > 0

    @property
    def sharp(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.l1 > 0

    def value(self, x: Array) -> float:
        if self.unpenalized:
            x = x.copy()
            x[self._left_out(x)] = 0.0
        sharp = self.l1 * float(np.abs(x).sum()) if self.l1 else 0.0
        return sharp + self.l2 * squared_norm(x) if self.l2 else sharp

    def gradient(self, x: Array) -> Array:
        gradient = 2.0 * self.l2 * x if self.l2 else np.zeros_like(x)  # in this order, as the original code has it
        gradient[self._left_out(x)] = 0.0
        return gradient

    def prox(self, x: Array, step: float) -> Array:
        if not self.l1:
            return x
        shrunk = _shrunk(x, step * self.l1)
        left_out = self._left_out(x)
        shrunk[left_out] = x[left_out]
        return shrunk

    def steepest(self, x: Array, slope: Array) -> Array:
        if not self.l1:
            return slope
        factors = np.full(len(x), self.l1)
        factors[self._left_out(x)] = 0.0
        return np.where(x == 0.0, _shrunk(slope, factors), slope + factors * np.sign(x))

    def _left_out(self, x: Array) -> list[int]:
        left_out = [*self.unpenalized]
        if left_out and not 0 <= min(left_out) <= max(left_out) < len(x):
            raise invalid("unpenalized", f"must name parameters among 0..{len(x) - 1}", self.unpenalized)
        return left_out

    def without(self, parameters: Sequence[int]) -> Self:
        return replace(self, unpenalized=tuple(dict.fromkeys([*self.unpenalized, *map(int, parameters)])))


def as_penalty(l2: float, penalty: Penalty | None, unpenalized: Sequence[int]) -> Penalty:
    """Return the penalty that a problem's arguments stand for, without the unpenalised parameters.

    Raises:
        InvalidArgument: if both are given, or `penalty` is not a penalty.
    """
    _check("l2", l2)
    if penalty is None:
        return ElasticNet(l2=float(l2), unpenalized=tuple(unpenalized))
    check_type("penalty", penalty, Penalty, "must be a penalty", "such as problems.ElasticNet(l1=0.01)")
    if l2:
        raise invalid("l2", "must be left out where a penalty is given", l2, "take problems.ElasticNet(l1, l2)")
    return penalty.without(unpenalized)


def _check(name: str, factor: float) -> None:
    if type(factor) is float and 0.0 <= factor < np.inf:
        return  # problems may create their penalty at each step
    check_not_negative(name, factor, "must be a finite number of at least 0")


def _shrunk(x: Array, by: float | Array) -> Array:
    return np.sign(x) * np.maximum(np.abs(x) - by, 0.0)
