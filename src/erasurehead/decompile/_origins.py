"""The location in the user's source that a statement comes from, and the name that its result is assigned to."""

from __future__ import annotations

import ast
import inspect
import linecache
import sysconfig
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from types import CodeType
from typing import Any

from erasurehead.decompile._installed import jax_module
from erasurehead.decompile._program import SourceLocation

_OWN = str(Path(__file__).parent)
_STANDARD = sysconfig.get_path("stdlib")


@cache
def is_library(file: str) -> bool:
    """Return whether a file belongs to JAX, to Python or to this package, and not to the user."""
    jax = jax_module()

    folder = str(Path(jax.__file__).parent)
    return file.startswith((folder, _OWN, "<frozen")) or (
        file.startswith(_STANDARD) and "site-packages" not in file and "dist-packages" not in file
    )


@cache
def _positions(code: CodeType) -> list[tuple[int | None, int | None, int | None, int | None]]:
    return list(code.co_positions())


def location_of(source_info: Any) -> SourceLocation | None:
    """Return the innermost location in the user's source that an equation comes from; None if there is none."""
    traceback = source_info.traceback
    if traceback is None:
        return None
    codes: list[CodeType]
    offsets: list[int]
    codes, offsets = traceback.raw_frames()
    for code, offset in zip(codes, offsets, strict=True):
        if is_library(code.co_filename):
            continue
        positions = _positions(code)
        if offset // 2 >= len(positions):
            continue
        line, end_line, column, end_column = positions[offset // 2]
        if line is None:
            continue
        span = (
            (column, end_line, end_column)
            if column is not None and end_line is not None and end_column is not None
            else None
        )
        return SourceLocation(code.co_filename, line, span, code.co_name)
    return None


def _nodes(lines: tuple[str, ...]) -> Iterable[ast.AST]:
    """Return what a text consists of as Python; nothing if it is not Python."""
    try:
        return ast.walk(ast.parse("".join(lines)))
    except (SyntaxError, ValueError):
        return ()


@cache
def _names(file: str, lines: tuple[str, ...]) -> dict[tuple[int, int, int, int], tuple[Any, str]]:
    """Return the assignments in a file: span of the value -> the names, and the operation that computes it."""
    assignments: dict[tuple[int, int, int, int], tuple[Any, str]] = {}
    for node in _nodes(lines):
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            target, value, at = node.targets[0], node.value, node.value
        elif isinstance(node, ast.AnnAssign | ast.NamedExpr) and node.value is not None:
            target, value, at = node.target, node.value, node.value
        elif isinstance(node, ast.AugAssign):
            target, value, at = node.target, node, node
        else:
            continue
        names = _target(target)
        if any(flat(names)) and at.end_lineno is not None and at.end_col_offset is not None:
            assignments[at.lineno, at.col_offset, at.end_lineno, at.end_col_offset] = (names, _operation(value))
    return assignments


def _target(node: ast.AST) -> Any:
    """Return the target of an assignment: a name, or nested tuples of names; "" for `_` and what is not a name."""
    if isinstance(node, ast.Tuple | ast.List):
        return tuple(_target(element) for element in node.elts)
    return node.id if isinstance(node, ast.Name) and node.id != "_" else ""


def flat(names: Any) -> list[str]:
    """Return the names in nested tuples, in order."""
    return [names] if isinstance(names, str) else [name for part in names for name in flat(part)]


@cache
def _trees(file: str, lines: tuple[str, ...]) -> dict[int, ast.FunctionDef]:
    functions: dict[int, ast.FunctionDef] = {}
    for node in _nodes(lines):
        if isinstance(node, ast.FunctionDef):
            functions.update({at.lineno: node for at in (node, *node.decorator_list)})
    return functions


def unpacked(file: str, line: int) -> dict[str, str]:
    """Return the names that a function assigns parts of its arguments to: `{"carry[0]": "i"}` after `i, c = carry`.

    Arguments:
        file: the file of the function.
        line: the line at which the function begins.
    """
    lines = tuple(linecache.getlines(file))
    function = _trees(file, lines).get(line) if lines else None
    assignments: dict[str, str] = {}
    if function is None:
        return assignments

    def enter(names: Any, path: str) -> None:
        if isinstance(names, str):
            if names:
                assignments.setdefault(path, names)
            return
        for i, part in enumerate(names):
            enter(part, f"{path}[{i}]")

    for statement in function.body:
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            value = statement.value
            if isinstance(value, ast.Name):
                enter(_target(statement.targets[0]), assignments.get(value.id, value.id))
            elif isinstance(value, ast.Subscript | ast.Attribute):
                enter(_target(statement.targets[0]), ast.unparse(value))
    return assignments


_OPERATORS = {
    "Add": "add",
    "Sub": "sub",
    "Mult": "mul",
    "Div": "div",
    "MatMult": "dot_general",
    "Pow": "integer_pow",
    "USub": "neg",
    "Gt": "gt",
    "Lt": "lt",
    "GtE": "ge",
    "LtE": "le",
    "Eq": "eq",
    "NotEq": "ne",
}


def _operation(node: ast.AST) -> str:
    """Return the name of the primitive that an expression is probably traced to; "" if unknown."""
    if isinstance(node, ast.Call):
        function = node.func
        return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    if isinstance(node, ast.BinOp | ast.UnaryOp | ast.AugAssign):
        return _OPERATORS.get(type(node.op).__name__, "")
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        return _OPERATORS.get(type(node.ops[0]).__name__, "")
    return ""


def assigned_at(where: SourceLocation) -> tuple[Any, str] | None:
    """Return the names that the expression at a location is assigned to, and its operation; None if there are none."""
    if where.span is None:
        return None
    lines = tuple(linecache.getlines(where.file))
    column, end_line, end_column = where.span
    if not lines or where.line > len(lines):
        return None
    names = _names(where.file, lines)
    if names or not where.file.endswith((".md", ".rst", ".txt")):
        return names.get((where.line, column, end_line, end_column))
    start = where.line - 1  # a snippet in a document, which as a whole is not Python: parse the function only
    while start > 0 and not lines[start].startswith("def "):
        start -= 1
    function_lines = tuple(inspect.getblock(list(lines[start:])))
    return _names(where.file, function_lines).get((where.line - start, column, end_line - start, end_column))
