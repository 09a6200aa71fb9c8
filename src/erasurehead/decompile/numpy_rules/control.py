"""Branches and loops, as Python statements."""

from __future__ import annotations

from erasurehead.decompile.jax_rules.calls import kept_function
from erasurehead.decompile.numpy_rules.base import dims, dtype_text, refuse, rule
from erasurehead.decompile.program import Block, Statement, Variable
from erasurehead.decompile.texts import Expr, call, prefix
from erasurehead.decompile.writer import Scope


def _assign(scope: Scope, targets: list[str], values: list[str]) -> None:
    """Write an assignment of several values at once, leaving out those that do not change."""
    pairs = [(t, v) for t, v in zip(targets, values, strict=True) if t != v]
    if pairs:
        scope.emit(f"{', '.join(t for t, _ in pairs)} = {', '.join(v for _, v in pairs)}")


def _results(scope: Scope) -> list[str]:
    return [str(e) for e in scope.results()]


def inner_function(scope: Scope, block: Block, op: str) -> str:
    """Write the scalar computation of a reduction as a function that works on whole arrays, and return its name."""
    for statement in block.walk():
        if statement.blocks:
            raise refuse(op, f"its operation holds {statement.op}, which cannot work on whole arrays")
    scope.materialize_for(block)
    function = scope.names.new(block.name or "combine")
    scope.blank_line()
    scope.emit(f"def {function}({', '.join(scope.bind(p, 'x') for p in block.parameters)}):")
    inner = scope.inner(block)
    inner.write()
    inner.returned(lambda texts: ", ".join(texts))
    scope.lines += [*inner.lines, ""]
    return function


@rule("cond")
def _cond(scope: Scope, statement: Statement) -> None:
    branches = statement.blocks["branches"]
    scope.materialize_for(*branches)
    (index,) = statement.inputs
    names = [scope.bind(output, "chosen") for output in statement.outputs]
    order: list[tuple[str, Block]]
    if index.type.kind == "b":
        test = scope.operand(index)
        order = [(f"if {test}:", branches[1]), ("else:", branches[0])]
    else:
        value = scope.atom(index)
        order = [(f"if {value} <= 0:", branches[0])]
        order += [(f"elif {value} == {i}:", branch) for i, branch in enumerate(branches[1:-1], start=1)]
        order += [("else:", branches[-1])] if len(branches) > 1 else []
    for head, branch in order:
        scope.emit(head)
        inner = scope.inner(branch)
        inner.write()
        _assign(inner, names, _results(inner))
        scope.lines += inner.lines or [" " * inner.indent + "pass"]


def _share(scope: Scope, groups: list[list[Variable]], hint: str) -> list[str]:
    """Give one name to the variables that hold the same value in and after a loop."""
    names: list[str] = []
    for variables in zip(*groups, strict=True):
        named = [v.name for v in variables if v.name]
        name = scope.names.new(named[0] if named else hint)
        for variable in variables:
            scope.known[variable] = name
        names.append(name)
    return names


@rule("while")
def _while(scope: Scope, statement: Statement) -> None:
    (cond,), (body,) = statement.blocks["cond"], statement.blocks["body"]
    scope.materialize(statement.inputs)
    scope.materialize_for(cond, body)
    names = _share(scope, [statement.outputs, body.parameters, cond.parameters], "carry")
    _assign(scope, names, [str(scope.operand(v)) for v in statement.inputs])
    test = scope.inner(cond)
    test.write()
    (going,) = test.results()
    inner = scope.inner(body)
    if test.lines:
        scope.emit("while True:")
        inner.lines += test.lines
        inner.emit(f"if {prefix('not', going)}:")
        inner.lines.append(" " * (inner.indent + 4) + "break")
    else:
        scope.emit(f"while {going}:")
    inner.write()
    _assign(inner, names, _results(inner))
    scope.lines += inner.lines or [" " * inner.indent + "pass"]


@rule("scan")
def _scan(scope: Scope, statement: Statement) -> None:
    (body,) = statement.blocks["body"]
    p, n = statement.params, int(statement.params["num_carry"])
    length = int(p["length"])
    scope.materialize(statement.inputs)
    scope.materialize_for(body)
    carried, rows = body.parameters[:n], body.parameters[n:]
    stacked = statement.outputs[n:]
    names = _share(scope, [statement.outputs[:n], carried], "carry")
    starts, xs = statement.inputs[:n], statement.inputs[n:]
    _assign(scope, names, [str(scope.operand(v)) for v in starts])
    collected = [scope.bind(v, "rows") for v in stacked]
    for name, variable in zip(collected, stacked, strict=True):
        scope.emit(f"{name} = np.empty({dims(variable.type.shape)}, {dtype_text(scope, variable.type)})")
    used = [(row, x) for row, x in zip(rows, xs, strict=True) if row in scope.uses]
    whole = [str(scope.atom(x)) for _, x in used]
    inner = scope.inner(body)
    if len(used) == 1 and not stacked and not p["reverse"]:
        scope.emit(f"for {scope.bind(used[0][0], 'row')} in {whole[0]}:")
    else:
        counted = bool(used or stacked)
        index = scope.names.new("i") if counted else "_"
        places = f"reversed(range({length}))" if p["reverse"] and counted else f"range({length})"
        scope.emit(f"for {index} in {places}:")
        for (row, _), text in zip(used, whole, strict=True):
            inner.emit(f"{scope.bind(row, 'row')} = {text}[{index}]")
        _finish_body(inner, names, collected, n, index)
        scope.lines += inner.lines or [" " * inner.indent + "pass"]
        return
    _finish_body(inner, names, collected, n, "")
    scope.lines += inner.lines or [" " * inner.indent + "pass"]


def _finish_body(inner: Scope, names: list[str], collected: list[str], n: int, index: str) -> None:
    inner.write()
    values = _results(inner)
    for name, value in zip(collected, values[n:], strict=True):
        inner.emit(f"{name}[{index}] = {value}")
    _assign(inner, names, values[:n])


@rule("call")
def _call(scope: Scope, statement: Statement) -> Expr:
    (block,) = statement.blocks["call"]
    name = kept_function(scope, block, None)
    return call(name, *(scope.operand(v) for v in statement.inputs))
