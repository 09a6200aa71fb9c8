"""Exact mean and standard deviation of numbers: the same bits in whatever order and blocks they come."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from erasurehead._internal.arrays import Array, IntArray

_BITS = 53  # of the integer mantissa of a float64
_LOW = 27  # bits of its lower half
_LEAST = -1073 - _BITS  # the smallest exponent of two that such an integer is multiplied with
_AT_ONCE = 1 << 20  # number of values whose halves float64 adds up without rounding


class Moments:
    """Count, mean and standard deviation of numbers, without any intermediate rounding.

    Every finite float64 is an integer times a power of two; sums of these, and of their squares, are kept as integers
    of any length. So a file that is read block by block, in any order of its rows, has exactly the same moments as the
    whole column.

    >>> moments = Moments()
    >>> moments.add(np.array([1e17, 1.0, -1e17]))
    >>> moments.add(np.array([7.0]))
    >>> moments.mean
    2.0
    """

    def __init__(self) -> None:
        self.count = 0
        self.largest = 0.0
        """The largest absolute value."""
        self._sum = 0  # in units of 2^_LEAST
        self._squares = 0  # in units of 2^(2 _LEAST)

    def add(self, values: Array) -> None:
        """Add finite numbers, shape (n,)."""
        for start in range(0, len(values), _AT_ONCE):
            self._add(values[start : start + _AT_ONCE])

    @property
    def mean(self) -> float:
        """The mean, rounded once."""
        return _rounded(Fraction(self._sum, self.count), _LEAST)

    @property
    def deviation(self) -> float:
        """The standard deviation of the population (not of a sample); inf if the variance is beyond float64."""
        variance = Fraction(self.count * self._squares - self._sum**2, self.count**2)
        try:
            _rounded(variance, 2 * _LEAST)
        except OverflowError:
            return math.inf
        # The root of the variance over a power of four: squares of small numbers would be 0 in float64.
        half = (variance.numerator.bit_length() - variance.denominator.bit_length()) // 2
        return math.ldexp(math.sqrt(variance / Fraction(4) ** half), half + _LEAST)

    def _add(self, values: Array) -> None:
        self.count += len(values)
        self.largest = max(self.largest, float(np.abs(values).max(initial=0.0)))
        fractions, exponents = np.frexp(values)
        whole = np.ldexp(fractions, _BITS).astype(np.int64)
        places = exponents.astype(np.int64) - _BITS - _LEAST
        high, low = whole >> _LOW, whole & ((1 << _LOW) - 1)
        self._sum += _total(high, places, _LOW) + _total(low, places, 0)
        # (high 2^27 + low)^2, each product below 2^54; exponents are doubled for squares
        for product, shift in ((high * high, 2 * _LOW), (high * low, _LOW + 1), (low * low, 0)):
            upper, lower = product >> _LOW, product & ((1 << _LOW) - 1)
            self._squares += _total(upper, 2 * places, shift + _LOW) + _total(lower, 2 * places, shift)


def _total(numbers: IntArray, places: IntArray, shift: int) -> int:
    """Return the sum of `numbers * 2^(places + shift)`; numbers are below 2^28, so that float64 adds them exactly."""
    if not len(numbers):
        return 0
    first = int(places.min())
    sums = np.bincount(places - first, weights=numbers)
    return sum(int(sums[place]) << (int(place) + first + shift) for place in np.flatnonzero(sums))


def _rounded(value: Fraction, exponent: int) -> float:
    # Raises OverflowError where the value is beyond float64.
    return float(value / (1 << -exponent))
