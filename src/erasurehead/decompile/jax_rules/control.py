"""Branches and loops."""

from __future__ import annotations

from erasurehead.decompile.jax_rules.base import rule
from erasurehead.decompile.jax_rules.calls import inner_function, targets
from erasurehead.decompile.program import Statement, Variable
from erasurehead.decompile.texts import Expr, call, tuple_text
from erasurehead.decompile.writer import Scope


def _results(texts: list[str]) -> str:
    return texts[0] if len(texts) == 1 else ", ".join(texts) if texts else "()"


def _assign(scope: Scope, statement: Statement, expr: Expr, hint: str) -> None:
    """Write a statement with several results, or none."""
    names = [scope.bind(o, hint) if o in scope.uses else "_" for o in statement.outputs]
    scope.emit(f"{', '.join(names)} = {expr.text}" if names else expr.text)


@rule("cond")
def _cond(scope: Scope, statement: Statement) -> Expr | None:
    branches = statement.blocks["branches"]
    names = [inner_function(scope, branch, result=_results) for branch in branches]
    (index,) = statement.inputs
    if index.type.kind == "b":
        expr = call("lax.cond", scope.operand(index), names[1], names[0])
    else:
        expr = call("lax.switch", scope.operand(index), f"[{', '.join(names)}]")
    if len(statement.outputs) == 1:
        return expr
    _assign(scope, statement, expr, "chosen")
    return None


@rule("while")
def _while(scope: Scope, statement: Statement) -> Expr | None:
    (cond,), (body,) = statement.blocks["cond"], statement.blocks["body"]
    many = len(statement.outputs) != 1
    scope.materialize(statement.inputs)
    start = [scope.operand(v) for v in statement.inputs]
    test = inner_function(scope, cond, one_tuple=many, result=lambda texts: texts[0])
    step = inner_function(scope, body, one_tuple=many, result=_results)
    expr = call("lax.while_loop", test, step, tuple_text([s.text for s in start]) if many else start[0])
    _assign(scope, statement, expr, "carry")
    return None


@rule("scan")
def _scan(scope: Scope, statement: Statement) -> Expr | None:
    (body,) = statement.blocks["body"]
    p, n = statement.params, int(statement.params["num_carry"])
    scope.materialize(statement.inputs)
    scope.materialize_for(body)
    carried, rows = body.parameters[:n], body.parameters[n:]
    before: list[str] = []

    def side(variables: list[Variable], hint: str) -> str:
        if not variables:
            return scope.names.new("_unused") if hint == "x" else scope.names.new("carry")
        if len(variables) == 1:
            return scope.bind(variables[0], hint)
        names = [scope.bind(v, hint) if v in scope.uses else "_" for v in variables]
        whole = scope.names.new("carry" if hint == "c" else "row")
        before.append(f"{targets(names)} = {whole}")
        return whole

    function = scope.names.new(body.name or "body")
    parameters = [side(carried, "c"), side(rows, "x")]
    scope.blank_line()
    scope.emit(f"def {function}({', '.join(parameters)}):")
    inner = scope.inner(body)
    for line in before:
        inner.emit(line)
    inner.write()

    def result(texts: list[str]) -> str:
        carry = texts[0] if n == 1 else tuple_text(texts[:n])
        out = "None" if not texts[n:] else texts[n] if len(texts) == n + 1 else tuple_text(texts[n:])
        return f"{carry}, {out}"

    inner.returned(result)
    scope.lines += inner.lines
    scope.lines.append("")
    values = [scope.operand(v) for v in statement.inputs]
    start = values[0].text if n == 1 else tuple_text([v.text for v in values[:n]])
    xs = (
        "None"
        if not values[n:]
        else values[n].text
        if len(values) == n + 1
        else tuple_text([v.text for v in values[n:]])
    )
    unroll = int(p.get("unroll", 1))
    expr = call(
        "lax.scan",
        function,
        start,
        xs,
        length=str(p["length"]) if not values[n:] else None,
        reverse="True" if p["reverse"] else None,
        unroll=str(unroll) if unroll != 1 else None,
    )

    def group(outputs: list[Variable], hint: str) -> str:
        names = [scope.bind(o, hint) if o in scope.uses else "_" for o in outputs]
        return "_" if not names else names[0] if len(names) == 1 else tuple_text(names)

    scope.emit(f"{group(statement.outputs[:n], 'carry')}, {group(statement.outputs[n:], 'rows')} = {expr.text}")
    return None
