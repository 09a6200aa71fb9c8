"""Slices, gathers and scatters."""

from __future__ import annotations

from typing import Any

from erasurehead.decompile._numbers import float_text
from erasurehead.decompile._program import Literal, Statement, Variable
from erasurehead.decompile._rules.base import JAX, both, cast, dims, help_call
from erasurehead.decompile._texts import Expr, call, subscript, tuple_text
from erasurehead.decompile._writer import Scope


def _slice_parts(statement: Statement) -> list[str]:
    """Return a static slice as the texts between brackets, one per axis."""
    (x,), p = statement.inputs, statement.params
    strides = p["strides"] or (1,) * x.type.rank
    parts: list[str] = []
    for start, stop, step, length in zip(p["start_indices"], p["limit_indices"], strides, x.type.shape, strict=True):
        a = "" if start == 0 else str(int(start))
        b = "" if stop == length else str(int(stop))
        parts.append(f"{a}:{b}" if step == 1 else f"{a}:{b}:{int(step)}")
    return parts


def _index_text(parts: list[str]) -> str:
    """Return an index without trailing axes that are taken whole."""
    shown = list(parts)
    while len(shown) > 1 and shown[-1] == ":":
        shown.pop()
    return ", ".join(shown)


def write_index(scope: Scope, statement: Statement) -> Expr | None:
    """Return a slice of length 1 without its axes as an index, such as `x[0]`; None where it is none."""
    (x,), axes = statement.inputs, tuple(int(d) for d in statement.params["dimensions"])
    maker = scope.definitions.get(x) if isinstance(x, Variable) else None
    if maker is None or maker.op != "slice" or maker.params["strides"] is not None:
        return None
    starts, limits = maker.params["start_indices"], maker.params["limit_indices"]
    whole = None if any(limits[d] - starts[d] != 1 for d in axes) else scope.slice_parts(x)
    if whole is None:
        return None
    base, parts = whole
    return subscript(base, _index_text([str(int(starts[d])) if d in axes else part for d, part in enumerate(parts)]))


@both("slice")
def _slice(scope: Scope, statement: Statement) -> Expr:
    (x,), p = statement.inputs, statement.params
    base = scope.operand(x)
    if scope.backend is JAX and (x.type.is_key or 0 in statement.output.type.shape or isinstance(x, Literal)):
        names = ("start_indices", "limit_indices", "strides")
        return call("lax.slice", base, *(dims(p[name]) for name in names if p[name] or name != "strides"))
    parts = _slice_parts(statement)
    scope.remember_slice(statement.output, base, parts)
    return subscript(base, _index_text(parts))


@both("dynamic_slice", "dynamic_update_slice")
def _dynamic(scope: Scope, statement: Statement) -> Expr:
    n_arrays = 1 if statement.op == "dynamic_slice" else 2
    operands = [scope.operand(v) for v in statement.inputs]
    arguments = [*operands[:n_arrays], tuple_text(operands[n_arrays:])]
    if statement.op == "dynamic_slice":
        arguments.append(dims(statement.params["slice_sizes"]))
    if scope.backend is JAX:
        return call(f"lax.{statement.op}", *arguments, allow_negative_indices="False")
    return help_call(scope, statement.op, *arguments)


def _in_lax(spec: str, names: tuple[str, ...], batching: str, statement: Statement) -> tuple[Expr, dict[str, str]]:
    """Return the dimension numbers of a gather or a scatter, and its flags.

    Arguments:
        spec: the class of the dimension numbers.
        names: the fields that are always there.
        batching: the field with the batching axes of the indices.
        statement: the gather or scatter.
    """
    p = statement.params
    numbers = p["dimension_numbers"]
    fields = (*names, "operand_batching_dims", batching) if numbers.operand_batching_dims else names
    modes = {"CLIP": "clip", "FILL_OR_DROP": "fill", "PROMISE_IN_BOUNDS": "promise_in_bounds", "ONE_HOT": "one_hot"}
    flags = {name: "True" for name in ("indices_are_sorted", "unique_indices") if p[name]}
    mode = f'"{modes[p["mode"].name]}"'
    return call(f"lax.{spec}", **{f: dims(getattr(numbers, f)) for f in fields}), {"mode": mode, **flags}


@both("gather")
def _gather(scope: Scope, statement: Statement) -> Expr:
    p, kind = statement.params, statement.output.type
    n, fill, fills = p["dimension_numbers"], p.get("fill_value"), p["mode"].name == "FILL_OR_DROP"
    operands, sizes = map(scope.operand, statement.inputs), dims(p["slice_sizes"])
    if scope.backend is JAX:
        names = ("offset_dims", "collapsed_slice_dims", "start_index_map")
        spec, flags = _in_lax("GatherDimensionNumbers", names, "start_indices_batching_dims", statement)
        if fills and isinstance(fill, int | float):
            text = float_text(fill, float, "jnp") if isinstance(fill, float) else repr(fill)
            flags = {"mode": flags.pop("mode"), "fill_value": text, **flags}
        return call("lax.gather", *operands, spec, sizes, **flags)
    keywords: dict[str, str] = {}
    if n.operand_batching_dims:
        keywords = {"batching": dims(n.operand_batching_dims), "index_batching": dims(n.start_indices_batching_dims)}
    if fills:
        keywords["fill"] = _fill(statement)
    axes = map(dims, (n.offset_dims, n.collapsed_slice_dims, n.start_index_map))
    taken = help_call(scope, "gather", *operands, sizes, *axes, **keywords)
    return cast(taken, kind) if fills and kind.kind != "b" else taken


def _fill(statement: Statement) -> str:
    """Return what numpy puts in place of elements outside of an array."""
    kind, fill = statement.output.type, statement.params.get("fill_value")
    if fill is not None and kind.kind == "f":
        return float_text(fill, kind.dtype, "np")
    if fill is not None and kind.kind != "key":
        return repr(bool(fill) if kind.kind == "b" else int(fill) if kind.kind in "iu" else complex(fill))
    usual = {"f": "np.nan", "c": "complex(np.nan, 0.0)", "b": "True"}
    if kind.kind in usual:
        return usual[kind.kind]
    bits = kind.dtype.itemsize * 8
    return str(2**bits - 1) if kind.kind in ("u", "key") else str(-(2 ** (bits - 1)))


_COMBINE = {
    "scatter": "None",
    "scatter-add": "np.add",
    "scatter-mul": "np.multiply",
    "scatter-min": "np.minimum",
    "scatter-max": "np.maximum",
    "scatter-sub": "np.subtract",
}


@both(*_COMBINE)
def _scatter(scope: Scope, statement: Statement) -> Expr:
    n = statement.params["dimension_numbers"]
    names = ("update_window_dims", "inserted_window_dims", "scatter_dims_to_operand_dims")
    operands = map(scope.operand, statement.inputs)
    if scope.backend is JAX:
        spec, flags = _in_lax("ScatterDimensionNumbers", names, "scatter_indices_batching_dims", statement)
        return call(f"lax.{statement.op.replace('-', '_')}", *operands, spec, **flags)
    keywords: dict[str, Any] = {}
    if n.operand_batching_dims:
        keywords = {"batching": dims(n.operand_batching_dims), "index_batching": dims(n.scatter_indices_batching_dims)}
    if statement.params["mode"].name == "CLIP":
        keywords["clip"] = "True"
    axes = (dims(getattr(n, name)) for name in names)
    return help_call(scope, "scatter", *operands, _COMBINE[statement.op], *axes, **keywords)
