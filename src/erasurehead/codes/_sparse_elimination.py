"""Exact weights of large sparse codes: sparse elimination, and refinement until only rounding is left."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from scipy import sparse

from erasurehead._internal.arrays import Array, IntArray, inverses
from erasurehead._internal.factors import least_squares
from erasurehead.codes._base import GradientCode

if TYPE_CHECKING:
    from erasurehead._internal.arrays import SparseMatrix

# The ridge of the first round: less than rounding, and enough for a pivot on most processors; where
# rounding leaves exactly zero, more than rounding, at the price of a few more rounds.
_RIDGES = (1e-18, 1e-12)
_ROUNDS = 12
_SOLVED = 1e-15  # of the columns: a squared gap of which only rounding is left
_WORK = 2e10  # multiplications of an elimination within the band of a good ordering


def eliminated(code: GradientCode, messages: IntArray) -> Array | None:
    """Return weights that decode some messages of a code by elimination, shape (n_pieces, k); None where rows fill in.

    Of finer tasks the code of the whole ones is solved, which is better conditioned: weights that count each task once
    count its parts once.

    Arguments:
        code: any code.
        messages: the messages that have arrived, ascending, shape (k,).
    """
    while code.name == "refine" and code.inner:
        code = code.inner[0]
    rows = code.encoding[messages]
    lengths = np.sqrt(np.asarray(rows.multiply(rows).sum(axis=1), dtype=np.float64)).ravel()
    scale = inverses(lengths)
    weights = augmented_weights(sparse.csr_array(sparse.diags_array(scale) @ rows), code.target)
    return None if weights is None else weights * scale


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
    return np.array([_refined(factors, rows, goal) for goal in target])


def _refined(factors: Any, rows: SparseMatrix, goal: Array) -> Array:
    """Return the combination of refinement steps that leaves least: one direction that rounding has spoilt in the
    factors, as without the hardest stragglers, then costs a round or two."""
    count = rows.shape[0]
    steps, images = np.zeros((count, 0)), np.zeros((len(goal), 0))
    weights, left = np.zeros(count), goal
    for _ in range(_ROUNDS):
        step = cast("Array", factors.solve(np.concatenate([np.zeros(count), left])))[:count]
        size = float(np.abs(step).max(initial=0.0))
        if not (0.0 < size < np.inf):
            break
        steps = np.column_stack([steps, step / size])
        images = np.column_stack([images, np.asarray(rows.T @ (step / size), dtype=np.float64)])
        mix = least_squares(images, goal).solution
        tried = steps @ mix
        gap = goal - rows.T @ tried
        gained = float(gap @ gap) < 0.9 * float(left @ left)
        if float(gap @ gap) < float(left @ left):
            weights, left = tried, gap
        elif not math.isfinite(float(gap @ gap)):
            break
        if not gained and float(left @ left) <= _SOLVED * len(goal):
            break
    return weights
