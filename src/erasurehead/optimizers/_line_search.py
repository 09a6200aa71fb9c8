"""The search along a direction for a model at which the objective is lower, judged by what each order brings."""

from __future__ import annotations

import math
from typing import Any, final

import numpy as np

from erasurehead._internal.arrays import Array, product
from erasurehead._internal.resumable import Resumable

_DECREASE = 1e-4  # of what the slope promises, that a step must bring (Armijo)
_SLOPE = 0.9  # of the slope at its beginning, up to which it may rise at the end of a step that is judged by slopes
_ROUNDING = 1e-13  # of the objective: decreases below it drown in the rounding of its sum
_SHORTEST = 1e-8  # share of a direction at which a search gives up
_POOR = 0.35  # share of what its slope promises, below which a step that was taken is a poor one: it should be a half
_STRAIGHT = 0.01  # change of the slope along a step, relative to it, up to which the objective does not bend there
_LONGER = 10.0  # factor of the next step after one along which it did not
_LONGEST = 1e16  # most that steps are lengthened in all, so that what falls for ever is not followed into overflow


@final
class LineSearch(Resumable):
    """A search along one direction, by Armijo's rule; and by how much the next one's first step is to be longer.

    A point is accepted if the objective has fallen there by a ten-thousandth of what the slope promises; a rejected one
    is followed by a nearer one, where the parabola through what is known has its minimum. Where the objective does not
    bend along a step, the first step of the next search is ten times longer, and so on until it bends.

    Attributes:
        base: the model where it begins, its objective and the gradient there; None between searches.
        direction: where it leads, shape (n_parameters,); None before one was chosen.
        slope: of the objective along the direction, at the base.
        length: the share of the direction that the newest point is away from the base.
        stride: by what first steps are lengthened.
    """

    checkpointed = ("base", "direction", "slope", "length", "stride")

    def __init__(self) -> None:
        self.base: tuple[Array, float, Array] | None = None
        self.direction: Array | None = None
        self.slope = 0.0
        self.length = self.stride = 1.0

    def rest(self, x: Array, value: float, gradient: Array) -> None:
        """Take a model for the base of the next search, with its objective and its gradient."""
        self.base = x, value, gradient

    def aim(self, direction: Array, slope: float) -> None:
        """Choose where it leads, and note the slope of the objective along that, at the base."""
        self.direction, self.slope = direction, slope

    def leave(self) -> None:
        """Forget the base."""
        self.base = None

    def end(self) -> None:
        """Forget where it began."""
        self.base = self.direction = None
        self.length = self.stride = 1.0

    @property
    def promise(self) -> float:
        """What the slope says that the step to the newest point gains."""
        return -self.length * self.slope

    def ideal(self, change: Array) -> float:
        """Return the share of the direction that the search should have ended at, as the slopes at both ends tell it.

        Arguments:
            change: of the gradient along it, shape (n_parameters,).
        """
        assert self.direction is not None
        bends = product(change, self.direction)
        return self.promise / bends if bends > 0.0 else 1.0

    def straight(self, change: Array) -> bool:
        """Return whether the objective did not bend along the step to the newest point.

        Arguments:
            change: of the gradient along it, shape (n_parameters,).
        """
        assert self.direction is not None
        return abs(product(change, self.direction)) <= _STRAIGHT * abs(self.slope)

    def poor(self, value: float) -> bool:
        """Return whether the step to the newest point brought little of what it promised.

        Arguments:
            value: the objective there.
        """
        assert self.base is not None
        return not self.base[1] - value >= _POOR * self.promise

    def lower(self, value: float, slope: float, convex: bool) -> bool:
        """Return whether the objective is low enough at the newest point.

        Arguments:
            value: the objective there.
            slope: of the objective along the direction there.
            convex: whether a slope that still falls there tells that it is: the objective is convex, and the slope
                exact.
        """
        assert self.base is not None
        before = self.base[1]
        if value <= before - _DECREASE * self.promise:
            return True
        if value <= before + _ROUNDING * abs(before):  # too close to compare objectives: compare slopes
            return slope <= _SLOPE * abs(self.slope)  # not far beyond the least
        return slope <= 0.0 and convex  # it falls all the way here

    def lengthen(self, straight: bool, fell: bool) -> None:
        """Lengthen the next first step if the objective did not bend along the last one.

        Arguments:
            straight: whether the slope is the same at its end, and nothing is known of the curvature.
            fell: whether the objective can be taken to have fallen as the slope promised.
        """
        if straight and (fell or self.stride > 1.0):
            self.stride = max(self.stride, min(_LONGER * self.stride, _LONGEST))
        else:
            self.stride = 1.0

    def begin(self, length: float) -> None:
        """Begin along the direction.

        Arguments:
            length: the share of it that the first step is, before it is lengthened.
        """
        self.length = length * self.stride

    def lengthen_now(self) -> bool:
        """Make the first step longer, as it drowns in the rounding of a huge model; return whether that can be."""
        if not math.isfinite(_LONGER * self.length):
            return False
        self.stride *= _LONGER
        self.length *= _LONGER
        return True

    def shorten(self, value: float) -> bool:
        """Choose a nearer point; return False if it would be too near.

        Arguments:
            value: the objective at the newest one, if it is finite.
        """
        assert self.base is not None
        rise = value - self.base[1] + self.promise
        length = self.promise * self.length / (2.0 * rise) if math.isfinite(rise) and rise > 0.0 else 0.0
        self.stride = 1.0
        self.length = min(max(length, 0.1 * self.length), 0.5 * self.length)
        return self.length >= _SHORTEST

    def point(self, dtype: np.dtype[Any]) -> Array | None:
        """Return the model at this length; None if it is the one where the search began.

        Arguments:
            dtype: that of the model.
        """
        assert self.base is not None
        assert self.direction is not None
        x = self.base[0]
        point = (x + self.length * self.direction).astype(dtype, copy=False)
        return None if np.array_equal(point, x) else point
