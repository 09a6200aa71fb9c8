"""Exact weights of large sparse codes: sparse elimination, and refinement until rounding is all that is left."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from scipy import sparse

from erasurehead.arrays import Array, IntArray
from erasurehead.codes.base import GradientCode

_RIDGE = 1e-16  # of the squared length of a row: what weights cost in the first round
_ROUNDS = 12


def eliminated(code: GradientCode, messages: IntArray, lengths: Array) -> Array:
    """Return weights of about the least norm whose residual is as small as refinement makes it, (n_pieces, k).

    The weights w and the gaps y solve the symmetric system [I, B; B', -d I] [w; y] = [0; target] with a tiny ridge d,
    which exists whatever the rank of the rows B. Its factors are as sparse as the rows allow: band-like for cyclic
    codes. The same factors then solve for what is left, round after round, which takes the ridge out again where the
    target can be reached.

    Arguments:
        code: any code.
        messages: ascending, at least one, shape (k,).
        lengths: of their rows.

    Source: Björck, Numerical Methods for Least Squares Problems (1996), section 2.5 (augmented systems).
    """
    from scipy.sparse.linalg import splu

    scale = np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0)
    rows = sparse.csr_array(sparse.diags_array(scale) @ code.encoding[messages])
    count, size = rows.shape
    corner = sparse.diags_array(np.concatenate([np.ones(count), np.full(size, -_RIDGE)]))
    sides = sparse.block_array([[None, rows], [rows.T, None]])
    factors: Any = splu(sparse.csc_array(corner + sides))
    target = code.target.T
    weights, left = np.zeros((count, code.n_pieces)), target
    for _ in range(_ROUNDS):
        step = cast("Array", factors.solve(np.concatenate([np.zeros_like(weights), left])))[:count]
        better = weights + step
        gap = target - rows.T @ better
        if not (gap**2).sum() < 0.25 * (left**2).sum():
            break
        weights, left = better, gap
    return np.asarray(weights.T * scale, dtype=np.float64)
