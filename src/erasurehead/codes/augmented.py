"""Exact weights of large sparse codes: sparse elimination, and refinement until only rounding is left."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
from scipy import sparse

from erasurehead._internal.arrays import Array

if TYPE_CHECKING:
    from erasurehead._internal.arrays import SparseMatrix

# The ridge of the first round: less than rounding, and enough for a pivot on most processors; where
# rounding leaves exactly zero, more than rounding, at the price of a few more rounds.
_RIDGES = (1e-18, 1e-12)
_ROUNDS = 12
_WORK = 2e10  # multiplications of an elimination within the band of a good ordering


def augmented_weights(rows: SparseMatrix, target: Array) -> Array | None:
    """Return weights of nearly minimal norm with the smallest residual that refinement reaches, shape (n_pieces, k).

    Returns None where the factors would fill in: for rows that no ordering makes banded, such as random graphs'.

    The weights w and the gaps y solve the symmetric system [I, B; B', -d I] [w; y] = [0; target] with a tiny ridge d,
    which exists whatever the rank of the rows B. Its factors are as sparse as the rows allow: banded for cyclic codes.
    The same factors then solve for the remaining residual, round after round, which removes the effect of the ridge
    where the target can be reached.

    Arguments:
        rows: messages scaled to norm one, sparse, shape (k, n_columns).
        target: shape (n_pieces, n_columns).

    Source: Björck, Numerical Methods for Least Squares Problems (1996), section 2.5 (augmented systems).
    """
    from scipy.sparse.csgraph import reverse_cuthill_mckee
    from scipy.sparse.linalg import splu

    count, size = rows.shape
    sides = sparse.block_array([[None, rows], [rows.T, None]])
    places = np.empty(count + size, dtype=np.int64)
    places[reverse_cuthill_mckee(sparse.csr_array(sides), symmetric_mode=True)] = np.arange(count + size)
    joined = sparse.coo_array(sides)
    band = int(np.abs(places[joined.row] - places[joined.col]).max(initial=0))
    if (count + size) * band**2 > _WORK:
        return None
    factors: Any = None
    for ridge in _RIDGES:
        corner = sparse.diags_array(np.concatenate([np.ones(count), np.full(size, -ridge)]))
        try:
            factors = splu(sparse.csc_array(corner + sides))
            break
        except RuntimeError:  # "Factor is exactly singular"
            continue
    if factors is None:
        return None
    weights, left = np.zeros((count, len(target))), np.asarray(target.T, dtype=np.float64)
    for _ in range(_ROUNDS):
        step = cast("Array", factors.solve(np.concatenate([np.zeros_like(weights), left])))[:count]
        gap = target.T - rows.T @ (weights + step)
        if not (gap**2).sum() < 0.25 * (left**2).sum():
            break
        weights, left = weights + step, gap
    return np.asarray(weights.T, dtype=np.float64)
