"""The two largest singular values of an encoding, which bound the residual for every straggler set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead._internal.factors import singular_values
from erasurehead.codes._assemble import generator_of

if TYPE_CHECKING:
    from erasurehead._internal.arrays import SparseMatrix

_RESTARTS = 40  # of the iteration; random graphs need two or three
_DENSE = 300  # below this many rows or columns a dense solver is as quick, and exact


@dataclass(frozen=True)
class Spectrum:
    """The two largest singular values of an encoding.

    For the adjacency matrix of a regular graph they are its degree and its second eigenvalue in magnitude.

    Arguments:
        largest: s1; the square root of load times replication for a biregular 0/1 code.
        second: s2; 0 if there is only one.
    """

    largest: float
    second: float

    @property
    def gap(self) -> float:
        """The spectral gap, `largest - second`: 0 for a disconnected or bipartite graph."""
        return self.largest - self.second

    @property
    def ratio(self) -> float:
        """(s2 / s1)^2, the x of the bound residual <= n_tasks * x * s / (n - s + x * s) for any s stragglers."""
        return (self.second / self.largest) ** 2


def spectrum_of(encoding: SparseMatrix) -> Spectrum:
    """Return the two largest singular values, by Lanczos iteration on the smaller Gram matrix where it is large.

    A gap too narrow to be resolved, such as that of one long circle, counts as none: both values are then the bound by
    row and column sums, which is exact for biregular codes, and all bounds on residuals remain valid.
    """
    from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh  # a tenth of a second to import

    size = min(encoding.shape)
    if size <= _DENSE:
        values = singular_values(encoding.toarray())
        return Spectrum(float(values[0]), float(values[1]) if len(values) > 1 else 0.0)
    transposed = encoding.T.tocsr()
    inner, outer = (encoding, transposed) if encoding.shape[1] == size else (transposed, encoding)

    def gram(vector: Array) -> Array:
        return np.asarray(outer @ np.asarray(inner @ vector))

    start = generator_of(0).standard_normal(size)  # fixed, so that the same code gives the same figures
    operator = LinearOperator((size, size), matvec=gram, dtype=np.float64)
    try:
        squares = eigsh(
            operator, k=2, which="LA", v0=start, ncv=60, tol=1e-7, maxiter=_RESTARTS, return_eigenvectors=False
        )
    except ArpackNoConvergence:
        sums = abs(encoding)
        bound = float(np.sqrt(sums.sum(axis=0).max() * sums.sum(axis=1).max()))
        return Spectrum(bound, bound)
    second, largest = np.sqrt(np.maximum(np.sort(squares), 0.0))
    return Spectrum(float(largest), float(second))
