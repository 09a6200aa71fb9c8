"""Functions that sources for numpy carry with them, each written out where it is used."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterable
from functools import cache
from types import ModuleType

from erasurehead.decompile._helpers import (
    arithmetic,
    indexing,
    linear,
    randomness,
    windows,
)

_MODULES = (arithmetic, indexing, windows, linear, randomness)


@cache
def _all() -> dict[str, tuple[str, frozenset[str]]]:
    """Return each helper's source and the helpers that it needs."""
    sources: dict[str, str] = {}
    for module in _MODULES:
        sources.update(_of(module))
    return {
        name: (
            text,
            frozenset(
                n.id for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Name)
            )
            & sources.keys() - {name},
        )
        for name, text in sources.items()
    }


def _of(module: ModuleType) -> dict[str, str]:
    text = inspect.getsource(module)
    tree = ast.parse(text)
    lines = text.splitlines()
    return {
        node.name: "\n".join(lines[node.lineno - 1 : node.end_lineno])
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
    }


def names() -> list[str]:
    """Return the names of all helpers."""
    return list(_all())


def closure(wanted: Iterable[str]) -> dict[str, str]:
    """Return the sources of helpers and of those that they need, by name."""
    sources: dict[str, str] = {}

    def add(name: str) -> None:
        if name not in sources:
            text, needed = _all()[name]
            for other in sorted(needed):
                add(other)
            sources[name] = text

    for name in wanted:
        add(name)
    return sources
