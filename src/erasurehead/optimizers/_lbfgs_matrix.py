"""The matrix of L-BFGS itself, not its inverse: for steps that cannot follow from a product with the inverse alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import numpy as np

from erasurehead._internal.arrays import Array, IntArray
from erasurehead._internal.factors import pseudo_inverse


@final
class LBFGSMatrix:
    """The approximation B of the Hessian that follows from a diagonal and pairs of steps and changes of the gradient.

    It is kept as `D - W.T inv(M) W`, with 2 rows of W a pair (Byrd, Nocedal and Schnabel, "Representations of
    quasi-Newton matrices and their use in limited memory methods", 1994, theorem 2.3). Each pair is scaled so that the
    product of its step and its change is 1, which leaves B as it is and M well conditioned.

    Arguments:
        diagonal: the matrix that all pairs are added to, shape (n_parameters,), positive.
        steps: between models, oldest first, each of shape (n_parameters,).
        changes: of the gradient along each, likewise; the product of each with its step is positive.
        bent: these products.
    """

    def __init__(
        self, diagonal: Array, steps: Sequence[Array], changes: Sequence[Array], bent: Sequence[float]
    ) -> None:
        self._diagonal = diagonal
        count = len(steps)
        scale = np.asarray(bent, dtype=np.float64).reshape(-1, 1) ** -0.5
        along = scale * np.asarray(steps, dtype=np.float64).reshape(count, len(diagonal))
        turned = scale * np.asarray(changes, dtype=np.float64).reshape(count, len(diagonal))
        scaled = along * diagonal
        later = np.tril(along @ turned.T, -1)  # products of each step with earlier changes
        self._rows = np.concatenate([turned, scaled])
        self._middle = np.block([[-np.eye(count), later.T], [later, along @ scaled.T]])
        self._inverse = pseudo_inverse(self._middle, symmetric=True) if count else self._middle

    def within(self, columns: IntArray) -> LBFGSMatrix:
        """Return the rows and columns of the matrix that belong to some parameters.

        Arguments:
            columns: the parameters, ascending.
        """
        part = LBFGSMatrix.__new__(LBFGSMatrix)
        part._diagonal, part._rows = self._diagonal[columns], self._rows[:, columns]
        part._middle, part._inverse = self._middle, self._inverse
        return part

    @property
    def diagonal(self) -> Array:
        """The diagonal that all pairs were added to, shape (n_parameters,)."""
        return self._diagonal

    def times(self, vector: Array) -> Array:
        """Return the product with a vector, shape (n_parameters,), or with each of several, shape (k, n_parameters)."""
        return self._diagonal * vector - (self._inverse @ (self._rows @ vector.T)).T @ self._rows

    def solve(self, vector: Array) -> Array:
        """Return the vector whose product with the matrix is the given one, shape (n_parameters,).

        Raises:
            numpy.linalg.LinAlgError: if rounding has made the matrix singular.
        """
        if len(vector) <= len(self._rows):
            whole = np.diag(self._diagonal) - (self._rows.T @ self._inverse) @ self._rows
            return np.asarray(np.linalg.solve(whole, vector), dtype=np.float64)
        solution = vector / self._diagonal
        if not len(self._rows):
            return solution
        inner = self._middle - (self._rows / self._diagonal) @ self._rows.T
        return solution + (np.linalg.solve(inner, self._rows @ solution) @ self._rows) / self._diagonal
