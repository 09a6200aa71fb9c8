"""Random keys and bits; for numpy, by the generator threefry2x32."""

from __future__ import annotations

import numpy as np

from erasurehead.decompile._installed import jax_module
from erasurehead.decompile._program import Statement
from erasurehead.decompile._rules.base import JAX, NUMPY, bound, calling, dims, refuse, written
from erasurehead.decompile._texts import Expr, axis_text, call
from erasurehead.decompile._writer import Rule, Scope


def _implementation(impl: object) -> str:
    """Return the name of a generator, such as `threefry2x32`."""
    return str(getattr(impl, "name", impl))


_IN_NUMPY: dict[str, Rule] = {
    "random_seed": calling("seed_key"),
    "random_wrap": calling("as_key"),
    "random_unwrap": calling("key_data"),
    "random_bits": calling("random_bits", ["bit_width", "shape"]),
    "random_split": calling("split_key", ["shape"]),
    "random_fold_in": calling("fold_in"),
}


@NUMPY.rule(*_IN_NUMPY)
def _by_helpers(scope: Scope, statement: Statement) -> Expr | None:
    impl = statement.params.get("impl")
    keys = [value.type for value in (*statement.inputs, *statement.outputs) if value.type.is_key]
    names = {_implementation(impl)} if impl is not None else {str(k.dtype) for k in keys}
    if not all("fry" in name for name in names):
        reason = f"only keys of threefry2x32 can be written for numpy, not {', '.join(sorted(names))}"
        raise refuse(scope, statement, reason)
    if not statement.params.get("partitionable", True):
        raise refuse(scope, statement, "it was traced without jax_threefry_partitionable")
    return _IN_NUMPY[statement.op](scope, statement)


@JAX.rule("random_seed", "random_wrap")
def _new_key(scope: Scope, statement: Statement) -> Expr:
    function = "jax.random.key" if statement.op == "random_seed" else "jax.random.wrap_key_data"
    impl = f'"{_implementation(statement.params["impl"])}"'
    return call(function, scope.operand(statement.inputs[0]), impl=impl)


JAX.rule("random_unwrap")(calling("jax.random.key_data"))
JAX.rule("threefry2x32")(bound("threefry2x32"))
NUMPY.rule("threefry2x32")(calling("threefry2x32"))


@JAX.rule("random_bits", "random_split", "random_fold_in")
def _of_key(scope: Scope, statement: Statement) -> Expr | None:
    op, p = statement.op, statement.params
    if p.get("partitionable", True) != bool(jax_module().config.jax_threefry_partitionable):
        raise refuse(scope, statement, "it was traced with another jax_threefry_partitionable")
    if any(value.type.shape for value in statement.inputs):  # jax.random takes one key
        return bound(op, *(name for name in ("bit_width", "shape") if name in p))(scope, statement)
    operands = map(scope.operand, statement.inputs)
    if op == "random_bits":
        return call("jax.random.bits", *operands, dims(p["shape"]), f"jnp.uint{p['bit_width']}")
    if op == "random_split":
        return call("jax.random.split", *operands, axis_text(p["shape"]))
    return call("jax.random.fold_in", *operands)


@JAX.rule("rng_bit_generator")
def _generator(scope: Scope, statement: Statement) -> Expr:
    p = statement.params
    dtype, algorithm = f"jnp.{np.dtype(p['dtype']).name}", written(p["algorithm"])
    operand = scope.operand(statement.inputs[0])
    return call("lax.rng_bit_generator", operand, dims(p["shape"]), dtype=dtype, algorithm=algorithm)
