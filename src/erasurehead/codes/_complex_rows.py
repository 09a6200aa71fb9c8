"""Complex rows as pairs of real ones: all messages that workers send are real."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from erasurehead._internal.arrays import IntArray
from erasurehead.codes._assemble import from_rows

if TYPE_CHECKING:
    from erasurehead._internal.arrays import SparseMatrix

ComplexArray = NDArray[np.complex128]

_ROUNDING = 1e-13  # parts this small beside the row's largest entry are rounding errors of a zero


def real_rows(columns: IntArray, coefficients: ComplexArray, n_columns: int) -> tuple[SparseMatrix, IntArray, IntArray]:
    """Split each complex row into a real and an imaginary row.

    Each row is first divided by its first coefficient, which does not affect decoding. Where no imaginary
    part is left, the row becomes a single real message.

    Arguments:
        columns: columns of each row, shape (n_rows, size).
        coefficients: coefficients of each row, shape (n_rows, size); the first one is not zero.
        n_columns: number of columns.

    Returns:
        The real matrix; the complex row that each of its rows comes from; and 0 for a real, 1 for an imaginary part.
    """
    scaled = coefficients / coefficients[:, :1]
    least = _ROUNDING * np.abs(scaled).max(axis=1, keepdims=True)
    parts = np.stack([scaled.real, scaled.imag], axis=1)  # (n_rows, 2, size)
    parts[np.abs(parts) <= least[:, :, None]] = 0.0
    row, part = np.nonzero(parts.any(axis=2))
    sizes = np.full(len(row), columns.shape[1])
    matrix = from_rows(columns[row].ravel(), sizes, n_columns, parts[row, part].ravel())
    return matrix, row.astype(np.int64), part.astype(np.int64)
