"""Linear algebra."""

from __future__ import annotations

from erasurehead.decompile.numpy_rules.base import help_call, refuse, rule
from erasurehead.decompile.program import Statement
from erasurehead.decompile.texts import Expr, flag, subscript
from erasurehead.decompile.writer import Scope


def _first(statement: Statement, expr: Expr) -> Expr:
    return subscript(expr, "0") if len(statement.outputs) == 1 else expr


def _whole(statement: Statement) -> None:
    if statement.params.get("subset_by_index") is not None:
        raise refuse(statement.op, "numpy has no counterpart for a part of the spectrum")


@rule("cholesky")
def _cholesky(scope: Scope, statement: Statement) -> Expr:
    return help_call(scope, "cholesky", scope.operand(statement.inputs[0]))


@rule("eigh")
def _eigh(scope: Scope, statement: Statement) -> Expr:
    _whole(statement)
    return help_call(scope, "eigh", scope.operand(statement.inputs[0]), flag(statement.params, "lower"))


@rule("eig")
def _eig(scope: Scope, statement: Statement) -> Expr:
    left, right = (
        flag(statement.params, "compute_left_eigenvectors"),
        flag(statement.params, "compute_right_eigenvectors"),
    )
    return _first(statement, help_call(scope, "eig", scope.operand(statement.inputs[0]), left, right))


@rule("svd")
def _svd(scope: Scope, statement: Statement) -> Expr:
    _whole(statement)
    return help_call(
        scope,
        "svd",
        scope.operand(statement.inputs[0]),
        flag(statement.params, "full_matrices"),
        flag(statement.params, "compute_uv"),
    )


@rule("qr")
def _qr(scope: Scope, statement: Statement) -> Expr:
    pivoting = "True" if statement.params.get("pivoting") else None
    return help_call(
        scope, "qr", scope.operand(statement.inputs[0]), flag(statement.params, "full_matrices"), pivoting=pivoting
    )


@rule("lu")
def _lu(scope: Scope, statement: Statement) -> Expr:
    return help_call(scope, "lu", scope.operand(statement.inputs[0]))


@rule("lu_pivots_to_permutation")
def _permutation(scope: Scope, statement: Statement) -> Expr:
    size = str(statement.params["permutation_size"])
    return help_call(scope, "permutation", scope.operand(statement.inputs[0]), size)


@rule("householder_product")
def _householder(scope: Scope, statement: Statement) -> Expr:
    return help_call(scope, "householder_product", *map(scope.operand, statement.inputs))


@rule("hessenberg")
def _hessenberg(scope: Scope, statement: Statement) -> Expr:
    return help_call(scope, "hessenberg", scope.operand(statement.inputs[0]))


@rule("schur")
def _schur(scope: Scope, statement: Statement) -> Expr:
    p = statement.params
    if p.get("select_callable") is not None or p.get("sort_eig_vals"):
        raise refuse("schur", "numpy has no counterpart for a sorted Schur form")
    vectors = flag(statement.params, "compute_schur_vectors")
    return _first(statement, help_call(scope, "schur", scope.operand(statement.inputs[0]), vectors))


@rule("triangular_solve")
def _triangular(scope: Scope, statement: Statement) -> Expr:
    flags = [flag(statement.params, n) for n in ("left_side", "lower", "transpose_a", "conjugate_a", "unit_diagonal")]
    return help_call(scope, "triangular_solve", *map(scope.operand, statement.inputs), *flags)


@rule("tridiagonal")
def _tridiagonal(scope: Scope, statement: Statement) -> Expr:
    return help_call(scope, "tridiagonal", scope.operand(statement.inputs[0]), flag(statement.params, "lower"))


@rule("tridiagonal_solve")
def _tridiagonal_solve(scope: Scope, statement: Statement) -> Expr:
    return help_call(scope, "tridiagonal_solve", *map(scope.operand, statement.inputs))


@rule("cholesky_update")
def _cholesky_update(scope: Scope, statement: Statement) -> Expr:
    return help_call(scope, "cholesky_update", *map(scope.operand, statement.inputs))


@rule("symmetric_product")
def _symmetric_product(scope: Scope, statement: Statement) -> Expr:
    raise refuse(statement.op, "it fills one triangle only, and leaves the other undefined")
