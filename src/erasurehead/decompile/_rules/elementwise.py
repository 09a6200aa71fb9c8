"""Elementwise operations."""

from __future__ import annotations

from erasurehead.decompile._program import Literal, Operand, Statement, Variable
from erasurehead.decompile._rules.base import (
    JAX,
    NUMPY,
    both,
    bound,
    calling,
    cast,
    family,
    help_call,
    is_narrow,
    refuse,
    written,
)
from erasurehead.decompile._texts import Expr, attribute, call, infix, list_text, method, prefix, tuple_text
from erasurehead.decompile._writer import Scope

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
    "sin": "sin",
    "cos": "cos",
    "tan": "tan",
    "asin": "arcsin",
    "acos": "arccos",
    "atan": "arctan",
    "sinh": "sinh",
    "cosh": "cosh",
    "tanh": "tanh",
    "asinh": "arcsinh",
    "acosh": "arccosh",
    "atanh": "arctanh",
    "exp": "exp",
    "exp2": "exp2",
    "log": "log",
    "log1p": "log1p",
    "expm1": "expm1",
    "sqrt": "sqrt",
    "cbrt": "cbrt",
    "floor": "floor",
    "ceil": "ceil",
    "abs": "abs",
    "is_finite": "isfinite",
    "square": "square",
}
"""What `jax.numpy` and numpy have, by the names that they call it."""

_UNARY_IN_JAX = {
    "sign": "jnp.sign",
    "real": "jnp.real",
    "imag": "jnp.imag",
    "conj": "lax.conj",
    "rsqrt": "lax.rsqrt",
    "logistic": "lax.logistic",
    "erf": "lax.erf",
    "erfc": "lax.erfc",
    "erf_inv": "lax.erf_inv",
    "lgamma": "lax.lgamma",
    "digamma": "lax.digamma",
    "bessel_i0e": "lax.bessel_i0e",
    "bessel_i1e": "lax.bessel_i1e",
    "population_count": "lax.population_count",
    "clz": "lax.clz",
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

_LAX = (
    "rem",
    "igamma",
    "igammac",
    "igamma_grad_a",
    "random_gamma_grad",
    "complex",
    "polygamma",
    "zeta",
    "mulhi",
    "clamp",
)
"""Functions of `jax.lax` of the primitive's name."""

_LAX_NAMES = {"and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor", "add_any": "add"}


def _operator(operator: str, scope: Scope, statement: Statement) -> Expr:
    a, b = statement.inputs
    logical = a.type.kind == "b"
    if scope.backend is JAX:
        both_literals = isinstance(a, Literal) and isinstance(b, Literal)
        if both_literals or a.type.is_key or (logical and operator in "+-*"):
            return call(f"lax.{_LAX_NAMES.get(statement.op, statement.op)}", scope.operand(a), scope.operand(b))
    elif logical and operator == "-":
        operator = "^"
    left, right = scope.pair(a, b)
    return infix(left, operator, right)


def _unary(function: str, scope: Scope, statement: Statement) -> Expr:
    accuracy, (x,) = statement.params.get("accuracy"), statement.inputs
    if scope.backend is JAX and (accuracy is not None or isinstance(x, Literal)):
        if type(accuracy).__name__ == "Tolerance":
            limits = ", ".join(f"{name}={getattr(accuracy, name)}" for name in ("atol", "rtol", "ulps"))
            text = f"lax.Tolerance({limits})"
        else:
            text = None if accuracy is None else written(accuracy)
        return call(f"lax.{statement.op}", scope.operand(x), accuracy=text)
    return call(function if "." in function else f"{scope.backend.module}.{function}", scope.operand(x))


def _binary(function: str, scope: Scope, statement: Statement) -> Expr:
    return call(function, *scope.pair(*statement.inputs))


def _special(function: str, scope: Scope, statement: Statement) -> Expr:
    values, kind = [scope.operand(v) for v in statement.inputs], statement.output.type
    if not is_narrow(kind):
        return call(function, *values)
    wide = [Expr(f"{v.within(13)}.astype(np.float32)", cost=v.cost) for v in values]
    return cast(call(function, *wide), kind)


def _prefix(operator: str, scope: Scope, statement: Statement) -> Expr:
    (x,) = statement.inputs
    if scope.backend is JAX and isinstance(x, Literal):
        return call("lax.neg" if operator == "-" else "lax.bitwise_not", scope.operand(x))
    return prefix(operator, scope.operand(x))


family(_operator, _OPERATORS, JAX, NUMPY)
family(_unary, _UNARY, JAX, NUMPY)
family(_unary, _UNARY_IN_JAX, JAX)
family(_unary, {"conj": "np.conj"}, NUMPY)
family(_prefix, {"neg": "-", "not": "~"}, JAX, NUMPY)
family(
    _binary,
    {"atan2": "jnp.arctan2", "nextafter": "jnp.nextafter", "max": "jnp.maximum", "min": "jnp.minimum"},
    JAX,
)
family(_binary, {"atan2": "np.arctan2", "logaddexp": "np.logaddexp"}, NUMPY)
family(_special, _SPECIAL, NUMPY)
for _op in _LAX:
    JAX.rule(_op)(calling(f"lax.{_op}"))
for _op in ("eq_to", "le_to", "lt_to"):
    JAX.rule(_op)(bound(_op))
JAX.rule("regularized_incomplete_beta")(calling("lax.betainc"))
JAX.rule("reduce_precision")(calling("lax.reduce_precision", (), {"exponent_bits": ..., "mantissa_bits": ...}))
NUMPY.rule("nextafter")(calling("np.nextafter"))
NUMPY.rule("complex")(calling("complex_of"))
NUMPY.rule("logistic")(calling("logistic"))
NUMPY.rule("clz")(calling("leading_zeros"))
NUMPY.rule("mulhi")(calling("high_product"))


@NUMPY.rule("polygamma")
def _polygamma(scope: Scope, statement: Statement) -> Expr:
    return cast(call("special.polygamma", *map(scope.operand, statement.inputs)), statement.output.type)


@NUMPY.rule("real", "imag")
def _part(scope: Scope, statement: Statement) -> Expr:
    return attribute(scope.operand(statement.inputs[0]), statement.op)


@NUMPY.rule("rsqrt")
def _rsqrt(scope: Scope, statement: Statement) -> Expr:
    (x,) = statement.inputs
    root = call("np.sqrt", scope.operand(x))
    one = scope.number(Literal(x.type.dtype.type(1), type(x.type)((), x.type.dtype)), statement.output)
    return infix(one, "/", root)


@NUMPY.rule("sign")
def _sign(scope: Scope, statement: Statement) -> Expr:
    (x,) = statement.inputs
    return call("np.sign" if x.type.kind in "iu" else scope.helper("sign"), scope.operand(x))


@both("div")
def _div(scope: Scope, statement: Statement) -> Expr:
    a, b = statement.inputs
    in_jax = scope.backend is JAX
    if a.type.kind not in "fc" or (in_jax and isinstance(a, Literal) and isinstance(b, Literal)):
        return call("lax.div" if in_jax else scope.helper("divide_integers"), scope.operand(a), scope.operand(b))
    left, right = scope.pair(a, b)
    if in_jax and isinstance(scope.broadcast_source(b), Variable):
        # XLA multiplies by the reciprocal of some divisors that are spread out: they keep their shapes.
        right = scope.operand(b)
    return infix(left, "/", right)


@NUMPY.rule("rem")
def _rem(scope: Scope, statement: Statement) -> Expr:
    a, b = statement.inputs
    if a.type.kind == b.type.kind == "f":
        return call("np.fmod", *scope.pair(a, b))
    return help_call(scope, "remainder", scope.operand(a), scope.operand(b))


@JAX.rule("pow")
def _pow_in_jax(scope: Scope, statement: Statement) -> Expr:
    a, b = statement.inputs
    if isinstance(a, Variable) and a.type.dtype == b.type.dtype and a.type.kind == "f":
        return infix(scope.operand(a), "**", scope.number(b, a) if isinstance(b, Literal) else scope.operand(b))
    return call("lax.pow", scope.operand(a), scope.operand(b))


@NUMPY.rule("pow")
def _pow(scope: Scope, statement: Statement) -> Expr:
    a, b = statement.inputs
    if a.type.dtype == b.type.dtype and a.type.kind in "fc":
        left, right = scope.pair(a, b)
        return infix(left, "**", right)
    return help_call(scope, "power", scope.operand(a), scope.operand(b))


@both("integer_pow")
def _integer_pow(scope: Scope, statement: Statement) -> Expr:
    (x,), power = statement.inputs, int(statement.params["y"])
    if power == 1:  # which JAX before 0.10 leaves
        return scope.operand(x)
    in_jax = scope.backend is JAX
    if (isinstance(x, Variable) and x.type.kind == "f" and power != 0) if in_jax else power == 2:
        return infix(scope.operand(x), "**", Expr(str(power)))
    return call("lax.integer_pow" if in_jax else scope.helper("integer_power"), scope.operand(x), str(power))


@NUMPY.rule("max", "min")
def _extreme(scope: Scope, statement: Statement) -> Expr:
    if statement.inputs[0].type.kind == "c":
        raise refuse(scope, statement, "numpy orders complex numbers in another way")
    return _binary("np.maximum" if statement.op == "max" else "np.minimum", scope, statement)


@both("shift_left", "shift_right_logical", "shift_right_arithmetic")
def _shift(scope: Scope, statement: Statement) -> Expr:
    x, bits = statement.inputs
    op, in_jax = statement.op, scope.backend is JAX
    operator = "<<" if op == "shift_left" else ">>"
    # The operator fills with the sign if there is one.
    same = op == "shift_left" or (op == "shift_right_arithmetic") == (x.type.kind == "i")
    if same and isinstance(bits, Literal):
        if in_jax:
            plain = isinstance(x, Variable) and scope.backend.bare(bits) is not None
        else:
            plain = 0 <= int(bits.value) < x.type.dtype.itemsize * 8
        if plain:
            return infix(scope.operand(x), operator, scope.number(bits, x))
    operands = map(scope.operand, statement.inputs)
    if in_jax:
        return call(f"lax.{op}", *operands)
    if op == "shift_left":
        return help_call(scope, op, *operands)
    return help_call(scope, "shift_right", *operands, str(op == "shift_right_arithmetic"))


@NUMPY.rule("population_count")
def _population(scope: Scope, statement: Statement) -> Expr:
    (x,) = statement.inputs
    value = scope.operand(x)
    if x.type.kind == "i":
        value = Expr(f"{value.within(13)}.astype(np.uint{x.type.dtype.itemsize * 8})", cost=value.cost + 1)
    return cast(call("np.bitwise_count", value), statement.output.type)


@both("round")
def _round(scope: Scope, statement: Statement) -> Expr:
    (x,), to_even = statement.inputs, statement.params["rounding_method"].name == "TO_NEAREST_EVEN"
    if scope.backend is JAX:
        return call("lax.round", scope.operand(x), *(["lax.RoundingMethod.TO_NEAREST_EVEN"] if to_even else []))
    return call("np.rint", scope.operand(x)) if to_even else help_call(scope, "round_away", scope.atom(x))


@JAX.rule("convert_element_type")
def _convert_in_jax(scope: Scope, statement: Statement) -> Expr:
    (x,), to = statement.inputs, JAX.dtype(statement.output.type)
    if isinstance(x, Literal) or x.type.kind == "c" or statement.output.type.is_key:
        return call("lax.convert_element_type", scope.operand(x), to)
    return method(scope.operand(x), "astype", to)


@NUMPY.rule("convert_element_type")
def _convert(scope: Scope, statement: Statement) -> Expr:
    (x,), to = statement.inputs, statement.output.type
    value = scope.operand(x)
    if x.type.kind == "f" and to.kind in "iu":
        return help_call(scope, "to_integer", value, NUMPY.dtype(to))
    if x.type.kind == "c" and to.kind not in "cb":
        value = attribute(value, "real")
    if to.kind == "b":
        return infix(value, "!=", Expr("0"))
    return cast(value, to)


@both("bitcast_convert_type")
def _bitcast(scope: Scope, statement: Statement) -> Expr:
    (x,), to = statement.inputs, statement.output.type
    dtype = scope.backend.dtype(to)
    if scope.backend is JAX:
        return call("lax.bitcast_convert_type", scope.operand(x), dtype)
    if x.type.dtype.itemsize == to.dtype.itemsize and not isinstance(x, Literal):
        return Expr(f"{scope.operand(x).within(13)}.view({dtype})")
    return help_call(scope, "reinterpret", scope.operand(x), dtype)


@NUMPY.rule("reduce_precision")
def _reduce_precision(scope: Scope, statement: Statement) -> Expr | None:
    (x,) = statement.inputs
    if x.type.name not in ("float16", "float32", "float64"):
        raise refuse(scope, statement, f"{x.type.name} has no such bits in numpy")
    return calling("reduce_precision", ("exponent_bits", "mantissa_bits"))(scope, statement)


@NUMPY.rule("clamp")
def _clamp(scope: Scope, statement: Statement) -> Expr:
    low, x, high = statement.inputs

    def limit(value: Operand) -> Expr:
        return scope.number(value, x) if isinstance(value, Literal) else scope.operand(value)

    return call("np.minimum", call("np.maximum", scope.operand(x), limit(low)), limit(high))


@JAX.rule("select_n")
def _select_n_in_jax(scope: Scope, statement: Statement) -> Expr:
    which, *cases = statement.inputs
    if len(cases) != 2 or which.type.kind != "b":
        return call("lax.select_n", *map(scope.operand, statement.inputs))
    no, yes = cases
    if which.type.shape in ((), statement.output.type.shape) and isinstance(which, Variable):
        return call("jnp.where", *scope.choice(which, yes, no))
    return call("lax.select", scope.operand(which), scope.operand(yes), scope.operand(no))


@NUMPY.rule("select_n")
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


@JAX.rule("optimization_barrier")
def _barrier(scope: Scope, statement: Statement) -> Expr:
    operands = [scope.operand(v) for v in statement.inputs]
    return call("lax.optimization_barrier", operands[0] if len(operands) == 1 else tuple_text(operands))


@NUMPY.rule("eq_to", "le_to", "lt_to")
def _total_order(scope: Scope, statement: Statement) -> Expr:
    a, b = (help_call(scope, "total_order", scope.operand(v)) for v in statement.inputs)
    return infix(a, {"eq_to": "==", "le_to": "<=", "lt_to": "<"}[statement.op], b)
