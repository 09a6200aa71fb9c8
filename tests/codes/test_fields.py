"""Finite fields: the axioms, for primes and prime powers."""

from __future__ import annotations

import numpy as np
import pytest

from erasurehead.codes._fields import Field, is_prime, prime_power
from erasurehead.errors import InvalidArgument


@pytest.mark.parametrize("order", [2, 3, 4, 5, 7, 8, 9, 16, 25, 27, 32])
def test_field_axioms(order: int) -> None:
    field = Field(order)
    a, b, c = field.elements[:, None, None], field.elements[None, :, None], field.elements[None, None, :]
    assert (field.add(a, field.add(b, c)) == field.add(field.add(a, b), c)).all()
    assert (field.multiply(a, field.multiply(b, c)) == field.multiply(field.multiply(a, b), c)).all()
    assert (field.multiply(a, field.add(b, c)) == field.add(field.multiply(a, b), field.multiply(a, c))).all()
    assert (field.subtract(field.add(a, b), b) == a).all()
    assert (field.add(a, np.array(0)) == a).all()
    assert (field.multiply(a, np.array(1)) == a).all()
    products = field.multiply(field.elements[1:, None], field.elements[None, 1:])
    assert (np.sort(products, axis=1) == field.elements[1:]).all()  # every element but zero can be divided by


@pytest.mark.parametrize(("order", "exponent"), [(11, 2), (27, 2), (37, 4), (9, 2)])
def test_power_residues(order: int, exponent: int) -> None:
    field = Field(order)
    powers = field.elements[1:]
    for _ in range(exponent - 1):
        powers = field.multiply(powers, field.elements[1:])
    assert field.power_residues(exponent).tolist() == np.unique(powers).tolist()


def test_prime_powers_by_the_sieve() -> None:
    primes = [n for n in range(2, 200) if all(n % d for d in range(2, n))]
    assert [n for n in range(200) if is_prime(n)] == primes
    powers = {p**m: (p, m) for p in primes for m in range(1, 8) if p**m < 200}
    assert {n: prime_power(n) for n in range(200) if prime_power(n)} == powers


def test_no_field_of_twelve() -> None:
    with pytest.raises(InvalidArgument, match="order must be a prime power, but it is 12"):
        Field(12)
