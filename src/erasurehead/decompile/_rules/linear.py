"""Linear algebra."""

from __future__ import annotations

from erasurehead.decompile._program import Statement
from erasurehead.decompile._rules.base import JAX, NUMPY, bound, calling, refuse
from erasurehead.decompile._texts import Expr, call, flag
from erasurehead.decompile._writer import Rule, Scope

_TRIANGULAR = ("left_side", "lower", "transpose_a", "conjugate_a", "unit_diagonal")
_EIG = ("compute_left_eigenvectors", "compute_right_eigenvectors")

_IN_JAX: dict[str, Rule] = {
    "cholesky": bound("cholesky"),
    "cholesky_update": calling("lax.linalg.cholesky_update"),
    "eig": calling("lax.linalg.eig", (), dict.fromkeys(_EIG, ...), listed=True),
    "qr": calling("lax.linalg.qr", (), {"pivoting": False, "full_matrices": ...}),
    "lu": calling("lax.linalg.lu"),
    "lu_pivots_to_permutation": calling("lax.linalg.lu_pivots_to_permutation", ["permutation_size"]),
    "householder_product": calling("lax.linalg.householder_product"),
    "ormqr": calling("lax.linalg.ormqr", (), {"left": ..., "transpose": ...}),
    "hessenberg": calling("lax.linalg.hessenberg"),
    "triangular_solve": calling("lax.linalg.triangular_solve", (), dict.fromkeys(_TRIANGULAR, False)),
    "tridiagonal": calling("lax.linalg.tridiagonal", (), {"lower": ...}),
    "tridiagonal_solve": calling("lax.linalg.tridiagonal_solve", (), {"perturb_singular": False}),
    "symmetric_product": calling("lax.linalg.symmetric_product", (), {"alpha": ..., "beta": ...}),
}

_IN_NUMPY: dict[str, Rule] = {
    "cholesky": calling("cholesky"),
    "eig": calling("eig", _EIG, listed=True),
    "qr": calling("qr", ["full_matrices"], {"pivoting": False}),
    "lu": calling("lu"),
    "lu_pivots_to_permutation": calling("permutation", ["permutation_size"]),
    "householder_product": calling("householder_product"),
    "hessenberg": calling("hessenberg"),
    "triangular_solve": calling("triangular_solve", _TRIANGULAR),
}

for _backend, _rules in ((JAX, _IN_JAX), (NUMPY, _IN_NUMPY)):
    for _op, _rule in _rules.items():
        _backend.rule(_op)(_rule)


@JAX.rule("eigh")
def _eigh_in_jax(scope: Scope, statement: Statement) -> Expr:
    p = statement.params
    subset, algorithm = p.get("subset_by_index"), p.get("algorithm")
    return call(
        "lax.linalg.eigh",
        scope.operand(statement.inputs[0]),
        lower=flag(p, "lower"),
        symmetrize_input="False",
        sort_eigenvalues=flag(p, "sort_eigenvalues"),
        subset_by_index=None if subset is None else str(tuple(subset)),
        implementation=None if algorithm is None else f"lax.linalg.EighImplementation.{algorithm.name}",
    )


@NUMPY.rule("eigh", "svd")
def _spectral(scope: Scope, statement: Statement) -> Expr | None:
    if statement.params.get("subset_by_index") is not None:
        raise refuse(scope, statement, "numpy has no counterpart for a part of the spectrum")
    names = ["lower"] if statement.op == "eigh" else ["full_matrices", "compute_uv"]
    return calling(statement.op, names)(scope, statement)


@JAX.rule("svd")
def _svd_in_jax(scope: Scope, statement: Statement) -> Expr | None:
    p = statement.params
    compute, subset, algorithm = bool(p["compute_uv"]), p.get("subset_by_index"), p.get("algorithm")
    expr = call(
        "lax.linalg.svd",
        scope.operand(statement.inputs[0]),
        full_matrices=flag(p, "full_matrices"),
        compute_uv=None if compute else "False",
        subset_by_index=None if subset is None else str(tuple(subset)),
        algorithm=None if algorithm is None else f"lax.linalg.SvdAlgorithm.{algorithm.name}",
    )
    if compute:  # the function gives u, s, vt, the primitive s, u, vt
        names = [scope.bind(o, "t") if o in scope.uses else "_" for o in statement.outputs]
        scope.emit(f"{names[1]}, {names[0]}, {names[2]} = {expr.text}")
        return None
    return expr


@JAX.rule("schur")
def _schur_in_jax(scope: Scope, statement: Statement) -> Expr | None:
    if statement.params.get("select_callable") is not None:
        raise refuse(scope, statement, "it sorts by a user-defined function")
    keywords = {"compute_schur_vectors": ..., "sort_eig_vals": ...}
    return calling("lax.linalg.schur", (), keywords, listed=True)(scope, statement)


@NUMPY.rule("schur")
def _schur(scope: Scope, statement: Statement) -> Expr | None:
    if statement.params.get("select_callable") is not None or statement.params.get("sort_eig_vals"):
        raise refuse(scope, statement, "numpy has no counterpart for a sorted Schur form")
    return calling("schur", ["compute_schur_vectors"], listed=True)(scope, statement)
