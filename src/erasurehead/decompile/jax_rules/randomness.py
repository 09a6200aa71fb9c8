"""Random keys and bits."""

from __future__ import annotations

from erasurehead.decompile.installed import jax_module
from erasurehead.decompile.jax_rules.base import bind, dims, enum_text, refuse, rule
from erasurehead.decompile.program import Statement
from erasurehead.decompile.texts import Expr, call
from erasurehead.decompile.writer import Scope


def implementation(impl: object) -> str:
    """Return the name of a generator, such as `threefry2x32`."""
    return str(getattr(impl, "name", impl))


def _same_flags(statement: Statement) -> None:
    jax = jax_module()

    if statement.params.get("partitionable", True) != bool(jax.config.jax_threefry_partitionable):
        raise refuse(statement.op, "it was traced with another jax_threefry_partitionable")


@rule("random_seed")
def _seed(scope: Scope, statement: Statement) -> Expr:
    scope.need("jax")
    impl = implementation(statement.params["impl"])
    return call("jax.random.key", scope.operand(statement.inputs[0]), impl=f'"{impl}"')


@rule("random_wrap")
def _wrap(scope: Scope, statement: Statement) -> Expr:
    scope.need("jax")
    impl = implementation(statement.params["impl"])
    return call("jax.random.wrap_key_data", scope.operand(statement.inputs[0]), impl=f'"{impl}"')


@rule("random_unwrap")
def _unwrap(scope: Scope, statement: Statement) -> Expr:
    scope.need("jax")
    return call("jax.random.key_data", scope.operand(statement.inputs[0]))


@rule("random_bits")
def _bits(scope: Scope, statement: Statement) -> Expr:
    (key,), p = statement.inputs, statement.params
    _same_flags(statement)
    shape = dims(p["shape"])
    if key.type.shape == ():
        scope.need("jax")
        return call("jax.random.bits", scope.operand(key), shape, f"jnp.uint{p['bit_width']}")
    return bind(scope, statement, "random_bits_p", bit_width=str(p["bit_width"]), shape=shape)


@rule("random_split")
def _split(scope: Scope, statement: Statement) -> Expr:
    (key,), shape = statement.inputs, statement.params["shape"]
    _same_flags(statement)
    if key.type.shape == ():
        scope.need("jax")
        text = str(int(shape[0])) if len(shape) == 1 else dims(shape)
        return call("jax.random.split", scope.operand(key), text)
    return bind(scope, statement, "random_split_p", shape=dims(shape))


@rule("random_fold_in")
def _fold_in(scope: Scope, statement: Statement) -> Expr:
    key, data = statement.inputs
    _same_flags(statement)
    if key.type.shape == () and data.type.shape == ():
        scope.need("jax")
        return call("jax.random.fold_in", scope.operand(key), scope.operand(data))
    return bind(scope, statement, "random_fold_in_p")


@rule("threefry2x32")
def _threefry(scope: Scope, statement: Statement) -> Expr:
    return bind(scope, statement, "threefry2x32_p")


@rule("rng_bit_generator")
def _generator(scope: Scope, statement: Statement) -> Expr:
    p = statement.params
    import numpy as np

    name = np.dtype(p["dtype"]).name
    return call(
        "lax.rng_bit_generator",
        scope.operand(statement.inputs[0]),
        dims(p["shape"]),
        dtype=f"jnp.{name}",
        algorithm=enum_text(p["algorithm"]),
    )


@rule("rng_uniform")
def _uniform(scope: Scope, statement: Statement) -> Expr:
    raise refuse("rng_uniform", "its numbers come from a hidden state, so that no two calls agree")
