"""Whoever uses a public class or function is told what it is, what it takes, what it has and what it returns."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import textwrap
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from typing import Any

import pytest

from .pages import ROOT
from .test_arguments import POINTS_ELSEWHERE
from .test_public_surface import FACES, exported

pytestmark = pytest.mark.xdist_group("house")  # each process that looks at the syntax of all files parses them anew

_SECTION = re.compile(r"^(?:Arguments|Attributes|Structure):\n((?:    .*\n|\n)+)", re.MULTILINE)
_ENTRY = re.compile(r"^    ([\w*`][\w*`, ]*):", re.MULTILINE)

_POINTS = re.compile(rf"{POINTS_ELSEWHERE.pattern}|as for `\w+`")
_ALL_OTHERS = re.compile(r"as are all the others|^Made by `\w+`\.$", re.MULTILINE)
"""How the docstring of a class says where its other arguments are told of, or that nobody makes it."""


def public(face: str) -> Iterator[tuple[str, Any]]:
    """Yield the classes and functions of this project that a face offers, with their names."""
    for name in sorted(exported(face)):
        found = getattr(importlib.import_module(face), name)
        if (inspect.isclass(found) or inspect.isfunction(found)) and found.__module__.startswith("erasurehead"):
            yield name, found


def entries(text: str) -> set[str]:
    """Return the names that the sections of a docstring explain."""
    found = ", ".join(name for section in _SECTION.findall(f"{text}\n") for name in _ENTRY.findall(section))
    return set(re.split(r"[, *`]+", found))


def own(kind: type) -> Iterator[tuple[str, Any, Any]]:
    """Yield the public members of a class: name, member, and the function within a method or a property."""
    for name, member in vars(kind).items():
        inside = member
        for place in ("__func__", "fget", "func"):
            inside = getattr(inside, place, None) or inside
        if not name.startswith("_") and inspect.isfunction(inside):
            yield name, member, inside


def silent(kind: type) -> Iterator[str]:
    """Yield what the docstrings of a class say nothing of."""
    text = f"{inspect.getdoc(kind) or ''}\n{inspect.getdoc(kind.__init__) or ''}"
    if not kind.__doc__:
        yield "what it is"
    if not issubclass(kind, BaseException) and kind.__name__ not in BY_ANOTHER and not _ALL_OTHERS.search(text):
        said = entries(text) | set(re.findall(r"`(\w+)`", text))
        inherited = {name for base in kind.__mro__[1:-1] for name in entries(inspect.getdoc(base) or "")}
        for name in parameters(kind):
            if name not in said | inherited:
                yield f"the argument {name}"
    inherited = {name for base in kind.__mro__ for name in entries(inspect.getdoc(base) or "")}
    for name in set() if _ALL_OTHERS.search(text) else attributes(kind) - inherited - set(re.findall(r"`(\w+)`", text)):
        if not any(name in vars(base).get("__annotations__", {}) for base in kind.__mro__[1:]):
            yield f"the attribute {name}"
    for name, member, function in own(kind):
        known = any(name in vars(base) for base in kind.__mro__[1:])  # and is told of there
        if name.startswith("test_") or known:
            continue
        if not function.__doc__:
            yield f"{name}: what it does"
        elif not isinstance(member, property) and not _POINTS.search(function.__doc__):
            words = set(re.findall(r"\w+", function.__doc__))
            taken = parameters(function)
            if len(taken) > 1:
                yield from (f"{name}: the argument {one}" for one in taken if one not in words)


def attributes(kind: type) -> set[str]:
    """Return the public attributes that a class declares in its body, without a text below them."""
    (node,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(node, ast.ClassDef)
    found: set[str] = set()
    for one, below in pairwise([*node.body, None]):
        told = isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name) and not told:
            found.add(one.target.id)
    return {name for name in found if not name.startswith("_")}


def parameters(function: Any) -> list[str]:
    try:
        taken = inspect.signature(function).parameters
    except ValueError:
        return []
    several = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    named = [name for name, one in taken.items() if one.kind not in several and not name.startswith("_")]
    return [name for name in named if name not in ("self", "cls")]


def unsaid(function: Any) -> bool:
    """Return whether a function returns what neither its docstring nor that of a class tells of."""
    text = inspect.getdoc(function) or ""
    returned = str(function.__annotations__.get("return", "None"))
    told = returned in ("None", "NoReturn") or re.search(r"\b(returns?|yields?)\b", text, re.IGNORECASE)
    return not told and not _told_by_themselves() & set(re.findall(r"\w+", returned))


@cache
def _told_by_themselves() -> frozenset[str]:
    """Return the names of classes with a docstring, which the reference has where functions return them."""
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in (ROOT / "src").rglob("*.py")]
    classes = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    return frozenset(node.name for node in classes if ast.get_docstring(node))


BY_ANOTHER = {"Verdict"}
"""Classes that nobody makes: the members of an enumeration."""


@pytest.mark.slow
@pytest.mark.parametrize("face", FACES)
def test_nothing_public_is_undocumented(face: str) -> None:
    found: list[str] = []
    for name, value in public(face):
        if inspect.isclass(value):
            found += [f"{name}: {what}" for what in silent(value)]
        elif not value.__doc__ or unsaid(value):
            found.append(f"{name}: what it returns")
    assert found == []


class _Told:
    """Something.

    Arguments:
        one: this.
    """

    three: int = 3
    """As it says."""

    four: int = 4

    def __init__(self, one: int, two: int) -> None: ...

    def done(self, what: int, how: int) -> None:
        """Do what is said."""

    def nothing(self) -> None: ...


@pytest.mark.slow
def test_what_is_undocumented_is_found() -> None:
    assert list(silent(_Told)) == [
        "the argument two",
        "the attribute four",
        "done: the argument how",
        "nothing: what it does",
    ]

    def counted(word: str) -> int:
        """Count a word."""
        return len(word)

    assert unsaid(counted)
    assert entries("A model.\n\nAttributes:\n    a, b: two\n        numbers.\n    `c`: one.\n") >= {"a", "b", "c"}
    assert len(list(public("erasurehead.engines"))) > 10
