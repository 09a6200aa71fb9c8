"""Products of matrices, convolutions and Fourier transforms."""

from __future__ import annotations

from typing import Any

import numpy as np

from erasurehead.decompile._numbers import jax_dtype
from erasurehead.decompile._program import Literal, Operand, Statement, Type
from erasurehead.decompile._rules.base import JAX, NUMPY, both, cast, dims, help_call, is_narrow, pads, refuse, written
from erasurehead.decompile._texts import Expr, attribute, call, infix, list_text, tuple_text
from erasurehead.decompile._writer import Scope


def _sides(statement: Statement) -> tuple[bool, bool] | None:
    """Return which sides of a plain matrix product are transposed; None if it is not a plain matrix product."""
    a, b = (operand.type for operand in statement.inputs)
    (left, right), batch = statement.params["dimension_numbers"]
    if any(batch) or len(left) != 1 or a.rank not in (1, 2) or b.rank not in (1, 2):
        return None
    return int(left[0]) != a.rank - 1, int(right[0]) != 0


def _matmul(left: Expr, right: Expr, transposed: tuple[bool, bool]) -> Expr:
    left, right = (attribute(x, "T") if flip else x for x, flip in zip((left, right), transposed, strict=True))
    return infix(left, "@", right)


def _numerics(p: dict[str, Any]) -> dict[str, str | None]:
    """Return the keywords that say how JAX computes a product."""
    precision, preferred = p.get("precision"), p.get("preferred_element_type")
    return {
        "precision": None if precision is None else written(precision),
        "preferred_element_type": None if preferred is None else jax_dtype(np.dtype(preferred).name),
    }


def _numbers(spec: Any) -> str:
    return tuple_text(map(pads, spec))


@JAX.rule("dot_general")
def _dot_in_jax(scope: Scope, statement: Statement) -> Expr:
    (a, b), p, out = statement.inputs, statement.params, statement.output.type
    sides, preferred = _sides(statement), p.get("preferred_element_type")
    left, right = scope.operand(a), scope.operand(b)
    if (
        sides is not None
        and p.get("precision") is None
        and preferred is not None
        and preferred == a.type.dtype == b.type.dtype == out.dtype
        and not (a.type.weak and b.type.weak)
        and a.type.kind in "fc"
        and out.name not in ("float16", "bfloat16")
        and not isinstance(a, Literal)
        and not isinstance(b, Literal)
    ):
        return _matmul(left, right, sides)
    return call("lax.dot_general", left, right, _numbers(p["dimension_numbers"]), **_numerics(p))


@JAX.rule("ragged_dot_general")
def _ragged(scope: Scope, statement: Statement) -> Expr:
    n = statement.params["ragged_dot_dimension_numbers"]
    ragged, groups = list_text(n.lhs_ragged_dimensions), list_text(n.rhs_group_dimensions)
    spec = call("lax.RaggedDotDimensionNumbers", _numbers(n.dot_dimension_numbers), ragged, groups)
    operands = map(scope.operand, statement.inputs)
    return call("lax.ragged_dot_general", *operands, spec, **_numerics(statement.params))


def _summed_in(statement: Statement) -> Type:
    """Return the type in which numpy sums products."""
    out = statement.output.type
    return Type((), np.dtype(np.float32)) if is_narrow(out) else out


def _cast_to(scope: Scope, value: Operand, to: Type) -> Expr:
    expr = scope.operand(value)
    return expr if value.type.dtype == to.dtype else cast(expr, to)


@NUMPY.rule("dot_general")
def _dot(scope: Scope, statement: Statement) -> Expr:
    out, inner, sides = statement.output.type, _summed_in(statement), _sides(statement)
    left, right = (_cast_to(scope, v, inner) for v in statement.inputs)
    result = _general(statement, left, right) if sides is None else _matmul(left, right, sides)
    return result if inner.dtype == out.dtype else cast(result, out)


def _general(statement: Statement, left: Expr, right: Expr) -> Expr:
    a, b = (operand.type for operand in statement.inputs)
    (contract_a, contract_b), (batch_a, batch_b) = (
        tuple(tuple(int(d) for d in side) for side in pair) for pair in statement.params["dimension_numbers"]
    )
    n = len(batch_a)
    in_front = batch_a == batch_b == tuple(range(n))
    if in_front and a.rank == b.rank == n + 2 and n and contract_a == (n + 1,) and contract_b == (n,):
        return infix(left, "@", right)
    if not n and a.rank == b.rank == 1 and not contract_a:
        return call("np.outer", left, right)
    if not n:
        return call("np.tensordot", left, right, tuple_text([list_text(contract_a), list_text(contract_b)]))
    letters = iter("abcdefghijklmnopqrstuvwxyz")
    names_a, names_b = [""] * a.rank, [""] * b.rank
    for i, j in zip((*batch_a, *contract_a), (*batch_b, *contract_b), strict=True):
        names_a[i] = names_b[j] = next(letters)
    out = [names_a[i] for i in batch_a]
    for names in (names_a, names_b):
        for i, name in enumerate(names):
            if not name:
                names[i] = next(letters)
                out.append(names[i])
    return call("np.einsum", f'"{"".join(names_a)},{"".join(names_b)}->{"".join(out)}"', left, right)


@JAX.rule("conv_general_dilated")
def _conv_in_jax(scope: Scope, statement: Statement) -> Expr:
    p = statement.params
    specs = [tuple(spec) for spec in p["dimension_numbers"]]
    plain = all(spec == tuple(range(len(spec))) for spec in specs)
    dilations = {n: dims(p[n]) for n in ("lhs_dilation", "rhs_dilation") if any(d != 1 for d in p[n])}
    counts = {n: str(p[n]) for n in ("feature_group_count", "batch_group_count") if p[n] != 1}
    layout = {} if plain else {"dimension_numbers": call("lax.ConvDimensionNumbers", *map(dims, specs))}
    return call(
        "lax.conv_general_dilated",
        *map(scope.operand, statement.inputs),
        dims(p["window_strides"]),
        pads(p["padding"]),
        **dilations,
        **layout,
        **counts,
        **_numerics(p),
    )


@NUMPY.rule("conv_general_dilated")
def _conv(scope: Scope, statement: Statement) -> Expr:
    p, out, inner = statement.params, statement.output.type, _summed_in(statement)
    result = help_call(
        scope,
        "convolve",
        *(_cast_to(scope, v, inner) for v in statement.inputs),
        dims(p["window_strides"]),
        pads(p["padding"]),
        dims(p["lhs_dilation"]),
        dims(p["rhs_dilation"]),
        pads(p["dimension_numbers"]),
        str(p["feature_group_count"]),
        str(p["batch_group_count"]),
    )
    return result if inner.dtype == out.dtype else cast(result, out)


@both("fft")
def _fft(scope: Scope, statement: Statement) -> Expr:
    (x,), p = statement.inputs, statement.params
    kinds = ("FFT", "IFFT", "RFFT", "IRFFT")
    name = getattr(p["fft_type"], "name", None)
    if name not in kinds:
        name = kinds[int(p["fft_type"])]
    lengths = dims(p["fft_lengths"])
    if scope.backend is JAX:
        return call("lax.fft", scope.operand(x), f"lax.FftType.{name}", lengths)
    if x.type.kind not in "fc":
        raise refuse(scope, statement, "its input is not a real or complex array")
    function, rank = f"np.fft.{name.lower()}", len(p["fft_lengths"])
    given = name == "IRFFT"
    if rank == 1:
        return call(function, scope.operand(x), n=str(int(p["fft_lengths"][0])) if given else None)
    return call(f"{function}n", scope.operand(x), s=lengths if given else None, axes=tuple_text(range(-rank, 0)))
