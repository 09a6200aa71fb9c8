"""Tests of behaviour use what packages export; the inside of a room is tested in that room's own folder."""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from ..size import exported as exported_by
from .pages import ROOT

TESTS, SOURCE = ROOT / "tests", ROOT / "src"

MOST = 40
"""Names from the inside of a room that tests of other rooms import: fewer are welcome, and then this falls.

What a private package lists is the inside of its room, too."""

OPEN = {"errors", "testing"}
"""Rooms that are public as a whole: all that they define without an underscore is for everybody."""


@cache
def exported(package: str) -> frozenset[str]:
    """Return what a package exports: what it lists in `__all__`, or imports with `name as name`."""
    path = SOURCE.joinpath(*package.split("."), "__init__.py")
    if not path.is_file():
        return frozenset()
    return frozenset(exported_by(path))


def is_public(module: str, name: str) -> bool:
    """Return whether a name is exported by the package that its module is in, or is a module itself."""
    parts = module.split(".")
    if SOURCE.joinpath(*parts, f"{name}.py").is_file() or SOURCE.joinpath(*parts, name).is_dir():
        return True
    return any(name in exported(".".join(parts[:depth])) for depth in range(1, len(parts) + 1))


def imported(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the module and the name of each import from this package."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("erasurehead."):
            yield from ((str(node.module), alias.name) for alias in node.names)


def test_the_inside_of_a_room_is_tested_in_its_own_folder() -> None:
    found: dict[str, set[str]] = {}
    for path in sorted(TESTS.rglob("*.py")):
        folder = path.relative_to(TESTS).parts[0]
        if folder.endswith(".py"):
            continue  # what all tests share
        for module, name in imported(path):
            room = module.split(".")[1]
            if room != folder and room not in OPEN and not is_public(module, name):
                found.setdefault(f"{module}.{name}", set()).add(str(path.relative_to(TESTS)))
    listed = "\n".join(f"{name}: {', '.join(sorted(files))}" for name, files in sorted(found.items()))
    assert len(found) <= MOST, f"{len(found)} names that no package exports, rather than {MOST}:\n{listed}"


def test_no_two_packages_export_different_classes_of_one_name() -> None:
    homes: dict[str, set[str]] = {}
    for path in sorted((SOURCE / "erasurehead").rglob("__init__.py")):
        package = ".".join(path.relative_to(SOURCE).parts[:-1])
        if "_internal" in package or package == "erasurehead.sklearn":
            continue  # the latter has the names of scikit-learn, whatever they are here
        for name in exported(package):
            found = getattr(importlib.import_module(package), name, None)
            if inspect.isclass(found) and found.__module__.startswith("erasurehead"):
                homes.setdefault(name, set()).add(found.__module__)
    assert not {name: modules for name, modules in homes.items() if len(modules) > 1}
