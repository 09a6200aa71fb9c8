"""Reductions, searches, cumulative operations and windows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import SupportsInt

from erasurehead.decompile.jax_rules.base import RULES, bind, dims, dtype_of, refuse, rule
from erasurehead.decompile.jax_rules.calls import inner_function
from erasurehead.decompile.program import Statement, Variable
from erasurehead.decompile.texts import Expr, axis_text, call, tuple_text
from erasurehead.decompile.writer import Scope

_EXACT = ("float32", "float64", "complex64", "complex128")


def _reduce(scope: Scope, statement: Statement, name: str) -> Expr:
    (x,), axes = statement.inputs, tuple(statement.params["axes"])
    plain = bool(name) and isinstance(x, Variable) and bool(axes) and not x.type.weak
    if name in ("sum", "prod"):
        plain = plain and x.type.name in _EXACT
    elif name in ("any", "all"):
        plain = plain and x.type.kind == "b"
    else:
        plain = plain and x.type.kind != "c" and x.type.size > 0
    if not plain:
        return call(f"lax.{statement.op}", scope.operand(x), dims(axes))
    if len(axes) == x.type.rank:
        return call(f"jnp.{name}", scope.operand(x))
    return call(f"jnp.{name}", scope.operand(x), axis=axis_text(axes))


RULES.simple(
    _reduce,
    {
        "reduce_sum": "sum",
        "reduce_prod": "prod",
        "reduce_max": "max",
        "reduce_min": "min",
        "reduce_or": "any",
        "reduce_and": "all",
        "reduce_xor": "",
    },
)


@rule("argmax", "argmin")
def _search(scope: Scope, statement: Statement) -> Expr:
    (axis,) = statement.params["axes"]
    return call(f"lax.{statement.op}", scope.operand(statement.inputs[0]), str(int(axis)), dtype_of(statement.output))


@rule("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp")
def _running(scope: Scope, statement: Statement) -> Expr:
    reverse = "True" if statement.params["reverse"] else None
    return call(
        f"lax.{statement.op}", scope.operand(statement.inputs[0]), axis=str(statement.params["axis"]), reverse=reverse
    )


@rule("reduce")
def _general(scope: Scope, statement: Statement) -> Expr:
    n = len(statement.inputs) // 2
    name = inner_function(scope, statement.blocks["computation"][0], splits=(n, n) if n > 1 else None)
    values = [scope.operand(v) for v in statement.inputs]
    first, start = (values[0], values[1]) if n == 1 else (tuple_text(values[:n]), tuple_text(values[n:]))
    axes = dims(statement.params["dimensions"])
    return call("lax.reduce", first, start, name, axes)


def window_keywords(statement: Statement) -> dict[str, str | None]:
    """Return the keywords that say how a window moves."""
    p = statement.params
    ones = (1,) * len(p["window_dimensions"])
    base, window = tuple(p.get("base_dilation") or ones), tuple(p.get("window_dilation") or ones)
    return {
        "base_dilation": dims(base) if base != ones else None,
        "window_dilation": dims(window) if window != ones else None,
    }


def pads(values: Iterable[Iterable[SupportsInt]]) -> str:
    """Return padding as a tuple of pairs."""
    return tuple_text(tuple_text(int(v) for v in pair) for pair in values)


@rule("reduce_window_sum", "reduce_window_max", "reduce_window_min")
def _window(scope: Scope, statement: Statement) -> Expr:
    (x,), p = statement.inputs, statement.params
    which = statement.op.rpartition("_")[2]
    function = {"sum": "lax.add", "max": "lax.max", "min": "lax.min"}[which]
    floats = {"sum": "0.0", "max": "-jnp.inf", "min": "jnp.inf"}
    if x.type.name != "float32":
        ones = (1,) * len(p["window_dimensions"])
        return bind(
            scope,
            statement,
            f"{statement.op}_p",
            window_dimensions=dims(p["window_dimensions"]),
            window_strides=dims(p["window_strides"]),
            padding=pads(p["padding"]),
            base_dilation=dims(p["base_dilation"] or ones),
            window_dilation=dims(p["window_dilation"] or ones),
        )
    initial = floats[which]
    return call(
        "lax.reduce_window",
        scope.operand(x),
        initial,
        function,
        dims(p["window_dimensions"]),
        dims(p["window_strides"]),
        pads(p["padding"]),
        **window_keywords(statement),
    )


@rule("reduce_window")
def _general_window(scope: Scope, statement: Statement) -> Expr:
    p, n = statement.params, len(statement.inputs) // 2
    name = inner_function(scope, statement.blocks["computation"][0], splits=(n, n) if n > 1 else None)
    values = [scope.operand(v) for v in statement.inputs]
    first, start = (values[0], values[1]) if n == 1 else (tuple_text(values[:n]), tuple_text(values[n:]))
    return call(
        "lax.reduce_window",
        first,
        start,
        name,
        dims(p["window_dimensions"]),
        dims(p["window_strides"]),
        pads(p["padding"]),
        **window_keywords(statement),
    )


def _operator_of(op: object) -> str:
    return f"primitives.{getattr(op, 'name', op)}_p"


@rule("select_and_scatter_add", "select_and_gather_add")
def _select_and(scope: Scope, statement: Statement) -> Expr:
    p = statement.params
    texts = {
        "select_prim": _operator_of(p["select_prim"]),
        "window_dimensions": dims(p["window_dimensions"]),
        "window_strides": dims(p["window_strides"]),
        "padding": pads(p["padding"]),
    }
    for name in ("base_dilation", "window_dilation"):
        if name in p:
            texts[name] = dims(p[name])
    return bind(scope, statement, f"{statement.op}_p", **texts)


@rule("select_and_scatter")
def _select_and_scatter(scope: Scope, statement: Statement) -> Expr:
    raise refuse("select_and_scatter", "JAX has no public function for it with user-defined operations")


@rule("sort")
def _sort(scope: Scope, statement: Statement) -> Expr:
    p = statement.params
    stable = None if p["is_stable"] else "False"
    keys = None if p["num_keys"] == 1 else str(p["num_keys"])
    operands = [scope.operand(v) for v in statement.inputs]
    if len(operands) == 1:
        return call("lax.sort", operands[0], dimension=str(p["dimension"]), is_stable=stable)
    return call("lax.sort", tuple_text(operands), dimension=str(p["dimension"]), is_stable=stable, num_keys=keys)


@rule("top_k")
def _top_k(scope: Scope, statement: Statement) -> Expr:
    p, (x,) = statement.params, statement.inputs
    axis = p.get("axis", p.get("operand_axis", x.type.rank - 1))
    last = axis in (-1, x.type.rank - 1)
    return call("lax.top_k", scope.operand(x), str(p["k"]), axis=None if last else str(axis))


@rule("approx_top_k")
def _approx_top_k(scope: Scope, statement: Statement) -> Expr:
    p = statement.params
    return call(
        "lax.approx_max_k" if p["is_max_k"] else "lax.approx_min_k",
        scope.operand(statement.inputs[0]),
        str(p["k"]),
        reduction_dimension=str(p["reduction_dimension"]),
        recall_target=str(p["recall_target"]),
        reduction_input_size_override=str(p["reduction_input_size_override"]),
        aggregate_to_topk=str(p["aggregate_to_topk"]),
    )
