"""The directive `public-names`: the documentation of every name that a package exports, under the name to import.

A package exports what its `__init__.py` imports with `from module import name as name`, or lists in `__all__`; a module
exports what it defines without an underscore. Below them are the classes that nobody imports, as functions and methods
return them, or methods of one's own are given them: a plan, a result, a row.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from abc import ABC
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from pkgutil import walk_packages
from types import ModuleType
from typing import Any

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.pycode import ModuleAnalyzer
from sphinx.util.docutils import SphinxDirective

import erasurehead


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
        if any(base.__name__ == "AnyTeam" for base in bases):  # nobody's own, but for what all teams have
            return [*lines, "   :inherited-members:", ""]
        return [*lines, "   :show-inheritance:", ""] if bases else [*lines, ""]
    if inspect.isroutine(value):
        return [f".. autofunction:: {module.__name__}.{name}", ""]
    home = _home(module, name)
    analyzer = ModuleAnalyzer.for_module(home)
    documented = ("", name) in analyzer.find_attr_docs()
    # Without a comment of its own autodoc would show that of its type.
    return [f".. autodata:: {home}.{name}", "   :no-value:", ""] if documented else [f".. py:data:: {name}", ""]


STEPS = 2
"""How far what is returned is followed: what a function returns, and what that has or returns itself."""


@cache
def _modules() -> dict[str, ModuleType]:
    """Return all modules of the library, but for the command line, which offers no names."""
    names = [found.name for found in walk_packages(erasurehead.__path__, "erasurehead.")]
    return {name: importlib.import_module(name) for name in names if not re.search(r"__main__|\.cli\b|\.run$", name)}


@cache
def _classes() -> dict[str, type]:
    """Return the classes of the library by their names, of which no two are alike but for scikit-learn's."""
    return {
        name: value
        for module in _modules().values()
        if not module.__name__.startswith("erasurehead.sklearn")
        for name, value in vars(module).items()
        if inspect.isclass(value) and value.__module__ == module.__name__ and not name.startswith("_")
    }


@cache
def returned() -> dict[str, list[type]]:
    """Return, by the page that they are on, the classes that public names return or are given, and are no names."""
    faces = [name for name in _modules() if not re.search(r"\._", name) and hasattr(_modules()[name], "__path__")]
    offered = {getattr(_modules()[face], name) for face in faces for name in public_names(_modules()[face])}
    known, newest = set(offered), offered
    for _ in range(STEPS):
        newest = {found for value in newest for found in _mentioned(value)} - known
        known |= newest
    pages: dict[str, list[type]] = {}
    for value in sorted(known - offered, key=lambda value: value.__name__):
        page = max((face for face in faces if value.__module__.startswith(f"{face}.")), key=len)
        pages.setdefault(page, []).append(value)
    return pages


def _mentioned(value: Any) -> Iterator[type]:
    """Yield the classes of the library in what a function or the methods of a class return, and in its attributes.

    Of an abstract class, also those that its methods are given: who derives from it meets them.
    """
    inside = vars(_modules()[value.__module__]) if value.__module__ in _modules() else {}
    functions, said = [value], []
    if inspect.isclass(value):
        said = list(vars(value).get("__annotations__", {}).values())
        functions = [_function(member) for name, member in vars(value).items() if not name.startswith("_")]
    for types in (getattr(one, "__annotations__", {}) for one in functions):
        said += types.values() if inspect.isabstract(value) else [types.get("return")]
    for text in (getattr(one, "__name__", None) or str(one) for one in said):
        for word in re.findall(r"(?<![\w.'\"])[A-Z]\w+(?![\w.])", text):
            found = inside.get(word, _classes().get(word))  # from elsewhere, if it is imported for types only
            if found in _classes().values():
                yield found


def _function(member: Any) -> Any:
    """Return the function of a method or a property."""
    for inside in ("__func__", "fget", "func"):
        member = getattr(member, inside, None) or member
    return member


class PublicNames(SphinxDirective):
    """`.. public-names:: erasurehead.codes`: the module's docstring, every public name, and what these return."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        name = self.arguments[0]
        module = importlib.import_module(name)
        lines = [f".. automodule:: {name}", "   :no-members:", ""]
        for public in public_names(module):
            lines += directives(module, public)
        for place, value in enumerate(returned().get(name, [])):
            lines += [] if place else [".. rubric:: Returned or handed over, and not imported", ""]
            lines += [f".. autoclass:: {value.__module__}.{value.__name__}", "   :members:", ""]
        node = nodes.section(document=self.state.document)
        self.state.nested_parse(StringList(lines, source=name), self.content_offset, node)
        return node.children


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive."""
    app.add_directive("public-names", PublicNames)
    return {"parallel_read_safe": True}
