"""The JAX backend: its table of rules, and how it writes literals."""

from __future__ import annotations

from enum import Enum
from typing import Any

import numpy as np

from erasurehead.decompile.errors import Unsupported
from erasurehead.decompile.numbers import bare_text, jax_dtype
from erasurehead.decompile.program import Literal, Operand, Statement
from erasurehead.decompile.rules import Rules
from erasurehead.decompile.texts import UNARY, Expr, call, tuple_text
from erasurehead.decompile.writer import Scope

RULES = Rules()
rule = RULES.rule


class _Jax:
    """Writes with `jax`, `jax.numpy` and `jax.lax`."""

    name = "jax"
    rules = RULES

    def typed(self, scope: Scope, literal: Literal) -> Expr:
        """Return a literal as a scalar of its dtype."""
        return call(jax_dtype(literal.type.name), bare_text(literal, "jnp"))

    def bare(self, literal: Literal) -> Expr | None:
        """Return a literal as one of Python's numbers; None if JAX would treat it differently."""
        kind, value = literal.type.kind, literal.value
        if kind in "iu" and not -(2**31) <= int(value) < 2**31:
            return None
        if kind == "c":
            return None
        if kind == "f" and np.dtype(literal.type.dtype).itemsize < 2:
            return None
        text = bare_text(literal, "jnp")
        return Expr(text, UNARY) if text.startswith("-") else Expr(text)

    def unsupported(self, op: str) -> str:
        """Return why a primitive without a rule has none."""
        from erasurehead.decompile.refusals import reason

        return reason(op, "jax")


JAX = _Jax()


def dtype_of(value: Operand) -> str:
    """Return the dtype of a value as `jax.numpy` writes it."""
    return jax_dtype(value.type.name)


def enum_text(value: Any) -> str:
    """Return a member of one of JAX's enumerations, or None, as source, such as `lax.Precision.HIGHEST`."""
    if isinstance(value, Enum):
        return f"lax.{type(value).__name__}.{value.name}"
    if value is None or isinstance(value, bool | int | float | str):
        return repr(value)
    if type(value) in (tuple, list):
        return tuple_text([enum_text(v) for v in value])
    return f"lax.{type(value).__name__}.{value.name}"


def dims(values: Any) -> str:
    """Return axes or lengths as a tuple."""
    return tuple_text(int(v) for v in values)


def bind(scope: Scope, statement: Statement, primitive: str, **params: str) -> Expr:
    """Return a primitive applied by its name, if JAX has no function for it."""
    scope.need("primitives")
    operands = [scope.operand(value) for value in statement.inputs]
    return call(f"primitives.{primitive}.bind", *operands, **params)


def refuse(op: str, reason: str) -> Unsupported:
    """Return the error for an operation that cannot be written."""
    return Unsupported(op, "jax", reason)
