"""Symmetric designs from power residues and twin primes: as many tasks as workers, at about half or a quarter load."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from erasurehead.arrays import IntArray
from erasurehead.codes.assemble import AnyIntArray, ShortIntArray
from erasurehead.codes.base import GradientCode
from erasurehead.codes.designs import design_code
from erasurehead.codes.fields import Field, is_prime, prime_power
from erasurehead.errors import check_count, invalid


def paley(n_workers: int) -> GradientCode:
    """Workers hold what lies a square away, in the field of n elements: load (n - 1) / 2.

    Arguments:
        n_workers: number of workers and of tasks (n): a prime power, 3 modulo 4, at least 7.

    Labels:
        decoder: `"bibd"`; bibd = (n, n, (n - 1) / 2, (n - 1) / 2, (n - 3) / 4), mean_load.

    Guarantees: as `block_design`.
    Choose it: where half of all the data fits on each worker and an adversary picks the stragglers.
    Raises:
        InvalidArgument: no such number; the message says the nearest.

    >>> paley(11).labels["bibd"]
    (11, 11, 5, 5, 2)
    """
    _check("n_workers", n_workers, is_paley, "must be a prime power, 3 modulo 4 and at least 7")
    field = Field(n_workers)
    squares = field.power_residues(2)
    prime = field.degree == 1
    columns: AnyIntArray
    columns = develop(squares, n_workers) if prime else field.subtract(field.elements[:, None], squares[None, :])
    common = (n_workers - 3) // 4
    return design_code(
        "paley", {"n_workers": n_workers}, columns, n_workers, common, "Paley (1933), quadratic residues"
    )


def biquadratic(n_workers: int) -> GradientCode:
    """Workers hold what lies a fourth power away, modulo a prime 4 a^2 + 1 with a odd: load (n - 1) / 4.

    Arguments:
        n_workers: number of workers and of tasks (n): 37, 101, 197, 677, ...

    Labels:
        decoder: `"bibd"`; bibd = (n, n, (n - 1) / 4, (n - 1) / 4, (n - 5) / 16), mean_load.

    Guarantees: as `block_design`.
    Choose it: where a quarter of all the data fits on each worker and an adversary picks the stragglers.
    Raises:
        InvalidArgument: no such number; the message says the nearest.

    >>> biquadratic(37).labels["bibd"]
    (37, 37, 9, 9, 2)
    """
    _check("n_workers", n_workers, is_biquadratic, "must be a prime of the form 4 a^2 + 1 with a odd, from 37 on")
    columns = develop(Field(n_workers).power_residues(4), n_workers)
    common = (n_workers - 5) // 16
    construction = "Chowla (1944), biquadratic residues"
    return design_code("biquadratic", {"n_workers": n_workers}, columns, n_workers, common, construction)


def twin_primes(smaller: int) -> GradientCode:
    """The design of two prime powers q and q + 2: n = q (q + 2) workers and tasks, load (n - 1) / 2.

    Arguments:
        smaller: q, such that q and q + 2 are both odd prime powers: 3, 5, 7, 9, 11, 17, ...

    Labels:
        decoder: `"bibd"`; bibd = (n, n, (n - 1) / 2, (n - 1) / 2, (n - 3) / 4), mean_load.

    Guarantees: as `block_design`.
    Choose it: as `paley`, for other numbers of workers.
    Raises:
        InvalidArgument: no such number; the message says the nearest.

    >>> twin_primes(3).labels["bibd"]
    (15, 15, 7, 7, 3)
    """
    _check("smaller", smaller, is_twin, "must be an odd prime power such that two more is one as well")
    one, two = Field(smaller), Field(smaller + 2)
    alike = _sign(one)[:, None] == _sign(two)[None, :]  # both squares or both not
    alike[0, :] = alike[:, 0] = False
    alike[:, 0] = True
    first, second = (member.astype(np.int64) for member in np.nonzero(alike))
    n_workers = smaller * (smaller + 2)
    columns: AnyIntArray
    if one.degree == two.degree == 1:
        # Worker w stands for (w mod q, w mod q + 2), so that adding goes around one circle.
        rest = ((second - first) * pow(smaller, -1, smaller + 2)) % (smaller + 2)
        columns = develop(first + smaller * rest, n_workers)
    else:
        x, y = np.divmod(np.arange(n_workers), smaller + 2)
        columns = one.subtract(x[:, None], first) * (smaller + 2) + two.subtract(y[:, None], second)
    common = (n_workers - 3) // 4
    construction = "Stanton and Sprott (1958), twin prime powers"
    return design_code("twin_primes", {"smaller": smaller}, columns, n_workers, common, construction)


def develop(differences: IntArray, modulus: int) -> ShortIntArray:
    """Return, for every residue w, the residues w - d for d in a difference set, ascending; shape (modulus, size).

    >>> develop(np.array([0, 1, 3]), 7)[2].tolist()
    [1, 2, 6]
    """
    opposite = np.sort(-differences % modulus)
    twice = np.concatenate([opposite - modulus, opposite]).astype(np.int32)
    turns = np.arange(modulus, dtype=np.int32)
    first = np.searchsorted(opposite, modulus - turns)  # from here on, the residues have wrapped around
    residues: ShortIntArray = np.lib.stride_tricks.sliding_window_view(twice, len(opposite))[first]
    residues += turns[:, None]
    return residues


def is_paley(number: int) -> bool:
    """Whether `paley` has a design of this many workers."""
    return number >= 7 and number % 4 == 3 and prime_power(number) is not None


def is_biquadratic(number: int) -> bool:
    """Whether `biquadratic` has a design of this many workers."""
    root = math.isqrt(max(number - 1, 0) // 4)
    return number >= 37 and root % 2 == 1 and 4 * root * root + 1 == number and is_prime(number)


def is_twin(number: int) -> bool:
    """Whether a number and two more are both odd prime powers."""
    return number % 2 == 1 and prime_power(number) is not None and prime_power(number + 2) is not None


def _sign(field: Field) -> IntArray:
    sign = np.full(field.order, -1, dtype=np.int64)
    sign[field.power_residues(2)] = 1
    return sign


def _check(argument: str, number: int, exists: Callable[[int], bool], rule: str) -> None:
    check_count(argument, number)
    if exists(number):
        return
    below = next((candidate for candidate in range(number - 1, 2, -1) if exists(candidate)), None)
    above = next(candidate for candidate in range(number + 1, 100 * number + 1_000) if exists(candidate))
    raise invalid(argument, rule, number, f"the nearest are {below} and {above}" if below else f"the next is {above}")
