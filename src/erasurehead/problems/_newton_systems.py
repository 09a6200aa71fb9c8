"""Newton systems of a worker's own tasks, solved roughly by conjugate gradients."""

from __future__ import annotations

from collections.abc import Callable

from erasurehead._internal.arrays import Array, product

_DAMPING = 1e-4  # of the bound on the curvature: a few samples leave directions in which they do not bend at all
_LEFT = 1e-6  # of the residual's square, in the diagonal's units, at which a solution is good enough


def solve(bend: Callable[[Array], Array], bound: Array, damping: float, vector: Array, iterations: int) -> Array:
    """Return a z with (H + damping I + 1e-4 diag(bound)) z = vector, as nearly as so many products with H allow.

    The method of conjugate gradients (Hestenes and Stiefel, 1952), preconditioned by the diagonal. It begins at zero;
    therefore vector @ z > 0 whenever it ends, unless the vector is zero.

    Arguments:
        bend: returns H times a vector, for a positive semidefinite H of shape (m, m).
        bound: on the diagonal of H, shape (m,).
        damping: at least 0.
        vector: shape (m,).
        iterations: the most products with H.
    """
    extra = damping + _DAMPING * bound
    diagonal = bound + extra
    diagonal[diagonal == 0.0] = 1.0
    solution, left = vector * 0.0, vector.copy()
    scaled = left / diagonal
    direction, length = scaled.copy(), product(left, scaled)
    enough = _LEFT * length
    for _ in range(iterations):
        if not length > enough:
            break
        turned = bend(direction) + extra * direction
        curvature = product(direction, turned)
        if not curvature > 0.0:
            break
        step = length / curvature
        solution += step * direction
        left -= step * turned
        scaled = left / diagonal
        length, before = product(left, scaled), length
        direction *= length / before
        direction += scaled
    return solution
