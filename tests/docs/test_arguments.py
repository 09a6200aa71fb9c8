"""Whoever calls what a package exports is told of each argument: in the docstring, or in the one that it names."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from .pages import ROOT
from .test_public_surface import exported

SOURCE = ROOT / "src" / "erasurehead"

POINTS_ELSEWHERE = re.compile(r"(see|as of|as) `[\w.]+`")
"""How a docstring says where its arguments are told of."""


def packages() -> Iterator[str]:
    for path in sorted(SOURCE.rglob("__init__.py")):
        inside = path.relative_to(SOURCE).parts[:-1]
        if "_internal" not in inside:
            yield ".".join(("erasurehead", *inside))


def functions(package: str) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield the functions of this project that a package exports, with their names."""
    module = importlib.import_module(package)
    for name in sorted(exported(package)):
        found = getattr(module, name)
        if inspect.isfunction(found) and found.__module__.startswith("erasurehead"):
            yield name, found


def untold(function: Callable[..., Any]) -> list[str]:
    """Return the arguments that a function's docstring says nothing of."""
    text = inspect.getdoc(function) or ""
    said = text.partition("Arguments:\n")[2]
    if not said and POINTS_ELSEWHERE.search(text):
        return []
    entries = ", ".join(re.findall(r"^    ([\w*][\w*, ]*):", said, flags=re.MULTILINE))
    return sorted(inspect.signature(function).parameters.keys() - set(re.split(r"[, *]+", entries)))


@pytest.mark.parametrize("package", list(packages()))
def test_every_argument_is_told_of(package: str) -> None:
    missing: list[str] = []
    for name, function in functions(package):
        arguments = untold(function)
        # An only argument, such as the plan of `by_case`, may be told of by the first line.
        if arguments and len(inspect.signature(function).parameters) > 1:
            missing.append(f"{package}.{name}: {', '.join(arguments)}")
    assert not missing, "\n".join(missing)


def test_a_missing_argument_is_found() -> None:
    def told(one: int, two: int) -> None:
        """Do nothing.

        Arguments:
            one: a number.
        """

    assert untold(told) == ["two"]
    assert untold(test_a_missing_argument_is_found) == []
