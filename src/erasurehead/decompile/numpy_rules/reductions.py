"""Reductions, searches, cumulative operations, windows and sorts."""

from __future__ import annotations

from erasurehead.decompile.jax_rules.reductions import pads
from erasurehead.decompile.numpy_rules.base import (
    RULES,
    cast,
    dims,
    dtype_text,
    help_call,
    is_narrow,
    refuse,
    rule,
)
from erasurehead.decompile.numpy_rules.control import inner_function
from erasurehead.decompile.program import Statement
from erasurehead.decompile.texts import Expr, axis_text, call, tuple_text
from erasurehead.decompile.writer import Scope


def _reduce(scope: Scope, statement: Statement, name: str) -> Expr:
    (x,), axes = statement.inputs, tuple(statement.params["axes"])
    kind, value = x.type, scope.operand(x)
    axis = None if len(axes) == kind.rank and axes else axis_text(axes) if axes else "()"
    keywords: dict[str, str | None] = {"axis": axis}
    if name in ("sum", "prod"):
        if is_narrow(kind):
            return cast(scope, call(f"np.{name}", value, axis=axis, dtype="np.float32"), kind)
        if kind.kind in "iub":
            keywords["dtype"] = dtype_text(scope, kind)
    elif name in ("max", "min") and kind.size == 0:
        keywords["initial"] = _lowest(scope, statement, name)
    elif name in ("all", "any") and kind.kind != "b":
        keywords["axis"] = axis or "None"
        function = "np.bitwise_and" if name == "all" else "np.bitwise_or"
        return call(f"{function}.reduce", value, **keywords)
    elif name == "xor":
        keywords["axis"] = axis or "None"
        return call("np.bitwise_xor.reduce", value, **keywords)
    return call(f"np.{name}", value, **keywords)


def _lowest(scope: Scope, statement: Statement, name: str) -> str:
    kind = statement.inputs[0].type
    if kind.kind == "f":
        return "-np.inf" if name == "max" else "np.inf"
    if kind.kind == "b":
        return str(name == "min")
    return f"np.iinfo({dtype_text(scope, kind)}).{'min' if name == 'max' else 'max'}"


RULES.simple(
    _reduce,
    {
        "reduce_sum": "sum",
        "reduce_prod": "prod",
        "reduce_max": "max",
        "reduce_min": "min",
        "reduce_or": "any",
        "reduce_and": "all",
        "reduce_xor": "xor",
    },
)


@rule("argmax", "argmin")
def _search(scope: Scope, statement: Statement) -> Expr:
    (axis,) = statement.params["axes"]
    x = statement.inputs[0]
    found = call(f"np.{statement.op}", scope.operand(x), axis=str(int(axis)))
    return cast(scope, found, statement.output.type)


@rule("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp")
def _running(scope: Scope, statement: Statement) -> Expr:
    (x,), axis = statement.inputs, str(int(statement.params["axis"]))
    value = scope.operand(x)
    reverse = bool(statement.params["reverse"])
    if reverse:
        value = call("np.flip", value, axis)
    kind = x.type
    if statement.op in ("cumsum", "cumprod"):
        dtype = dtype_text(scope, kind) if kind.kind in "iub" else "np.float32" if is_narrow(kind) else None
        result = call(f"np.{statement.op}", value, axis=axis, dtype=dtype)
        if is_narrow(kind):
            result = cast(scope, result, kind)
    else:
        function = {"cummax": "np.maximum", "cummin": "np.minimum", "cumlogsumexp": "np.logaddexp"}[statement.op]
        result = call(f"{function}.accumulate", value, axis=axis)
    return call("np.flip", result, axis) if reverse else result


def _window_parts(statement: Statement) -> list[str]:
    p = statement.params
    ones = (1,) * len(p["window_dimensions"])
    return [
        dims(p["window_dimensions"]),
        dims(p["window_strides"]),
        pads(p["padding"]),
        dims(p.get("base_dilation") or ones),
        dims(p.get("window_dilation") or ones),
    ]


@rule("reduce_window_sum", "reduce_window_max", "reduce_window_min")
def _window(scope: Scope, statement: Statement) -> Expr:
    (x,) = statement.inputs
    which = statement.op.rpartition("_")[2]
    start = {"sum": "0", "max": _lowest(scope, statement, "max"), "min": _lowest(scope, statement, "min")}[which]
    function = {"sum": "np.add", "max": "np.maximum", "min": "np.minimum"}[which]
    return help_call(scope, "reduce_windows", function, scope.operand(x), start, *_window_parts(statement))


@rule("reduce_window")
def _general_window(scope: Scope, statement: Statement) -> Expr:
    if len(statement.inputs) != 2:
        raise refuse("reduce_window", "numpy has no counterpart for windows over several arrays at once")
    function = inner_function(scope, statement.blocks["computation"][0], "reduce_window")
    x, start = map(scope.operand, statement.inputs)
    return help_call(scope, "reduce_windows", function, x, start, *_window_parts(statement))


@rule("reduce")
def _general(scope: Scope, statement: Statement) -> Expr:
    n = len(statement.inputs) // 2
    function = inner_function(scope, statement.blocks["computation"][0], "reduce")
    values = [str(scope.operand(v)) for v in statement.inputs]
    arrays, starts = f"[{', '.join(values[:n])}]", f"[{', '.join(values[n:])}]"
    return help_call(scope, "reduce_all", function, arrays, starts, dims(statement.params["dimensions"]))


def _largest(statement: Statement) -> str:
    name = str(getattr(statement.params["select_prim"], "name", statement.params["select_prim"]))
    return str(name in ("ge", "gt"))


@rule("select_and_scatter_add")
def _scatter_add(scope: Scope, statement: Statement) -> Expr:
    source, x = map(scope.operand, statement.inputs)
    p = statement.params
    return help_call(
        scope,
        "scatter_to_chosen",
        source,
        x,
        _largest(statement),
        dims(p["window_dimensions"]),
        dims(p["window_strides"]),
        pads(p["padding"]),
    )


@rule("select_and_gather_add")
def _gather_add(scope: Scope, statement: Statement) -> Expr:
    tangents, x = map(scope.operand, statement.inputs)
    return help_call(scope, "gather_from_chosen", tangents, x, _largest(statement), *_window_parts(statement))


@rule("sort")
def _sort(scope: Scope, statement: Statement) -> Expr:
    p = statement.params
    axis, keys = int(p["dimension"]), int(p["num_keys"])
    values = [scope.operand(v) for v in statement.inputs]
    if len(values) == 1:
        return call("np.sort", values[0], axis=str(axis))
    return help_call(scope, "sort_together", tuple_text(values), str(axis), str(keys))


@rule("top_k")
def _top_k(scope: Scope, statement: Statement) -> Expr:
    p, (x,) = statement.params, statement.inputs
    axis = p.get("axis", p.get("operand_axis", x.type.rank - 1))
    return help_call(scope, "largest", scope.operand(x), str(p["k"]), str(int(axis)))
