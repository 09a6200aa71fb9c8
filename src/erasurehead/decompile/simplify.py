"""Dead code elimination: statements, carries of loops, and outputs of statements."""

from __future__ import annotations

from typing import TypeVar

from erasurehead.decompile.program import Block, Operand, Statement, Variable

_T = TypeVar("_T")


def without_dead_code(block: Block) -> None:
    """Remove all statements of a block, and of the blocks in it, whose results are not used."""
    alive: set[Variable] = set()
    _sweep(block, [True] * len(block.results), alive)


def _mark(operands: list[Operand], alive: set[Variable]) -> None:
    alive.update(operand for operand in operands if isinstance(operand, Variable))


def _sweep(block: Block, wanted: list[bool], alive: set[Variable]) -> None:
    """Sweep a block, given which results are wanted; adds the variables that it uses to `alive`."""
    _mark([r for r, want in zip(block.results, wanted, strict=True) if want], alive)
    kept: list[Statement] = []
    for statement in reversed(block.statements):
        if statement.op != "comment" and not any(output in alive for output in statement.outputs):
            continue
        if statement.op == "scan":
            _sweep_scan(statement, alive)
        elif statement.op == "while":
            _sweep_while(statement, alive)
        elif statement.op == "cond":
            _sweep_cond(statement, alive)
        elif statement.op == "call":
            for name, blocks in statement.blocks.items():
                for inner in blocks:
                    _sweep(inner, [True] * len(inner.results), alive)
                del name
        else:
            for blocks in statement.blocks.values():
                for inner in blocks:
                    _sweep(inner, [True] * len(inner.results), alive)
        _mark(statement.inputs, alive)
        kept.append(statement)
    block.statements = kept[::-1]


def _uses(block: Block, wanted: list[bool]) -> set[Variable]:
    """Return the variables that the wanted results of a block need; modifies nothing."""
    alive: set[Variable] = set()
    copy = _copy(block)
    _sweep(copy, wanted, alive)
    return alive


def _copy(block: Block) -> Block:
    statements = [
        Statement(
            s.op, list(s.inputs), list(s.outputs), dict(s.params),
            {name: [_copy(b) for b in blocks] for name, blocks in s.blocks.items()}, s.where, s.primitive,
        )
        for s in block.statements
    ]  # fmt: skip
    return Block(block.name, list(block.parameters), statements, list(block.results))


def _pick(values: list[_T], keep: list[bool]) -> list[_T]:
    return [value for value, kept in zip(values, keep, strict=True) if kept]


def _sweep_scan(statement: Statement, alive: set[Variable]) -> None:
    (body,) = statement.blocks["body"]
    n = int(statement.params["num_carry"])
    carry_out, stacked = statement.outputs[:n], statement.outputs[n:]
    keep = [output in alive for output in carry_out]
    rows = [output in alive for output in stacked]
    while True:
        used = _uses(body, keep + rows)
        more = [kept or parameter in used for kept, parameter in zip(keep, body.parameters[:n], strict=True)]
        if more == keep:
            break
        keep = more
    used = _uses(body, keep + rows)
    slices = [parameter in used for parameter in body.parameters[n:]]
    body.parameters = _pick(body.parameters, keep + slices)
    body.results = _pick(body.results, keep + rows)
    statement.inputs = _pick(statement.inputs, keep + slices)
    statement.outputs = _pick(statement.outputs, keep + rows)
    statement.params["num_carry"] = sum(keep)
    _sweep(body, [True] * len(body.results), alive)


def _sweep_while(statement: Statement, alive: set[Variable]) -> None:
    (cond,), (body,) = statement.blocks["cond"], statement.blocks["body"]
    used = _uses(cond, [True])
    keep = [
        output in alive or parameter in used
        for output, parameter in zip(statement.outputs, cond.parameters, strict=True)
    ]
    while True:
        used = _uses(body, keep)
        more = [kept or parameter in used for kept, parameter in zip(keep, body.parameters, strict=True)]
        if more == keep:
            break
        keep = more
    cond.parameters, body.parameters = _pick(cond.parameters, keep), _pick(body.parameters, keep)
    body.results = _pick(body.results, keep)
    statement.inputs, statement.outputs = _pick(statement.inputs, keep), _pick(statement.outputs, keep)
    for inner in (cond, body):
        _sweep(inner, [True] * len(inner.results), alive)


def _sweep_cond(statement: Statement, alive: set[Variable]) -> None:
    keep = [output in alive for output in statement.outputs]
    statement.outputs = _pick(statement.outputs, keep)
    for branch in statement.blocks["branches"]:
        branch.results = _pick(branch.results, keep)
        _sweep(branch, [True] * len(branch.results), alive)
