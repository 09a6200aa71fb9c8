"""Products with an encoding, with proper types."""

from __future__ import annotations

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead.codes import GradientCode


def forward(code: GradientCode, tasks: Array) -> Array:
    """Return `encoding @ tasks`, the messages, shape (n_messages,) or (n_messages, k)."""
    return np.asarray(code.encoding @ tasks, dtype=np.float64)


def backward(code: GradientCode, messages: Array) -> Array:
    """Return `encoding.T @ messages`, how much each column is counted, shape (n_columns,) or (n_columns, k)."""
    return np.asarray(code.encoding.T @ messages, dtype=np.float64)


def row_sums(code: GradientCode, power: int = 1) -> Array:
    """Return the sum of each message's coefficients, or of a power of them, shape (n_messages,)."""
    rows = np.repeat(np.arange(code.n_messages), np.diff(code.encoding.indptr))
    return np.asarray(np.bincount(rows, code.encoding.data**power, minlength=code.n_messages), dtype=np.float64)
