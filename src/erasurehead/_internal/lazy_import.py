"""Names that a package imports when they are first used, so that whoever imports it pays for what is used only."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module


def lazy_names(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return a package's `__getattr__` and `__dir__`. Type checkers are told the same names under `TYPE_CHECKING`.

    Arguments:
        package: its full name.
        homes: for each name the module of the package that has it, or that it is. No module may be called like
            something else that the package offers: it would take its place once it is imported.
    """

    def find(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}; it can load {', '.join(homes)}")
        module = import_module(f"{package}.{homes[name]}")
        return module if homes[name] == name else getattr(module, name)

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *homes})

    return find, names
