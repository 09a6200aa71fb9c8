"""How likely times are to be longer than others, from samples of which some are known only to be longer than that."""

from __future__ import annotations

import numpy as np

from erasurehead._internal.arrays import Array, BoolArray


def kaplan_meier(seconds: Array, censored: BoolArray) -> tuple[Array, Array]:
    """Return the Kaplan-Meier estimate from right-censored samples.

    Returns:
        The estimated probability of being longer than each different uncensored sample, and those samples, ascending;
        both of shape (points,).
    """
    points, deaths = np.unique(seconds[~censored], return_counts=True)
    at_risk = len(seconds) - np.searchsorted(np.sort(seconds), points, side="left")
    return np.cumprod(1.0 - deaths / at_risk, dtype=np.float64), points
