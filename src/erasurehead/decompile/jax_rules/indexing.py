"""Slices, gathers and scatters."""

from __future__ import annotations

from erasurehead.decompile.jax_rules.base import dims, rule
from erasurehead.decompile.program import Literal, Statement, Variable
from erasurehead.decompile.texts import Expr, call, subscript, tuple_text
from erasurehead.decompile.writer import Scope


def slice_parts(statement: Statement) -> list[str]:
    """Return a static slice as the texts between brackets, one per axis."""
    (x,), p = statement.inputs, statement.params
    strides = p["strides"] or (1,) * x.type.rank
    parts: list[str] = []
    for start, stop, step, length in zip(p["start_indices"], p["limit_indices"], strides, x.type.shape, strict=True):
        a = "" if start == 0 else str(int(start))
        b = "" if stop == length else str(int(stop))
        parts.append(f"{a}:{b}" if step == 1 else f"{a}:{b}:{int(step)}")
    return parts


def index_text(parts: list[str]) -> str:
    """Return an index without trailing axes that are taken whole."""
    shown = list(parts)
    while len(shown) > 1 and shown[-1] == ":":
        shown.pop()
    return ", ".join(shown)


def write_slice(scope: Scope, statement: Statement) -> Expr:
    """Return a static slice."""
    (x,), parts = statement.inputs, slice_parts(statement)
    base = scope.operand(x)
    scope.remember_slice(statement.output, base, parts)
    return subscript(base, index_text(parts))


def write_index(scope: Scope, statement: Statement) -> Expr | None:
    """Return a slice of length 1 without its axes as an index, such as `x[0]`; None where it is none."""
    (x,), axes = statement.inputs, tuple(int(d) for d in statement.params["dimensions"])
    made = scope.definitions.get(x) if isinstance(x, Variable) else None
    if made is None or made.op != "slice" or made.params["strides"] is not None:
        return None
    starts, limits = made.params["start_indices"], made.params["limit_indices"]
    if any(limits[d] - starts[d] != 1 for d in axes):
        return None
    found = scope.slice_parts(x)
    if found is None:
        return None
    base, parts = found
    shown = [str(int(starts[d])) if d in axes else part for d, part in enumerate(parts)]
    return subscript(base, index_text(shown))


@rule("slice")
def _slice(scope: Scope, statement: Statement) -> Expr:
    (x,) = statement.inputs
    p, (out,) = statement.params, statement.outputs
    if x.type.is_key or 0 in out.type.shape or isinstance(x, Literal):
        strides = dims(p["strides"]) if p["strides"] else None
        return call(
            "lax.slice",
            scope.operand(x),
            dims(p["start_indices"]),
            dims(p["limit_indices"]),
            *([strides] if strides else []),
        )
    return write_slice(scope, statement)


@rule("dynamic_slice")
def _dynamic_slice(scope: Scope, statement: Statement) -> Expr:
    x, *starts = statement.inputs
    starts = [scope.operand(v) for v in starts]
    return call(
        "lax.dynamic_slice",
        scope.operand(x),
        tuple_text(starts),
        dims(statement.params["slice_sizes"]),
        allow_negative_indices="False",
    )


@rule("dynamic_update_slice")
def _dynamic_update_slice(scope: Scope, statement: Statement) -> Expr:
    x, update, *starts = statement.inputs
    return call(
        "lax.dynamic_update_slice",
        scope.operand(x),
        scope.operand(update),
        tuple_text([scope.operand(v) for v in starts]),
        allow_negative_indices="False",
    )


_MODES = {
    "CLIP": '"clip"',
    "FILL_OR_DROP": '"fill"',
    "PROMISE_IN_BOUNDS": '"promise_in_bounds"',
    "ONE_HOT": '"one_hot"',
}


def _mode(statement: Statement) -> str:
    return _MODES[statement.params["mode"].name]


def _flags(statement: Statement) -> dict[str, str | None]:
    p = statement.params
    return {
        "indices_are_sorted": "True" if p["indices_are_sorted"] else None,
        "unique_indices": "True" if p["unique_indices"] else None,
    }


@rule("gather")
def _gather(scope: Scope, statement: Statement) -> Expr:
    p = statement.params
    numbers = p["dimension_numbers"]
    x, indices = statement.inputs
    batching: dict[str, str | None] = {}
    if numbers.operand_batching_dims:
        batching = {
            "operand_batching_dims": dims(numbers.operand_batching_dims),
            "start_indices_batching_dims": dims(numbers.start_indices_batching_dims),
        }
    spec = call(
        "lax.GatherDimensionNumbers",
        offset_dims=dims(numbers.offset_dims),
        collapsed_slice_dims=dims(numbers.collapsed_slice_dims),
        start_index_map=dims(numbers.start_index_map),
        **batching,
    )
    fill = p.get("fill_value")
    fill_text: str | None = None
    if p["mode"].name == "FILL_OR_DROP" and fill is not None and isinstance(fill, int | float):
        fill_text = "jnp.nan" if fill != fill else repr(fill)
        if isinstance(fill, float) and fill in (float("inf"), -float("inf")):
            fill_text = "jnp.inf" if fill > 0 else "-jnp.inf"
    return call(
        "lax.gather",
        scope.operand(x),
        scope.operand(indices),
        spec,
        dims(p["slice_sizes"]),
        mode=_mode(statement),
        fill_value=fill_text,
        **_flags(statement),
    )


_SCATTER = {
    "scatter": "lax.scatter",
    "scatter-add": "lax.scatter_add",
    "scatter-mul": "lax.scatter_mul",
    "scatter-min": "lax.scatter_min",
    "scatter-max": "lax.scatter_max",
    "scatter-sub": "lax.scatter_sub",
}


@rule(*_SCATTER)
def _scatter(scope: Scope, statement: Statement) -> Expr:
    p = statement.params
    numbers = p["dimension_numbers"]
    batching: dict[str, str | None] = {}
    if numbers.operand_batching_dims:
        batching = {
            "operand_batching_dims": dims(numbers.operand_batching_dims),
            "scatter_indices_batching_dims": dims(numbers.scatter_indices_batching_dims),
        }
    spec = call(
        "lax.ScatterDimensionNumbers",
        update_window_dims=dims(numbers.update_window_dims),
        inserted_window_dims=dims(numbers.inserted_window_dims),
        scatter_dims_to_operand_dims=dims(numbers.scatter_dims_to_operand_dims),
        **batching,
    )
    operands = [scope.operand(v) for v in statement.inputs]
    return call(_SCATTER[statement.op], *operands, spec, mode=_mode(statement), **_flags(statement))
