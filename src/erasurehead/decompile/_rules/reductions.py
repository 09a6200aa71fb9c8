"""Reductions, searches, cumulative operations, windows and sorts."""

from __future__ import annotations

from typing import Any

from erasurehead.decompile._program import Statement, Variable
from erasurehead.decompile._rules.base import (
    JAX,
    NUMPY,
    both,
    calling,
    cast,
    dims,
    family,
    help_call,
    is_narrow,
    pads,
    refuse,
)
from erasurehead.decompile._rules.control import inner_function
from erasurehead.decompile._texts import Expr, axis_text, call, list_text, one_or_all, tuple_text
from erasurehead.decompile._writer import Scope

_EXACT = ("float32", "float64", "complex64", "complex128")


def _reduce_in_jax(name: str, scope: Scope, statement: Statement) -> Expr:
    (x,), axes = statement.inputs, tuple(statement.params["axes"])
    if name in ("sum", "prod"):
        alike = x.type.name in _EXACT
    elif name in ("any", "all"):
        alike = x.type.kind == "b"
    else:
        alike = name != "xor" and x.type.kind != "c" and x.type.size > 0
    if not (alike and isinstance(x, Variable) and axes and not x.type.weak):
        return call(f"lax.{statement.op}", scope.operand(x), dims(axes))
    return call(f"jnp.{name}", scope.operand(x), axis=None if len(axes) == x.type.rank else axis_text(axes))


def _reduce(name: str, scope: Scope, statement: Statement) -> Expr:
    (x,), axes = statement.inputs, tuple(statement.params["axes"])
    kind, value = x.type, scope.operand(x)
    axis = None if len(axes) == kind.rank and axes else axis_text(axes)
    if name in ("sum", "prod"):
        if is_narrow(kind):
            return cast(call(f"np.{name}", value, axis=axis, dtype="np.float32"), kind)
        return call(f"np.{name}", value, axis=axis, dtype=NUMPY.dtype(kind) if kind.kind in "iub" else None)
    if name in ("max", "min"):
        return call(f"np.{name}", value, axis=axis, initial=None if kind.size else _lowest(statement, name))
    if name == "xor" or kind.kind != "b":
        function = {"all": "and", "any": "or", "xor": "xor"}[name]
        return call(f"np.bitwise_{function}.reduce", value, axis=axis or "None")
    return call(f"np.{name}", value, axis=axis)


_NAMES = {
    "reduce_sum": "sum",
    "reduce_prod": "prod",
    "reduce_max": "max",
    "reduce_min": "min",
    "reduce_or": "any",
    "reduce_and": "all",
    "reduce_xor": "xor",
}
family(_reduce_in_jax, _NAMES, JAX)
family(_reduce, _NAMES, NUMPY)


def _lowest(statement: Statement, name: str) -> str:
    """Return what `max` starts from in numpy, or `min`."""
    kind, is_max = statement.inputs[0].type, name == "max"
    if kind.kind == "f":
        return "-np.inf" if is_max else "np.inf"
    if kind.kind == "b":
        return str(not is_max)
    return f"np.iinfo({NUMPY.dtype(kind)}).{'min' if is_max else 'max'}"


@both("argmax", "argmin")
def _search(scope: Scope, statement: Statement) -> Expr:
    (axis,), out = statement.params["axes"], statement.output.type
    value = scope.operand(statement.inputs[0])
    if scope.backend is JAX:
        return call(f"lax.{statement.op}", value, str(int(axis)), JAX.dtype(out))
    return cast(call(f"np.{statement.op}", value, axis=str(int(axis))), out)


@both("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp")
def _running(scope: Scope, statement: Statement) -> Expr | None:
    if scope.backend is JAX:
        return calling(f"lax.{statement.op}", (), {"axis": ..., "reverse": False})(scope, statement)
    kind, axis = statement.inputs[0].type, str(int(statement.params["axis"]))
    value = scope.operand(statement.inputs[0])
    if statement.params["reverse"]:
        value = call("np.flip", value, axis)
    if statement.op in ("cumsum", "cumprod"):
        dtype = NUMPY.dtype(kind) if kind.kind in "iub" else "np.float32" if is_narrow(kind) else None
        result = call(f"np.{statement.op}", value, axis=axis, dtype=dtype)
        if is_narrow(kind):
            result = cast(result, kind)
    else:
        function = {"cummax": "maximum", "cummin": "minimum", "cumlogsumexp": "logaddexp"}[statement.op]
        result = call(f"np.{function}.accumulate", value, axis=axis)
    return call("np.flip", result, axis) if statement.params["reverse"] else result


def _computation(scope: Scope, statement: Statement) -> tuple[str, list[Expr], list[Expr]]:
    """Write what a general reduction does as a function, and return its name, the arrays and the initial values."""
    (block,), n = statement.blocks["computation"], len(statement.inputs) // 2
    if scope.backend is NUMPY and (loops := [inner.op for inner in block.walk() if inner.blocks]):
        raise refuse(scope, statement, f"its operation holds {loops[0]}, which cannot work on whole arrays")
    groups = None
    if scope.backend is JAX and n > 1:
        groups = [(block.parameters[:n], "c", "left"), (block.parameters[n:], "c", "right")]
    name = inner_function(scope, block, groups)
    values = [scope.operand(v) for v in statement.inputs]
    return name, values[:n], values[n:]


@both("reduce")
def _general(scope: Scope, statement: Statement) -> Expr:
    name, arrays, starts = _computation(scope, statement)
    axes = dims(statement.params["dimensions"])
    if scope.backend is JAX:
        return call("lax.reduce", one_or_all(arrays), one_or_all(starts), name, axes)
    return help_call(scope, "reduce_all", name, list_text(arrays), list_text(starts), axes)


def _window_parts(statement: Statement, *, dilated: bool = True) -> dict[str, str]:
    """Return how a window moves; without dilations of 1 unless `dilated`."""
    p = statement.params
    size = len(p["window_dimensions"])
    parts: dict[str, Any] = {name: dims(p[name]) for name in ("window_dimensions", "window_strides")}
    parts["padding"] = pads(p["padding"])
    for name in ("base_dilation", "window_dilation"):
        steps = tuple(p.get(name) or (1,) * size)
        if dilated or set(steps) != {1}:
            parts[name] = dims(steps)
    return parts


def _windows_in_jax(scope: Scope, statement: Statement, function: str, array: Expr | str, start: Expr | str) -> Expr:
    dimensions, strides, padding, *_ = (parts := _window_parts(statement, dilated=False)).values()
    dilations = {name: text for name, text in parts.items() if "dilation" in name}
    return call("lax.reduce_window", array, start, function, dimensions, strides, padding, **dilations)


@both("reduce_window_sum", "reduce_window_max", "reduce_window_min")
def _window(scope: Scope, statement: Statement) -> Expr:
    which = statement.op.rpartition("_")[2]
    value = scope.operand(statement.inputs[0])
    if scope.backend is NUMPY:
        function = {"sum": "np.add", "max": "np.maximum", "min": "np.minimum"}[which]
        start = "0" if which == "sum" else _lowest(statement, which)
        return help_call(scope, "reduce_windows", function, value, start, *_window_parts(statement).values())
    if statement.inputs[0].type.name != "float32":
        return call(f"primitives.{statement.op}_p.bind", value, **_window_parts(statement))
    start = {"sum": "0.0", "max": "-jnp.inf", "min": "jnp.inf"}[which]
    return _windows_in_jax(scope, statement, f"lax.{'add' if which == 'sum' else which}", value, start)


@both("reduce_window")
def _general_window(scope: Scope, statement: Statement) -> Expr:
    if scope.backend is NUMPY and len(statement.inputs) != 2:
        raise refuse(scope, statement, "numpy has no counterpart for windows over several arrays at once")
    name, arrays, starts = _computation(scope, statement)
    if scope.backend is JAX:
        return _windows_in_jax(scope, statement, name, one_or_all(arrays), one_or_all(starts))
    return help_call(scope, "reduce_windows", name, *arrays, *starts, *_window_parts(statement).values())


@both("select_and_scatter_add", "select_and_gather_add")
def _select_and(scope: Scope, statement: Statement) -> Expr:
    operands, parts = map(scope.operand, statement.inputs), _window_parts(statement)
    chosen = str(getattr(statement.params["select_prim"], "name", statement.params["select_prim"]))
    gathers = statement.op == "select_and_gather_add"
    if not gathers:
        del parts["base_dilation"], parts["window_dilation"]
    if scope.backend is JAX:
        return call(f"primitives.{statement.op}_p.bind", *operands, select_prim=f"primitives.{chosen}_p", **parts)
    helper = "gather_from_chosen" if gathers else "scatter_to_chosen"
    return help_call(scope, helper, *operands, str(chosen in ("ge", "gt")), *parts.values())


@both("sort")
def _sort(scope: Scope, statement: Statement) -> Expr:
    p, values = statement.params, [scope.operand(v) for v in statement.inputs]
    axis, keys = str(int(p["dimension"])), str(int(p["num_keys"]))
    if scope.backend is JAX:
        given = None if len(values) == 1 or keys == "1" else keys
        stable = None if p["is_stable"] else "False"
        return call("lax.sort", one_or_all(values), dimension=axis, is_stable=stable, num_keys=given)
    if len(values) == 1:
        return call("np.sort", values[0], axis=axis)
    return help_call(scope, "sort_together", tuple_text(values), axis, keys)


@both("top_k")
def _top_k(scope: Scope, statement: Statement) -> Expr:
    p, (x,) = statement.params, statement.inputs
    axis = int(p.get("axis", p.get("operand_axis", x.type.rank - 1)))
    if scope.backend is JAX:
        last = axis in (-1, x.type.rank - 1)
        return call("lax.top_k", scope.operand(x), str(p["k"]), axis=None if last else str(axis))
    return help_call(scope, "largest", scope.operand(x), str(p["k"]), str(axis))


@JAX.rule("approx_top_k")
def _approx_top_k(scope: Scope, statement: Statement) -> Expr | None:
    function = "lax.approx_max_k" if statement.params["is_max_k"] else "lax.approx_min_k"
    names = ("reduction_dimension", "recall_target", "reduction_input_size_override", "aggregate_to_topk")
    return calling(function, ["k"], dict.fromkeys(names, ...))(scope, statement)
