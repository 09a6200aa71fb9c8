"""Diagonals that scale parameters, from a bound on the curvature along each of them."""

from __future__ import annotations

import math

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead.problems import Penalty

POWERS = (1.0, 1.0, 0.75, 0.5)
"""Exponents for the curvatures in `scalings`; the first goes with all entries of a sample counted together."""


def scalings(curvature: Array, entries: float, penalty: Array) -> list[Array]:
    """Return diagonals to choose from, one for each of `POWERS`, the safest first.

    Arguments:
        curvature: bound along each parameter, without the penalty, shape (n_parameters,).
        entries: mean number of entries in a sample that are not 0: together they bend the loss that many times as much.
        penalty: curvature of the penalty along each parameter, shape (n_parameters,).
    """
    bends = np.maximum(curvature, 0.0)
    own, safe = bends + penalty, max(1.0, entries) * bends + penalty
    if not own.min(initial=math.inf) > 0.0:  # parameters that no sample touches
        least = float(own[own > 0.0].min(initial=math.inf))
        own = np.maximum(own, least if math.isfinite(least) else 1.0)
        safe = np.maximum(safe, own)
    root = np.sqrt(own)  # of which the other powers come in a tenth of the time that `**` takes
    return [safe, own, root * np.sqrt(root), root]


def penalty_curvature(penalty: Penalty, n_parameters: int) -> Array:
    """Return the curvature of a penalty's smooth part along each parameter, shape (n_parameters,)."""
    if not penalty.smooth:
        return np.zeros(n_parameters)
    nowhere = np.zeros(n_parameters)
    return np.maximum(penalty.gradient(np.ones(n_parameters)) - penalty.gradient(nowhere), 0.0)
