"""Elementwise operations."""

from __future__ import annotations

from erasurehead.decompile.numpy_rules.base import (
    RULES,
    cast,
    dtype_text,
    help_call,
    is_narrow,
    refuse,
    rule,
)
from erasurehead.decompile.program import Literal, Operand, Statement
from erasurehead.decompile.texts import Expr, attribute, call, infix, list_text, prefix
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
    "sin": "np.sin",
    "cos": "np.cos",
    "tan": "np.tan",
    "asin": "np.arcsin",
    "acos": "np.arccos",
    "atan": "np.arctan",
    "sinh": "np.sinh",
    "cosh": "np.cosh",
    "tanh": "np.tanh",
    "asinh": "np.arcsinh",
    "acosh": "np.arccosh",
    "atanh": "np.arctanh",
    "exp": "np.exp",
    "exp2": "np.exp2",
    "log": "np.log",
    "log1p": "np.log1p",
    "expm1": "np.expm1",
    "sqrt": "np.sqrt",
    "cbrt": "np.cbrt",
    "floor": "np.floor",
    "ceil": "np.ceil",
    "is_finite": "np.isfinite",
    "square": "np.square",
    "conj": "np.conj",
}

_SPECIAL = {
    "erf": "special.erf",
    "erfc": "special.erfc",
    "erf_inv": "special.erfinv",
    "lgamma": "special.gammaln",
    "digamma": "special.psi",
    "bessel_i0e": "special.i0e",
    "bessel_i1e": "special.i1e",
    "igamma": "special.gammainc",
    "igammac": "special.gammaincc",
    "zeta": "special.zeta",
    "regularized_incomplete_beta": "special.betainc",
}


def _operator(scope: Scope, statement: Statement, operator: str) -> Expr:
    left, right = scope.pair(statement)
    if statement.inputs[0].type.kind == "b" and operator == "-":
        return infix(left, "^", right)
    return infix(left, operator, right)


def _unary(scope: Scope, statement: Statement, function: str) -> Expr:
    return call(function, scope.operand(statement.inputs[0]))


def _special(scope: Scope, statement: Statement, function: str) -> Expr:
    scope.need("special")
    kind = statement.output.type
    values = [scope.operand(v) for v in statement.inputs]
    if is_narrow(kind):
        return cast(
            scope, call(function, *[Expr(f"{v.within(13)}.astype(np.float32)", cost=v.cost) for v in values]), kind
        )
    return call(function, *values)


RULES.simple(_operator, _OPERATORS)
RULES.simple(_unary, _UNARY)
RULES.simple(_special, _SPECIAL)


@rule("polygamma")
def _polygamma(scope: Scope, statement: Statement) -> Expr:
    scope.need("special")
    n, x = statement.inputs
    return cast(scope, call("special.polygamma", scope.operand(n), scope.operand(x)), statement.output.type)


@rule("abs")
def _abs(scope: Scope, statement: Statement) -> Expr:
    return call("np.abs", scope.operand(statement.inputs[0]))


@rule("real", "imag")
def _parts(scope: Scope, statement: Statement) -> Expr:
    return attribute(scope.operand(statement.inputs[0]), statement.op)


@rule("complex")
def _complex(scope: Scope, statement: Statement) -> Expr:
    real, imag = map(scope.operand, statement.inputs)
    return help_call(scope, "complex_of", real, imag)


@rule("rsqrt")
def _rsqrt(scope: Scope, statement: Statement) -> Expr:
    (x,) = statement.inputs
    root = call("np.sqrt", scope.operand(x))
    one = scope.number(Literal(x.type.dtype.type(1), type(x.type)((), x.type.dtype)), statement.output)
    return infix(one, "/", root)


@rule("logaddexp")
def _logaddexp(scope: Scope, statement: Statement) -> Expr:
    return call("np.logaddexp", *scope.pair(statement))


@rule("logistic")
def _logistic(scope: Scope, statement: Statement) -> Expr:
    return help_call(scope, "logistic", scope.operand(statement.inputs[0]))


@rule("sign")
def _sign(scope: Scope, statement: Statement) -> Expr:
    (x,) = statement.inputs
    if x.type.kind in "iu":
        return call("np.sign", scope.operand(x))
    return help_call(scope, "sign", scope.operand(x))


@rule("neg")
def _neg(scope: Scope, statement: Statement) -> Expr:
    return prefix("-", scope.operand(statement.inputs[0]))


@rule("not")
def _not(scope: Scope, statement: Statement) -> Expr:
    return prefix("~", scope.operand(statement.inputs[0]))


@rule("div")
def _div(scope: Scope, statement: Statement) -> Expr:
    a, b = statement.inputs
    if a.type.kind in "fc":
        left, right = scope.pair(statement)
        return infix(left, "/", right)
    return help_call(scope, "divide_integers", scope.operand(a), scope.operand(b))


@rule("rem")
def _rem(scope: Scope, statement: Statement) -> Expr:
    a, b = statement.inputs
    if a.type.kind == "f" and b.type.kind == "f":
        return call("np.fmod", *scope.pair(statement))
    return help_call(scope, "remainder", scope.operand(a), scope.operand(b))


@rule("pow")
def _pow(scope: Scope, statement: Statement) -> Expr:
    a, b = statement.inputs
    if a.type.dtype == b.type.dtype and a.type.kind in "fc":
        left, right = scope.pair(statement)
        return infix(left, "**", right)
    return help_call(scope, "power", scope.operand(a), scope.operand(b))


@rule("integer_pow")
def _integer_pow(scope: Scope, statement: Statement) -> Expr:
    (x,), y = statement.inputs, int(statement.params["y"])
    if y == 2:
        return infix(scope.operand(x), "**", Expr("2"))
    return help_call(scope, "integer_power", scope.operand(x), str(y))


@rule("max", "min")
def _extreme(scope: Scope, statement: Statement) -> Expr:
    if statement.inputs[0].type.kind == "c":
        raise refuse(statement.op, "numpy orders complex numbers in another way")
    return call("np.maximum" if statement.op == "max" else "np.minimum", *scope.pair(statement))


@rule("atan2")
def _atan2(scope: Scope, statement: Statement) -> Expr:
    return call("np.arctan2", *scope.pair(statement))


@rule("nextafter")
def _nextafter(scope: Scope, statement: Statement) -> Expr:
    return call("np.nextafter", *map(scope.operand, statement.inputs))


@rule("shift_left")
def _shift_left(scope: Scope, statement: Statement) -> Expr:
    x, bits = statement.inputs
    if isinstance(bits, Literal) and 0 <= int(bits.value) < x.type.dtype.itemsize * 8:
        return infix(scope.operand(x), "<<", scope.number(bits, x))
    return help_call(scope, "shift_left", scope.operand(x), scope.operand(bits))


@rule("shift_right_logical", "shift_right_arithmetic")
def _shift_right(scope: Scope, statement: Statement) -> Expr:
    x, bits = statement.inputs
    signed = statement.op == "shift_right_arithmetic"
    fits = isinstance(bits, Literal) and 0 <= int(bits.value) < x.type.dtype.itemsize * 8
    if isinstance(bits, Literal) and fits and signed == (x.type.kind == "i"):
        return infix(scope.operand(x), ">>", scope.number(bits, x))
    return help_call(scope, "shift_right", scope.operand(x), scope.operand(bits), str(signed))


@rule("population_count")
def _population(scope: Scope, statement: Statement) -> Expr:
    (x,) = statement.inputs
    kind = statement.output.type
    unsigned = f"np.uint{x.type.dtype.itemsize * 8}"
    value = scope.operand(x)
    if x.type.kind == "i":
        value = Expr(f"{value.within(13)}.astype({unsigned})", cost=value.cost + 1)
    return cast(scope, call("np.bitwise_count", value), kind)


@rule("clz")
def _clz(scope: Scope, statement: Statement) -> Expr:
    return help_call(scope, "leading_zeros", scope.operand(statement.inputs[0]))


@rule("mulhi")
def _mulhi(scope: Scope, statement: Statement) -> Expr:
    return help_call(scope, "high_product", *map(scope.operand, statement.inputs))


@rule("round")
def _round(scope: Scope, statement: Statement) -> Expr:
    x = scope.operand(statement.inputs[0])
    if statement.params["rounding_method"].name == "TO_NEAREST_EVEN":
        return call("np.rint", x)
    return help_call(scope, "round_away", scope.atom(statement.inputs[0]))


@rule("convert_element_type")
def _convert(scope: Scope, statement: Statement) -> Expr:
    (x,), to = statement.inputs, statement.output.type
    value = scope.operand(x)
    if x.type.kind == "f" and to.kind in "iu":
        return help_call(scope, "to_integer", value, dtype_text(scope, to))
    if x.type.kind == "c" and to.kind not in "cb":
        value = attribute(value, "real")
    if to.kind == "b":
        return infix(value, "!=", Expr("0"))
    return cast(scope, value, to)


@rule("bitcast_convert_type")
def _bitcast(scope: Scope, statement: Statement) -> Expr:
    (x,), to = statement.inputs, statement.output.type
    if x.type.dtype.itemsize == to.dtype.itemsize and not isinstance(x, Literal):
        return Expr(f"{scope.operand(x).within(13)}.view({dtype_text(scope, to)})")
    return help_call(scope, "reinterpret", scope.operand(x), dtype_text(scope, to))


@rule("reduce_precision")
def _reduce_precision(scope: Scope, statement: Statement) -> Expr:
    p = statement.params
    x = statement.inputs[0]
    if x.type.name not in ("float16", "float32", "float64"):
        raise refuse("reduce_precision", f"{x.type.name} has no such bits in numpy")
    return help_call(scope, "reduce_precision", scope.operand(x), str(p["exponent_bits"]), str(p["mantissa_bits"]))


@rule("clamp")
def _clamp(scope: Scope, statement: Statement) -> Expr:
    low, x, high = statement.inputs

    def bound(value: Operand) -> Expr:
        return scope.number(value, x) if isinstance(value, Literal) else scope.operand(value)

    return call("np.minimum", call("np.maximum", scope.operand(x), bound(low)), bound(high))


@rule("select_n")
def _select_n(scope: Scope, statement: Statement) -> Expr:
    which, *cases = statement.inputs
    if len(cases) == 1:
        return scope.operand(cases[0])
    if len(cases) == 2 and which.type.kind == "b":
        no, yes = cases
        return call("np.where", *scope.choice(which, yes, no))
    tests = [f"{scope.atom(which)} {'==' if i else '<='} {i}" for i in range(len(cases) - 1)]
    *values, last = (scope.operand(c) for c in cases)
    return call("np.select", list_text(tests), list_text(values), last)


@rule("eq_to", "le_to", "lt_to")
def _total_order(scope: Scope, statement: Statement) -> Expr:
    a, b = (help_call(scope, "total_order", scope.operand(v)) for v in statement.inputs)
    return infix(a, {"eq_to": "==", "le_to": "<=", "lt_to": "<"}[statement.op], b)
