"""The directive `public-names`: the documentation of every name that a package exports, under the name to import.

A package exports what its `__init__.py` imports with `from module import name as name`, or lists in `__all__`; a module
exports what it defines without an underscore.
"""

from __future__ import annotations

import ast
import importlib
import inspect
from abc import ABC
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.pycode import ModuleAnalyzer
from sphinx.util.docutils import SphinxDirective


def public_names(module: ModuleType) -> list[str]:
    """Return the names that a module exports, in the order of its source."""
    listed = getattr(module, "__all__", None)
    if listed is not None:
        return [name for name in listed if not inspect.ismodule(getattr(module, name))]
    tree = _tree(module)
    exported = [
        alias.asname
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname == alias.name
    ]
    defined = [node.name for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef)]
    constants = [
        node.targets[0].id
        for node, after in pairwise(tree.body)
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
        if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
    ]
    return [name for name in dict.fromkeys([*exported, *defined, *constants]) if not name.startswith("_")]


def _tree(module: ModuleType) -> ast.Module:
    return ast.parse(Path(inspect.getfile(module)).read_text(encoding="utf-8"))


def _home(module: ModuleType, name: str) -> str:
    """Return the module that a name of a package was imported from, which has the comment that documents it."""
    sources = [
        node.module
        for node in ast.walk(_tree(module))
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
        if (alias.asname or alias.name) == name
    ]
    return sources[0] if sources else module.__name__


def directives(module: ModuleType, name: str) -> list[str]:
    """Return the lines that document one public name."""
    value = getattr(module, name)
    if inspect.isclass(value):
        kind = "autoexception" if issubclass(value, BaseException) else "autoclass"
        lines = [f".. {kind}:: {module.__name__}.{name}", "   :members:"]
        if value.__name__ != name:  # under another name autodoc would show nothing but that it is one
            lines = [f".. rubric:: {name}", "", f".. {kind}:: {value.__module__}.{value.__name__}", "   :members:"]
        bases = [base for base in value.__bases__ if base not in (object, ABC)]
        return [*lines, "   :show-inheritance:", ""] if bases else [*lines, ""]
    if inspect.isroutine(value):
        return [f".. autofunction:: {module.__name__}.{name}", ""]
    home = _home(module, name)
    analyzer = ModuleAnalyzer.for_module(home)
    documented = ("", name) in analyzer.find_attr_docs()
    # Without a comment of its own autodoc would show that of its type.
    return [f".. autodata:: {home}.{name}", "   :no-value:", ""] if documented else [f".. py:data:: {name}", ""]


class PublicNames(SphinxDirective):
    """`.. public-names:: erasurehead.codes`: the module's docstring, then every public name."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        name = self.arguments[0]
        module = importlib.import_module(name)
        lines = [f".. automodule:: {name}", "   :no-members:", ""]
        for public in public_names(module):
            lines += directives(module, public)
        node = nodes.section(document=self.state.document)
        self.state.nested_parse(StringList(lines, source=name), self.content_offset, node)
        return node.children


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive."""
    app.add_directive("public-names", PublicNames)
    return {"parallel_read_safe": True}
