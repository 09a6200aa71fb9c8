"""Elementwise operations."""

from __future__ import annotations

from erasurehead.decompile.jax_rules.base import RULES, bind, dtype_of, enum_text, rule
from erasurehead.decompile.program import Literal, Statement, Variable
from erasurehead.decompile.texts import Expr, call, infix, method, prefix
from erasurehead.decompile.writer import Scope

_OPERATORS = {
    "add": "+",
    "add_any": "+",
    "sub": "-",
    "mul": "*",
    "eq": "==",
    "ne": "!=",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
    "and": "&",
    "or": "|",
    "xor": "^",
}

_UNARY = {
    "sin": "jnp.sin",
    "cos": "jnp.cos",
    "tan": "jnp.tan",
    "asin": "jnp.arcsin",
    "acos": "jnp.arccos",
    "atan": "jnp.arctan",
    "sinh": "jnp.sinh",
    "cosh": "jnp.cosh",
    "tanh": "jnp.tanh",
    "asinh": "jnp.arcsinh",
    "acosh": "jnp.arccosh",
    "atanh": "jnp.arctanh",
    "exp": "jnp.exp",
    "exp2": "jnp.exp2",
    "log": "jnp.log",
    "log1p": "jnp.log1p",
    "expm1": "jnp.expm1",
    "sqrt": "jnp.sqrt",
    "cbrt": "jnp.cbrt",
    "rsqrt": "lax.rsqrt",
    "logistic": "lax.logistic",
    "floor": "jnp.floor",
    "ceil": "jnp.ceil",
    "sign": "jnp.sign",
    "abs": "jnp.abs",
    "is_finite": "jnp.isfinite",
    "erf": "lax.erf",
    "erfc": "lax.erfc",
    "erf_inv": "lax.erf_inv",
    "lgamma": "lax.lgamma",
    "digamma": "lax.digamma",
    "bessel_i0e": "lax.bessel_i0e",
    "square": "jnp.square",
    "bessel_i1e": "lax.bessel_i1e",
    "population_count": "lax.population_count",
    "clz": "lax.clz",
    "real": "jnp.real",
    "imag": "jnp.imag",
}

_BINARY = {
    "atan2": "jnp.arctan2",
    "nextafter": "jnp.nextafter",
    "max": "jnp.maximum",
    "min": "jnp.minimum",
}

_LAX = {
    "rem": "lax.rem",
    "shift_left": "lax.shift_left",
    "shift_right_logical": "lax.shift_right_logical",
    "shift_right_arithmetic": "lax.shift_right_arithmetic",
    "igamma": "lax.igamma",
    "igammac": "lax.igammac",
    "igamma_grad_a": "lax.igamma_grad_a",
    "random_gamma_grad": "lax.random_gamma_grad",
    "complex": "lax.complex",
    "polygamma": "lax.polygamma",
    "zeta": "lax.zeta",
    "regularized_incomplete_beta": "lax.betainc",
    "mulhi": "lax.mulhi",
}

_PLAIN_FLOATS = ("float32", "float64", "float16", "bfloat16", "complex64", "complex128")


def _operator(scope: Scope, statement: Statement, operator: str) -> Expr:
    a, b = statement.inputs
    if isinstance(a, Literal) and isinstance(b, Literal):
        return call(f"lax.{_LAX_NAMES.get(statement.op, statement.op)}", scope.operand(a), scope.operand(b))
    if a.type.is_key:
        return call(f"lax.{statement.op}", scope.operand(a), scope.operand(b))
    if a.type.kind == "b" and operator in "+-*":
        return call(f"lax.{_LAX_NAMES.get(statement.op, statement.op)}", scope.operand(a), scope.operand(b))
    left, right = scope.pair(statement)
    return infix(left, operator, right)


_LAX_NAMES = {"and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor", "add_any": "add"}


def _unary(scope: Scope, statement: Statement, function: str) -> Expr:
    accuracy = statement.params.get("accuracy")
    (x,) = statement.inputs
    if accuracy is not None:
        if accuracy.__class__.__name__ == "Tolerance":
            text = f"lax.Tolerance(atol={accuracy.atol}, rtol={accuracy.rtol}, ulps={accuracy.ulps})"
        else:
            text = enum_text(accuracy)
        return call(f"lax.{statement.op}", scope.operand(x), accuracy=text)
    if isinstance(x, Literal):
        return call(f"lax.{statement.op}", scope.operand(x))
    return call(function, scope.operand(x))


def _binary(scope: Scope, statement: Statement, function: str) -> Expr:
    return call(function, *scope.pair(statement))


def _lax(scope: Scope, statement: Statement, function: str) -> Expr:
    a, b, *rest = statement.inputs
    if isinstance(a, Variable) and isinstance(b, Variable) and not rest:
        return call(function, scope.operand(a), scope.operand(b))
    operator = _shift(statement)
    if operator and isinstance(a, Variable) and isinstance(b, Literal) and scope.backend.bare(b) is not None:
        return infix(scope.operand(a), operator, scope.number(b, a))
    return call(function, *map(scope.operand, statement.inputs))


def _shift(statement: Statement) -> str | None:
    """Return the operator that a shift by a number is; None if it has none."""
    signed = statement.inputs[0].type.kind == "i"
    right = {
        "shift_left": "<<",
        "shift_right_arithmetic": ">>" if signed else None,
        "shift_right_logical": None if signed else ">>",
    }
    return right.get(statement.op)


RULES.simple(_operator, _OPERATORS)
RULES.simple(_unary, _UNARY)
RULES.simple(_binary, _BINARY)
RULES.simple(_lax, _LAX)


@rule("div")
def _div(scope: Scope, statement: Statement) -> Expr:
    a, b = statement.inputs
    if a.type.kind in "fc" and not (isinstance(a, Literal) and isinstance(b, Literal)):
        left, right = scope.elementwise_operand(a, b), scope.elementwise_operand(b, a)
        if isinstance(scope.broadcast_source(b), Variable):
            # XLA multiplies by the reciprocal of some divisors that are spread out: they keep their shapes.
            right = scope.operand(b)
        return infix(left, "/", right)
    return call("lax.div", scope.operand(a), scope.operand(b))


@rule("pow")
def _pow(scope: Scope, statement: Statement) -> Expr:
    a, b = statement.inputs
    if a.type.dtype == b.type.dtype and isinstance(a, Variable) and isinstance(b, Variable):
        return infix(scope.operand(a), "**", scope.operand(b)) if a.type.kind == "f" else _pow_lax(scope, statement)
    if isinstance(a, Variable) and isinstance(b, Literal) and a.type.dtype == b.type.dtype and a.type.kind == "f":
        return infix(scope.elementwise_operand(a, b), "**", scope.number(b, a))
    return _pow_lax(scope, statement)


def _pow_lax(scope: Scope, statement: Statement) -> Expr:
    return call("lax.pow", *map(scope.operand, statement.inputs))


@rule("integer_pow")
def _integer_pow(scope: Scope, statement: Statement) -> Expr:
    (x,), y = statement.inputs, int(statement.params["y"])
    if x.type.kind in "f" and isinstance(x, Variable) and y not in (0, 1):
        return infix(scope.operand(x), "**", Expr(str(y)))
    return call("lax.integer_pow", scope.operand(x), str(y))


@rule("neg")
def _neg(scope: Scope, statement: Statement) -> Expr:
    (x,) = statement.inputs
    return call("lax.neg", scope.operand(x)) if isinstance(x, Literal) else prefix("-", scope.operand(x))


@rule("not")
def _not(scope: Scope, statement: Statement) -> Expr:
    (x,) = statement.inputs
    return call("lax.bitwise_not", scope.operand(x)) if isinstance(x, Literal) else prefix("~", scope.operand(x))


@rule("conj")
def _conj(scope: Scope, statement: Statement) -> Expr:
    (x,) = statement.inputs
    return call("lax.conj", scope.operand(x))


@rule("round")
def _round(scope: Scope, statement: Statement) -> Expr:
    method_ = statement.params["rounding_method"]
    if method_.name == "TO_NEAREST_EVEN":
        return call("lax.round", scope.operand(statement.inputs[0]), "lax.RoundingMethod.TO_NEAREST_EVEN")
    return call("lax.round", scope.operand(statement.inputs[0]))


@rule("convert_element_type")
def _convert(scope: Scope, statement: Statement) -> Expr:
    (x,) = statement.inputs
    to = dtype_of(statement.output)
    if isinstance(x, Literal) or x.type.kind == "c" or statement.output.type.is_key:
        return call("lax.convert_element_type", scope.operand(x), to)
    return method(scope.operand(x), "astype", to)


@rule("bitcast_convert_type")
def _bitcast(scope: Scope, statement: Statement) -> Expr:
    return call("lax.bitcast_convert_type", scope.operand(statement.inputs[0]), dtype_of(statement.output))


@rule("reduce_precision")
def _reduce_precision(scope: Scope, statement: Statement) -> Expr:
    p = statement.params
    return call(
        "lax.reduce_precision",
        scope.operand(statement.inputs[0]),
        exponent_bits=str(p["exponent_bits"]),
        mantissa_bits=str(p["mantissa_bits"]),
    )


@rule("clamp")
def _clamp(scope: Scope, statement: Statement) -> Expr:
    low, x, high = statement.inputs
    return call("lax.clamp", *map(scope.operand, (low, x, high)))


@rule("select_n")
def _select_n(scope: Scope, statement: Statement) -> Expr:
    which, *cases = statement.inputs
    if len(cases) == 2 and which.type.kind == "b":
        no, yes = cases
        if which.type.shape in ((), statement.output.type.shape) and isinstance(which, Variable):
            return call("jnp.where", *scope.choice(which, yes, no))
        return call("lax.select", scope.operand(which), scope.operand(yes), scope.operand(no))
    return call("lax.select_n", *map(scope.operand, statement.inputs))


@rule("eq_to", "le_to", "lt_to")
def _total_order(scope: Scope, statement: Statement) -> Expr:
    return bind(scope, statement, f"{statement.op}_p")


@rule("optimization_barrier")
def _barrier(scope: Scope, statement: Statement) -> Expr:
    operands = [scope.operand(value) for value in statement.inputs]
    if len(operands) == 1:
        return call("lax.optimization_barrier", operands[0])
    return call("lax.optimization_barrier", f"({', '.join(map(str, operands))})")
