"""Linear algebra."""

from __future__ import annotations

from erasurehead.decompile.jax_rules.base import bind, rule
from erasurehead.decompile.program import Statement
from erasurehead.decompile.texts import Expr, call, flag
from erasurehead.decompile.writer import Scope


@rule("cholesky")
def _cholesky(scope: Scope, statement: Statement) -> Expr:
    return bind(scope, statement, "cholesky_p")


@rule("eigh")
def _eigh(scope: Scope, statement: Statement) -> Expr:
    p = statement.params
    subset = p.get("subset_by_index")
    algorithm = p.get("algorithm")
    text = None if algorithm is None else f"lax.linalg.EighImplementation.{algorithm.name}"
    return call(
        "lax.linalg.eigh",
        scope.operand(statement.inputs[0]),
        lower=flag(statement.params, "lower"),
        symmetrize_input="False",
        sort_eigenvalues=flag(statement.params, "sort_eigenvalues"),
        subset_by_index=None if subset is None else str(tuple(subset)),
        implementation=text,
    )


@rule("eig")
def _eig(scope: Scope, statement: Statement) -> Expr:
    return _only(
        statement,
        call(
            "lax.linalg.eig",
            scope.operand(statement.inputs[0]),
            compute_left_eigenvectors=flag(statement.params, "compute_left_eigenvectors"),
            compute_right_eigenvectors=flag(statement.params, "compute_right_eigenvectors"),
        ),
    )


def _only(statement: Statement, expr: Expr) -> Expr:
    """Return the element of a list of one."""
    return Expr(f"{expr.text}[0]", cost=expr.cost) if len(statement.outputs) == 1 else expr


@rule("svd")
def _svd(scope: Scope, statement: Statement) -> Expr | None:
    p = statement.params
    compute = bool(p["compute_uv"])
    subset, algorithm = p.get("subset_by_index"), p.get("algorithm")
    expr = call(
        "lax.linalg.svd",
        scope.operand(statement.inputs[0]),
        full_matrices=flag(statement.params, "full_matrices"),
        compute_uv=None if compute else "False",
        subset_by_index=None if subset is None else str(tuple(subset)),
        algorithm=None if algorithm is None else f"lax.linalg.SvdAlgorithm.{algorithm.name}",
    )
    if compute:  # the function gives u, s, vt, the primitive s, u, vt
        names = [scope.bind(o, "t") if o in scope.uses else "_" for o in statement.outputs]
        scope.emit(f"{names[1]}, {names[0]}, {names[2]} = {expr.text}")
        return None
    return expr


@rule("qr")
def _qr(scope: Scope, statement: Statement) -> Expr:
    p = statement.params
    return call(
        "lax.linalg.qr",
        scope.operand(statement.inputs[0]),
        pivoting="True" if p.get("pivoting") else None,
        full_matrices=flag(statement.params, "full_matrices"),
    )


@rule("lu")
def _lu(scope: Scope, statement: Statement) -> Expr:
    return call("lax.linalg.lu", scope.operand(statement.inputs[0]))


@rule("lu_pivots_to_permutation")
def _permutation(scope: Scope, statement: Statement) -> Expr:
    size = str(statement.params["permutation_size"])
    return call("lax.linalg.lu_pivots_to_permutation", scope.operand(statement.inputs[0]), size)


@rule("householder_product")
def _householder(scope: Scope, statement: Statement) -> Expr:
    return call("lax.linalg.householder_product", *map(scope.operand, statement.inputs))


@rule("ormqr")
def _ormqr(scope: Scope, statement: Statement) -> Expr:
    p = statement.params
    return call(
        "lax.linalg.ormqr", *map(scope.operand, statement.inputs), left=str(p["left"]), transpose=str(p["transpose"])
    )


@rule("hessenberg")
def _hessenberg(scope: Scope, statement: Statement) -> Expr:
    return call("lax.linalg.hessenberg", scope.operand(statement.inputs[0]))


@rule("schur")
def _schur(scope: Scope, statement: Statement) -> Expr:
    p = statement.params
    if p.get("select_callable") is not None:
        from erasurehead.decompile.jax_rules.base import refuse

        raise refuse("schur", "it sorts by a user-defined function")
    expr = call(
        "lax.linalg.schur",
        scope.operand(statement.inputs[0]),
        compute_schur_vectors=flag(statement.params, "compute_schur_vectors"),
        sort_eig_vals=flag(statement.params, "sort_eig_vals"),
    )
    return _only(statement, expr)


@rule("triangular_solve")
def _triangular(scope: Scope, statement: Statement) -> Expr:
    flags = {
        name: "True" if statement.params[name] else None
        for name in ("left_side", "lower", "transpose_a", "conjugate_a", "unit_diagonal")
    }
    return call("lax.linalg.triangular_solve", *map(scope.operand, statement.inputs), **flags)


@rule("tridiagonal")
def _tridiagonal(scope: Scope, statement: Statement) -> Expr:
    return call("lax.linalg.tridiagonal", scope.operand(statement.inputs[0]), lower=flag(statement.params, "lower"))


@rule("tridiagonal_solve")
def _tridiagonal_solve(scope: Scope, statement: Statement) -> Expr:
    perturb = "True" if statement.params.get("perturb_singular") else None
    return call("lax.linalg.tridiagonal_solve", *map(scope.operand, statement.inputs), perturb_singular=perturb)


@rule("cholesky_update", "symmetric_product")
def _others(scope: Scope, statement: Statement) -> Expr:
    if statement.op == "cholesky_update":
        return call("lax.linalg.cholesky_update", *map(scope.operand, statement.inputs))
    p = statement.params
    return call(
        "lax.linalg.symmetric_product",
        *map(scope.operand, statement.inputs),
        alpha=repr(float(p["alpha"])),
        beta=repr(float(p["beta"])),
    )
