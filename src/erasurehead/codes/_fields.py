"""Finite fields small enough for tables, for the construction of block designs."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from erasurehead._internal.arrays import IntArray
from erasurehead.errors import invalid


def prime_power(number: int) -> tuple[int, int] | None:
    """Return (p, m) with `number == p**m` and p prime, or None if there is no such pair.

    >>> prime_power(81), prime_power(12)
    ((3, 4), None)
    """
    if number < 2:
        return None
    prime = next((p for p in range(2, int(number**0.5) + 1) if number % p == 0), number)
    exponent = 0
    while number % prime == 0:
        number //= prime
        exponent += 1
    return (prime, exponent) if number == 1 else None


def is_prime(number: int) -> bool:
    """Whether a number is prime."""
    return prime_power(number) == (number, 1)


class Field:
    """The finite field of a prime-power order; elements are 0..order-1, with polynomials as their base-p digits.

    Arguments:
        order: a prime power.

    Raises:
        InvalidArgument: if `order` is not a prime power.

    >>> field = Field(9)
    >>> a, b = field.elements[:, None], field.elements[None, :]
    >>> bool((field.multiply(a, b) == field.multiply(b, a)).all())
    True
    """

    def __init__(self, order: int) -> None:
        powers = prime_power(order)
        if powers is None:
            raise invalid("order", "must be a prime power", order)
        self.order = order
        self.prime, self.degree = powers
        self.elements = np.arange(order, dtype=np.int64)
        self._exp, self._log = _tables(self.prime, self.degree)

    def add(self, a: IntArray, b: IntArray) -> IntArray:
        """Return a + b, elementwise and broadcast."""
        return self._digitwise(a, b, 1)

    def subtract(self, a: IntArray, b: IntArray) -> IntArray:
        """Return a - b, elementwise and broadcast."""
        return self._digitwise(a, b, -1)

    def multiply(self, a: IntArray, b: IntArray) -> IntArray:
        """Return a * b, elementwise and broadcast."""
        product = self._exp[(self._log[a] + self._log[b]) % (self.order - 1)]
        return np.where((a == 0) | (b == 0), 0, product)

    def power_residues(self, exponent: int) -> IntArray:
        """Return the nonzero elements that are a power with this exponent, ascending: squares for 2."""
        return np.unique(self._exp[(np.arange(self.order - 1) * exponent) % (self.order - 1)])

    def _digitwise(self, a: IntArray, b: IntArray, sign: int) -> IntArray:
        if self.degree == 1:
            return (a + sign * b) % self.prime
        total = np.zeros(np.broadcast_shapes(a.shape, b.shape), dtype=np.int64)
        for place in self.prime ** np.arange(self.degree):
            total += (a // place + sign * (b // place)) % self.prime * place
        return total


@lru_cache(maxsize=8)
def _tables(prime: int, degree: int) -> tuple[IntArray, IntArray]:
    """Return powers of a primitive element, and logarithms to that base (that of zero is 0, without meaning)."""
    order = prime**degree
    for candidate in range(order):
        powers = _powers_of_x(prime, degree, candidate) if degree > 1 else _powers_of(prime, candidate)
        if powers is not None:
            exp = np.array(powers, dtype=np.int64)
            log = np.zeros(order, dtype=np.int64)
            log[exp] = np.arange(order - 1)
            return exp, log
    raise AssertionError("every finite field has a primitive element")


def _powers_of(prime: int, base: int) -> list[int] | None:
    powers = [1]
    while len(powers) < prime - 1:
        powers.append(powers[-1] * base % prime)
        if powers[-1] <= 1:
            return None
    return powers


def _powers_of_x(prime: int, degree: int, tail: int) -> list[int] | None:
    # Multiply by x modulo x^degree - tail(x); primitive if the powers return to one only after order - 1 steps.
    if tail % prime == 0:
        return None  # x would divide the modulus, and its powers never return
    order, top = prime**degree, prime ** (degree - 1)
    places = [prime**i for i in range(degree)]
    digits = [tail // place % prime for place in places]
    powers, value = [1], 1
    while len(powers) < order - 1:
        carry, value = value // top, value % top * prime
        value = sum(
            (value // place + carry * digit) % prime * place for place, digit in zip(places, digits, strict=True)
        )
        if value <= 1:
            return None
        powers.append(value)
    return powers
