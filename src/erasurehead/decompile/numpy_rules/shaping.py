"""Shapes: broadcasting, reshaping, joining, and creating arrays."""

from __future__ import annotations

from erasurehead.decompile.jax_rules.indexing import write_index
from erasurehead.decompile.jax_rules.shaping import new_axes
from erasurehead.decompile.numpy_rules.base import dims, dtype_text, help_call, rule
from erasurehead.decompile.program import Literal, Statement
from erasurehead.decompile.texts import Expr, attribute, call, list_text, method, subscript, tuple_text
from erasurehead.decompile.writer import Scope


@rule("broadcast_in_dim")
def _broadcast(scope: Scope, statement: Statement) -> Expr:
    x, p, out = statement.inputs[0], statement.params, statement.output
    shape, where = out.type.shape, tuple(int(d) for d in p["broadcast_dimensions"])
    if isinstance(x, Literal):
        dtype = dtype_text(scope, out.type)
        if x.value == 0 and str(x.value) != "-0.0":
            return call("np.zeros", dims(shape), dtype)
        if x.value == 1:
            return call("np.ones", dims(shape), dtype)
        bare = scope.backend.bare(x)
        return call("np.full", dims(shape), bare if bare is not None else scope.operand(x), dtype)
    index = new_axes(x.type.shape, shape, where) if x.type.rank else None
    if index is not None:
        return subscript(scope.operand(x), index)
    if where == tuple(range(len(shape) - x.type.rank, len(shape))):
        return call("np.broadcast_to", scope.operand(x), dims(shape))
    middle = [1] * len(shape)
    for place, length in zip(where, x.type.shape, strict=True):
        middle[place] = length
    return call("np.broadcast_to", method(scope.operand(x), "reshape", *map(str, middle)), dims(shape))


@rule("broadcast_to")
def _broadcast_to(scope: Scope, statement: Statement) -> Expr:
    return call("np.broadcast_to", scope.operand(statement.inputs[0]), dims(statement.output.type.shape))


@rule("tile")
def _tile(scope: Scope, statement: Statement) -> Expr:
    return call("np.tile", scope.operand(statement.inputs[0]), dims(statement.params["reps"]))


@rule("reshape")
def _reshape(scope: Scope, statement: Statement) -> Expr:
    x, p = statement.inputs[0], statement.params
    value, order = scope.operand(x), p.get("dimensions")
    if order is not None:
        value = method(value, "transpose", *map(str, map(int, order)))
    sizes = [int(n) for n in p["new_sizes"]]
    return method(value, "reshape", *(map(str, sizes) if sizes else ["()"]))


@rule("squeeze")
def _squeeze(scope: Scope, statement: Statement) -> Expr:
    (x,), axes = statement.inputs, tuple(int(d) for d in statement.params["dimensions"])
    index = write_index(scope, statement)
    if index is not None:
        return index
    return method(scope.operand(x), "squeeze", str(axes[0]) if len(axes) == 1 else dims(axes))


@rule("transpose")
def _transpose(scope: Scope, statement: Statement) -> Expr:
    (x,), order = statement.inputs, tuple(int(d) for d in statement.params["permutation"])
    if order == tuple(range(x.type.rank))[::-1]:
        return attribute(scope.operand(x), "T")
    return method(scope.operand(x), "transpose", *map(str, order))


@rule("rev")
def _rev(scope: Scope, statement: Statement) -> Expr:
    axes = tuple(int(d) for d in statement.params["dimensions"])
    return call("np.flip", scope.operand(statement.inputs[0]), str(axes[0]) if len(axes) == 1 else dims(axes))


@rule("concatenate")
def _concatenate(scope: Scope, statement: Statement) -> Expr:
    values, axis = [scope.operand(v) for v in statement.inputs], int(statement.params["dimension"])
    return call("np.concatenate", list_text(values), axis=str(axis) if axis else None)


@rule("stack")
def _stack(scope: Scope, statement: Statement) -> Expr:
    axis = int(statement.params["axis"])
    return call("np.stack", list_text([scope.operand(v) for v in statement.inputs]), axis=str(axis) if axis else None)


@rule("unstack")
def _unstack(scope: Scope, statement: Statement) -> Expr:
    axis = int(statement.params["axis"])
    value = scope.operand(statement.inputs[0])
    value = call("np.moveaxis", value, str(axis), "0") if axis else value
    return subscript(value, "0") if len(statement.outputs) == 1 else value


@rule("split")
def _split(scope: Scope, statement: Statement) -> Expr:
    p = statement.params
    places, total = list[int](), 0
    for size in p["sizes"][:-1]:
        total += int(size)
        places.append(total)
    axis = int(p["axis"])
    expr = call("np.split", scope.operand(statement.inputs[0]), list_text(places), axis=str(axis) if axis else None)
    return subscript(expr, "0") if len(statement.outputs) == 1 else expr


@rule("pad")
def _pad(scope: Scope, statement: Statement) -> Expr:
    x, fill = statement.inputs
    config = statement.params["padding_config"]
    value = scope.number(fill, x) if isinstance(fill, Literal) else scope.operand(fill)
    if x.type.rank and all(low >= 0 and high >= 0 and not inner for low, high, inner in config):
        zero = isinstance(fill, Literal) and fill.value == 0 and str(fill.value) != "-0.0"
        widths = tuple_text(dims(c[:2]) for c in config)
        return call("np.pad", scope.operand(x), widths, constant_values=None if zero else value)
    return help_call(scope, "pad", scope.operand(x), value, tuple_text(dims(c) for c in config))


@rule("iota")
def _iota(scope: Scope, statement: Statement) -> Expr:
    out, axis = statement.output, int(statement.params["dimension"])
    dtype, shape = dtype_text(scope, out.type), out.type.shape
    line = call("np.arange", str(shape[axis]), dtype=dtype)
    if out.type.rank == 1:
        return line
    if axis != out.type.rank - 1:
        line = method(line, "reshape", "-1", *["1"] * (out.type.rank - 1 - axis))
    return call("np.broadcast_to", line, dims(shape))


@rule("eye")
def _eye(scope: Scope, statement: Statement) -> Expr:
    rows, columns = statement.output.type.shape
    lengths = [str(rows)] if rows == columns else [str(rows), str(columns)]
    return call("np.eye", *lengths, dtype=dtype_text(scope, statement.output.type))
