"""Arithmetic on literals, done once and for all where it gives the same number at any time and on any machine."""

from __future__ import annotations

import operator

import numpy as np

from erasurehead.decompile.program import Literal, Statement, Type

_COMPARISONS = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}


def folded(statement: Statement) -> Literal | None:
    """Return the literal that simple arithmetic on literals gives, where no rounding mode or range can matter."""
    if statement.op not in ("add", "sub", "mul", "div", "neg", "convert_element_type", "max", "min", *_COMPARISONS):
        return None
    literals = [operand for operand in statement.inputs if isinstance(operand, Literal)]
    if len(literals) < len(statement.inputs):
        return None
    first, result = literals[0], statement.output.type
    kind = first.type.kind
    if statement.op in _COMPARISONS:
        if kind == "c" or any(0 < abs(float(v.value)) < 1e-30 for v in literals):
            return None
        return Literal(np.bool_(_COMPARISONS[statement.op](*(v.value for v in literals))), result)
    if statement.op == "convert_element_type" and kind in "iu" and result.kind in "iu":
        limits = np.iinfo(result.dtype) if result.dtype.isbuiltin else None
        value = int(first.value)
        if limits is None or not limits.min <= value <= limits.max:
            return None
        return Literal(np.asarray(value, result.dtype)[()], result)
    if statement.op == "convert_element_type" and kind in "fi" and result.kind == "c":
        number = complex(first.value)
        exact = np.asarray(number, result.dtype)[()]
        return Literal(exact, result) if complex(exact) == number and number else _zero(statement, result)
    if kind == "b" and result.kind in "fiu" and statement.op == "convert_element_type":
        return Literal(np.asarray(first.value, result.dtype)[()], result)
    if kind not in "fi" or result.kind not in "fi" or (kind == "i" and statement.op == "div"):
        return None
    if kind == "f" and result.kind == "i":
        return None
    values = [np.asarray(literal.value) for literal in literals]
    operations = {
        "add": np.add,
        "sub": np.subtract,
        "mul": np.multiply,
        "div": np.divide,
        "neg": np.negative,
        "max": np.maximum,
        "min": np.minimum,
    }
    with np.errstate(all="ignore"):
        value = (
            values[0].astype(result.dtype)
            if statement.op == "convert_element_type"
            else np.asarray(operations[statement.op](*values))
        )
    if value.dtype != result.dtype or value.shape != ():
        return None
    number = float(value)
    if kind == "f" and statement.op == "convert_element_type" and not np.isfinite(number):
        source = statement.inputs[0]
        same = isinstance(source, Literal) and not np.isfinite(float(source.value))
        return Literal(value[()], result) if same else None
    if kind == "f" and (not np.isfinite(number) or (number != 0 and abs(number) < 1e-30)):
        return None
    if kind == "i" and statement.op in ("add", "sub", "mul", "neg") and abs(number) > 2**30:
        return None
    if result.name not in ("float32", "float64", "int32", "int64"):
        exact = statement.op == "convert_element_type" and number == float(first.value)
        return Literal(value[()], result) if exact and result.name in ("float16", "bfloat16") else None
    return Literal(value[()], result)


def _zero(statement: Statement, result: Type) -> Literal | None:
    """Return the zero of a dtype if a literal is zero without a sign."""
    value = statement.inputs[0]
    if isinstance(value, Literal) and float(value.value) == 0 and not np.signbit(value.value):
        return Literal(np.asarray(0, result.dtype)[()], result)
    return None
