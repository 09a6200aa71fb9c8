# pyright: basic, reportGeneralTypeIssues=false, reportIndexIssue=false
"""Linear algebra, matrix by matrix."""

import numpy as np
from scipy import linalg


def each(function, *arrays, ranks):
    """Apply a function to the matrices (or vectors) in the last axes of arrays, and stack its results."""
    batch = arrays[0].shape[: arrays[0].ndim - ranks[0]]
    if not batch:
        return or_nan(function, *arrays)
    flat = [x.reshape(-1, *x.shape[len(batch) :]) for x in arrays]
    results = [or_nan(function, *some) for some in zip(*flat, strict=True)]
    if isinstance(results[0], tuple):
        return tuple(
            np.stack(parts).reshape(*batch, *parts[0].shape)
            for parts in zip(*results, strict=True)
        )
    return np.stack(results).reshape(*batch, *results[0].shape)


def or_nan(function, *arrays):
    """Apply a function to matrices; what it would refuse gives NaN, as with JAX."""
    try:
        return function(*arrays)
    except (np.linalg.LinAlgError, ValueError):
        like = function(
            *(
                np.eye(*x.shape, dtype=x.dtype) if x.ndim == 2 else np.ones_like(x)
                for x in arrays
            )
        )
    return tuple(map(nan_like, like)) if isinstance(like, tuple) else nan_like(like)


def nan_like(x):
    """Return NaN in the shape of an array; of integers, the array itself."""
    return x if x.dtype.kind in "iu" else np.full_like(x, np.nan)


def cholesky(a):
    """Return the lower factor; NaN where the matrix is not positive definite."""
    return each(np.linalg.cholesky, a, ranks=[2])


def lu(a):
    """Return the factors in one matrix, the pivots and the permutation of the rows."""

    def one(matrix):
        (getrf,) = linalg.get_lapack_funcs(("getrf",), (matrix,))
        factors, pivots, _ = getrf(matrix)
        return factors, pivots.astype(np.int32), permutation(pivots, matrix.shape[0])

    return each(one, a, ranks=[2])


def permutation(pivots, size):
    """Return the permutation of rows that pivots stand for."""

    def one(swaps):
        order = np.arange(size, dtype=np.int32)
        for i, j in enumerate(swaps):
            order[[i, j]] = order[[j, i]]
        return order

    return each(one, pivots, ranks=[1])


def triangular_solve(a, b, left, lower, transpose, conjugate, unit):
    """Solve a triangular system from the left or from the right."""

    def one(matrix, right):
        matrix = matrix.conj() if conjugate else matrix
        n = matrix.shape[0]
        matrix = np.tril(matrix) if lower else np.triu(matrix)
        if unit:
            matrix = matrix - np.diag(np.diag(matrix)) + np.eye(n, dtype=matrix.dtype)
        if 0 in right.shape:
            return right
        side = right if left else right.T
        (trtrs,) = linalg.get_lapack_funcs(("trtrs",), (matrix, side))
        solution, _ = trtrs(
            matrix,
            side,
            lower=lower,
            trans=int(transpose if left else not transpose),
            unitdiag=unit,
        )
        if not unit and np.any(np.diag(matrix) == 0):
            solution = np.full_like(side, np.nan)
        return solution if left else solution.T

    return each(one, a, b, ranks=[2, 2])


def eigh(a, lower):
    """Return eigenvectors and eigenvalues of a symmetric matrix, ascending."""

    def one(matrix):
        finite = np.asarray_chkfinite(matrix)
        values, vectors = np.linalg.eigh(finite, UPLO="L" if lower else "U")
        return vectors, values

    return each(one, a, ranks=[2])


def qr(a, full, pivoting=False):
    """Return the factors of a matrix: orthonormal columns and a triangle (and the order of the columns)."""

    def one(matrix):
        result = linalg.qr(
            matrix, mode="full" if full else "economic", pivoting=pivoting
        )
        return (*result[:2], result[2].astype(np.int32)) if pivoting else result

    return each(one, a, ranks=[2])


def svd(a, full, vectors):
    """Return singular values, and left and right singular vectors."""

    def one(matrix):
        if not vectors:
            return linalg.svd(matrix, compute_uv=False, lapack_driver="gesdd")
        left, values, right = linalg.svd(
            matrix, full_matrices=full, lapack_driver="gesdd"
        )
        return values, left, right

    return each(one, a, ranks=[2])


def eig(a, left, right):
    """Return complex eigenvalues and, as wanted, left and right eigenvectors."""

    def one(matrix):
        kind = np.result_type(matrix.dtype, np.complex64)
        found = linalg.eig(matrix, left=left, right=right)
        found = found if isinstance(found, tuple) else (found,)
        return tuple(x.astype(kind) for x in found)

    return each(one, a, ranks=[2])


def schur(a, vectors):
    """Return the Schur form, and the vectors that lead to it."""

    def one(matrix):
        form, basis = linalg.schur(matrix)
        return (form, basis) if vectors else (form,)

    return each(one, a, ranks=[2])


def hessenberg(a):
    """Return the Hessenberg form with the reflectors below it, and their factors."""

    def one(matrix):
        (gehrd,) = linalg.get_lapack_funcs(("gehrd",), (matrix,))
        form, taus, _ = gehrd(matrix)
        return form, taus

    return each(one, a, ranks=[2])


def householder_product(a, taus):
    """Return the product of reflectors, as many columns as the matrix has."""

    def one(matrix, factors):
        m, n = matrix.shape
        product = np.eye(m, n, dtype=matrix.dtype)
        for i in reversed(range(len(factors))):
            v = np.zeros(m, matrix.dtype)
            v[i], v[i + 1 :] = 1, matrix[i + 1 :, i]
            product = product - factors[i] * np.outer(v, v.conj() @ product)
        return product.astype(matrix.dtype)

    return each(one, a, taus, ranks=[2, 1])
