"""Products of matrices, convolutions and Fourier transforms."""

from __future__ import annotations

from typing import Any

from erasurehead.decompile.jax_rules.base import dims, enum_text, rule
from erasurehead.decompile.jax_rules.reductions import pads
from erasurehead.decompile.numbers import jax_dtype
from erasurehead.decompile.program import Literal, Statement
from erasurehead.decompile.texts import Expr, attribute, call, infix, list_text, tuple_text
from erasurehead.decompile.writer import Scope


def _numbers(spec: Any) -> str:
    (a, b), (c, d) = spec
    return tuple_text([tuple_text([_dims(a), _dims(b)]), tuple_text([_dims(c), _dims(d)])])


def _dims(values: Any) -> str:
    return dims(values)


def matmul_form(statement: Statement) -> tuple[bool, bool] | None:
    """Return which sides of a plain matrix product are transposed; None if it is not a plain matrix product."""
    a, b = (operand.type for operand in statement.inputs)
    (left, right), (batch, batch_2) = statement.params["dimension_numbers"]
    if batch or batch_2 or len(left) != 1 or a.rank not in (1, 2) or b.rank not in (1, 2):
        return None
    return int(left[0]) != a.rank - 1, int(right[0]) != 0


@rule("dot_general")
def _dot(scope: Scope, statement: Statement) -> Expr:
    a, b = statement.inputs
    p, out = statement.params, statement.output
    preferred = p.get("preferred_element_type")
    form = matmul_form(statement)
    plain = (
        form is not None
        and p.get("precision") is None
        and preferred is not None
        and preferred == out.type.dtype
        and a.type.dtype == b.type.dtype == out.type.dtype
        and not (a.type.weak and b.type.weak)
        and a.type.kind in "fc"
        and out.type.name not in ("float16", "bfloat16")
        and not isinstance(a, Literal | None)
        and not isinstance(b, Literal | None)
    )
    if plain and form is not None:
        left, right = scope.operand(a), scope.operand(b)
        left = attribute(left, "T") if form[0] else left
        right = attribute(right, "T") if form[1] else right
        return infix(left, "@", right)
    return call(
        "lax.dot_general",
        scope.operand(a),
        scope.operand(b),
        _numbers(p["dimension_numbers"]),
        precision=_precision(p.get("precision")),
        preferred_element_type=None if preferred is None else jax_dtype(_name(preferred)),
    )


def _name(dtype: Any) -> str:
    import numpy as np

    return np.dtype(dtype).name


def _precision(value: Any) -> str | None:
    return None if value is None else enum_text(value)


@rule("ragged_dot_general")
def _ragged(scope: Scope, statement: Statement) -> Expr:
    p = statement.params
    n = p["ragged_dot_dimension_numbers"]
    spec = call(
        "lax.RaggedDotDimensionNumbers",
        _numbers(n.dot_dimension_numbers),
        list_text(n.lhs_ragged_dimensions),
        list_text(n.rhs_group_dimensions),
    )
    preferred = p.get("preferred_element_type")
    return call(
        "lax.ragged_dot_general",
        *map(scope.operand, statement.inputs),
        spec,
        precision=_precision(p.get("precision")),
        preferred_element_type=None if preferred is None else jax_dtype(_name(preferred)),
    )


@rule("conv_general_dilated")
def _conv(scope: Scope, statement: Statement) -> Expr:
    x, kernel = statement.inputs
    p = statement.params
    n = p["dimension_numbers"]
    ones = (1,) * len(p["window_strides"])
    spec = call("lax.ConvDimensionNumbers", _dims(n.lhs_spec), _dims(n.rhs_spec), _dims(n.out_spec))
    natural = tuple(range(len(n.lhs_spec)))
    plain = tuple(n.lhs_spec) == tuple(n.rhs_spec) == tuple(n.out_spec) == natural
    preferred = p.get("preferred_element_type")
    return call(
        "lax.conv_general_dilated",
        scope.operand(x),
        scope.operand(kernel),
        dims(p["window_strides"]),
        pads(p["padding"]),
        lhs_dilation=dims(p["lhs_dilation"]) if tuple(p["lhs_dilation"]) != ones else None,
        rhs_dilation=dims(p["rhs_dilation"]) if tuple(p["rhs_dilation"]) != ones else None,
        dimension_numbers=None if plain else spec,
        feature_group_count=str(p["feature_group_count"]) if p["feature_group_count"] != 1 else None,
        batch_group_count=str(p["batch_group_count"]) if p["batch_group_count"] != 1 else None,
        precision=_precision(p.get("precision")),
        preferred_element_type=None if preferred is None else jax_dtype(_name(preferred)),
    )


@rule("fft")
def _fft(scope: Scope, statement: Statement) -> Expr:
    p = statement.params
    kinds = ("FFT", "IFFT", "RFFT", "IRFFT")
    kind = p["fft_type"]
    name = kind.name if hasattr(kind, "name") and kind.name in kinds else kinds[int(kind)]
    return call("lax.fft", scope.operand(statement.inputs[0]), f"lax.FftType.{name}", dims(p["fft_lengths"]))
