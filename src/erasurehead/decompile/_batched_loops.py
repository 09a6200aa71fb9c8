"""Loops under `vmap`, whose conditions are arrays: they run while any is true, and update only those elements."""

from __future__ import annotations

from collections.abc import Sequence

from erasurehead.decompile._program import Body, Operand, Statement, Type, Variable


def with_one_condition(statement: Statement) -> None:
    """Make a loop whose condition is an array run while any is true, and update only those elements."""
    (cond,), (body,) = statement.blocks["cond"], statement.blocks["body"]
    (going,) = cond.results
    if going.type.shape == ():
        return
    renamed = dict(zip(cond.parameters, body.parameters, strict=True))
    again, (mask,) = _copied(cond.statements, cond.results, renamed)
    body.statements += again
    for i, (result, old) in enumerate(zip(body.results, body.parameters, strict=True)):
        wide = mask
        if mask.type.shape != result.type.shape:
            wide = Variable(Type(result.type.shape, mask.type.dtype))
            where = {"shape": result.type.shape, "broadcast_dimensions": tuple(range(mask.type.rank))}
            body.statements.append(Statement("broadcast_in_dim", [mask], [wide], where))
        chosen = Variable(Type(result.type.shape, result.type.dtype))
        body.statements.append(Statement("select_n", [wide, old, result], [chosen], {}))
        body.results[i] = chosen
    some = Variable(Type((), going.type.dtype))
    cond.statements.append(Statement("reduce_or", [going], [some], {"axes": tuple(range(going.type.rank))}))
    cond.results = [some]


def _copied(
    statements: Sequence[Statement], results: Sequence[Operand], renamed: dict[Variable, Variable]
) -> tuple[list[Statement], list[Operand]]:
    """Return a copy of statements, with fresh variables."""

    def read(operand: Operand) -> Operand:
        return renamed.get(operand, operand) if isinstance(operand, Variable) else operand

    copies: list[Statement] = []
    for s in statements:
        blocks: dict[str, list[Body]] = {}
        for name, inner in s.blocks.items():
            blocks[name] = []
            for block in inner:
                parameters = [Variable(p.type, p.name) for p in block.parameters]
                renamed.update(zip(block.parameters, parameters, strict=True))
                body, ends = _copied(block.statements, block.results, renamed)
                blocks[name].append(Body(block.name, parameters, body, ends))
        inputs = [read(v) for v in s.inputs]
        outputs = [Variable(v.type) for v in s.outputs]
        renamed.update(zip(s.outputs, outputs, strict=True))
        copies.append(Statement(s.op, inputs, outputs, dict(s.params), blocks, s.where, s.primitive))
    return copies, [read(v) for v in results]
