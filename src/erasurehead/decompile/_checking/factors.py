"""Matrix factorisations have several right answers: checks whether given factors are one of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from erasurehead.decompile._checking.rounding import unit
from erasurehead.decompile._program import Statement

FREE = {"svd", "eigh", "eig", "qr", "schur"}
"""Operations whose results are determined only up to signs, phases and bases."""


def are_factors(statement: Statement, matrix: Any, factors: Sequence[Any]) -> bool:
    """Return whether factors have the properties that define them, within rounding.

    Arguments:
        statement: one of the `FREE` operations.
        matrix: what is factorised, shape (..., m, n).
        factors: the results, in the order of the statement's outputs.
    """
    if len(factors) != len(statement.outputs):
        return False
    a = matrix.astype(np.complex128)
    parts = [factor.astype(np.complex128) for factor in factors]
    bound = 256 * unit(factors[0].dtype) * max(1.0, float(np.max(np.abs(a), initial=0.0))) * max(a.shape[-2:])

    def small(x: Any) -> bool:
        return bool(np.max(np.abs(x), initial=0.0) <= bound)

    def unitary(x: Any) -> bool:
        return small(_adjoint(x) @ x - np.eye(x.shape[-1]))

    op, params = statement.op, statement.params
    if op == "svd" and len(parts) == 3:
        s, u, v = parts
        k = s.shape[-1]
        return small((u[..., :k] * s[..., None, :]) @ v[..., :k, :] - a) and unitary(u) and unitary(_adjoint(v))
    if op == "eigh":
        v, w = parts
        triangle = np.tril(a) if params.get("lower", True) else np.triu(a)
        whole = triangle + _adjoint(triangle) - np.eye(a.shape[-1]) * a
        return small(whole @ v - v * w[..., None, :]) and unitary(v)
    if op == "eig" and params.get("compute_right_eigenvectors") and len(parts) >= 2:
        w, v = parts[0], parts[-1]
        fine = small(a @ v - v * w[..., None, :])
        if params.get("compute_left_eigenvectors"):
            left = parts[1]
            fine = fine and small(_adjoint(left) @ a - w[..., :, None] * _adjoint(left))
        return fine and bool(np.allclose(np.linalg.norm(v, axis=-2), 1, atol=bound))
    if op == "qr" and len(parts) == 2:
        q, r = parts
        return small(q @ r - a) and unitary(q) and small(np.tril(r, -1))
    if op == "schur" and len(parts) == 2:
        t, z = parts
        return small(z @ t @ _adjoint(z) - a) and unitary(z)
    return False


def _adjoint(x: Any) -> Any:
    return np.conj(np.swapaxes(x, -1, -2))
