"""Singular values and least squares that do not fail: where a routine of LAPACK does not converge, another takes over.

numpy calls the quickest routine only (`gesdd`, `gelsd`: divide and conquer), which gives up on one matrix in thousands
that are nearly singular, as the erasures of large Fourier codes are. QR iteration (`gesvd`) is slower and hardly ever
fails. Both are accurate to rounding; neither squares the condition.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from erasurehead._internal.arrays import Array

Matrix: TypeAlias = NDArray[Any]
"""Real or complex, shape (..., rows, columns)."""

_EPSILON = float(np.finfo(np.float64).eps)


class SVD(NamedTuple):
    """A singular value decomposition: `left * values @ right`, with the last columns of `left` and rows of `right`
    beyond the values where it is a full one."""

    left: Matrix
    values: Array
    right: Matrix


class LeastNorm(NamedTuple):
    """The least-squares solution of least norm of one system."""

    solution: Matrix
    rank: int
    values: Array
    """All singular values of the matrix, descending."""


def svd(matrix: Matrix, full: bool = False) -> SVD:
    """Return the singular value decomposition of a matrix, or of each matrix of a stack.

    Arguments:
        matrix: finite, shape (..., rows, columns).
        full: whether `left` and `right` are square.

    Raises:
        numpy.linalg.LinAlgError: if the matrix is not finite.
    """
    try:
        return SVD(*np.linalg.svd(matrix, full_matrices=full))
    except np.linalg.LinAlgError:
        _check_finite(matrix)
        if matrix.ndim == 2:
            return _by_iteration(matrix, full)
        each = [svd(one, full) for one in matrix.reshape(-1, *matrix.shape[-2:])]
        stacked = (np.array(parts) for parts in zip(*each, strict=True))
        return SVD(*(part.reshape(*matrix.shape[:-2], *part.shape[1:]) for part in stacked))


def singular_values(matrix: Matrix) -> Array:
    """Return the singular values of a matrix, or of each matrix of a stack, descending: shape (..., min(shape)).

    Raises:
        numpy.linalg.LinAlgError: if the matrix is not finite.
    """
    try:
        return np.asarray(np.linalg.svd(matrix, compute_uv=False), dtype=np.float64)
    except np.linalg.LinAlgError:
        return svd(matrix).values


def rank_of(matrix: Matrix) -> int:
    """Return the number of singular values above rounding, as `numpy.linalg.matrix_rank` does."""
    values = singular_values(matrix)
    return int((values > max(matrix.shape) * _EPSILON * values.max(initial=0.0)).sum())


def least_squares(matrix: Matrix, right: Matrix, cutoff: float | None = None) -> LeastNorm:
    """Return the solution of least norm of `matrix @ solution = right`, or of what comes nearest to it.

    Arguments:
        matrix: finite, shape (rows, columns).
        right: finite, shape (rows,) or (rows, k).
        cutoff: singular values up to this fraction of the largest count as zero; by default rounding times the larger
            side of the matrix.

    Raises:
        numpy.linalg.LinAlgError: if the matrix is not finite.
    """
    least = _EPSILON * max(matrix.shape) if cutoff is None else cutoff
    try:
        solution, _, rank, values = np.linalg.lstsq(matrix, right, rcond=least)
        return LeastNorm(solution, int(rank), np.asarray(values, dtype=np.float64))
    except np.linalg.LinAlgError:
        factors = svd(matrix)
        return LeastNorm(_inverted(factors, least) @ right, _rank(factors.values, least), factors.values)


def pseudo_inverse(matrix: Matrix, cutoff: float = 1e-15, symmetric: bool = False) -> Matrix:
    """Return the Moore-Penrose inverse of a matrix.

    Arguments:
        matrix: finite, shape (rows, columns).
        cutoff: singular values up to this fraction of the largest count as zero.
        symmetric: whether it is symmetric, and eigenvalues will do.

    Raises:
        numpy.linalg.LinAlgError: if the matrix is not finite.
    """
    try:
        return np.linalg.pinv(matrix, rcond=cutoff, hermitian=symmetric)
    except np.linalg.LinAlgError:
        return _inverted(svd(matrix), cutoff)


def _by_iteration(matrix: Matrix, full: bool) -> SVD:
    from scipy import linalg  # a tenth of a second to import, and hardly ever needed

    return SVD(*cast("tuple[Matrix, Array, Matrix]", linalg.svd(matrix, full_matrices=full, lapack_driver="gesvd")))


def _rank(values: Array, cutoff: float) -> int:
    return int((values > cutoff * values.max(initial=0.0)).sum())


def _inverted(factors: SVD, cutoff: float) -> Matrix:
    rank = _rank(factors.values, cutoff)
    return (factors.right[:rank].conj().T / factors.values[:rank]) @ factors.left[:, :rank].conj().T


def _check_finite(matrix: Matrix) -> None:
    if not np.isfinite(matrix).all():
        raise np.linalg.LinAlgError("The matrix is not finite.")
