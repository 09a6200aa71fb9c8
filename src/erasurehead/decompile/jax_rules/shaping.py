"""Shapes: broadcasting, reshaping, joining, and creating arrays."""

from __future__ import annotations

from erasurehead.decompile.jax_rules.base import dims, dtype_of, rule
from erasurehead.decompile.jax_rules.indexing import write_index
from erasurehead.decompile.program import Literal, Statement
from erasurehead.decompile.texts import Expr, attribute, call, list_text, method, subscript, tuple_text
from erasurehead.decompile.writer import Scope


def new_axes(before: tuple[int, ...], after: tuple[int, ...], where: tuple[int, ...]) -> str | None:
    """Return the index that inserts axes of length 1; None if the new axes are not all of length 1."""
    if len(after) <= len(before) or any(after[d] != n for d, n in zip(where, before, strict=True)):
        return None
    if any(after[i] != 1 for i in range(len(after)) if i not in where):
        return None
    parts = [":" if i in where else "None" for i in range(len(after))]
    while len(parts) > 1 and parts[-1] == ":":
        parts.pop()
    return ", ".join(parts)


@rule("broadcast_in_dim")
def _broadcast(scope: Scope, statement: Statement) -> Expr:
    x, p, out = statement.inputs[0], statement.params, statement.output
    shape, where = out.type.shape, tuple(int(d) for d in p["broadcast_dimensions"])
    if isinstance(x, Literal):
        if x.type.kind in "fiub" and x.value == 0 and str(x.value) not in ("-0.0",):
            return call("jnp.zeros", dims(shape), dtype_of(out))
        if x.type.kind in "fiub" and x.value == 1:
            return call("jnp.ones", dims(shape), dtype_of(out))
        bare = scope.backend.bare(x)
        return call("jnp.full", dims(shape), bare if bare is not None else scope.operand(x), dtype_of(out))
    index = new_axes(x.type.shape, shape, where) if not x.type.is_key and x.type.rank else None
    if index is not None:
        return subscript(scope.operand(x), index)
    if where == tuple(range(len(shape) - x.type.rank, len(shape))) and not x.type.is_key:
        return call("jnp.broadcast_to", scope.operand(x), dims(shape))
    return call("lax.broadcast_in_dim", scope.operand(x), dims(shape), dims(where))


@rule("broadcast_to", "tile")
def _tile(scope: Scope, statement: Statement) -> Expr:
    (x,), p = statement.inputs[:1], statement.params
    if statement.op == "tile":
        return call("lax.tile", scope.operand(x), dims(p["reps"]))
    return call("jnp.broadcast_to", scope.operand(x), dims(statement.output.type.shape))


@rule("reshape")
def _reshape(scope: Scope, statement: Statement) -> Expr:
    x, p = statement.inputs[0], statement.params
    order = p.get("dimensions")
    if order is not None or x.type.is_key or isinstance(x, Literal):
        return call(
            "lax.reshape",
            scope.operand(x),
            dims(p["new_sizes"]),
            dimensions=dims(order) if order is not None else None,
        )
    sizes = [int(n) for n in p["new_sizes"]]
    return method(scope.operand(x), "reshape", *(map(str, sizes) if sizes else ["()"]))


@rule("squeeze")
def _squeeze(scope: Scope, statement: Statement) -> Expr:
    (x,), axes = statement.inputs, tuple(int(d) for d in statement.params["dimensions"])
    if x.type.is_key:
        return call("lax.squeeze", scope.operand(x), dims(axes))
    index = write_index(scope, statement)
    if index is not None:
        return index
    return method(scope.operand(x), "squeeze", str(axes[0]) if len(axes) == 1 else dims(axes))


@rule("transpose")
def _transpose(scope: Scope, statement: Statement) -> Expr:
    (x,), order = statement.inputs, tuple(int(d) for d in statement.params["permutation"])
    if x.type.is_key:
        return call("lax.transpose", scope.operand(x), dims(order))
    if order == tuple(range(x.type.rank))[::-1]:
        return attribute(scope.operand(x), "T")
    return method(scope.operand(x), "transpose", *map(str, order))


@rule("rev")
def _rev(scope: Scope, statement: Statement) -> Expr:
    return call("lax.rev", scope.operand(statement.inputs[0]), dims(statement.params["dimensions"]))


@rule("concatenate")
def _concatenate(scope: Scope, statement: Statement) -> Expr:
    operands, axis = [scope.operand(v) for v in statement.inputs], int(statement.params["dimension"])
    return call("lax.concatenate", list_text(operands), str(axis))


@rule("stack")
def _stack(scope: Scope, statement: Statement) -> Expr:
    axis = int(statement.params["axis"])
    return call("lax.stack", list_text([scope.operand(v) for v in statement.inputs]), axis=str(axis) if axis else None)


@rule("unstack")
def _unstack(scope: Scope, statement: Statement) -> Expr:
    axis = int(statement.params["axis"])
    expr = call("lax.unstack", scope.operand(statement.inputs[0]), axis=str(axis) if axis else None)
    return subscript(expr, "0") if len(statement.outputs) == 1 else expr


@rule("split")
def _split(scope: Scope, statement: Statement) -> Expr:
    p = statement.params
    expr = call("lax.split", scope.operand(statement.inputs[0]), dims(p["sizes"]), axis=str(int(p["axis"])))
    return subscript(expr, "0") if len(statement.outputs) == 1 else expr


@rule("pad")
def _pad(scope: Scope, statement: Statement) -> Expr:
    x, fill = statement.inputs
    config = tuple_text(dims(c) for c in statement.params["padding_config"])
    return call("lax.pad", scope.operand(x), scope.operand(fill), config)


@rule("iota")
def _iota(scope: Scope, statement: Statement) -> Expr:
    out, p = statement.output, statement.params
    if out.type.rank == 1 and out.type.kind in "iu":
        return call("jnp.arange", str(out.type.shape[0]), dtype=dtype_of(out))
    return call("lax.broadcasted_iota", dtype_of(out), dims(out.type.shape), str(int(p["dimension"])))


@rule("eye")
def _eye(scope: Scope, statement: Statement) -> Expr:
    rows, columns = statement.output.type.shape
    lengths = [str(rows)] if rows == columns else [str(rows), str(columns)]
    return call("jnp.eye", *lengths, dtype=dtype_of(statement.output))
