"""Branches, loops and calls: with JAX as functions within the function, with numpy as Python's statements."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from erasurehead.decompile._program import Body, Statement, Variable
from erasurehead.decompile._rules.base import JAX, NUMPY, both, dims
from erasurehead.decompile._texts import Expr, Names, call, one_or_all, prefix, tuple_text, wrapped
from erasurehead.decompile._uses import uses_of
from erasurehead.decompile._writer import Scope


def _joined(texts: list[str]) -> str:
    """Return results as they stand after `return`."""
    return ", ".join(texts) or "()"


def _targets(names: list[str]) -> str:
    """Return names as the left side of an assignment that unpacks a tuple."""
    return f"({names[0]},)" if len(names) == 1 else ", ".join(names)


def _bound(scope: Scope, variables: Sequence[Variable], hint: str) -> list[str]:
    """Return the names of variables, `_` for those that are not used."""
    return [scope.bind(v, hint) if v in scope.uses else "_" for v in variables]


def inner_function(
    scope: Scope,
    block: Body,
    groups: Sequence[tuple[list[Variable], str, str]] | None = None,
    result: Callable[[list[str]], str] = _joined,
) -> str:
    """Write a block as a function within this one, and return its name.

    Arguments:
        scope: the scope to write it in.
        block: its statements.
        groups: the variables that are passed as one tuple, with a hint for their names and the name of the tuple; by
            default each is a parameter by itself.
        result: writes the result; by default the only one, or a tuple.
    """
    scope.materialize_for(block)
    function = scope.names.new(block.name or "body")
    parameters: list[str] = []
    unpacked: list[str] = []
    for variables, hint, whole in [([p], "x", "") for p in block.parameters] if groups is None else groups:
        if len(variables) == 1:
            parameters.append(scope.bind(variables[0], hint))
            continue
        names = _bound(scope, variables, hint)
        parameters.append(scope.names.new(whole))
        if names:
            unpacked.append(f"{_targets(names)} = {parameters[-1]}")
    scope.blank_line()
    scope.emit(f"def {function}({', '.join(parameters)}):")
    inner = scope.inner(block)
    for line in unpacked:
        inner.emit(line)
    inner.write()
    inner.returned(result)
    scope.lines += [*inner.lines, ""]
    return function


@JAX.rule("cond")
def _cond_in_jax(scope: Scope, statement: Statement) -> Expr | None:
    names = [inner_function(scope, branch) for branch in statement.blocks["branches"]]
    (index,) = statement.inputs
    if index.type.kind == "b":
        expr = call("lax.cond", scope.operand(index), names[1], names[0])
    else:
        expr = call("lax.switch", scope.operand(index), f"[{', '.join(names)}]")
    if len(statement.outputs) == 1:
        return expr
    _assign_to_outputs(scope, statement, expr, "chosen")
    return None


def _assign_to_outputs(scope: Scope, statement: Statement, expr: Expr, hint: str) -> None:
    names = _bound(scope, statement.outputs, hint)
    scope.emit(f"{', '.join(names)} = {expr.text}" if names else expr.text)


@JAX.rule("while")
def _while_in_jax(scope: Scope, statement: Statement) -> None:
    (cond,), (body,) = statement.blocks["cond"], statement.blocks["body"]
    many = len(statement.outputs) != 1
    scope.materialize(statement.inputs)
    start = [scope.operand(v).text for v in statement.inputs]
    functions = [inner_function(scope, b, [(b.parameters, "c", "carry")] if many else None) for b in (cond, body)]
    expr = call("lax.while_loop", *functions, tuple_text(start) if many else start[0])
    _assign_to_outputs(scope, statement, expr, "carry")


@JAX.rule("scan")
def _scan_in_jax(scope: Scope, statement: Statement) -> None:
    (body,) = statement.blocks["body"]
    p, n = statement.params, int(statement.params["num_carry"])
    scope.materialize(statement.inputs)
    carried, rows = body.parameters[:n], body.parameters[n:]

    def result(texts: list[str]) -> str:
        return f"{one_or_all(texts[:n])}, {one_or_all(texts[n:]) if texts[n:] else 'None'}"

    groups = [(carried, "c", "carry"), (rows, "x", "row" if rows else "_unused")]
    function = inner_function(scope, body, groups, result)
    values = [scope.operand(v).text for v in statement.inputs]
    unroll = int(p.get("unroll", 1))
    expr = call(
        "lax.scan",
        function,
        one_or_all(values[:n]),
        one_or_all(values[n:]) if rows else "None",
        length=None if rows else str(p["length"]),
        reverse="True" if p["reverse"] else None,
        unroll=str(unroll) if unroll != 1 else None,
    )
    outputs = _bound(scope, statement.outputs[:n], "carry"), _bound(scope, statement.outputs[n:], "rows")
    scope.emit(f"{', '.join(str(one_or_all(names)) if names else '_' for names in outputs)} = {expr.text}")


# ------------------------------------------------------------------------------------------------ with numpy


def _assign(scope: Scope, targets: list[str], values: list[str]) -> None:
    """Write an assignment of several values at once, leaving out those that do not change."""
    pairs = [(t, v) for t, v in zip(targets, values, strict=True) if t != v]
    if pairs:
        scope.emit(f"{', '.join(t for t, _ in pairs)} = {', '.join(v for _, v in pairs)}")


def _results(scope: Scope) -> list[str]:
    return [str(e) for e in scope.results()]


def _end(scope: Scope, inner: Scope) -> None:
    """Write the lines of a branch or a loop's body, which Python does not let be empty."""
    scope.lines += inner.lines or [" " * inner.indent + "pass"]


@NUMPY.rule("cond")
def _cond(scope: Scope, statement: Statement) -> None:
    branches = statement.blocks["branches"]
    scope.materialize_for(*branches)
    (index,) = statement.inputs
    names = [scope.bind(output, "chosen") for output in statement.outputs]
    if index.type.kind == "b":
        order = [(f"if {scope.operand(index)}:", branches[1]), ("else:", branches[0])]
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
        _end(scope, inner)


def _share(scope: Scope, groups: list[list[Variable]], hint: str) -> list[str]:
    """Give one name to the variables that hold the same value in and after a loop."""
    names: list[str] = []
    for variables in zip(*groups, strict=True):
        named = [v.name for v in variables if v.name]
        names.append(scope.names.new(named[0] if named else hint))
        scope.texts.update(dict.fromkeys(variables, names[-1]))
    return names


@NUMPY.rule("while")
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
    _end(scope, inner)


@NUMPY.rule("scan")
def _scan(scope: Scope, statement: Statement) -> None:
    (body,) = statement.blocks["body"]
    p, n = statement.params, int(statement.params["num_carry"])
    scope.materialize(statement.inputs)
    scope.materialize_for(body)
    stacked, xs = statement.outputs[n:], statement.inputs[n:]
    names = _share(scope, [statement.outputs[:n], body.parameters[:n]], "carry")
    _assign(scope, names, [str(scope.operand(v)) for v in statement.inputs[:n]])
    collected = [scope.bind(v, "rows") for v in stacked]
    for name, variable in zip(collected, stacked, strict=True):
        scope.emit(f"{name} = np.empty({dims(variable.type.shape)}, {NUMPY.dtype(variable.type)})")
    used = [(row, str(scope.atom(x))) for row, x in zip(body.parameters[n:], xs, strict=True) if row in scope.uses]
    inner = scope.inner(body)
    index = ""
    if len(used) == 1 and not stacked and not p["reverse"]:
        scope.emit(f"for {scope.bind(used[0][0], 'row')} in {used[0][1]}:")
    else:
        index = scope.names.new("i") if used or stacked else "_"
        places = f"range({int(p['length'])})"
        scope.emit(f"for {index} in {f'reversed({places})' if p['reverse'] and index != '_' else places}:")
        for row, text in used:
            inner.emit(f"{scope.bind(row, 'row')} = {text}[{index}]")
    inner.write()
    values = _results(inner)
    for name, value in zip(collected, values[n:], strict=True):
        inner.emit(f"{name}[{index}] = {value}")
    _assign(inner, names, values[:n])
    _end(scope, inner)


# ------------------------------------------------------------------------------------------------ calls that are kept

_DECORATORS = {
    "jit": "@jax.jit",
    "pjit": "@jax.jit",
    "custom_jvp_call": "@jax.custom_jvp",
    "custom_vjp_call": "@jax.custom_vjp",
    "remat2": "@jax.checkpoint",
    "checkpoint": "@jax.checkpoint",
}


@both("call")
def _call(scope: Scope, statement: Statement) -> Expr:
    """Write a function of the module, once, and return a call of it."""
    (block,), module = statement.blocks["call"], scope.module
    if id(block) not in module.functions:
        name = module.functions[id(block)] = module.names.new(block.name or "function")
        decorator = [_DECORATORS[statement.params["kind"]]] if scope.backend is JAX else []
        inner = _module_scope(scope, block, Names({*module.names.taken, name}))
        parameters = [inner.bind(p, "x") for p in block.parameters]
        lines = _function_lines(inner, f"def {name}({', '.join(parameters)}):", _joined)
        module.lines += [*decorator, *lines]
        _write_derivatives(scope, statement, name)
    return call(module.functions[id(block)], *map(scope.operand, statement.inputs))


def _module_scope(scope: Scope, block: Body, names: Names) -> Scope:
    texts = dict(scope.module.constants)
    return Scope(scope.backend, scope.module, block, names, texts, uses_of(block), 4, scope.comments, scope.unfold)


def _function_lines(inner: Scope, head: str, result: Callable[[list[str]], str]) -> list[str]:
    inner.write()
    inner.returned(result)
    return [*wrapped(head, 0), *inner.lines, "", ""]


def _write_derivatives(scope: Scope, statement: Statement, name: str) -> None:
    """Write the differentiation rule of a kept function."""
    module, (function,) = scope.module, statement.blocks["call"]
    n, m = len(function.parameters), len(function.results)
    parts: dict[str, str] = {}
    for part in ("jvp", "fwd", "bwd"):
        if part not in statement.blocks:
            continue
        (block,) = statement.blocks[part]
        parts[part] = module.names.new(f"{name}_{part}")
        inner = _module_scope(scope, block, Names(module.names.taken))
        tuples = {"jvp": ("primals", "tangents"), "bwd": ("residuals", "cotangents")}.get(part, ())
        parameters = [inner.names.new(text) for text in tuples]
        bound = [inner.bind(p, "x") for p in block.parameters]
        if tuples:
            cut = n if part == "jvp" else len(bound) - m
            first, second = bound[:cut], bound[cut:]
            if first:
                inner.emit(f"{_targets(first)} = {parameters[0]}")
            alone = part == "bwd" and m == 1
            inner.emit(f"{second[0] if alone else _targets(second)} = {parameters[1]}")

        def result(texts: list[str], part: str = part) -> str:
            if part == "bwd":
                return tuple_text(texts)
            rest = one_or_all(texts[m:]) if part == "jvp" else tuple_text(texts[m:])
            return f"{one_or_all(texts[:m])}, {rest}"

        head = f"def {parts[part]}({', '.join(parameters or bound)}):"
        decorator = [f"@{name}.defjvp"] if part == "jvp" else []
        module.lines += [*decorator, *_function_lines(inner, head, result)]
    if "fwd" in parts:
        module.lines += [f"{name}.defvjp({parts['fwd']}, {parts['bwd']})", "", ""]
