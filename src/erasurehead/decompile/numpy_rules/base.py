"""The numpy backend: its table of rules, and how it writes literals."""

from __future__ import annotations

from typing import Any

from erasurehead.decompile.errors import Unsupported
from erasurehead.decompile.numbers import bare_text, numpy_dtype, ordinary
from erasurehead.decompile.program import Literal, Operand, Type
from erasurehead.decompile.rules import Rules
from erasurehead.decompile.texts import UNARY, Expr, call, method, tuple_text
from erasurehead.decompile.writer import Scope

RULES = Rules()
rule = RULES.rule


class _Numpy:
    """Writes with `numpy`, and with scipy and ml_dtypes where a primitive needs them."""

    name = "numpy"
    rules = RULES

    def typed(self, scope: Scope, literal: Literal) -> Expr:
        """Return a literal as a scalar of its dtype."""
        return call(dtype_text(scope, literal.type), bare_text(literal, "np"))

    def bare(self, literal: Literal) -> Expr | None:
        """Return a literal as one of Python's numbers; None for dtypes that numpy would promote beside it."""
        if not ordinary(literal.type.name) or literal.type.kind == "c":
            return None
        text = bare_text(literal, "np")
        return Expr(text, UNARY) if text.startswith("-") else Expr(text)

    def unsupported(self, op: str) -> str:
        """Return why a primitive without a rule has none."""
        from erasurehead.decompile.refusals import reason

        return reason(op, "numpy")


NUMPY = _Numpy()


def dtype_text(scope: Scope, kind: Type) -> str:
    """Return a dtype as source, with numpy or ml_dtypes."""
    text = numpy_dtype(kind.name)
    if text.startswith("ml_dtypes."):
        scope.need("ml_dtypes")
    return text


def is_narrow(kind: Type) -> bool:
    """Return whether sums of a dtype should be computed in float32."""
    return kind.kind == "f" and kind.name not in ("float32", "float64")


def dims(values: Any) -> str:
    """Return axes or lengths as a tuple."""
    return tuple_text(int(v) for v in values)


def cast(scope: Scope, expr: Expr, kind: Type) -> Expr:
    """Return an expression cast to a dtype."""
    return method(expr, "astype", dtype_text(scope, kind))


def refuse(op: str, reason: str) -> Unsupported:
    """Return the error for an operation that cannot be written."""
    return Unsupported(op, "numpy", reason)


def help_call(scope: Scope, helper: str, *arguments: Expr | str, **keywords: Expr | str | None) -> Expr:
    """Return a call of a helper function, which is then included in the source."""
    return call(scope.helper(helper), *arguments, **keywords)


def operands(scope: Scope, values: list[Operand]) -> list[Expr]:
    """Return values as expressions."""
    return [scope.operand(value) for value in values]
