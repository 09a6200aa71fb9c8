"""Tests of behaviour use what rooms offer; the inside of a room is tested in that room's own folder."""

from __future__ import annotations

import ast
import importlib
import inspect
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

import erasurehead

from ..size import exported as exported_by, is_private
from .pages import ROOT

TESTS, SOURCE = ROOT / "tests", ROOT / "src" / "erasurehead"

MOST = 37
"""Names from the inside of a room that tests of other rooms import: fewer are welcome, and then this falls.

They are what a run is resumed from and made of (`Resumption`, programs, layouts, recorded delays), what workers raise,
traces as files, and helpers that all rooms share."""

OPEN = {"errors", "testing"}
"""Rooms that are public as a whole: all that they define without an underscore is for everybody."""

FACES = sorted(
    ".".join(("erasurehead", *path.relative_to(SOURCE).parts[:-1]))
    for path in SOURCE.rglob("__init__.py")
    if not is_private(path) and path.parent != SOURCE
)

STARTED = {"errors", "cli", "run"}
"""What is public though it lists no names: all errors, the command line, which `python -m erasurehead` is, too, and the
launcher `python -m erasurehead.torch.run`."""


@cache
def exported(package: str) -> frozenset[str]:
    """Return the names that a package offers; none where there is no such package, or it is private."""
    path = SOURCE.parent.joinpath(*package.split("."), "__init__.py")
    return frozenset(exported_by(path)) if path.is_file() else frozenset()


def imported(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the module and the name of each import from this package, but for imports of its faces themselves."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("erasurehead."):
            names = [alias.name for alias in node.names if f"{node.module}.{alias.name}" not in FACES]
            yield from ((str(node.module), name) for name in names)


@pytest.mark.slow
def test_the_inside_of_a_room_is_tested_in_its_own_folder() -> None:
    found: dict[str, set[str]] = {}
    for path in sorted(TESTS.rglob("*.py")):
        folder = path.relative_to(TESTS).parts[0]
        if folder.endswith(".py"):
            continue  # what all tests share
        for module, name in imported(path):
            room = module.split(".")[1]
            if room != folder and room not in OPEN and name not in exported(module):
                found.setdefault(f"{module}.{name}", set()).add(str(path.relative_to(TESTS)))
    listed = "\n".join(f"{name}: {', '.join(sorted(files))}" for name, files in sorted(found.items()))
    assert len(found) <= MOST, f"{len(found)} names that no room offers, rather than {MOST}:\n{listed}"


def test_whatever_is_no_face_is_private() -> None:
    paths = {path.relative_to(SOURCE) for path in SOURCE.rglob("*.py") if not is_private(path)}
    assert {path.stem for path in paths if path.name != "__init__.py"} == STARTED - {"cli"}
    offering = {face for face in FACES if exported(face)}
    assert set(FACES) - offering == {"erasurehead.cli"}  # a command, no names


@pytest.mark.parametrize("face", FACES)
def test_a_face_says_what_its_room_is_and_offers_what_is_there(face: str) -> None:
    package = importlib.import_module(face)
    first, _, _ = (package.__doc__ or "").partition("\n")
    assert first.endswith(".")
    for name in exported(face):
        assert getattr(package, name) is not None
        assert name in dir(package)


def test_each_name_is_offered_by_one_room() -> None:
    """The same object is nowhere twice, but for what `erasurehead` itself offers of its rooms."""
    places = Counter(
        (value.__module__, value.__qualname__)
        for face in FACES
        for value in (getattr(importlib.import_module(face), name) for name in exported(face))
        if inspect.isclass(value) or inspect.isfunction(value)
    )
    assert {place: count for place, count in places.items() if count > 1} == {}
    ours = {name: getattr(erasurehead, name) for name in dir(erasurehead) if not name.startswith("_")}
    for name, value in ours.items():
        if not isinstance(value, ModuleType):
            rooms = [face for face in FACES if name in exported(face)]
            assert any(getattr(importlib.import_module(face), name) is value for face in rooms), name


def test_no_two_rooms_offer_different_classes_of_one_name() -> None:
    homes: dict[str, set[str]] = {}
    for face in FACES:
        for name in exported(face):
            found = getattr(importlib.import_module(face), name)
            if inspect.isclass(found) and face != "erasurehead.sklearn":  # which has scikit-learn's names
                homes.setdefault(name, set()).add(found.__module__)
    assert not {name: modules for name, modules in homes.items() if len(modules) > 1}
