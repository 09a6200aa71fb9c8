"""Finite planes of every prime-power order, as codes in which any two workers share exactly one task."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np

from erasurehead.arrays import IntArray
from erasurehead.codes.base import GradientCode
from erasurehead.codes.designs import design_code
from erasurehead.codes.difference_sets import develop
from erasurehead.codes.fields import Field, prime_power
from erasurehead.errors import check_count, invalid


def projective_plane(order: int) -> GradientCode:
    """The points and lines of the projective plane PG(2, q): n = q^2 + q + 1 workers and tasks, load q + 1.

    Arguments:
        order: q, a prime power.

    Labels:
        decoder: `"bibd"`; bibd = (q^2 + q + 1, q^2 + q + 1, q + 1, q + 1, 1), mean_load.

    Guarantees: as `block_design`.
    Choose it: when about load^2 workers are there, and who straggles may be chosen by an adversary.
    Raises:
        InvalidArgument: `order` is not a prime power.

    >>> projective_plane(2).labels["bibd"]
    (7, 7, 3, 3, 1)
    """
    _check_order(order, lambda q: f"{q * q + q + 1} workers, load {q + 1}")
    n_workers = order * order + order + 1
    differences = singer_difference_set(order)
    columns = develop(differences, n_workers)
    construction = "Singer difference set (1938), developed around the circle"
    return design_code("projective_plane", {"order": order}, columns, n_workers, 1, construction)


def affine_plane(order: int) -> GradientCode:
    """The points and lines of the affine plane AG(2, q): q^2 workers, q^2 + q tasks, load q + 1.

    Arguments:
        order: q, a prime power.

    Labels:
        decoder: `"bibd"`; bibd = (q^2, q^2 + q, q + 1, q, 1), mean_load.

    Guarantees: as `block_design`.
    Choose it: as `projective_plane`, for a square number of workers.
    Raises:
        InvalidArgument: `order` is not a prime power.

    >>> affine_plane(3).labels["bibd"]
    (9, 12, 4, 3, 1)
    """
    _check_order(order, lambda q: f"{q * q} workers, load {q + 1}")
    field = Field(order)
    x, y = np.divmod(np.arange(order * order), order)
    slopes = field.elements[None, :]
    intercepts = field.subtract(y[:, None], field.multiply(slopes, x[:, None]))  # on y = slope * x + intercept
    columns = np.concatenate([slopes * order + intercepts, order * order + x[:, None]], axis=1)
    construction = "affine plane over the field of q elements"
    return design_code("affine_plane", {"order": order}, columns, order * order + order, 1, construction)


def singer_difference_set(order: int) -> IntArray:
    """Return the q + 1 residues modulo q^2 + q + 1 whose differences are all other residues, once each.

    In the field of q^3 elements, with a generator x of its multiplicative group modulo the field of q elements: the
    exponents i for which x^i has no x^2 part.

    >>> singer_difference_set(2).tolist()
    [0, 1, 3]
    """
    field = Field(order)
    q, size = order, order * order + order + 1
    add = field.add(field.elements[:, None], field.elements[None, :]).tolist()
    times = field.multiply(field.elements[:, None], field.elements[None, :]).tolist()
    # x^3 = c0 + c1 x + c2 x^2. The powers of x must meet the field of q elements only after q^2 + q + 1 steps.
    for c2, c1, c0 in product(range(q), range(q), range(1, q)):
        a, b, c = 1, 0, 0
        found: list[int] = []
        for exponent in range(size):
            if c == 0:
                if b == 0 and exponent:
                    break
                found.append(exponent)
            a, b, c = times[c][c0], add[a][times[c][c1]], add[b][times[c][c2]]
        else:
            if b == c == 0 and len(found) == q + 1:
                return np.array(found, dtype=np.int64)
    raise AssertionError("Singer: such a generator exists for every prime power")


def _check_order(order: int, size: Callable[[int], str]) -> None:
    check_count("order", order, at_least=2)
    if prime_power(order) is None:
        below, above = order - 1, order + 1
        while prime_power(below) is None:
            below -= 1
        while prime_power(above) is None:
            above += 1
        near = f"the nearest are {below} ({size(below)}) and {above} ({size(above)})"
        raise invalid("order", "must be a prime power, as no other plane is known", order, near)
