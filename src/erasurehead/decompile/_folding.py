"""Arithmetic on literals, done once and for all where it gives the same number at any time and on any machine."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from erasurehead.decompile._program import Literal, Statement, Type

_COMPARISONS = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}

_ARITHMETIC = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "neg": np.negative,
    "max": np.maximum,
    "min": np.minimum,
}

_WIDE = ("float32", "float64", "int32", "int64")
"""Types in which numpy and XLA compute alike."""


def folded(statement: Statement) -> Literal | None:
    """Return the literal that simple arithmetic on literals gives, where no rounding mode or range can matter."""
    op = statement.op
    if op not in (*_COMPARISONS, *_ARITHMETIC, "convert_element_type"):
        return None
    literals = [operand for operand in statement.inputs if isinstance(operand, Literal)]
    if len(literals) < len(statement.inputs):
        return None
    result = statement.output.type
    with np.errstate(all="ignore"):
        if op == "convert_element_type":
            value = _converted(literals[0], result)
        elif op in _COMPARISONS:
            value = _compared(op, literals)
        else:
            value = _computed(op, literals, result)
    return None if value is None else Literal(value, result)


def _is_tiny(number: float) -> bool:
    """Return whether a number may be flushed to zero."""
    return 0 < abs(number) < 1e-30


def _compared(op: str, literals: list[Literal]) -> Any:
    if literals[0].type.kind == "c" or any(_is_tiny(float(v.value)) for v in literals):
        return None
    return np.bool_(_COMPARISONS[op](*(v.value for v in literals)))


def _converted(literal: Literal, result: Type) -> Any:
    value, kind = literal.value, literal.type.kind
    if kind == "b":
        return np.asarray(value, result.dtype)[()] if result.kind in "fiu" else None
    if kind in "iu" and result.kind in "iu":
        limits = np.iinfo(result.dtype) if result.dtype.isbuiltin else None
        fits = limits is not None and limits.min <= int(value) <= limits.max
        return np.asarray(int(value), result.dtype)[()] if fits else None
    if kind not in "fi" or result.kind not in "fic" or (kind == "f" and result.kind == "i"):
        return None
    cast = np.asarray(value).astype(result.dtype)[()]
    if result.kind == "c":
        exact = complex(cast) == complex(value) and not (value == 0 and np.signbit(value))
        return cast if exact else None
    number = float(cast)
    if kind == "f" and not np.isfinite(number):
        return None if np.isfinite(float(value)) else cast
    if kind == "f" and _is_tiny(number):
        return None
    narrow_but_exact = result.name in ("float16", "bfloat16") and number == float(value)
    return cast if result.name in _WIDE or narrow_but_exact else None


def _computed(op: str, literals: list[Literal], result: Type) -> Any:
    kind = literals[0].type.kind
    if kind not in "fi" or result.name not in _WIDE or (kind == "i" and op == "div"):
        return None
    value = np.asarray(_ARITHMETIC[op](*(np.asarray(v.value) for v in literals)))
    number = float(value)
    if value.dtype != result.dtype or (kind == "f" and (not np.isfinite(number) or _is_tiny(number))):
        return None
    if kind == "i" and op not in ("max", "min") and abs(number) > 2**30:
        return None
    return value[()]
