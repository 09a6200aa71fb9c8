"""Slices, gathers and scatters."""

from __future__ import annotations

from typing import Any

from erasurehead.decompile.jax_rules.indexing import write_slice
from erasurehead.decompile.numbers import float_text
from erasurehead.decompile.numpy_rules.base import dims, help_call, rule
from erasurehead.decompile.program import Statement
from erasurehead.decompile.texts import Expr, tuple_text
from erasurehead.decompile.writer import Scope


@rule("slice")
def _slice(scope: Scope, statement: Statement) -> Expr:
    return write_slice(scope, statement)


@rule("dynamic_slice")
def _dynamic_slice(scope: Scope, statement: Statement) -> Expr:
    x, *starts = statement.inputs
    at = tuple_text([scope.operand(v) for v in starts])
    return help_call(scope, "dynamic_slice", scope.operand(x), at, dims(statement.params["slice_sizes"]))


@rule("dynamic_update_slice")
def _dynamic_update_slice(scope: Scope, statement: Statement) -> Expr:
    x, update, *starts = statement.inputs
    at = tuple_text([scope.operand(v) for v in starts])
    return help_call(scope, "dynamic_update_slice", scope.operand(x), scope.operand(update), at)


def _fill(statement: Statement) -> str:
    kind, fill = statement.output.type, statement.params.get("fill_value")
    if fill is not None and kind.kind in "f":
        return float_text(fill, kind.dtype, "np")
    if fill is not None and kind.kind != "key":
        return repr(bool(fill) if kind.kind == "b" else int(fill) if kind.kind in "iu" else complex(fill))
    if kind.kind == "f":
        return "np.nan"
    if kind.kind == "c":
        return "complex(np.nan, 0.0)"
    if kind.kind == "b":
        return "True"
    bits = kind.dtype.itemsize * 8
    return str(2**bits - 1) if kind.kind in ("u", "key") else str(-(2 ** (bits - 1)))


@rule("gather")
def _gather(scope: Scope, statement: Statement) -> Expr:
    p = statement.params
    n = p["dimension_numbers"]
    keywords: dict[str, Any] = {}
    if n.operand_batching_dims:
        keywords = {"batching": dims(n.operand_batching_dims), "index_batching": dims(n.start_indices_batching_dims)}
    if p["mode"].name == "FILL_OR_DROP":
        keywords["fill"] = _fill(statement)
    x, indices = map(scope.operand, statement.inputs)
    kind = statement.output.type
    text = help_call(
        scope,
        "gather",
        x,
        indices,
        dims(p["slice_sizes"]),
        dims(n.offset_dims),
        dims(n.collapsed_slice_dims),
        dims(n.start_index_map),
        **keywords,
    )
    if "fill" in keywords and kind.kind != "b":
        from erasurehead.decompile.numpy_rules.base import cast

        return cast(scope, text, kind)
    return text


_COMBINE = {
    "scatter": "None",
    "scatter-add": "np.add",
    "scatter-mul": "np.multiply",
    "scatter-min": "np.minimum",
    "scatter-max": "np.maximum",
    "scatter-sub": "np.subtract",
}


@rule(*_COMBINE)
def _scatter(scope: Scope, statement: Statement) -> Expr:
    p = statement.params
    n = p["dimension_numbers"]
    keywords: dict[str, str | None] = {}
    if n.operand_batching_dims:
        keywords = {"batching": dims(n.operand_batching_dims), "index_batching": dims(n.scatter_indices_batching_dims)}
    if p["mode"].name == "CLIP":
        keywords["clip"] = "True"
    return help_call(
        scope,
        "scatter",
        *map(scope.operand, statement.inputs),
        _COMBINE[statement.op],
        dims(n.update_window_dims),
        dims(n.inserted_window_dims),
        dims(n.scatter_dims_to_operand_dims),
        **keywords,
    )
