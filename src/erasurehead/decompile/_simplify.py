"""Dead code elimination of statements, of their outputs, and of loop carries."""

from __future__ import annotations

from typing import TypeVar

from erasurehead.decompile._program import Body, Operand, Statement, Variable

_T = TypeVar("_T")


def without_dead_code(block: Body) -> None:
    """Remove all statements of a block and its inner blocks whose results are not used."""
    live: set[Variable] = set()
    _sweep(block, [True] * len(block.results), live)


def _mark(operands: list[Operand], live: set[Variable]) -> None:
    live.update(operand for operand in operands if isinstance(operand, Variable))


def _sweep(block: Body, wanted: list[bool], live: set[Variable]) -> None:
    """Remove the dead code of a block.

    Arguments:
        block: the block, which is modified.
        wanted: whether each of its results is used.
        live: variables that are used, to which those that the block uses are added.
    """
    _mark([r for r, want in zip(block.results, wanted, strict=True) if want], live)
    is_kept: list[Statement] = []
    for statement in reversed(block.statements):
        if statement.op != "comment" and not any(output in live for output in statement.outputs):
            continue
        if statement.op == "scan":
            _sweep_scan(statement, live)
        elif statement.op == "while":
            _sweep_while(statement, live)
        elif statement.op == "cond":
            _sweep_cond(statement, live)
        else:
            for blocks in statement.blocks.values():
                for inner in blocks:
                    _sweep(inner, [True] * len(inner.results), live)
        _mark(statement.inputs, live)
        is_kept.append(statement)
    block.statements = is_kept[::-1]


def _uses(block: Body, wanted: list[bool]) -> set[Variable]:
    """Return the variables that the wanted results of a block depend on; the block is not modified."""
    live: set[Variable] = set()
    copy = _copy(block)
    _sweep(copy, wanted, live)
    return live


def _copy(block: Body) -> Body:
    statements = [
        Statement(
            s.op,
            list(s.inputs),
            list(s.outputs),
            dict(s.params),
            {name: [_copy(b) for b in blocks] for name, blocks in s.blocks.items()},
            s.where,
            s.primitive,
        )
        for s in block.statements
    ]
    return Body(block.name, list(block.parameters), statements, list(block.results))


def _pick(values: list[_T], keep: list[bool]) -> list[_T]:
    return [value for value, is_kept in zip(values, keep, strict=True) if is_kept]


def _sweep_scan(statement: Statement, live: set[Variable]) -> None:
    (body,) = statement.blocks["body"]
    n = int(statement.params["num_carry"])
    carry_out, stacked = statement.outputs[:n], statement.outputs[n:]
    keep = [output in live for output in carry_out]
    stacked_live = [output in live for output in stacked]
    while True:
        used = _uses(body, keep + stacked_live)
        extended = [is_kept or parameter in used for is_kept, parameter in zip(keep, body.parameters[:n], strict=True)]
        if extended == keep:
            break
        keep = extended
    slices = [parameter in used for parameter in body.parameters[n:]]
    body.parameters = _pick(body.parameters, keep + slices)
    body.results = _pick(body.results, keep + stacked_live)
    statement.inputs = _pick(statement.inputs, keep + slices)
    statement.outputs = _pick(statement.outputs, keep + stacked_live)
    statement.params["num_carry"] = sum(keep)
    _sweep(body, [True] * len(body.results), live)


def _sweep_while(statement: Statement, live: set[Variable]) -> None:
    (cond,), (body,) = statement.blocks["cond"], statement.blocks["body"]
    used = _uses(cond, [True])
    keep = [
        output in live or parameter in used
        for output, parameter in zip(statement.outputs, cond.parameters, strict=True)
    ]
    while True:
        used = _uses(body, keep)
        extended = [is_kept or parameter in used for is_kept, parameter in zip(keep, body.parameters, strict=True)]
        if extended == keep:
            break
        keep = extended
    cond.parameters, body.parameters = _pick(cond.parameters, keep), _pick(body.parameters, keep)
    body.results = _pick(body.results, keep)
    statement.inputs, statement.outputs = _pick(statement.inputs, keep), _pick(statement.outputs, keep)
    for inner in (cond, body):
        _sweep(inner, [True] * len(inner.results), live)


def _sweep_cond(statement: Statement, live: set[Variable]) -> None:
    keep = [output in live for output in statement.outputs]
    statement.outputs = _pick(statement.outputs, keep)
    for branch in statement.blocks["branches"]:
        branch.results = _pick(branch.results, keep)
        _sweep(branch, [True] * len(branch.results), live)
