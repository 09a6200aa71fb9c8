"""Random keys and bits, by the generator threefry2x32."""

from __future__ import annotations

from erasurehead.decompile.jax_rules.randomness import implementation
from erasurehead.decompile.numpy_rules.base import dims, help_call, refuse, rule
from erasurehead.decompile.program import Statement
from erasurehead.decompile.texts import Expr
from erasurehead.decompile.writer import Scope


def _threefry_only(statement: Statement) -> None:
    impl = statement.params.get("impl")
    keys = [value.type for value in (*statement.inputs, *statement.outputs) if value.type.is_key]
    names = {implementation(impl)} if impl is not None else {str(k.dtype) for k in keys}
    if not all("threefry" in name or "fry" in name for name in names):
        raise refuse(
            statement.op, f"only keys of threefry2x32 can be written for numpy, not {', '.join(sorted(names))}"
        )
    if not statement.params.get("partitionable", True):
        raise refuse(statement.op, "it was traced without jax_threefry_partitionable")


@rule("random_seed")
def _seed(scope: Scope, statement: Statement) -> Expr:
    _threefry_only(statement)
    return help_call(scope, "seed_key", scope.operand(statement.inputs[0]))


@rule("random_wrap")
def _wrap(scope: Scope, statement: Statement) -> Expr:
    _threefry_only(statement)
    return help_call(scope, "as_key", scope.operand(statement.inputs[0]))


@rule("random_unwrap")
def _unwrap(scope: Scope, statement: Statement) -> Expr:
    _threefry_only(statement)
    return help_call(scope, "key_data", scope.operand(statement.inputs[0]))


@rule("random_bits")
def _bits(scope: Scope, statement: Statement) -> Expr:
    _threefry_only(statement)
    p = statement.params
    key = scope.operand(statement.inputs[0])
    return help_call(scope, "random_bits", key, str(p["bit_width"]), dims(p["shape"]))


@rule("random_split")
def _split(scope: Scope, statement: Statement) -> Expr:
    _threefry_only(statement)
    return help_call(scope, "split_key", scope.operand(statement.inputs[0]), dims(statement.params["shape"]))


@rule("random_fold_in")
def _fold_in(scope: Scope, statement: Statement) -> Expr:
    _threefry_only(statement)
    return help_call(scope, "fold_in", *map(scope.operand, statement.inputs))


@rule("threefry2x32")
def _threefry(scope: Scope, statement: Statement) -> Expr:
    return help_call(scope, "threefry2x32", *map(scope.operand, statement.inputs))
