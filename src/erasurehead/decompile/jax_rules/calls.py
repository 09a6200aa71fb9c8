"""Functions within the function: bodies and branches, and calls that are kept."""

from __future__ import annotations

from collections.abc import Callable

from erasurehead.decompile.jax_rules.base import rule
from erasurehead.decompile.program import Block, Statement
from erasurehead.decompile.texts import Expr, Names, call, tuple_text
from erasurehead.decompile.writer import Scope, uses_of


def inner_function(
    scope: Scope,
    block: Block,
    *,
    splits: tuple[int, int] | None = None,
    one_tuple: bool = False,
    result: Callable[[list[str]], str] | None = None,
) -> str:
    """Write a block as a function within this one, and return its name.

    Arguments:
        scope: the scope to write it in.
        block: its statements.
        splits: how many parameters are passed in each of two tuples.
        one_tuple: whether all parameters are passed as one tuple.
        result: writes the result; by default the only one, or a tuple.
    """
    scope.materialize_for(block)
    function = scope.names.new(block.name or "body")
    before: list[str] = []
    if one_tuple or splits:
        names = [scope.bind(p, "c") if p in scope.uses else "_" for p in block.parameters]
        if splits:
            left, right = scope.names.new("left"), scope.names.new("right")
            parameters = [left, right]
            before = [f"{targets(names[: splits[0]])} = {left}", f"{targets(names[splits[0] :])} = {right}"]
        else:
            parameters = [scope.names.new("carry")]
            before = [f"{targets(names)} = {parameters[0]}"] if names else []
    else:
        parameters = [scope.bind(p, "x") for p in block.parameters]
    scope.blank_line()
    scope.emit(f"def {function}({', '.join(parameters)}):")
    inner = scope.inner(block)
    for line in before:
        inner.emit(line)
    inner.write()
    inner.returned(result or (lambda texts: texts[0] if len(texts) == 1 else ", ".join(texts)))
    scope.lines += inner.lines
    scope.lines.append("")
    return function


def targets(names: list[str]) -> str:
    """Return names as the left side of an assignment that unpacks a tuple."""
    return f"({names[0]},)" if len(names) == 1 else ", ".join(names)


def kept_function(scope: Scope, block: Block, decorator: str | None) -> str:
    """Write a block as a function of the module, once, and return its name."""
    module = scope.module
    if id(block) not in module.functions:
        name = module.names.new(block.name or "function")
        module.functions[id(block)] = name
        lines = function_lines(scope, block, name)
        module.lines += [*([decorator] if decorator else []), *lines, "", ""]
    return module.functions[id(block)]


def function_lines(scope: Scope, block: Block, name: str) -> list[str]:
    """Return the lines of a block as a function of the module."""
    names = Names({*scope.module.names.taken, name})
    known = dict(scope.module.constants)
    uses = uses_of(block)
    inner = Scope(scope.backend, scope.module, block, names, known, uses, 4, scope.comments, scope.unfold)
    parameters = [inner.bind(p, "x") for p in block.parameters]
    inner.write()
    inner.returned(lambda texts: texts[0] if len(texts) == 1 else ", ".join(texts))
    head = Scope(scope.backend, scope.module, block, names, known, uses, 0)
    head.emit(f"def {name}({', '.join(parameters)}):")
    return [*head.lines, *inner.lines]


@rule("call")
def _call(scope: Scope, statement: Statement) -> Expr:
    (block,) = statement.blocks["call"]
    kind = statement.params["kind"]
    known = id(block) in scope.module.functions
    decorator = {
        "jit": "@jax.jit",
        "pjit": "@jax.jit",
        "custom_jvp_call": "@jax.custom_jvp",
        "custom_vjp_call": "@jax.custom_vjp",
        "remat2": "@jax.checkpoint",
        "checkpoint": "@jax.checkpoint",
    }[kind]
    scope.need("jax")
    name = kept_function(scope, block, decorator)
    if not known and kind in ("custom_jvp_call", "custom_vjp_call"):
        _rules(scope, statement, name, len(block.parameters), len(block.results))
    return call(name, *map(scope.operand, statement.inputs))


def _rules(scope: Scope, statement: Statement, name: str, n: int, m: int) -> None:
    """Write the differentiation rule of a kept function."""
    module, names = scope.module, scope.module.names
    parts: dict[str, str] = {}
    for part in ("jvp", "fwd", "bwd"):
        if part not in statement.blocks:
            continue
        (block,) = statement.blocks[part]
        parts[part] = names.new(f"{name}_{part}")
        known = dict(module.constants)
        own = Names({*names.taken})
        inner = Scope(scope.backend, module, block, own, known, uses_of(block), 4, scope.comments)
        variables = block.parameters
        if part == "jvp":
            left, right = own.new("primals"), own.new("tangents")
            cut = n
        elif part == "bwd":
            left, right = own.new("residuals"), own.new("cotangents")
            cut = len(variables) - m
        else:
            left, right, cut = "", "", 0
        bound = [inner.bind(p, "x") for p in variables]
        if part == "fwd":
            head = f"def {parts[part]}({', '.join(bound)}):"
        else:
            head = f"def {parts[part]}({left}, {right}):"
            first, second = bound[:cut], bound[cut:]
            if first:
                inner.emit(f"{targets(first)} = {left}")
            alone = part == "bwd" and m == 1
            inner.emit(f"{second[0] if alone else targets(second)} = {right}")
        inner.write()

        def result(texts: list[str], part: str = part) -> str:
            def some(values: list[str]) -> str:
                return values[0] if len(values) == 1 else tuple_text(values)

            if part == "bwd":
                return tuple_text(texts)
            if part == "jvp":
                return f"{some(texts[:m])}, {some(texts[m:])}"
            return f"{some(texts[:m])}, {tuple_text(texts[m:]) if texts[m:] else '()'}"

        inner.returned(result)
        decorator = [f"@{name}.defjvp"] if part == "jvp" else []
        module.lines += [*decorator, head, *inner.lines, "", ""]
    if "fwd" in parts:
        module.lines += [f"{name}.defvjp({parts['fwd']}, {parts['bwd']})", "", ""]
