"""Products of matrices, convolutions and Fourier transforms."""

from __future__ import annotations

from erasurehead.decompile.jax_rules.products import matmul_form
from erasurehead.decompile.jax_rules.reductions import pads
from erasurehead.decompile.numpy_rules.base import cast, dims, help_call, is_narrow, refuse, rule
from erasurehead.decompile.program import Operand, Statement, Type
from erasurehead.decompile.texts import Expr, attribute, call, infix, list_text, tuple_text
from erasurehead.decompile.writer import Scope


def _inner(statement: Statement) -> Type:
    """Return the type in which products are summed."""
    import numpy as np

    out = statement.output.type
    return Type((), np.dtype(np.float32)) if is_narrow(out) else out


def _side(scope: Scope, value: Operand, inner: Type) -> Expr:
    expr = scope.operand(value)
    return expr if value.type.dtype == inner.dtype else cast(scope, expr, inner)


@rule("dot_general")
def _dot(scope: Scope, statement: Statement) -> Expr:
    a, b = statement.inputs
    out, inner = statement.output.type, _inner(statement)
    left, right = _side(scope, a, inner), _side(scope, b, inner)
    form = matmul_form(statement)
    if form is not None:
        left = attribute(left, "T") if form[0] else left
        right = attribute(right, "T") if form[1] else right
        result = infix(left, "@", right)
    else:
        result = _general(statement, left, right)
    return result if inner.dtype == out.dtype else cast(scope, result, out)


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
        axes = tuple_text([list_text(contract_a), list_text(contract_b)])
        return call("np.tensordot", left, right, axes)
    letters = iter("abcdefghijklmnopqrstuvwxyz")
    names_a, names_b = [""] * a.rank, [""] * b.rank
    batch = [next(letters) for _ in batch_a]
    for letter, i, j in zip(batch, batch_a, batch_b, strict=True):
        names_a[i] = names_b[j] = letter
    for i, j in zip(contract_a, contract_b, strict=True):
        names_a[i] = names_b[j] = next(letters)
    free_a = [i for i in range(a.rank) if not names_a[i]]
    free_b = [j for j in range(b.rank) if not names_b[j]]
    for i in free_a:
        names_a[i] = next(letters)
    for j in free_b:
        names_b[j] = next(letters)
    out = [*batch, *(names_a[i] for i in free_a), *(names_b[j] for j in free_b)]
    spec = f'"{"".join(names_a)},{"".join(names_b)}->{"".join(out)}"'
    return call("np.einsum", spec, left, right)


@rule("conv_general_dilated")
def _conv(scope: Scope, statement: Statement) -> Expr:
    x, kernel = statement.inputs
    p, out, inner = statement.params, statement.output.type, _inner(statement)
    n = p["dimension_numbers"]
    layout = tuple_text([dims(n.lhs_spec), dims(n.rhs_spec), dims(n.out_spec)])
    result = help_call(
        scope,
        "convolve",
        _side(scope, x, inner),
        _side(scope, kernel, inner),
        dims(p["window_strides"]),
        pads(p["padding"]) if p["padding"] else "()",
        dims(p["lhs_dilation"]),
        dims(p["rhs_dilation"]),
        layout,
        str(p["feature_group_count"]),
        str(p["batch_group_count"]),
    )
    return result if inner.dtype == out.dtype else cast(scope, result, out)


@rule("fft")
def _fft(scope: Scope, statement: Statement) -> Expr:
    p = statement.params
    names = ("fftn", "ifftn", "rfftn", "irfftn")
    kind = p["fft_type"]
    text = getattr(kind, "name", None)
    name = names[("FFT", "IFFT", "RFFT", "IRFFT").index(text)] if isinstance(text, str) else names[int(kind)]
    lengths = [int(n) for n in p["fft_lengths"]]
    x = scope.operand(statement.inputs[0])
    if statement.inputs[0].type.kind not in "fc":
        raise refuse("fft", "its input is not a real or complex array")
    if len(lengths) == 1:
        given = str(lengths[0]) if name == "irfftn" else None
        return call(f"np.fft.{name[:-1]}", x, n=given)
    axes = tuple_text(range(-len(lengths), 0))
    return call(f"np.fft.{name}", x, s=dims(lengths) if name == "irfftn" else None, axes=axes)
