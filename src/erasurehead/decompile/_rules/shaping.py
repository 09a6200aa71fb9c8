"""Shapes: broadcasting, reshaping, joining, and creating arrays."""

from __future__ import annotations

from itertools import accumulate

from erasurehead.decompile._program import Literal, Operand, Statement
from erasurehead.decompile._rules.base import JAX, NUMPY, both, calling, dims, help_call, pads
from erasurehead.decompile._rules.indexing import write_index
from erasurehead.decompile._texts import Expr, attribute, axis_text, call, list_text, method, subscript
from erasurehead.decompile._writer import Scope


def _new_axes(before: tuple[int, ...], after: tuple[int, ...], where: tuple[int, ...]) -> str | None:
    """Return the index that inserts axes of length 1; None if the new axes are not all of length 1."""
    if len(after) <= len(before) or any(after[d] != n for d, n in zip(where, before, strict=True)):
        return None
    if any(after[i] != 1 for i in range(len(after)) if i not in where):
        return None
    parts = [":" if i in where else "None" for i in range(len(after))]
    while len(parts) > 1 and parts[-1] == ":":
        parts.pop()
    return ", ".join(parts)


def _by_lax(scope: Scope, x: Operand) -> bool:
    """Return whether an operand has none of an array's methods: a random key of JAX."""
    return scope.backend is JAX and x.type.is_key


@both("broadcast_in_dim")
def _broadcast(scope: Scope, statement: Statement) -> Expr:
    x, out = statement.inputs[0], statement.output.type
    where = tuple(int(d) for d in statement.params["broadcast_dimensions"])
    module, shape, value = scope.backend.module, dims(out.shape), scope.operand(x)
    if isinstance(x, Literal):
        dtype = scope.backend.dtype(out)
        if scope.backend is NUMPY or x.type.kind in "fiub":
            if x.value == 0 and str(x.value) != "-0.0":
                return call(f"{module}.zeros", shape, dtype)
            if x.value == 1:
                return call(f"{module}.ones", shape, dtype)
        return call(f"{module}.full", shape, scope.backend.bare(x) or value, dtype)
    if not _by_lax(scope, x):
        index = _new_axes(x.type.shape, out.shape, where) if x.type.rank else None
        if index is not None:
            return subscript(value, index)
        if where == tuple(range(out.rank - x.type.rank, out.rank)):
            return call(f"{module}.broadcast_to", value, shape)
    if scope.backend is JAX:
        return call("lax.broadcast_in_dim", value, shape, dims(where))
    middle = [1] * out.rank
    for place, length in zip(where, x.type.shape, strict=True):
        middle[place] = length
    return call("np.broadcast_to", method(value, "reshape", *map(str, middle)), shape)


JAX.rule("tile")(calling("lax.tile", ["reps"]))
NUMPY.rule("tile")(calling("np.tile", ["reps"]))


@both("broadcast_to")
def _broadcast_to(scope: Scope, statement: Statement) -> Expr:
    value = scope.operand(statement.inputs[0])
    return call(f"{scope.backend.module}.broadcast_to", value, dims(statement.output.type.shape))


@both("reshape")
def _reshape(scope: Scope, statement: Statement) -> Expr:
    x, order, sizes = statement.inputs[0], statement.params.get("dimensions"), statement.params["new_sizes"]
    value = scope.operand(x)
    if scope.backend is JAX and (order is not None or x.type.is_key or isinstance(x, Literal)):
        return call("lax.reshape", value, dims(sizes), dimensions=None if order is None else dims(order))
    if order is not None:
        value = method(value, "transpose", *(str(int(d)) for d in order))
    return method(value, "reshape", *([str(int(n)) for n in sizes] or ["()"]))


@both("squeeze")
def _squeeze(scope: Scope, statement: Statement) -> Expr:
    (x,), axes = statement.inputs, statement.params["dimensions"]
    if _by_lax(scope, x):
        return call("lax.squeeze", scope.operand(x), dims(axes))
    return write_index(scope, statement) or method(scope.operand(x), "squeeze", axis_text(axes))


@both("transpose")
def _transpose(scope: Scope, statement: Statement) -> Expr:
    (x,), order = statement.inputs, tuple(int(d) for d in statement.params["permutation"])
    if _by_lax(scope, x):
        return call("lax.transpose", scope.operand(x), dims(order))
    if order == tuple(range(x.type.rank))[::-1]:
        return attribute(scope.operand(x), "T")
    return method(scope.operand(x), "transpose", *map(str, order))


@both("rev")
def _rev(scope: Scope, statement: Statement) -> Expr:
    value, axes = scope.operand(statement.inputs[0]), statement.params["dimensions"]
    return call("lax.rev", value, dims(axes)) if scope.backend is JAX else call("np.flip", value, axis_text(axes))


def _axis(statement: Statement, name: str = "axis") -> str | None:
    """Return the axis of a statement; None for the first one, which need not be written."""
    return str(int(statement.params[name])) if statement.params[name] else None


@both("concatenate")
def _concatenate(scope: Scope, statement: Statement) -> Expr:
    values, axis = list_text(map(scope.operand, statement.inputs)), _axis(statement, "dimension")
    if scope.backend is JAX:
        return call("lax.concatenate", values, axis or "0")
    return call("np.concatenate", values, axis=axis)


@both("stack")
def _stack(scope: Scope, statement: Statement) -> Expr:
    values = list_text(map(scope.operand, statement.inputs))
    return call("lax.stack" if scope.backend is JAX else "np.stack", values, axis=_axis(statement))


@both("unstack")
def _unstack(scope: Scope, statement: Statement) -> Expr:
    value, axis = scope.operand(statement.inputs[0]), _axis(statement)
    if scope.backend is JAX:
        value = call("lax.unstack", value, axis=axis)
    elif axis:
        value = call("np.moveaxis", value, axis, "0")
    return subscript(value, "0") if len(statement.outputs) == 1 else value


@both("split")
def _split(scope: Scope, statement: Statement) -> Expr:
    value, sizes, axis = scope.operand(statement.inputs[0]), statement.params["sizes"], _axis(statement)
    if scope.backend is JAX:
        value = call("lax.split", value, dims(sizes), axis=axis or "0")
    else:
        value = call("np.split", value, list_text(accumulate(map(int, sizes[:-1]))), axis=axis)
    return subscript(value, "0") if len(statement.outputs) == 1 else value


@both("pad")
def _pad(scope: Scope, statement: Statement) -> Expr:
    x, fill = statement.inputs
    config = statement.params["padding_config"]
    if scope.backend is JAX:
        return call("lax.pad", scope.operand(x), scope.operand(fill), pads(config))
    value = scope.number(fill, x) if isinstance(fill, Literal) else scope.operand(fill)
    if x.type.rank and all(low >= 0 and high >= 0 and not inner for low, high, inner in config):
        zero = isinstance(fill, Literal) and fill.value == 0 and str(fill.value) != "-0.0"
        widths = pads(c[:2] for c in config)
        return call("np.pad", scope.operand(x), widths, constant_values=None if zero else value)
    return help_call(scope, "pad", scope.operand(x), value, pads(config))


@both("iota")
def _iota(scope: Scope, statement: Statement) -> Expr:
    out, axis = statement.output.type, int(statement.params["dimension"])
    dtype, in_jax = scope.backend.dtype(out), scope.backend is JAX
    if in_jax and (out.rank != 1 or out.kind not in "iu"):
        return call("lax.broadcasted_iota", dtype, dims(out.shape), str(axis))
    line = call(f"{scope.backend.module}.arange", str(out.shape[axis]), dtype=dtype)
    if out.rank == 1:
        return line
    if axis != out.rank - 1:
        line = method(line, "reshape", "-1", *["1"] * (out.rank - 1 - axis))
    return call("np.broadcast_to", line, dims(out.shape))


@both("eye")
def _eye(scope: Scope, statement: Statement) -> Expr:
    rows, columns = statement.output.type.shape
    lengths = [str(rows)] if rows == columns else [str(rows), str(columns)]
    return call(f"{scope.backend.module}.eye", *lengths, dtype=scope.backend.dtype(statement.output.type))
