"""The two backends, and what their rules share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from functools import partial
from typing import Any

import numpy as np

from erasurehead.decompile._errors import Unsupported
from erasurehead.decompile._numbers import jax_dtype, numpy_dtype, ordinary
from erasurehead.decompile._program import Literal, Statement, Type
from erasurehead.decompile._texts import Expr, call, method, subscript, tuple_text
from erasurehead.decompile._writer import Backend, Rule, Scope


def _bare_in_jax(literal: Literal) -> bool:
    """Return whether JAX treats one of Python's numbers as it treats the literal."""
    kind = literal.type.kind
    if kind in "iu":
        return -(2**31) <= int(literal.value) < 2**31
    return kind != "c" and not (kind == "f" and np.dtype(literal.type.dtype).itemsize < 2)


def _bare_in_numpy(literal: Literal) -> bool:
    """Return whether numpy leaves the dtype of the other operand as it is; it promotes those that are not its own."""
    return ordinary(literal.type.name) and literal.type.kind != "c"


JAX = Backend("jax", "jnp", jax_dtype, _bare_in_jax)
NUMPY = Backend("numpy", "np", numpy_dtype, _bare_in_numpy)


def both(*ops: str) -> Callable[[Rule], Rule]:
    """Return a decorator that registers a function as the rule of primitives for both backends."""

    def enter(rule: Rule) -> Rule:
        return NUMPY.rule(*ops)(JAX.rule(*ops)(rule))

    return enter


def family(write: Callable[[str, Scope, Statement], Expr], table: Mapping[str, str], *backends: Backend) -> None:
    """Register rules that differ in one text only, a function's name or an operator, for backends."""
    for op, text in table.items():
        for backend in backends:
            backend.rule(op)(partial(write, text))


def calling(
    function: str,
    parameters: Sequence[str] = (),
    keywords: Mapping[str, Any] | None = None,
    *,
    listed: bool = False,
) -> Rule:
    """Return a rule that writes a call with the operands, followed by parameters of the primitive.

    Arguments:
        function: name of the function, with its module; a helper of the source if it has none.
        parameters: names of the parameters that follow the operands.
        keywords: names of those that are passed by name, with the values at which they are left out (`...` for none).
        listed: whether the function returns a list also where the statement has a single output.
    """

    def rule(scope: Scope, statement: Statement) -> Expr:
        values = statement.params
        named = {
            name: written(values[name])
            for name, usual in (keywords or {}).items()
            if usual is ... or values.get(name, usual) != usual
        }
        name = function if "." in function else scope.helper(function)
        expr = call(name, *map(scope.operand, statement.inputs), *(written(values[p]) for p in parameters), **named)
        return subscript(expr, "0") if listed and len(statement.outputs) == 1 else expr

    return rule


def bound(op: str, *parameters: str) -> Rule:
    """Return a rule that applies a primitive by its name, as JAX has no function for it."""
    return calling(f"primitives.{op}_p.bind", (), dict.fromkeys(parameters, ...))


def written(value: Any) -> str:
    """Return a parameter of a primitive as source: numbers, tuples of them, or members of JAX's enumerations."""
    if type(value) in (tuple, list):
        return tuple_text(map(written, value))
    if type(value).__module__ == "numpy":
        value = value.item()
    if value is None or (isinstance(value, bool | int | float | str) and not isinstance(value, Enum)):
        return repr(value)
    return f"lax.{type(value).__name__}.{value.name}"


def dims(values: Any) -> str:
    """Return axes or lengths as a tuple."""
    return tuple_text(int(v) for v in values)


def pads(values: Iterable[Any]) -> str:
    """Return padding as a tuple of tuples."""
    return tuple_text(map(dims, values))


def refuse(scope: Scope, statement: Statement, reason: str) -> Unsupported:
    """Return the error for an operation that cannot be written."""
    return Unsupported(statement.op, scope.backend.name, reason)


def is_narrow(kind: Type) -> bool:
    """Return whether sums of a dtype should be computed in float32 by numpy."""
    return kind.kind == "f" and kind.name not in ("float32", "float64")


def cast(expr: Expr, kind: Type) -> Expr:
    """Return an expression of numpy cast to a dtype."""
    return method(expr, "astype", NUMPY.dtype(kind))


def help_call(scope: Scope, helper: str, *arguments: Expr | str, **keywords: Expr | str | None) -> Expr:
    """Return a call of a helper function, which is then included in the source."""
    return call(scope.helper(helper), *arguments, **keywords)
