"""The user's names for the results of statements, the parameters of functions, and the functions themselves."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from erasurehead.decompile import _origins as origins
from erasurehead.decompile._program import Statement


def name_results(candidates: Iterable[tuple[Statement, bool]]) -> None:
    """Give the results of statements the names to which the user's source assigns them.

    Arguments:
        candidates: statements, each with whether it is the transpose of another one, without a line of its own.
    """
    groups: dict[tuple[Any, ...], tuple[tuple[Any, str], list[Statement]]] = {}
    for statement, transposed in candidates:
        if transposed or statement.where is None:
            continue
        assigned = origins.assigned_at(statement.where)
        if assigned is not None:
            key = (statement.where.file, statement.where.line, statement.where.span, assigned)
            groups.setdefault(key, (assigned, []))[1].append(statement)
    for (names, operation), statements in groups.values():
        if isinstance(names, str):
            same = [s for s in statements if _called(s.op, operation)]
            # A line that ran more than once (a loop, or layers) computed one result each time.
            for statement in same or statements[-1:]:
                if len(statement.outputs) == 1:
                    statement.output.name = names or None
        else:
            for statement in statements:
                _name_outputs(statement, names)


def _name_outputs(statement: Statement, names: tuple[Any, ...]) -> None:
    """Give several results the names of a tuple on the left side of an assignment."""
    outputs = statement.outputs
    if statement.op == "scan" and len(names) == 2:
        n = int(statement.params["num_carry"])
        for group, part in ((outputs[:n], names[0]), (outputs[n:], names[1])):
            flat = origins.flat(part)
            if len(flat) == len(group):
                for output, name in zip(group, flat, strict=True):
                    output.name = name or None
        return
    flat = origins.flat(names)
    if statement.op == "svd" and len(flat) == 3:
        flat = [flat[1], flat[0], flat[2]]
    if len(flat) == len(outputs) > 1:
        for output, name in zip(outputs, flat, strict=True):
            output.name = name or None


def _called(op: str, operation: str) -> bool:
    return op == operation or op == f"reduce_{operation}" or (op == "logistic" and operation == "sigmoid")


def function_name(jaxpr: Any) -> str:
    """Return the user's name for the function of a jaxpr; empty if it is not an identifier."""
    info = str(getattr(jaxpr.debug_info, "func_src_info", "") or "")
    name = info.split(" at ")[0].split(" for ")[0].strip()
    return name if name.isidentifier() else ""


def in_library(jaxpr: Any) -> bool:
    """Return whether the function of a jaxpr belongs to a library, not to the user."""
    info = str(getattr(jaxpr.debug_info, "func_src_info", "") or "")
    place = info.rpartition(" at ")[2]
    return bool(place) and origins.is_library(place.rpartition(":")[0])


def argument_names(jaxpr: Any, count: int, bound: int) -> list[str | None]:
    """Return the names of the user's function for the parameters after the first `bound` ones."""
    names = getattr(jaxpr.debug_info, "arg_names", None)
    if not names or len(names) not in (count, count - bound):
        return [None] * (count - bound)
    info = str(jaxpr.debug_info.func_src_info or "")
    file, _, line = info.rpartition(" at ")[2].rpartition(":")
    unpacked = origins.unpacked(file, int(line)) if line.isdigit() else {}
    free = list(names)[-(count - bound) :] if count > bound else []
    return [unpacked.get(str(name), plain_name(str(name))) for name in free]


def plain_name(text: str) -> str | None:
    """Return a name for the value at a path: `w_0` for `params['w'][0]`; None if the path has no name in it."""
    cleaned = "".join(c if c.isalnum() or c == "_" else " " for c in text).split()
    words = [word for word in cleaned if word]
    if not words:
        return None
    words = words[1:] if len(words) > 1 and not words[1].isdigit() else words
    name = "_".join(words)
    return name if name.isidentifier() else f"x_{name}"
