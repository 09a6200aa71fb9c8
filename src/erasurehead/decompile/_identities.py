"""Long expressions of JAX for which numpy has an equivalent function: above all the logistic loss.

`jnp.logaddexp(a, b)`, as which `softplus` and `log_sigmoid` are written as well, becomes `np.logaddexp(a, b)`; its
derivative by `b`, where `a` is 0, `1 / (1 + exp(-b))`. Both agree for infinities and NaN, and round no worse.
Only sources for numpy use them, which are compared within a tolerance; that is measured on JAX's own program.
"""

from __future__ import annotations

from erasurehead.decompile._program import Body, Literal, Operand, Statement, Variable
from erasurehead.decompile._simplify import without_dead_code

_Makers = dict[Variable, Statement]
_Pair = tuple[Operand, Operand]


def with_identities(block: Body) -> None:
    """Replace long expressions in a block and its inner blocks."""
    _rewrite(block)
    without_dead_code(block)


def _rewrite(block: Body) -> None:
    makers: _Makers = {}
    sums: dict[Variable, _Pair] = {}
    statements: list[Statement] = []
    for statement in block.statements:
        replacement = [statement]
        if statement.op == "select_n" and (pair := _logaddexp(statement, makers)) is not None:
            sums[statement.output] = pair
            replacement = [Statement("logaddexp", list(pair), statement.outputs, {}, where=statement.where)]
        elif statement.op == "exp" and (x := _slope(statement, makers, sums)) is not None:
            replacement = _share(x, statement, makers)
        for inner in statement.blocks.values():
            for one in inner:
                _rewrite(one)
        makers.update(dict.fromkeys(statement.outputs, statement))
        statements += replacement
    block.statements = statements


def _by(operand: Operand, op: str, makers: _Makers) -> list[Operand] | None:
    """Return the inputs of the operation `op` that computed an operand; None if another operation did."""
    maker = makers.get(operand) if isinstance(operand, Variable) else None
    return maker.inputs if maker is not None and maker.op == op and len(maker.outputs) == 1 else None


def _same(a: Operand, b: Operand) -> bool:
    if isinstance(a, Literal) and isinstance(b, Literal):
        return bool(a.value == b.value)
    return a is b


def _logaddexp(statement: Statement, makers: _Makers) -> _Pair | None:
    """Match `where(d != d, a + b, max(a, b) + log1p(exp(-abs(d))))` with `d = a - b`; return a and b."""
    test, usual, unusual = statement.inputs if len(statement.inputs) == 3 else (None, None, None)
    if test is None or usual is None or unusual is None or statement.output.type.name not in ("float32", "float64"):
        return None
    compared, total, terms = _by(test, "ne", makers), _by(unusual, "add", makers), _by(usual, "add", makers)
    if compared is None or total is None or terms is None or not _same(*compared):
        return None
    inner = terms[1]
    for op in ("log1p", "exp", "neg", "abs"):
        operands = _by(inner, op, makers)
        if operands is None:
            return None
        (inner,) = operands
    pair = _by(terms[0], "max", makers)
    if pair is None or not _same(inner, compared[0]) or not all(map(_same, pair, total)):
        return None
    a, b = pair
    difference = _by(inner, "sub", makers)
    if difference is None:  # subtracting 0 was simplified away
        return (a, b) if inner is a and _is(b, 0.0) else None
    return (a, b) if _same(difference[0], a) and _same(difference[1], b) else None


def _is(operand: Operand, value: float) -> bool:
    return isinstance(operand, Literal) and bool(operand.value == value)


def _slope(statement: Statement, makers: _Makers, sums: dict[Variable, _Pair]) -> Variable | None:
    """Match `exp(x - logaddexp(0, x))`, with 0 in place of infinite elements; return x."""
    difference = _by(statement.inputs[0], "sub", makers)
    if difference is None:
        return None
    x, total = (_guarded(operand, makers) for operand in difference)
    if x is None or total is None or total not in sums:
        return None
    a, b = sums[total]
    return x if (x is a and _is(b, 0.0)) or (x is b and _is(a, 0.0)) else None


def _guarded(operand: Operand, makers: _Makers) -> Variable | None:
    """Match `where(x == inf, 0, x)`; return x."""
    chosen = _by(operand, "select_n", makers)
    if chosen is None or len(chosen) != 3:
        return None
    test, x, zero = chosen
    compared = _by(test, "eq", makers)
    spread = _by(zero, "broadcast_in_dim", makers)
    if compared is None or not isinstance(x, Variable) or compared[0] is not x or not _is(compared[1], float("inf")):
        return None
    return x if _is(zero if spread is None else spread[0], 0.0) else None


def _share(x: Variable, statement: Statement, makers: _Makers) -> list[Statement]:
    """Return statements that compute `1 / (1 + exp(-x))` in place of one."""
    one = Literal(x.type.dtype.type(1), type(x.type)((), x.type.dtype))
    minus, power, total = (Variable(x.type) for _ in range(3))
    opposite = _by(x, "neg", makers)  # of -x it is x
    steps: list[tuple[str, list[Operand], Variable]] = [] if opposite else [("neg", [x], minus)]
    steps += [
        ("exp", opposite or [minus], power),
        ("add", [one, power], total),
        ("div", [one, total], statement.output),
    ]
    return [Statement(op, list(inputs), [output], {}, where=statement.where) for op, inputs, output in steps]
